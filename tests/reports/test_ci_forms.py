"""JUnit and Markdown, which CI reads: what they count, and that nothing of a dump is markup."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import lakeprobe
from lakeprobe.session import ComparisonResult

HOSTILE = 'Torch.a<b>"&`|\u0001.0.forward'


def write_dump(folder: Path, *, eps: float, norm: float) -> Path:
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "Max": 1.0, "Min": -1.0, "Mean": 0.1}
    argument = {"type": "float", "value": eps}
    data = {
        "Torch.mul.0.forward": {"input_args": [leaf | {"Norm": 1.0}], "output": [leaf | {"Norm": 1.0}]},
        HOSTILE: {"input_args": [leaf | {"Norm": 1.0}, argument], "output": [leaf | {"Norm": norm}]},
    }
    folder.mkdir()
    (folder / "dump.json").write_text(
        json.dumps({"task": "statistics", "level": "L1", "framework": "pytorch", "data": data})
    )
    return folder


@pytest.fixture
def compared(tmp_path: Path) -> ComparisonResult:
    target = write_dump(tmp_path / "target", eps=0.1, norm=1.5)
    golden = write_dump(tmp_path / "golden", eps=0.2, norm=1.0)
    return lakeprobe.open(tmp_path / "lake", create=True).compare(target, golden, name="c")


def test_junit_has_a_case_per_op(compared: ComparisonResult, tmp_path: Path) -> None:
    [path] = compared.write(tmp_path / "out", "junit")
    assert path.suffix == ".xml"
    suite = ElementTree.parse(path).getroot()
    assert suite.attrib == {
        "name": "lakeprobe step 0 rank 0", "tests": "2", "failures": "1", "skipped": "0", "errors": "0",
    }  # fmt: skip
    good, bad = suite
    assert (good.get("name"), len(good)) == ("Torch.mul.0.forward", 0)
    assert bad.get("name") == HOSTILE.replace("\u0001", "\ufffd")
    assert bad[0].tag == "failure"
    assert bad[0].get("message") == "error"
    assert "input.1: error: the values differ" in str(bad[0].text)


def test_markdown_is_a_table_in_which_nothing_is_markup(compared: ComparisonResult, tmp_path: Path) -> None:
    [path] = compared.write(tmp_path / "out", "markdown")
    assert path.suffix == ".md"
    lines = path.read_text().splitlines()
    assert lines[:7] == [
        "### lakeprobe: step 0, rank 0", "", "2 ops, 1 of them with a difference beyond float noise.", "",
        "| error | pass |", "|---:|---:|", "| 1 | 1 |",
    ]  # fmt: skip
    assert len(lines) == 11
    assert lines[10].startswith("| `Torch.a<b>\"&'¦")
    assert lines[10].count("|") == 5


def write_ops(folder: Path, ops: list[str], norm: float) -> Path:
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "Max": 1.0, "Min": -1.0, "Mean": 0.1}
    data = {op: {"input_args": [leaf | {"Norm": 1.0}], "output": [leaf | {"Norm": norm}]} for op in ops}
    folder.mkdir()
    (folder / "dump.json").write_text(
        json.dumps({"task": "statistics", "level": "L1", "framework": "pytorch", "data": data})
    )
    return folder


def test_markdown_names_twenty_ops_and_cuts_long_names(tmp_path: Path) -> None:
    ops = [f"Torch.{'f' * 200}.{call}.forward" for call in range(23)]
    sides = [write_ops(tmp_path / name, ops, norm) for name, norm in (("target", 2.0), ("golden", 1.0))]
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        [path] = lake.compare(*sides, name="c").write(tmp_path / "out", "markdown")
    lines = path.read_text().splitlines()
    assert lines[2] == "23 ops, 23 of them with a difference beyond float noise."
    assert lines[4:7] == ["| error |", "|---:|", "| 23 |"]
    assert [line.split(" | ")[0] for line in lines[10:-2]] == [f"| `Torch.{'f' * 113}…`"] * 20
    assert lines[-2:] == ["", "… and 3 more"]


def test_markdown_shows_what_would_turn_or_hide_text(tmp_path: Path) -> None:
    sides = [write_ops(tmp_path / str(norm), ["Torch.\u202ea\0b.0.forward"], norm) for norm in (2.0, 1.0)]
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        [path] = lake.compare(*sides, name="c").write(tmp_path / "out", "markdown")
    assert path.read_text().splitlines()[10].startswith(r"| `Torch.\u202ea\u0000b.0.forward` | error |")


def test_markdown_of_equal_runs_has_no_table_of_ops(tmp_path: Path) -> None:
    sides = [write_ops(tmp_path / name, ["Torch.f.0.forward"], 1.0) for name in ("target", "golden")]
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        [path] = lake.compare(*sides, name="c").write(tmp_path / "out", "markdown")
    assert path.read_text() == (
        "### lakeprobe: step 0, rank 0\n\n1 ops, 0 of them with a difference beyond float noise.\n\n"
        "| pass |\n|---:|\n| 1 |\n"
    )


def test_markdown_of_dumps_without_ops_has_no_table(tmp_path: Path) -> None:
    sides = [write_ops(tmp_path / name, [], 1.0) for name in ("target", "golden")]
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        [path] = lake.compare(*sides, name="c").write(tmp_path / "out", "markdown")
    assert path.read_text() == (
        "### lakeprobe: step 0, rank 0\n\n0 ops, 0 of them with a difference beyond float noise.\n"
    )
