"""Sides that are paths: the lake never answers from an older dump, and each dump has one run of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pair_dumps import call, results, tensor, write_dump

from lakeprobe.compare.run import CompareReport, compare
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.ingest import ingest
from lakeprobe.lake import comparison, layout, log
from lakeprobe.reports.terminal import ingest_lines

ONE, TWO = ({"Torch.f.0.forward": call([tensor(value)])} for value in (1.0, 2.0))


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a lake named lake and two dumps: npu and gpu, which are equal."""
    monkeypatch.chdir(tmp_path)
    write_dump(tmp_path / "npu", ONE)
    write_dump(tmp_path / "gpu", ONE)
    return tmp_path


def difference(report: CompareReport) -> str:
    [row, *_] = results(report.lake, report.name)
    return str(row["difference"])


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("npu", "replace"),
    [*((npu, False) for npu in ("npu", "./npu", "npu/", "ABSOLUTE", "../WORK/npu")), ("npu", True), ("ABSOLUTE", True)],
)
def test_a_dump_that_changed_is_read_again(work: Path, npu: str, replace: bool) -> None:
    npu = npu.replace("ABSOLUTE", str(work / "npu")).replace("WORK", work.name)
    for data, expected in ((ONE, "equal"), (TWO, "different"), (ONE, "equal")):
        write_dump(work / "npu", data)
        report = compare(npu, "gpu", lake="lake", replace=replace)
        assert (report.name, difference(report)) == ("npu_vs_gpu", expected)
    said = [line for done in report.ingested for line in ingest_lines(done)]
    changed = "  1 unit replaced: the dump has changed since it was read"
    assert said.count(changed) == (0 if replace else 1)
    assert layout.runs(work / "lake") == ["gpu", "npu"]


@pytest.mark.parametrize("npu", ["npu", "./npu"])
def test_a_dump_that_can_no_longer_be_read(work: Path, monkeypatch: pytest.MonkeyPatch, npu: str) -> None:
    compare(npu, "gpu", lake="lake")

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("lakeprobe.ingest.unit.blocks", refuse)
    with pytest.raises(LakeError, match=r"/dump\.json: Permission denied; .*/lake is as it was before$"):
        compare(npu, "gpu", lake="lake")


def test_a_folder_that_no_run_can_be_called_like(work: Path) -> None:
    write_dump(work / "npu@2024,lr=1", TWO)
    report = compare("npu@2024,lr=1", "gpu", lake="lake")
    assert (report.name, difference(report)) == ("npu_2024_lr_1_vs_gpu", "different")
    assert report.remarks == (f"{work}/npu@2024,lr=1 is the run npu_2024_lr_1: a name has {layout.NAME_RULE}",)
    assert compare("npu@2024,lr=1", "gpu", lake="lake").remarks == ()


def test_two_folders_of_one_name_are_not_mixed(work: Path) -> None:
    write_dump(work / "npu=1", TWO)
    write_dump(work / "npu_1", ONE)
    compare("npu_1", "gpu", lake="lake")
    report = compare("npu=1", "npu_1", lake="lake")
    assert report.name == f"{layout.name_after(work.name)}_npu_1_vs_npu_1"
    assert difference(report) == "different"
    with pytest.raises(UsageError, match=r"every name for .*npu=1 is in use in .*--run NAME"):
        compare("npu=1", "npu_1", lake="other")


def test_steps_that_meet_by_their_place_are_told(work: Path) -> None:
    write_dump(work / "late" / "step5" / "rank0", ONE)
    [remark] = compare("late", "gpu", lake="lake").remarks
    assert remark == "step 5 of late is compared with step 0 of gpu: the two sides have no step in common"
    ingest("gpu", lake="lake", run="golden")
    assert compare("late@step5", "golden@step0", lake="lake").remarks == ()


def test_a_name_of_a_run_and_of_another_folder(work: Path) -> None:
    elsewhere = write_dump(work / "elsewhere" / "npu", ONE)
    ingest(elsewhere, lake="lake")
    same = compare("npu", "gpu", lake="lake")
    assert same.ingested[0].run == "gpu"
    [remark] = same.remarks
    assert remark.startswith("npu: in the lake since ")
    assert remark.endswith(f", the same dump as {work}/npu")
    write_dump(work / "npu", TWO)
    with pytest.raises(UsageError, match=r"npu is a run in .*/lake, and the folder .*/npu holds another dump"):
        compare("npu", "gpu", lake="lake")
    other = compare("./npu", "gpu", lake="lake")
    assert (other.name, difference(other)) == (f"{work.name}_npu_vs_gpu", "different")
    (work / "npu" / "dump.json").unlink()
    (work / "npu" / "notes.txt").write_text("no dump")
    assert difference(compare("npu", "gpu", lake="lake")) == "equal"


def test_replace_reads_a_run_again_from_its_folder(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare("npu", "gpu", lake="lake")
    write_dump(work / "npu", TWO)
    (work / "sub").mkdir()
    monkeypatch.chdir(work / "sub")
    assert difference(compare("npu", "gpu", lake="../lake")) == "equal"
    assert difference(compare("npu", "gpu", lake="../lake", replace=True)) == "different"
    for file in sorted((work / "npu").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    (work / "npu").rmdir()
    gone = compare("npu", "gpu", lake="../lake", replace=True)
    assert gone.remarks == ("npu: its dump no longer exists, so the run stays as it is",)


def test_a_run_that_the_user_named_is_a_record(work: Path) -> None:
    ingest("npu", lake="lake", run="before")
    assert compare("npu", "gpu", lake="lake").name == "before_vs_gpu"
    write_dump(work / "npu", TWO)
    report = compare("npu", "gpu", lake="lake")
    assert (report.name, difference(report)) == ("npu_vs_gpu", "different")
    assert difference(compare("npu", "before", lake="lake")) == "different"
    assert difference(compare("before", "gpu", lake="lake")) == "equal"
    again = compare("before", "npu", lake="lake", replace=True)
    assert (again.name, difference(again)) == ("before_vs_npu", "equal")


def test_contents_stay_where_the_lake_has_them(work: Path) -> None:
    ingest("npu", lake="lake", tensors="none")
    assert [len(done.read) for done in compare("npu", "gpu", lake="lake").ingested] == [0, 1]


def test_two_paths_below_one_dump_are_one_run(work: Path) -> None:
    for step in (0, 1):
        for rank in (0, 1):
            write_dump(work / "job" / f"step{step}" / f"rank{rank}", TWO if step else ONE)
    report = compare("job/step1/rank0", "job/step0/rank0", lake="lake")
    assert (report.name, difference_at(report, 1, 0)) == (
        "job_step1_rank0_vs_job_step0_rank0", "different",
    )  # fmt: skip
    assert [str(key) for key in layout.units(work / "lake")] == ["run job step 0 rank 0", "run job step 1 rank 0"]
    whole = compare("job/step1", "job/step0", lake="lake")
    assert whole.name == "job_step1_vs_job_step0"
    assert [(str(pair.target), str(pair.golden)) for pair in whole.pairs] == [
        ("run job step 1 rank 0", "run job step 0 rank 0"),
        ("run job step 1 rank 1", "run job step 0 rank 1"),
    ]


def difference_at(report: CompareReport, step: int, rank: int) -> str:
    return str(results(report.lake, report.name, step, rank)[0]["difference"])


def test_processes_of_one_dump_keep_their_ranks(work: Path) -> None:
    for process, data in ((71, ONE), (72, TWO)):
        write_dump(work / "job" / "step0" / f"proc{process}", data)
    report = compare("job/step0/proc72", "job/step0/proc71", lake="lake")
    [pair] = report.pairs
    assert (str(pair.target), str(pair.golden)) == ("run job step 0 rank 1", "run job step 0 rank 0")
    assert difference_at(report, 0, 1) == "different"


def test_any_two_units_of_the_lake(work: Path) -> None:
    for step in (0, 1):
        for rank in (0, 1):
            write_dump(work / "job" / f"step{step}" / f"rank{rank}", TWO if step else ONE)
    ingest("job", lake="lake", run="run")
    for target, golden, name, pairs in (
        ("run@step1", "run@step0", "run_step1_vs_run_step0", [((1, 0), (0, 0)), ((1, 1), (0, 1))]),
        ("run@rank0", "run@rank1", "run_rank0_vs_run_rank1", [((0, 0), (0, 1)), ((1, 0), (1, 1))]),
        ("run@step1@rank0", "run@step0@rank1", "run_step1_rank0_vs_run_step0_rank1", [((1, 0), (0, 1))]),
        ("job@step1", "run@step0", "run_step1_vs_run_step0", [((1, 0), (0, 0)), ((1, 1), (0, 1))]),
    ):
        report = compare(target, golden, lake="lake")
        assert report.name == name
        assert [
            ((pair.target.step, pair.target.rank), (pair.golden.step, pair.golden.rank)) for pair in report.pairs
        ] == pairs
    with pytest.raises(UsageError, match="run does not have the step or rank asked for; it has step 0-1 and rank 0-1"):
        compare("run@step7", "run", lake="lake")


def test_a_step_or_rank_that_is_not_there(work: Path) -> None:
    for options in ({"ranks": (9,)}, {"steps": (9,)}):
        ingest("npu", lake="lake")
        ingest("gpu", lake="lake")
        os.chdir("/")
        with pytest.raises(
            UsageError, match=r"npu does not have the steps and ranks asked for; it has step 0 and rank 0"
        ):
            compare("npu", "gpu", lake=work / "lake", **options)
        os.chdir(work)


@pytest.mark.parametrize(("options", "what"), [({"ranks": (0, 9)}, "rank 9"), ({"steps": (0, 9, 8)}, "step 8")])
def test_one_of_several_steps_or_ranks_that_is_not_there(work: Path, options: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=rf"neither side has {what}; the steps and ranks of both: step 0 and rank 0"):
        compare("npu", "gpu", lake=work / "lake", **options)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("npu", "npu is the name of a run"),
        ("results", "results is the name of a view"),
        ("Tensors", "Tensors is the name of a view"),
        ("losses", "losses is the name of a table"),
    ],
)
def test_names_that_are_taken(work: Path, name: str, says: str) -> None:
    compare("npu", "gpu", lake="lake", name="both")
    log.append(work / "lake", "test", {layout.table_name("losses"): log.Place("tables/losses.parquet", ())})
    with pytest.raises(UsageError, match=says):
        compare("npu", "gpu", lake="lake", name=name)
    assert layout.comparisons(work / "lake") == ["both"]


def test_a_comparison_of_other_units_is_not_replaced_without_a_word(work: Path) -> None:
    for run in ("npu", "gpu"):
        for step in (0, 1):
            write_dump(work / "two" / run / f"step{step}", ONE)
    both = compare("two/npu", "two/gpu", lake="lake")
    part = compare("two/npu/step0", "two/gpu/step0", lake="lake")
    assert (both.name, part.name) == ("npu_vs_gpu", "npu_step0_vs_gpu_step0")
    assert compare("two/npu", "two/gpu", lake="lake", steps=(0,)).name == "npu_step0_vs_gpu_step0"
    assert compare("two/npu", "two/gpu", lake="lake").name == "npu_vs_gpu"

    def named(*sides: str, **options: Any) -> CompareReport:
        return compare(*sides, lake="lake", name="kept", **options)

    named("two/npu", "two/gpu")
    for sides in (("two/gpu", "two/npu"), ("two/npu/step0", "two/gpu/step0")):
        with pytest.raises(UsageError, match=r"the comparison kept exists already, of npu with gpu in 2 .step, rank."):
            named(*sides)
    named("two/gpu", "two/npu", replace=True)
    assert comparison.load(work / "lake", "kept").target == "gpu"
