"""The statistics of merged ranks are those that msprobe's graph_visualize merges (26.2.0, --tp 2 --pp 2).

`data/msprobe_merge/dumps.tar.gz` has the dumps that msprobe took of benchmarks/cuts' transformer, whole and on 2 × 2
ranks, with the class names and the matmul that its merge looks for. `merged.json` has what msprobe made of them: by our
name of a row max, min, mean, norm. Rows that it names otherwise stand in docs/cuts.md.
"""

import json
from pathlib import Path

import pytest

import lakeprobe

DATA = Path(__file__).parent / "data" / "msprobe_merge"


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    with lakeprobe.open(tmp_path_factory.mktemp("msprobe") / "lake", create=True) as opened:
        opened.ingest(DATA / "dumps.tar.gz")
        yield opened


def test_merged_statistics_are_msprobes(lake):
    report = lake.merge_layout("tp2_pp2", "whole", like="single")
    assert report.steps[0].mesh == "pp 2 × tp 2"
    rows = lake.sql("SELECT name, max, min, mean, norm FROM tensors WHERE run = 'whole' AND kind = 'tensor'").fetchall()
    ours = {name: numbers for name, *numbers in rows}
    theirs = json.loads((DATA / "merged.json").read_text())
    assert set(ours) == set(theirs)
    assert len(ours) == 407
    for name, (highest, lowest, mean, norm) in theirs.items():
        assert ours[name][:2] == pytest.approx([highest, lowest], rel=1e-6), name
        size = None if highest is None else 1e-6 * max(abs(highest), abs(lowest))  # a mean is a sum that cancels
        assert ours[name][2] == (None if mean is None else pytest.approx(mean, abs=size)), name
        assert ours[name][3] == (None if norm is None else pytest.approx(norm, rel=1e-6)), name


def test_a_row_parallel_product_has_the_statistics_of_the_reduction_after_it(lake):
    lake.merge_layout("tp2_pp2", "sums", like="single")
    [(layout, source)] = lake.sql(
        "SELECT layout, source FROM layouts WHERE run = 'sums' AND op = 'Torch.matmul.1.forward' AND slot = 'output.0'"
    ).fetchall()
    assert (layout, source) == ("tp: partial sum", "collective")
