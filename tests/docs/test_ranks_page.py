"""Every example of docs/ranks.md runs on the bundled ranks and says what the page says it does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakeprobe.cli import app

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = (CHECKOUT / "docs" / "ranks.md").read_text(encoding="utf-8")
LEFT_OUT = "…"


def examples() -> list[tuple[str, list[str]]]:
    """The commands of the page in their order, each with the parts of what it says between lines that are left out."""
    found = []
    for block in re.findall(r"^```\n(\$ .*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, said = example.partition("\n")
            parts = re.split(rf"^{LEFT_OUT}\n", said, flags=re.MULTILINE)
            found.append((command, [part for part in parts if part.strip()]))
    return found


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEPROBE_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("COLUMNS", "80")
    shown = 0
    assert CliRunner().invoke(app, ["examples"]).exit_code == 0
    for command, parts in examples():
        program, *words = shlex.split(command)
        assert program == "lakeprobe"
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, command
        said = "".join(f"{line.rstrip()}\n" for line in result.stdout.splitlines())
        place = 0
        for part in parts:
            assert part in said[place:], command
            place = said.index(part, place) + len(part)
            shown += 1
    assert shown >= 5
