"""JUnit and Markdown, which CI reads: what they count, and that nothing of a dump is markup."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import lakeprobe
from lakeprobe.lake.layout import UnitKey
from lakeprobe.reports import files
from lakeprobe.session import ComparisonResult

HOSTILE = 'Torch.a<b>"&`|\u0001.0.forward'


def write_dump(folder: Path, *, eps: float, norm: float) -> Path:
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "Max": 1.0, "Min": -1.0, "Mean": 0.1}
    argument = {"type": "float", "value": eps}
    data = {
        "Torch.mul.0.forward": {"input_args": [leaf | {"Norm": 1.0}], "output": [leaf | {"Norm": 1.0}]},
        HOSTILE: {"input_args": [leaf | {"Norm": 1.0}, argument], "output": [leaf | {"Norm": norm}]},
    }
    return write_data(folder, data)


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
    assert path.read_text().splitlines() == [
        "### lakeprobe: `target` against `golden`, step 0, rank 0", "", "**Verdict: different**", "",
        "- compared: all 5 rows of both sides; beyond float noise: 2", "",
        "2 ops, 1 of them with a difference beyond float noise.", "",
        "| error | pass |", "|---:|---:|", "| 1 | 1 |", "",
        "| op | verdict | norm error | reason |", "|---|---|---:|---|",
        "| `Torch.a<b>\"&'¦\\u0001.0.forward` | error | 0.5 | `input.1: the values differ` |",
    ]  # fmt: skip


def test_markdown_has_the_norm_error_and_the_reason_of_the_terminal(compared: ComparisonResult, tmp_path: Path) -> None:
    [path] = compared.write(tmp_path / "out", "markdown")
    [of_terminal] = [line.split() for line in str(compared).splitlines() if line.startswith("Torch.a")]
    [of_file] = [line.split(" | ") for line in path.read_text().splitlines() if line.startswith("| `Torch.a")]
    assert of_terminal[1:] == ["error", "0.5", "input.1:", "the", "values", "differ"]
    assert of_file[1:] == ["error", "0.5", "`input.1: the values differ` |"]


def write_ops(folder: Path, ops: list[str], norm: float) -> Path:
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "Max": 1.0, "Min": -1.0, "Mean": 0.1}
    return write_data(
        folder, {op: {"input_args": [leaf | {"Norm": 1.0}], "output": [leaf | {"Norm": norm}]} for op in ops}
    )


def write_data(folder: Path, data: dict[str, Any]) -> Path:
    folder.mkdir(parents=True)
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
    assert lines[6] == "23 ops, 23 of them with a difference beyond float noise."
    assert lines[8:11] == ["| error |", "|---:|", "| 23 |"]
    assert [line.split(" | ")[0] for line in lines[14:-2]] == [f"| `Torch.{'f' * 113}…`"] * 20
    assert lines[-2:] == ["", "… and 3 more"]


def test_markdown_shows_what_would_turn_or_hide_text(tmp_path: Path) -> None:
    sides = [write_ops(tmp_path / str(norm), ["Torch.\u202ea\0b.0.forward"], norm) for norm in (2.0, 1.0)]
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        [path] = lake.compare(*sides, name="c").write(tmp_path / "out", "markdown")
    assert path.read_text().splitlines()[14].startswith(r"| `Torch.\u202ea\u0000b.0.forward` | error |")


def test_markdown_of_equal_runs_has_no_table_of_ops(tmp_path: Path) -> None:
    sides = [write_ops(tmp_path / name, ["Torch.f.0.forward"], 1.0) for name in ("target", "golden")]
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        [path] = lake.compare(*sides, name="c").write(tmp_path / "out", "markdown")
    assert path.read_text() == (
        "### lakeprobe: `target` against `golden`, step 0, rank 0\n\n**Verdict: equal**\n\n"
        "- compared: all 2 rows of both sides; none differs\n\n"
        "1 op, 0 of them with a difference beyond float noise.\n\n| pass |\n|---:|\n| 1 |\n"
    )


def test_markdown_of_dumps_without_ops_has_no_table(tmp_path: Path) -> None:
    sides = [write_ops(tmp_path / name, [], 1.0) for name in ("target", "golden")]
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        [path] = lake.compare(*sides, name="c").write(tmp_path / "out", "markdown")
    assert path.read_text() == (
        "### lakeprobe: `target` against `golden`, step 0, rank 0\n\n**Verdict: nothing compared**\n\n"
        "- neither side has a row to compare\n\n0 ops, 0 of them with a difference beyond float noise.\n"
    )


def cases(suite: ElementTree.Element) -> list[tuple[str | None, str, str | None, str]]:
    """Return the name of each case that is not simply green, how it ended, with which message, and its text."""
    return [(case.get("name"), end.tag, end.get("message"), end.text or "") for case in suite for end in case]


def reports_of(folder: Path) -> tuple[Path, Path]:
    """Compare `target` and `golden` in `folder`. Returns the JUnit and the Markdown file of their only pair."""
    with lakeprobe.open(folder / "lake", create=True) as lake:
        result = lake.compare(folder / "target", folder / "golden", name="c")
        [junit] = result.write(folder / "out", "junit")
        [markdown] = result.write(folder / "out", "markdown")
    return junit, markdown


def test_what_was_not_compared_is_not_green(tmp_path: Path) -> None:
    """Tensors without values on both sides: every op is skipped, and a case fails."""
    bare = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4]}
    for run in ("target", "golden"):
        write_data(tmp_path / run, {"Torch.f.0.forward": {"input_args": [bare], "output": [bare, bare]}})
    junit, markdown = reports_of(tmp_path)
    suite = ElementTree.parse(junit).getroot()
    assert [suite.get(count) for count in ("tests", "failures", "skipped")] == ["2", "1", "1"]
    assert cases(suite) == [
        ("Torch.f.0.forward", "skipped", "3 rows without values on both sides", ""),
        ("target against golden", "failure", "nothing compared",
         "compared: 0 of 3 rows of the target, 0 of 3 of golden\n3 rows without values on both sides"),
    ]  # fmt: skip
    lines = markdown.read_text().splitlines()
    assert lines[2] == "**Verdict: nothing compared**"
    assert lines[5] == "- 3 rows without values on both sides"
    assert lines[-3:] == ["| not compared |", "|---:|", "| 1 |"]


def test_ops_of_one_side_are_skipped(tmp_path: Path) -> None:
    write_ops(tmp_path / "target", ["Torch.f.0.forward", "Torch.g.0.forward"], 1.0)
    write_ops(tmp_path / "golden", ["Torch.f.0.forward"], 1.0)
    junit, markdown = reports_of(tmp_path)
    suite = ElementTree.parse(junit).getroot()
    assert [suite.get(count) for count in ("tests", "failures", "skipped")] == ["2", "0", "1"]
    assert cases(suite) == [("Torch.g.0.forward", "skipped", "2 rows without counterpart", "")]
    assert "| `Torch.g.0.forward` | unmatched |  | `2 rows without counterpart` |" in markdown.read_text()


def test_ranks_without_counterpart_fail_once(tmp_path: Path) -> None:
    """They have no file of their own: the first pair's file has them, and no other."""
    for run, ranks in (("target", (0, 1, 7)), ("golden", (0, 1, 2))):
        for rank in ranks:
            write_ops(tmp_path / run / "step0" / f"rank{rank}", ["Torch.f.0.forward"], 1.0)
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        result = lake.compare(tmp_path / "target", tmp_path / "golden", name="c")
        first, second = (ElementTree.parse(path).getroot() for path in result.write(tmp_path / "out", "junit"))
        [markdown, other] = result.write(tmp_path / "out", "markdown")
    assert [first.get(count) for count in ("tests", "failures", "skipped")] == ["3", "2", "0"]
    assert cases(first) == [
        ("run target step 0 rank 7", "failure", "without counterpart", "nothing of golden is compared with it"),
        ("run golden step 0 rank 2", "failure", "without counterpart", "nothing of target is compared with it"),
    ]
    assert cases(second) == []
    assert markdown.read_text().splitlines()[2:8] == [
        "**Verdict: partly compared**", "", "- compared: all 2 rows of both sides; none differs",
        "- steps and ranks without counterpart: 2", "- without counterpart: `run target step 0 rank 7`",
        "- without counterpart: `run golden step 0 rank 2`",
    ]  # fmt: skip
    assert other.read_text().splitlines()[2] == "**Verdict: equal**"


def test_a_step_that_was_cut_off_fails(compared: ComparisonResult, tmp_path: Path) -> None:
    key = UnitKey("golden", 0, 0)
    cut_off = replace(compared.stored, incomplete=(key, UnitKey("golden", 1, 0)))
    [path] = files.write(cut_off, tmp_path / "out", "junit")
    assert cases(ElementTree.parse(path).getroot())[1:] == [
        ("run golden step 0 rank 0", "failure", "incomplete", "collecting ended in the middle of the step")
    ]
