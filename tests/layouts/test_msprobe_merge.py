"""The statistics of merged ranks are those that msprobe's graph_visualize merges (26.2.0, --tp 2 --pp 2).

`data/msprobe_merge/dumps.tar.gz` has the dumps that msprobe took of benchmarks/cuts' transformer, whole and on 2 × 2
ranks, with the class names and the matmul that its merge looks for. `merged.json` has what msprobe made of them: by our
name of a row max, min, mean, norm. Rows that it names otherwise stand in docs/cuts.md.
"""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import lakeprobe

DATA = Path(__file__).parent / "data" / "msprobe_merge"
DOCS = Path(__file__).resolve().parents[2] / "docs" / "cuts.md"


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """The lake, and the comparison for which the ranks were merged into tp2_pp2_whole."""
    with lakeprobe.open(tmp_path_factory.mktemp("msprobe") / "lake", create=True) as opened:
        opened.ingest(DATA / "dumps.tar.gz")
        yield opened, opened.compare("tp2_pp2", "single", cuts="auto")


def test_merged_statistics_are_msprobes(compared):
    lake, _ = compared
    [(notes,)] = lake.sql("SELECT notes FROM dumps WHERE run = 'tp2_pp2_whole'").fetchall()
    assert notes == ["merged from 4 ranks of tp2_pp2: pp 2 × tp 2"]
    rows = lake.sql(
        "SELECT name, max, min, mean, norm FROM tensors WHERE run = 'tp2_pp2_whole' AND kind = 'tensor'"
    ).fetchall()
    ours = {name: numbers for name, *numbers in rows}
    theirs = json.loads((DATA / "merged.json").read_text())
    assert set(ours) == set(theirs)
    assert len(ours) == 407
    for name, (highest, lowest, mean, norm) in theirs.items():
        assert ours[name][:2] == pytest.approx([highest, lowest], rel=1e-6), name
        size = None if highest is None else 1e-6 * max(abs(highest), abs(lowest))  # a mean is a sum that cancels
        assert ours[name][2] == (None if mean is None else pytest.approx(mean, abs=size)), name
        assert ours[name][3] == (None if norm is None else pytest.approx(norm, rel=1e-6)), name


def test_a_row_parallel_product_has_the_statistics_of_the_reduction_after_it(compared):
    lake, _ = compared
    [(layout, source)] = lake.sql(
        "SELECT layout, source FROM layouts "
        "WHERE run = 'tp2_pp2_whole' AND op = 'Torch.matmul.1.forward' AND slot = 'output.0'"
    ).fetchall()
    assert (layout, source) == ("tp: partial sum", "collective")


def test_the_plugin_shows_one_graph_of_the_merged_ranks(compared, tmp_path):
    """As --tp and --pp of graph_visualize: each node once, with the statistics of the whole."""
    lake, result = compared
    path = lake.view(result.name, tmp_path / "whole.vis.db", format="vis.db")
    with closing(sqlite3.connect(path)) as database:
        found = database.execute(
            "SELECT node_name, parallel_merge_info, output_data FROM tb_nodes WHERE data_source = 'NPU'"
        )
        nodes = {name: (merged, json.loads(output)) for name, merged, output in found}
        assert database.execute("SELECT rank_list FROM tb_config").fetchall() == [("[0]",)]
        cut_golden = "SELECT count(*) FROM tb_nodes WHERE data_source = 'Bench' AND parallel_merge_info <> ''"
        assert database.execute(cut_golden).fetchall() == [(0,)]
    name = "Module.layers.0.attention.qkv.ColumnParallelLinear.forward.0"
    merged, output = nodes[name]
    assert json.loads(merged) == [
        "parameters.weight: tp: shard 0, merged from the ranks 0, 1",
        "output.0: tp: shard 2, merged from the ranks 0, 1",
    ]
    highest, lowest, _, norm = json.loads((DATA / "merged.json").read_text())[f"{name}.output.0"]
    [leaf] = output.values()
    assert [float(leaf[key]) for key in ("Max", "Min", "Norm")] == pytest.approx([highest, lowest, norm], rel=1e-6)


def test_the_layout_file_of_the_docs_says_how_tensors_lie(compared, tmp_path):
    lake, _ = compared
    [example] = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.S)
    file = tmp_path / "layout.yaml"
    file.write_text(example + "  no_such_op: {tp: copy}\n")
    report = lake.merge_layout("tp2_pp2", "by_file", like="single", layout=file)
    assert report.steps[0].problems == [("no_such_op", "this line of the layout file fits no tensor")]
    said = lake.sql(
        "SELECT op, slot, layout FROM layouts WHERE run = 'by_file' AND source = 'layout file' AND op LIKE "
        "'Module.layers.1.%' AND layout IS NOT NULL ORDER BY row"
    ).fetchall()
    layer = "Module.layers.1"
    assert said == [
        (f"{layer}.attention.qkv.ColumnParallelLinear.forward.0", "output.0", "tp: shard 2"),
        (f"{layer}.mlp.up.ColumnParallelLinear.forward.0", "parameters.weight", "tp: shard 0"),
        (f"{layer}.mlp.down.RowParallelLinear.forward.0", "input.0", "tp: shard 2"),
    ]
