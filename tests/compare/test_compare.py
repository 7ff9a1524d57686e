"""Comparing runs of the lake, and paths, which are read first."""

from __future__ import annotations

from pathlib import Path

import pytest
from pair_dumps import call, results, tensor, write_dump

import lakeprobe
from lakeprobe.compare.run import compare
from lakeprobe.errors import DumpError, UsageError
from lakeprobe.ingest import ingest
from lakeprobe.lake import comparison, layout

ONE, TWO = ({"Torch.f.0.forward": call([tensor(value)])} for value in (1.0, 2.0))


def test_two_paths(tmp_path: Path) -> None:
    ours, theirs = write_dump(tmp_path / "npu", ONE), write_dump(tmp_path / "gpu", TWO)
    report = compare(ours, theirs, lake=tmp_path / "lake")
    assert report.name == "npu_vs_gpu"
    assert [(done.run, len(done.read)) for done in report.ingested] == [("npu", 1), ("gpu", 1)]
    assert [(pair.kind, pair.rows) for pair in report.pairs] == [("statistics", 1)]
    assert layout.runs(tmp_path / "lake") == ["gpu", "npu"]
    stored = comparison.load(tmp_path / "lake", "npu_vs_gpu")
    assert (stored.target, stored.golden, stored.rule, stored.unpaired) == ("npu", "gpu", "same_framework", ())
    [row] = results(tmp_path / "lake", "npu_vs_gpu")
    assert (row["target_max"], row["golden_max"], row["max_diff"]) == (1.0, 2.0, -1.0)


def test_comparing_again_reads_nothing_again(tmp_path: Path) -> None:
    ours, theirs = write_dump(tmp_path / "npu", ONE), write_dump(tmp_path / "gpu", TWO)
    compare(ours, theirs, lake=tmp_path / "lake")
    units = {path: path.stat().st_mtime_ns for path in (tmp_path / "lake").glob("run=*/**/*.parquet")}
    report = compare(ours, theirs, lake=tmp_path / "lake")
    assert [(done.run, len(done.read), len(done.units)) for done in report.ingested] == [("npu", 0, 1), ("gpu", 0, 1)]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "lake").glob("run=*/**/*.parquet")} == units
    assert compare("npu", theirs, lake=tmp_path / "lake").ingested[0].run == "gpu"
    assert compare("npu", "gpu", lake=tmp_path / "lake").ingested == ()
    assert layout.comparisons(tmp_path / "lake") == ["npu_vs_gpu"]


def test_folders_of_the_same_name(tmp_path: Path) -> None:
    ours, theirs = write_dump(tmp_path / "npu" / "dump", ONE), write_dump(tmp_path / "gpu" / "dump", TWO)
    other = write_dump(tmp_path / "old" / "dump", TWO)
    for _ in range(2):
        assert compare(ours, theirs, lake=tmp_path / "lake").name == "npu_dump_vs_gpu_dump"
    assert compare(other, ours, lake=tmp_path / "lake").name == "dump_vs_npu_dump"
    assert compare(ours, other, lake=tmp_path / "lake").name == "npu_dump_vs_dump"
    assert layout.runs(tmp_path / "lake") == ["dump", "gpu_dump", "npu_dump"]
    assert results(tmp_path / "lake", "npu_dump_vs_gpu_dump")[0]["golden_max"] == 2.0


def test_a_path_against_itself(tmp_path: Path) -> None:
    ours = write_dump(tmp_path / "npu", ONE)
    report = compare(ours, ours, lake=tmp_path / "lake")
    assert (report.name, [done.run for done in report.ingested]) == ("npu_vs_npu", ["npu"])
    assert results(tmp_path / "lake", "npu_vs_npu")[0]["difference"] == "equal"


def test_units_without_counterpart_are_told(tmp_path: Path) -> None:
    for rank in (0, 1, 2):
        write_dump(tmp_path / "npu" / "step0" / f"rank{rank}", ONE)
    for step, rank in ((0, 0), (0, 1), (1, 0)):
        write_dump(tmp_path / "gpu" / f"step{step}" / f"rank{rank}", ONE)
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        result = lake.compare(tmp_path / "npu", tmp_path / "gpu")
    assert [str(key) for key in result.report.unpaired] == ["run npu step 0 rank 2", "run gpu step 1 rank 0"]
    assert result.stored.unpaired == result.report.unpaired
    assert [(unit.step, unit.rank) for unit in result.stored.units] == [(0, 0), (0, 1)]
    lines = str(result).splitlines()
    assert lines.index("  without counterpart: run npu step 0 rank 2") + 1 == lines.index(
        "  without counterpart: run gpu step 1 rank 0"
    )


def test_ranks_by_place_keep_their_own_numbers(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_dump(tmp_path / "npu" / "step0" / f"rank{rank + 8}", ONE if rank else TWO)
        write_dump(tmp_path / "gpu" / "step3" / f"rank{rank}", ONE if rank else TWO)
    compare(tmp_path / "npu", tmp_path / "gpu", lake=tmp_path / "lake")
    stored = comparison.load(tmp_path / "lake", "npu_vs_gpu")
    assert [(unit.step, unit.rank, unit.golden_step, unit.golden_rank) for unit in stored.units] == [
        (0, 8, 3, 0), (0, 9, 3, 1),
    ]  # fmt: skip
    assert [results(tmp_path / "lake", "npu_vs_gpu", 0, rank)[0]["difference"] for rank in (8, 9)] == ["equal"] * 2


@pytest.mark.parametrize(
    ("target", "golden", "options", "says"),
    [
        ("nothing", "npu", {}, "has no run nothing; it has gpu, npu; there is no such path either"),
        ("npu", "gpu", {"tensors": "some"}, "--tensors some does not exist"),
        ("npu", "npu", {"name": "a/b"}, "'a/b' cannot name a comparison"),
        ("npu", "npu", {"name": "../out"}, "cannot name a comparison"),
        ("npu", "gpu", {}, "npu and gpu share no step and rank, and have different numbers"),
    ],
)
def test_usage(tmp_path: Path, target: str, golden: str, options: dict[str, str], says: str) -> None:
    write_dump(tmp_path / "npu" / "rank5", ONE)
    for rank in (0, 1):
        write_dump(tmp_path / "gpu" / f"rank{rank}", ONE)
    for run in ("npu", "gpu"):
        ingest(tmp_path / run, lake=tmp_path / "lake")
    with pytest.raises(UsageError, match=says) as caught:
        compare(target, golden, lake=tmp_path / "lake", **options)
    assert caught.value.exit_code == 2
    assert layout.comparisons(tmp_path / "lake") == []


def test_neither_side_is_read_if_one_cannot_be(tmp_path: Path) -> None:
    ours, theirs = write_dump(tmp_path / "npu", ONE), write_dump(tmp_path / "gpu", ONE)
    (theirs / "dump.json").write_text("{")
    with pytest.raises(DumpError, match=r"gpu/dump\.json"):
        compare(ours, theirs, lake=tmp_path / "lake")
    assert layout.runs(tmp_path / "lake") == []
    assert layout.comparisons(tmp_path / "lake") == []
