"""The quickstart notebook runs, says nothing on stderr, and finds the planted op. It is kept without outputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "quickstart.ipynb"
PLANTED = "Functional.layer_norm.3.forward"


def outputs(cell: Any) -> Iterator[tuple[str, str]]:
    for output in cell.get("outputs", ()):
        if output.output_type == "stream":
            yield output.name, output.text
        elif "data" in output:
            yield "result", str(output.data.get("text/plain", ""))


def test_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))  # no kernel but the one of this Python
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYTHONPATH", str(NOTEBOOK.parents[1]))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    place = {"metadata": {"path": str(NOTEBOOK.parent)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place).execute()
    said = [part for cell in notebook.cells for part in outputs(cell)]
    assert [text for stream, text in said if stream == "stderr"] == []
    assert any(PLANTED in text for stream, text in said if stream != "stderr")


def test_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
