"""What users of msprobe look for: its options, the names of its result files, the advice, and the parts of a dump."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
from openpyxl import load_workbook
from program import dump_text, lakeprobe, write_dump

from lakeprobe.compare.run import compare
from lakeprobe.lake import comparison
from lakeprobe.reports import files


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_target_and_golden_as_msprobe_has_them(tmp_path: Path) -> None:
    npu, gpu = (write_dump(tmp_path / name, dump_text(add=norm)) for name, norm in (("npu", 3.0), ("gpu", 1.0)))
    words = ("compare", "-tp", npu / "dump.json", "-gp", gpu / "dump.json", "--lake", tmp_path / "lake")
    done = lakeprobe(*words)
    assert (done.code, done.out.splitlines()[2]) == (0, "Verdict: different")
    assert done.err.splitlines()[0] == "the rows are in the lake; add -o ./output to write files, as msprobe does"
    written = lakeprobe(*words, "-o", tmp_path / "out")
    assert written.code == 0
    names = sorted(re.sub(r"\d{14}", "TIME", path.name) for path in (tmp_path / "out").iterdir())
    assert names == ["advisor_TIME.txt", "compare_result_TIME.csv"]
    [advice] = (tmp_path / "out").glob("advisor*")
    assert advice.read_text() == written.out
    both = lakeprobe(*words, "npu", "gpu")
    assert (both.code, both.line) == (2, "lakeprobe: give TARGET and GOLDEN, or -tp and -gp, not both")
    form = lakeprobe(*words, "--format", "xlsx")
    assert (form.code, form.line) == (2, "lakeprobe: --format xlsx writes files; name their folder with -o")


def test_parts_are_told_apart(tmp_path: Path) -> None:
    for side, norm in (("npu", 3.0), ("gpu", 1.0)):
        for part in ("graph", "pynative"):
            write_dump(tmp_path / side / part / "step0" / "rank0", dump_text(add=norm if part == "graph" else 1.0))
    report = compare(tmp_path / "npu", tmp_path / "gpu", lake=tmp_path / "lake")
    stored = comparison.load(tmp_path / "lake", report.name)
    [written] = files.write(stored, tmp_path / "out", "csv")
    found = [(row["NPU Name"].rpartition(".")[2], row["Part"], row["Result"]) for row in rows(written)]
    assert [row[1:] for row in found] == [
        ("graph", "pass"),
        ("graph", "error"),
        ("pynative", "pass"),
        ("pynative", "pass"),
    ]
    [book] = files.write(stored, tmp_path / "out", "xlsx")
    sheet = load_workbook(book, read_only=True)["rows"].iter_rows(values_only=True)
    assert next(sheet)[-1] == "Part"
    assert [row[-1] for row in sheet] == ["graph", "graph", "pynative", "pynative"]


def test_names_of_files_of_saved_values_and_kernels(tmp_path: Path) -> None:
    for side in ("npu", "gpu"):
        folder = write_dump(tmp_path / side / "step0" / "rank0", dump_text(add=1.0), side_files=False)
        (folder / "dump.json").rename(folder / "debug.json")
        text = (folder / "debug.json").read_text().replace("Torch.add.0.forward", "loss.0.debug")
        (folder / "debug.json").write_text(text.replace('"input_args"', '"data"'))
    report = compare(tmp_path / "npu", tmp_path / "gpu", lake=tmp_path / "lake")
    assert [pair.rule.name for pair in report.pairs] == ["same_framework"]
    [written] = files.write(comparison.load(tmp_path / "lake", report.name), tmp_path / "out", "csv")
    assert re.fullmatch(r"debug_compare_result_\d{14}\.csv", written.name)


def test_a_workbook_says_the_verdict(tmp_path: Path) -> None:
    for side in ("npu", "gpu"):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "whole.npy", np.ones(4))
        (tmp_path / side / "damaged.npy").write_bytes(b"\x93NUMPY garbage")
    words = ("compare", tmp_path / "npu", tmp_path / "gpu", "--lake", tmp_path / "lake", "-o", tmp_path / "out")
    done = lakeprobe(*words, "--format", "xlsx", "--fail-on", "error")
    assert (done.code, done.out.splitlines()[2:4]) == (1, ["Verdict: unreadable", "  1 row cannot be read"])
    [book] = (tmp_path / "out").glob("*.xlsx")
    cells = [row[0] for row in load_workbook(book, read_only=True)["overview"].iter_rows(values_only=True) if row]
    assert "Verdict: unreadable" in cells
    fails = lakeprobe("first-diff", "npu_vs_gpu", "--fail-on", "difference", "--lake", tmp_path / "lake")
    assert (fails.code, fails.out.splitlines()[0]) == (1, "Verdict: unreadable")


def test_an_api_that_no_rank_has(tmp_path: Path) -> None:
    for step in (0, 1):
        for name in ("npu", "gpu"):
            write_dump(tmp_path / name / f"step{step}", dump_text(add=1.0))
    compare(tmp_path / "npu", tmp_path / "gpu", lake=tmp_path / "lake")
    done = lakeprobe("merge", "npu_vs_gpu", "--api", "nope", "--lake", tmp_path / "lake")
    assert (done.code, done.line) == (
        2, "lakeprobe: no row belongs to nope; give the beginning of a row's name up to a dot",
    )  # fmt: skip


def test_ops_with_some_rows_without_counterpart_are_listed(tmp_path: Path) -> None:
    text = dump_text(add=1.0)
    npu = write_dump(tmp_path / "npu", text.replace('"output": [{', '"output": [{}, {').replace("[{}, {", "[null, {"))
    gpu = write_dump(tmp_path / "gpu", text)
    assert lakeprobe("compare", npu, gpu, "--lake", tmp_path / "lake").code == 0
    done = lakeprobe("unmatched", "npu_vs_gpu", "--lake", tmp_path / "lake")
    assert "target  Torch.add.0.forward  1" in re.sub(" +", "  ", done.out)
