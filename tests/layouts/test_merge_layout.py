"""Runs that were really cut, over gloo, are merged into one and held against the whole run."""

import sys
from functools import cache, partial
from unittest.mock import patch

import pytest

import lakeprobe
from lakeprobe.cli import main
from lakeprobe.errors import LakeError, UsageError

pytest.importorskip("torch")

from benchmarks.cuts import train

CASES = ("single", "tp2", "pp2", "tp2+other_half")


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cuts")
    without_updates = partial(train.collected, folder / "lake", "tensor", 1, updates=False)
    assert train.make(folder, "tensor", CASES, train=without_updates), [
        file.read_text()[-2000:] for file in folder.glob("*.log")
    ]
    with lakeprobe.open(folder / "lake") as opened:
        yield opened


def called(words):
    """The exit code of the command line, run in this process."""
    with patch.object(sys, "argv", ["lakeprobe", *words]), pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


@pytest.fixture(scope="module")
def compared(lake):
    """Merges a case and compares it with the whole run, once."""
    return cache(lambda case: lake.compare(case, "single", cuts="auto"))


@pytest.mark.sampled
@pytest.mark.parametrize(("case", "mesh"), [("tp2", "tp 2"), ("pp2", "pp 2 × mb 2")])
def test_a_clean_cut_has_no_finding_and_its_rows_are_compared(lake, compared, case, mesh):
    result = compared(case)
    rows = result.summary().coverage.rows
    assert rows["compared"] >= 0.98 * sum(rows.values())
    assert [row for row in result.blame().suspects.select("op, grade").fetchall() if row[1] == "suspect"] == []
    [(notes,)] = lake.sql("SELECT notes FROM dumps WHERE run = $run", {"run": f"{case}_whole"}).fetchall()
    assert notes == [f"merged from 2 ranks of {case}: {mesh}"]


def test_what_the_cut_adds_is_listed_with_a_reason(lake, compared):
    compared("tp2")
    rows = lake.sql("SELECT op, reason FROM layouts WHERE run = 'tp2_whole' AND row IS NULL ORDER BY op").fetchall()
    assert {reason for _, reason in rows} == {"the cut adds it"}
    assert all(op.startswith("Distributed.all_reduce.") for op, _ in rows)
    assert len(rows) == 8


def test_rows_know_their_layout_and_their_shards(lake, compared):
    compared("tp2")
    found = lake.sql(
        "SELECT slot, layout, source, certainty, shard_ranks FROM layouts WHERE run = 'tp2_whole' "
        "AND op = 'Functional.linear.1.forward' AND slot IN ('input.0', 'input.1', 'output.0') ORDER BY slot"
    ).fetchall()
    assert found == [
        ("input.0", "tp: shard 2", "shapes", "inferred", [0, 1]),
        ("input.1", "tp: shard 1", "shapes", "inferred", [0, 1]),
        ("output.0", "tp: partial sum", "collective", "checked", [0]),
    ]


def test_fused_query_key_and_value_are_put_in_the_order_of_the_whole(lake, compared):
    compared("tp2")
    [(layout,)] = lake.sql(
        "SELECT layout FROM layouts WHERE run = 'tp2_whole' AND op LIKE 'Module.layers.0.attention.qkv.%forward.0' "
        "AND slot = 'parameters.weight'"
    ).fetchall()
    assert layout == "tp: shard 0; tp: 3 blocks"
    same = lake.sql(
        "SELECT count(DISTINCT content) FROM tensors WHERE run IN ('single', 'tp2_whole') "
        "AND op LIKE 'Module.layers.0.attention.qkv.%forward.0' AND slot = 'parameters.weight'"
    ).fetchall()
    assert same == [(1,)]


def test_merged_contents_outlive_the_ranks(lake):
    lake.merge_layout("tp2", "first", like="single")
    lake.merge_layout("first", "copied")
    lake.rm("first")
    ours, theirs = (
        lake.tensor(run, "Module.head.Linear.forward.0", "parameters.weight") for run in ("copied", "single")
    )
    assert ours.shape == (48, 16)
    assert (ours == theirs).all()
    assert lake.check() == []


def test_statistics_merge_without_contents_and_without_golden(lake):
    report = lake.merge_layout("tp2", "alone")
    assert report.steps[0].mesh == "tp 2"
    rows = lake.sql(
        "SELECT slot, norm FROM tensors WHERE run = 'alone' AND op = 'Module.head.Linear.forward.0' "
        "AND slot = 'parameters.weight'"
    ).fetchall()
    whole = lake.sql(
        "SELECT slot, norm FROM tensors WHERE run = 'single' AND op = 'Module.head.Linear.forward.0' "
        "AND slot = 'parameters.weight'"
    ).fetchall()
    assert rows == whole


def test_the_command_line_merges_compares_and_points_at_the_shard(lake, capsys, tmp_path):
    file = tmp_path / "layout.yaml"
    file.write_text("axes: {tp: 2}\n")
    where = ["--lake", str(lake.path)]
    words = ["merge-layout", "tp2", "--as", "by_file", "--like", "single", "--layout", str(file), *where]
    assert called(words) == 0
    assert "by_file step 0: 399 rows from 2 ranks of tp2 (tp 2)" in capsys.readouterr().err
    assert called(["compare", "tp2+other_half", "single", "--cuts", "auto", "--replace", *where]) == 0
    assert "no longer exists" not in capsys.readouterr().err
    assert called(["blame", "tp2+other_half_whole_vs_single", *where]) == 0
    assert "rank 1 [32:64] of axis 1, differs by 1.3  <- this shard" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing", "whole"), "has no run nothing"),
        (("tp2", "single"), "has a run single already"),
        (("tp2", "tp2"), "needs a name of its own"),
        (("tp2", "a/b"), "cannot name a run"),
    ],
)
def test_a_wrong_name_is_an_error_and_nothing_is_written(lake, arguments, message):
    before = lake.runs
    with pytest.raises(UsageError, match=message):
        lake.merge_layout(*arguments)
    assert lake.runs == before


def test_a_step_that_the_run_lacks_is_an_error_and_nothing_is_written(lake):
    before = lake.runs
    with pytest.raises(UsageError, match=r"tp2 has no step 99; its steps are 0$"):
        lake.merge_layout("tp2", "whole", steps=[0, 99])
    assert lake.runs == before


def test_a_golden_run_of_several_ranks_is_refused(lake):
    with pytest.raises(LakeError, match="merge it first"):
        lake.merge_layout("tp2", "whole", like="pp2")


def test_a_layout_file_with_other_ranks_is_refused(lake, tmp_path):
    file = tmp_path / "layout.yaml"
    file.write_text("axes: {tp: 4}\n")
    with pytest.raises(LakeError, match="tp 4 = 4 ranks, the run has 2"):
        lake.merge_layout("tp2", "whole", like="single", layout=file)
