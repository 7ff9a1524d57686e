"""Runs that PyTorch itself cut, with parallelize_module and with fully_shard, against the whole one."""

from functools import cache

import pytest

import lakeprobe

pytest.importorskip("torch")

from benchmarks.cuts import placed


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("placed")
    made = placed.make(folder, "statistics", ("whole", "dt_tp2", "fsdp2", "dt_tp2+wrong_shard"), layers=1)
    assert made, [file.read_text()[-2000:] for file in folder.glob("*.log")]
    with lakeprobe.open(folder / "lake") as opened:
        yield opened


@pytest.fixture(scope="module")
def compared(lake):
    return cache(lambda case: lake.compare(case, "whole", cuts="auto"))


@pytest.mark.sampled
@pytest.mark.parametrize(("case", "mesh"), [("dt_tp2", "tp 2"), ("fsdp2", "dp 2")])
def test_a_clean_cut_has_no_finding(lake, compared, case, mesh):
    result = compared(case)
    rows = result.summary().coverage.rows
    assert rows["compared"] >= 0.98 * sum(rows.values())
    assert [row for row in result.blame().suspects.select("op, grade").fetchall() if row[1] == "suspect"] == []
    [(notes,)] = lake.sql("SELECT notes FROM dumps WHERE run = $run", {"run": f"{case}_whole"}).fetchall()
    assert notes == [f"merged from 2 ranks of {case}: {mesh}"]


def test_the_shard_of_another_rank_is_named_in_its_module(compared):
    [(op, module), *_] = compared("dt_tp2+wrong_shard").blame().suspects.select("op, module").fetchall()
    assert (op.partition(".")[2].split(".")[0], module) == ("linear", "Module.layers.0.mlp.down_proj.Linear.forward.0")


def test_what_a_dtensor_says_is_the_source_of_its_layout(lake, compared):
    compared("dt_tp2")
    found = lake.sql(
        "SELECT slot, layout, source FROM layouts WHERE run = 'dt_tp2_whole' "
        "AND op = 'Module.layers.0.self_attn.o_proj.Linear.forward.0' AND slot <> 'output.0' ORDER BY slot"
    ).fetchall()
    assert found == [("input.0", "tp: shard 2", "DTensor"), ("parameters.weight", "tp: shard 1", "DTensor")]
    count = lake.sql("SELECT count(*) FROM tensors WHERE run = 'dt_tp2_whole' AND type LIKE '%DTensor'").fetchall()
    assert count == [(0,)]
