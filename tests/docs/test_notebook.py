"""Each notebook runs, says nothing on stderr, and finds the planted op. It is kept without outputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
PLANTED = {
    "quickstart": ["The first op that differs: Functional.layer_norm.3.forward"],
    "many_ranks": [
        "First difference: rank 1, Functional.gelu.1.forward",
        "Torch.log.1.forward (step 0, rank 3): critical, is born here",
    ],
    "blame": [
        "Functional.layer_norm.3.forward on rank 0: its argument input.4 is 0.01 against 1e-05",
        "Functional.gelu.1.forward on rank 1: its argument input.approximate is tanh against none",
        "so it came from no recorded op",
    ],
    "collect": [
        "The first op that differs in step 0 rank 0: Functional.layer_norm.3.forward",
        "Functional.layer_norm.3.forward on rank 0: its argument input.4 is 0.001 against 1e-05",
    ],
    "view": ["The first op that differs: Functional.layer_norm.3.forward", "<a view as HTML>"],
    "noise": [
        "No op stands out of rounding noise.",
        "Functional.gelu.3.forward on rank 0: its inputs agree to",
        "First difference: Functional.gelu.3.forward (step 0)",
        "times as far off as rounding explains",
        "First difference: Functional.linear.8.forward (step 0)",
        "times as far off as others of its kind",
    ],
    "one_op": [
        "The op itself is wrong: given the inputs of npu, what npu recorded is off by up to 0.003",
        "The op itself is right: given the inputs of npu, run again on cpu is within rounding.",
        "Functional.layer_norm.0 on cpu",
    ],
}
NEEDS_TORCH = {"collect", "noise", "one_op"}


def outputs(cell: Any) -> Iterator[tuple[str, str]]:
    for output in cell.get("outputs", ()):
        if output.output_type == "stream":
            yield output.name, output.text
        elif "data" in output:
            yield "result", str(output.data.get("text/plain", ""))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A kernel for all notebooks, which imports torch and matplotlib once."""
    place = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JUPYTER_DATA_DIR", str(place))  # no kernel but the one of this Python
        environment.setenv("IPYTHONDIR", str(place))
        environment.setenv("PYTHONPATH", str(NOTEBOOKS.parent))
        resources = {"metadata": {"path": str(NOTEBOOKS)}}
        empty = nbformat.v4.new_notebook()
        client = nbclient.NotebookClient(empty, timeout=300, kernel_name="python3", resources=resources)
        with client.setup_kernel():
            yield client


def run(client: Any, notebook: Any) -> None:
    """Run the cells of a notebook, which finds no name of the one before it."""
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))
    client.nb = notebook
    client.reset_execution_trackers()
    for index, cell in enumerate(notebook.cells):
        client.execute_cell(cell, index)


@pytest.mark.sampled
@pytest.mark.parametrize("name", PLANTED)
def test_runs(name: str, client: Any) -> None:
    if name in NEEDS_TORCH:
        pytest.importorskip("torch")
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    run(client, notebook)
    said = [part for cell in notebook.cells for part in outputs(cell)]
    assert [text for stream, text in said if stream == "stderr"] == []
    answers = [" ".join(text.split()) for stream, text in said if stream != "stderr"]
    for planted in PLANTED[name]:
        assert any(planted in text for text in answers), planted


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_is_kept_without_outputs(path: Path) -> None:
    assert path.stem in PLANTED
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


def test_without_ipywidgets_duckdb_neither_follows_queries_nor_draws(client: Any) -> None:
    lines = [
        "import importlib.util",
        "from lakeprobe.lake.connection import connect, share_done",
        "connection = connect()",
        "has_widgets = importlib.util.find_spec('ipywidgets') is not None",
        "(has_widgets, share_done(connection)(), connection.execute('SELECT 1').fetchall())",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("\n".join(lines))])
    run(client, notebook)
    assert list(outputs(notebook.cells[-1])) == [("result", "(False, 0.0, [(1,)])")]
