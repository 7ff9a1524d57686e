"""What a page holds, against the lake's own rows; the hierarchy; what goes wrong."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compare.pair_dumps import call, tensor, write_dump
from packed import tables, unpacked
from program import lakeprobe as program

import lakeprobe
from lakeprobe.session import Lake
from lakeprobe.tensors.histogram import BINS, EDGES
from lakeprobe.view.columns import Texts, floats, integers, packed
from lakeprobe.view.levels import Subject
from lakeprobe.view.page import _chosen
from lakeprobe.view.tree import tree_of

DUMPS = Path(__file__).parents[1] / "data" / "dumps"
PLANTED = "Functional.layer_norm.3.forward"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lakeprobe.open(tmp_path_factory.mktemp("views") / "lake", create=True) as made:
        made.compare(DUMPS / "demo" / "target", DUMPS / "demo" / "golden", name="demo")
        made.compare(DUMPS / "ranks" / "log0", DUMPS / "ranks" / "golden", name="ranks")
        yield made


@pytest.fixture(scope="module")
def demo(lake: Lake) -> Path:
    return lake.view("demo", lake.path.parent / "demo.html")


def test_columns_come_back_as_they_were() -> None:
    texts = Texts()
    names = texts.numbers(["a", None, "</script>", "a"])
    table = unpacked(
        packed({"texts": texts.texts}, {"name": names, "wide": integers([0, 70_000]), "x": floats([0.5, None])})
    )
    assert table.texts("name") == ["a", None, "</script>", "a"]
    assert table.columns["wide"].tolist() == [0, 70_000]
    assert np.array_equal(table.columns["x"], np.float32([0.5, np.nan]), equal_nan=True)


def test_the_page_has_every_op_and_leaf_of_the_comparison(lake: Lake, demo: Path) -> None:
    found = tables(demo)
    unit = found["unit-0"]
    rows = lake.sql("FROM results WHERE comparison = 'demo' ORDER BY row").fetchall()
    columns = lake.sql("FROM results LIMIT 0").columns
    by = [dict(zip(columns, row, strict=True)) for row in rows]
    assert len(unit.columns["leaf_slot"]) == len(by)
    assert Counter(unit.texts("target_op")) >= Counter({row["target_op"] for row in by})
    owners = [unit.texts("target_op")[node] for node in unit.columns["leaf_node"]]
    shown = Counter(zip(owners, unit.texts("leaf_slot"), unit.columns["leaf_target_norm"].tolist(), strict=True))
    wanted = Counter(
        (
            row["target_op"],
            row["target_name"].removeprefix(f"{row['target_op']}."),
            np.float32(row["target_norm"] or 0).item(),
        )
        for row in by
        if row["target_norm"] is not None
    )
    assert not wanted - shown
    worst = {"error": 7, "warning": 5}
    for op in (PLANTED, "Tensor.sqrt.7.forward", "Functional.embedding.0.forward"):
        levels = [
            worst.get(row["verdict"], 3 if row["difference"] == "different" else 1)
            for row in by
            if row["target_op"] == op
        ]
        assert unit.columns["level"][unit.node(op)] == max(levels)
    counts = found["overview"].head["units"][0]["counts"]
    assert sum(counts) == len({row["target_op"] for row in by}) == 718
    assert (counts[7], counts[5]) == (1, 10)


def test_the_tree_is_that_of_construct_json(demo: Path) -> None:
    unit = tables(demo)["unit-0"]
    construct = json.loads(next((DUMPS / "demo" / "target").rglob("construct.json")).read_text())
    names, parents = unit.texts("target_op"), unit.columns["parent"]
    labels = unit.texts("label")
    for node, name in enumerate(names):
        if name is not None and construct.get(name) is not None and construct[name] in names:
            assert names[parents[node]] == construct[name]
    assert labels[parents[names.index("Module.layers.1.Block.forward.0")]] == "forward"
    assert (
        names[parents[names.index("Module.layers.0.mlp.fc1.Linear.parameters_grad.0")]]
        == "Module.layers.0.mlp.fc1.Linear.backward.0"
    )
    assert names[parents[names.index("Functional.embedding.0.backward")]] == "Module.tok_emb.Embedding.backward.0"
    assert all(parent < node for node, parent in enumerate(parents))  # from the top


def test_what_differs_has_a_histogram_where_contents_are_there(lake: Lake, tmp_path: Path) -> None:
    golden = np.linspace(-1, 1, 64, dtype=np.float32)
    off = golden + np.float32(3e-4)
    for side, output in (("npu", off), ("gpu", golden)):
        leaves = {"in.npy": golden, "out.npy": output, "gone.npy": output * 2}
        named = {
            name: tensor(1.0, shape=[64], Norm=float(np.abs(array).sum()), data_name=name)
            for name, array in leaves.items()
        }
        entry = call([named["in.npy"]], [named["out.npy"], named["gone.npy"]])
        write_dump(tmp_path / side, {"Torch.mul.0.forward": entry}, task="tensor", arrays=leaves)
    lake.compare(tmp_path / "npu", tmp_path / "gpu", name="saved", tensors="link")
    (tmp_path / "npu" / "dump_tensor_data" / "gone.npy").unlink()
    unit = tables(lake.view("saved", tmp_path / "page.html"))["unit-0"]
    assert [unit.texts("leaf_slot")[leaf] for leaf in unit.columns["histogram_leaf"]] == ["output.0"]
    counts = unit.columns["histogram_count"].tolist()
    scale = np.sqrt((golden.astype(np.float64) ** 2).mean())
    place = 1 + int(np.searchsorted(EDGES, 3e-4 / scale))
    assert len(counts) == unit.head["histogram_bins"] == BINS
    assert (counts[place], sum(counts)) == (64, 64)


def test_dataflow_leads_to_the_op_that_made_a_value(demo: Path) -> None:
    unit = tables(demo)["unit-0"]
    names = unit.texts("target_op")
    made = {
        (names[node], slot): names[maker] if maker >= 0 else None
        for node, slot, maker in zip(
            unit.columns["leaf_node"], unit.texts("leaf_slot"), unit.columns["leaf_maker"], strict=True
        )
    }
    assert made[PLANTED, "input.0"] == "Tensor.__add__.3.forward"
    assert made["Functional.linear.10.forward", "input.0"] == PLANTED
    assert made[PLANTED, "input.2"] is None  # a parameter


def row(op: str, place: float, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    kind = "module" if op.startswith("Module.") else "api"
    made = {
        "target_op": op, "golden_op": None, "target_parent": parent, "golden_parent": None, "kind": kind, "call": 0,
        "direction": "backward" if "backward" in op else "forward", "api": ".".join(op.split(".")[1:-3]),
        "place": place, "target_stack": None, "is_recompute": False,
    }  # fmt: skip
    return made | fields


def shape(rows: list[dict[str, Any]], frames: dict[int, list[str]] | None = None) -> list[str]:
    tree = tree_of(rows, frames or {})
    names = [one["target_op"] for one in rows] + tree.labels
    depth: dict[int, int] = {-1: -1}
    lines = []
    for node in tree.order:
        depth[node] = depth[tree.parents[node]] + 1
        lines.append("  " * depth[node] + names[node])
    return lines


def test_a_hierarchy_that_goes_in_circles_keeps_every_op() -> None:
    rows = [
        row("Module.a.A.forward.0", 0, "Module.b.B.forward.0"),
        row("Module.b.B.forward.0", 1, "Module.a.A.forward.0"),
    ]
    rows.append(row("Module.c.C.forward.0", 2, "Module.c.C.forward.0"))
    assert sorted(line.strip() for line in shape(rows)) == sorted(one["target_op"] for one in rows)


def test_a_recomputed_module_is_below_the_backward_of_the_module_around_it() -> None:
    net, block = "Module.model.Net", "Module.model.layers.0.Block"
    rows = [row(f"{net}.forward.0", 0), row(f"{block}.forward.0", 1, f"{net}.forward.0"), row(f"{net}.backward.0", 2)]
    rows += [row(f"{block}.forward.1", 3, is_recompute=True), row(f"{block}.backward.1", 4)]
    assert shape(rows)[2:] == [f"{net}.backward.0", f"  {block}.forward.1", f"  {block}.backward.1"]


def test_without_construct_json_the_paths_of_modules_tell() -> None:
    rows = [row("Module.a.b.B.forward.0", 0), row("Module.a.A.forward.0", 1), row("Module.a.b.B.forward.1", 2, call=1)]
    rows.append(row("Module.a.A.forward.1", 3, call=1))
    assert shape(rows) == [
        "Module.a.A.forward.0", "  Module.a.b.B.forward.0", "Module.a.A.forward.1", "  Module.a.b.B.forward.1",
    ]  # fmt: skip


def test_without_modules_the_call_stacks_tell() -> None:
    main = "File /w/train.py, line 9, in main, \n step()"
    layer = "File /w/train.py, line 5, in step, \n self.attention(x)"
    frames = {0: ["own line", layer, main], 1: ["other line", layer, main], 2: ["loss line", main]}
    ops = [
        ("Torch.mul.0.forward", 0),
        ("Torch.add.0.forward", 1),
        ("Torch.mean.0.forward", 2),
        ("Torch.add.0.backward", None),
    ]
    rows = [row(op, place, target_stack=stack) for place, (op, stack) in enumerate(ops)]
    assert shape(rows, frames) == [
        "forward", "  step, train.py:5", "    Torch.mul.0.forward", "    Torch.add.0.forward", "  Torch.mean.0.forward",
        "step, train.py:5", "  Torch.add.0.backward",
    ]  # fmt: skip


def test_a_run_opens_at_its_first_nan_and_a_meant_inf_is_none(lake: Lake, tmp_path: Path) -> None:
    bad = tables(lake.view("log0", tmp_path / "bad.html"))["overview"].head
    assert (bad["kind"], bad["answer"]["cause"]["op"], bad["answer"]["cause"]["rank"]) == (
        "run",
        "Torch.log.1.forward",
        3,
    )
    good = tables(lake.view("target", tmp_path / "good.html"))
    assert good["overview"].head["answer"]["cause"] is None
    counts = good["overview"].head["units"][0]["counts"]
    assert counts[7] == 0
    assert counts[2] > 0  # attention's masks


def test_digests_that_differ_are_no_difference_that_stands_out(lake: Lake, tmp_path: Path) -> None:
    dropped = dict.fromkeys(("Max", "Min", "Mean", "Norm"), ...)
    for side, other in (("npu", "c"), ("gpu", "d")):
        ops = {
            f"Torch.exp.{nth}.forward": call(
                [tensor(**dropped, md5=f"aaaaaaa{nth}")],
                [tensor(**dropped, md5=f"{'b' if nth < 2 else other}000000{nth}")],
            )
            for nth in range(4)
        }
        write_dump(tmp_path / side, ops)
    lake.compare(tmp_path / "npu", tmp_path / "gpu", name="digests")
    said = tables(lake.view("digests", tmp_path / "page.html"))["overview"].head["answer"]
    assert (said["verdict"], said["cause"], said["first"]) == ("different", None, [])
    assert said["coverage"][1].startswith("No op stands out: digests differ wherever ops compute")


def test_the_units_that_matter_most_are_whole_and_the_others_in_the_overview(lake: Lake, tmp_path: Path) -> None:
    found = tables(lake.view("ranks", tmp_path / "page.html", most=2))
    assert [name for name in found if name.startswith("unit")] == ["unit-0", "unit-1"]
    units = found["overview"].head["units"]
    assert [unit["table"] is None for unit in units].count(True) == 2
    assert units[3]["table"] == 0  # the cause is on rank 3
    assert set(found["overview"].columns["block_unit"]) == {0, 1, 2, 3}
    only = tables(lake.view("ranks", tmp_path / "one.html", ranks=[1]))
    assert [unit["rank"] for unit in only["overview"].head["units"]] == [1]


def test_the_steps_around_that_of_the_cause_are_whole() -> None:
    units = tuple((step, rank, step, rank) for step in range(6) for rank in (0, 1))
    subject = Subject("c", "t", None, units)
    said = {"step": 3, "cause": {"ranks": [1]}, "path": [{"rank": 1}]}
    counts = [{"step": 2, "rank": rank, "counts": [0, 0, 0, rank, 0, 0, 0, 0]} for rank in (0, 1)]
    chosen = [unit[:2] for unit in _chosen(subject, said, counts, 6)]
    assert chosen == [(3, 1), (3, 0), (2, 1), (4, 1), (2, 0), (4, 0)]


def test_what_goes_wrong_is_said_and_leaves_no_file(lake: Lake, tmp_path: Path) -> None:
    words = ("--lake", lake.path, "-o")
    failed = program("view", "nothing", *words, tmp_path / "a.html")
    assert failed.code == 2
    assert failed.line.startswith(f"lakeprobe: {lake.path} has no comparison or run nothing; it has demo, ")
    failed = program("view", "demo", *words, tmp_path / "a.html", "--step", "7")
    assert (failed.code, failed.line) == (2, "lakeprobe: demo has no such step and rank; it has step 0 rank 0")
    failed = program("view", "demo", *words, tmp_path)
    assert (failed.code, failed.line) == (2, f"lakeprobe: {tmp_path} is a folder; name a file")
    (tmp_path / "file").write_text("")
    failed = program("view", "demo", *words, tmp_path / "file" / "a.html")
    assert failed.code == 3
    assert "the view was not written" in failed.line
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_command_prints_the_path_of_its_page(lake: Lake, tmp_path: Path) -> None:
    done = program("view", "demo", "--lake", lake.path, "-o", tmp_path / "new" / "page.html")
    assert (done.code, done.out) == (0, f"{tmp_path}/new/page.html\n")
    assert tables(tmp_path / "new" / "page.html").keys() == {"overview", "unit-0"}


def test_cells_of_a_notebook_are_plain_and_escaped(lake: Lake) -> None:
    comparison = lake.comparison("demo")
    tree, flow, page = comparison.tree()._repr_html_(), comparison.flow()._repr_html_(), comparison.view()._repr_html_()
    assert "<script" not in tree + flow
    assert f"<b>{PLANTED}</b> ◀ cause" in tree
    assert tree.count("<details open") == 3  # forward, layers.1, ln2
    assert flow.count("<circle") > 100
    assert page.startswith(f"<p><b>{PLANTED}</b>: its argument input.4 is 0.01 against 1e-05")
    assert '<iframe sandbox="allow-scripts"' in page
