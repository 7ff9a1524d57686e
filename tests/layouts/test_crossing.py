"""Two tensor parallel ranks of MindSpore against one process of PyTorch.

`data/crossing/dumps.tar.gz` has the runs of benchmarks/cuts/crossing.py as `lakeprobe export` writes them.
"""

from functools import cache
from pathlib import Path

import pytest

import lakeprobe

DUMPS = Path(__file__).parent / "data" / "crossing" / "dumps.tar.gz"


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    with lakeprobe.open(tmp_path_factory.mktemp("crossing") / "lake", create=True) as lake:
        lake.ingest(DUMPS)
        yield cache(lambda case: lake.compare(case, "pytorch", cuts="auto"))


def suspects(result):
    return [row[:2] for row in result.blame().suspects.select("op, module, grade").fetchall() if row[2] == "suspect"]


def test_a_clean_cut_has_no_finding_and_no_row_without_counterpart(compared):
    result = compared("mindspore")
    assert suspects(result) == []
    rows = result.summary().coverage.rows
    assert (rows["compared"], rows["unmatched"]) == (58, 0)
    assert sum(rows.values()) == rows["compared"] + rows["inside"]


def test_a_shard_of_another_rank_is_named_with_its_rank(compared):
    result = compared("mindspore+other_half")
    assert suspects(result)[0] == ("Module.layers.1.down.Linear.forward.0", "Module.layers.1.Layer.forward.0")
    assert result.shards("Module.layers.1.down.Linear.forward.0").ranks == (1,)


def test_a_sum_that_is_missing_is_named_where_it_is_used(compared):
    found = suspects(compared("mindspore+no_sum"))
    assert found[0] == ("Tensor.__add__.1.forward", "Module.layers.1.Layer.forward.0")
