"""The database for tb-graph-ascend: it holds what msprobe 26.2's graph_visualize wrote for the same dumps."""

from __future__ import annotations

import json
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program import tensor, write_dump

import lakeprobe
from lakeprobe.lake.connection import connect
from lakeprobe.view.graph import ROOT, graph, in_order

DUMPS = Path(__file__).parents[1] / "data" / "dumps"


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, sqlite3.Connection]]:
    folder = tmp_path_factory.mktemp("databases")
    with lakeprobe.open(folder / "lake", create=True) as lake:
        lake.compare(DUMPS / "demo" / "target", DUMPS / "demo" / "golden", name="demo")
        lake.compare(DUMPS / "ranks" / "gelu_tanh", DUMPS / "ranks" / "golden", name="ranks")
        paths = {
            name: lake.view(name, folder / f"{name}.vis.db", format="vis.db") for name in ("demo", "ranks", "target")
        }
    with ExitStack() as stack:
        yield {name: stack.enter_context(closing(sqlite3.connect(path))) for name, path in paths.items()}


def test_nodes_are_those_of_msprobe(databases: dict[str, sqlite3.Connection]) -> None:
    query = "SELECT data_source, node_type, precision_index, count(*) FROM tb_nodes GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    assert databases["demo"].execute(query).fetchall() == [
        ("Bench", "0", None, 123), ("Bench", "1", None, 695), ("Bench", "9", None, 2),
        ("NPU", "0", None, 3), ("NPU", "0", 0, 116), ("NPU", "0", 0.5, 4),
        ("NPU", "1", None, 97), ("NPU", "1", 0, 591), ("NPU", "1", 0.5, 6), ("NPU", "1", 1, 1), ("NPU", "9", 0, 2),
    ]  # fmt: skip


def test_a_node_is_that_of_msprobe(databases: dict[str, sqlite3.Connection]) -> None:
    query = (
        "SELECT graph_id, node_order, node_type, up_node, sub_nodes, precision_index, micro_step_id, "
        "matched_node_link, stack_id, modified FROM tb_nodes WHERE id = ?"
    )

    def node(name: str) -> tuple[object, ...]:
        return databases["demo"].execute(query, (name,)).fetchone()

    above = ["DefaultModel", "Module.layers.1.Block.forward.0", "Module.layers.1.ln2.LayerNorm.forward.0"]
    planted = "Functional.layer_norm.3.forward"
    assert node(f"NPU_0_0_{planted}") == (
        "NPU_0_0", 71, "1", above[-1], "", 1, 0, json.dumps([*above, planted]), "NPU_0_0_22", 0,
    )  # fmt: skip
    assert node("NPU_0_0_Apis_Between_Modules.0") == (
        "NPU_0_0", 7, "9", "DefaultModel", '["Tensor.__add__.0.forward", "Torch.triu.0.forward"]', 0, 0,
        '["DefaultModel", "Apis_Between_Modules.0"]', "NPU_0_0_2", 0,
    )  # fmt: skip
    gradients = "Module.layers.0.ln1.LayerNorm.parameters_grad.0"
    assert node(f"Bench_0_0_{gradients}")[:4] == ("Bench_0_0", 269, "0", "Module.layers.0.ln1.LayerNorm.backward.0")
    assert node("NPU_0_0_DefaultModel")[:4] == ("NPU_0_0", 819, "0", "")


def test_data_of_a_node(databases: dict[str, sqlite3.Connection]) -> None:
    query = "SELECT input_data, output_data FROM tb_nodes WHERE id = 'NPU_0_0_Functional.layer_norm.3.forward'"
    inputs, outputs = (json.loads(text) for text in databases["demo"].execute(query).fetchone())
    assert list(inputs) == [f"Functional.layer_norm.3.forward.input.{slot}" for slot in ("0", "1.0", "2", "3", "4")]
    eps = inputs["Functional.layer_norm.3.forward.input.4"]
    assert (eps["value"], eps["Result"], eps["dtype"]) == ("0.01", "error", "<class float>")
    output = outputs["Functional.layer_norm.3.forward.output.0"]
    assert (output["Max"], output["shape"], output["requires_grad"]) == ("2.994900941848755", "[2, 16, 32]", "True")
    assert float(output["L2norm diff"]) == -0.08135223388671875
    assert float(output["MaxRelativeErr"].removesuffix("%")) == pytest.approx(0.286071, abs=1e-6)


def test_config_and_indexes(databases: dict[str, sqlite3.Connection]) -> None:
    query = "SELECT graph_type, task, micro_steps, rank_list, step_list FROM tb_config"
    assert databases["demo"].execute(query).fetchall() == [("compare", "summary", 1, "[0]", "[0]")]
    assert databases["ranks"].execute(query).fetchall() == [("compare", "summary", 1, "[0, 1, 2, 3]", "[0]")]
    assert databases["target"].execute(query).fetchall() == [("build", "", 1, "[0]", "[0]")]
    indexes = databases["demo"].execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
    assert [name for (name,) in indexes] == [f"index{number}" for number in range(1, 8)]


def test_ops_that_connect_ranks_know_their_partners(databases: dict[str, sqlite3.Connection]) -> None:
    query = "SELECT matched_distributed FROM tb_nodes WHERE id = ? AND is_distributed = 1"

    def met(name: str) -> object:
        return json.loads(databases["ranks"].execute(query, (name,)).fetchone()[0])

    op = "Distributed.all_gather_into_tensor.0.forward"
    assert met(f"NPU_0_0_{op}") == {"communications_type": "send_receive", "nodes_info": {"1": ["0", op]}}
    assert met(f"Bench_0_0_{op}") == {"communications_type": "send_receive", "nodes_info": {"1": ["Nan", op]}}


# ---- single nodes, of dumps made for it ------------------------------------------------------------------------

MUL, CUMSUM, SEND = (f"{api}.0.forward" for api in ("Torch.mul", "Torch.cumsum", "Distributed.send"))
NULLS = "Torch.mul.0.backward"


def entries(**leaf: Any) -> dict[str, Any]:
    """Ops whose leaves are like `leaf`; the product is inf."""
    scalar, dtype = {"type": "float", "value": float("nan")}, {"type": "torch.dtype", "value": "torch.float64"}
    given = tensor(1.0, **leaf)
    return {
        MUL: {"input_args": [given, scalar], "input_kwargs": {}, "output": [tensor(float("inf"), **leaf)]},
        CUMSUM: {"input_args": [given], "input_kwargs": {"dtype": dtype}, "output": [given]},
        SEND: {"input_args": [given], "input_kwargs": {"dst": {"type": "int", "value": 1}}, "output": []},
        NULLS: {"input": [None], "output": [None]},
    }


def dump(folder: Path, task: str = "statistics", **leaf: Any) -> Path:
    head = {"task": task, "level": "mix", "framework": "pytorch", "dump_data_dir": None}
    data = entries(**leaf)
    write_dump(folder, json.dumps(head | {"data": data}))
    (folder / "construct.json").write_text(json.dumps(dict.fromkeys(data)))
    return folder


def written(tmp_path: Path, target: Path, golden: Path) -> dict[str, dict[str, Any]]:
    """The nodes of the database of the comparison of two dumps, by id."""
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        lake.compare(target, golden, name="pair")
        path = lake.view("pair", tmp_path / "pair.vis.db", format="vis.db")
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        return {row["id"]: dict(row) for row in database.execute("SELECT * FROM tb_nodes")}


def leaf_of(node: dict[str, Any], slot: str) -> dict[str, str]:
    leaves: dict[str, dict[str, str]] = json.loads(node["input_data"])
    return leaves[f"{node['node_name']}.{slot}"]


def test_each_side_has_the_levels_of_its_own_nan_and_inf(tmp_path: Path) -> None:
    nodes = written(tmp_path, dump(tmp_path / "npu"), dump(tmp_path / "gpu"))
    assert [nodes[f"{side}_0_0_{MUL}"]["overflow_level"] for side in ("NPU", "Bench")] == ["high", "high"]
    assert [nodes[f"{side}_0_0_{CUMSUM}"]["overflow_level"] for side in ("NPU", "Bench")] == [None, None]


def test_levels_and_folders_of_golden_are_those_of_its_own_step(tmp_path: Path) -> None:
    nodes = written(tmp_path, dump(tmp_path / "npu" / "step3" / "rank0"), dump(tmp_path / "gpu" / "step7" / "rank0"))
    assert nodes[f"Bench_3_0_{MUL}"]["overflow_level"] == "high"


def test_a_node_of_nulls_has_a_counterpart_and_passes(tmp_path: Path) -> None:
    node = written(tmp_path, dump(tmp_path / "npu"), dump(tmp_path / "gpu"))[f"NPU_0_0_{NULLS}"]
    assert (node["precision_index"], json.loads(node["matched_node_link"])[-1]) == (0, NULLS)


def test_the_dtype_of_a_value_is_its_python_type(tmp_path: Path) -> None:
    nodes = written(tmp_path, dump(tmp_path / "npu"), dump(tmp_path / "gpu"))
    for side in ("NPU", "Bench"):
        assert leaf_of(nodes[f"{side}_0_0_{CUMSUM}"], "input.dtype")["dtype"] == "<class str>"
        assert leaf_of(nodes[f"{side}_0_0_{SEND}"], "input.dst")["dtype"] == "int"
        assert "md5" not in leaf_of(nodes[f"{side}_0_0_{MUL}"], "input.1")


def test_values_have_digests_where_digests_are_compared(tmp_path: Path) -> None:
    nodes = written(tmp_path, dump(tmp_path / "npu", md5="12345678"), dump(tmp_path / "gpu", md5="12345678"))
    for side in ("NPU", "Bench"):
        assert leaf_of(nodes[f"{side}_0_0_{MUL}"], "input.1")["md5"] == f"{zlib.crc32(b'nan'):08x}"
        assert leaf_of(nodes[f"{side}_0_0_{SEND}"], "input.dst")["md5"] == "1"


def test_nodes_name_the_folder_of_the_tensor_files(tmp_path: Path) -> None:
    places = {"NPU": tmp_path / "npu" / "step0" / "rank0", "Bench": tmp_path / "gpu" / "step2" / "rank0"}
    for place in places.values():
        dump(place, "tensor", data_name="x.npy")
        (place / "dump_tensor_data").mkdir()
        np.save(place / "dump_tensor_data" / "x.npy", np.ones(4, np.float32))
    nodes = written(tmp_path, tmp_path / "npu", tmp_path / "gpu")
    for side, place in places.items():
        assert nodes[f"{side}_0_0_{MUL}"]["dump_data_dir"] == str(place / "dump_tensor_data")
    shutil.rmtree(tmp_path / "gpu")
    with (
        lakeprobe.open(tmp_path / "lake") as lake,
        closing(sqlite3.connect(lake.view("pair", tmp_path / "again.vis.db", format="vis.db"))) as database,
    ):
        query = "SELECT DISTINCT data_source, dump_data_dir FROM tb_nodes ORDER BY 1"
        found = database.execute(query).fetchall()
    assert found == [("Bench", None), ("NPU", str(places["NPU"] / "dump_tensor_data"))]


def made(*entries: tuple[str, str | None], recomputed: str = "nothing") -> list[str]:
    rows = [
        {
            "op": op, "parent": parent, "is_constructed": True, "seq": seq, "frames": None, "micro_step": None,
            "kind": "module" if op.startswith("Module.") else "api", "is_recompute": recomputed in op,
        }
        for seq, (op, parent) in enumerate(entries)
    ]  # fmt: skip
    return [
        f"{node.parent.name if node.parent else ''} > {node.name} {node.micro_step}"
        for node in in_order(graph(rows)[ROOT])
    ]


def test_micro_steps_begin_with_a_forward_after_a_backward() -> None:
    ops = [f"Module.a.A.{direction}.{call}" for call in range(2) for direction in ("forward", "backward")]
    assert made(*((op, None) for op in ops)) == [
        "DefaultModel > Module.a.A.forward.0 0", "DefaultModel > Module.a.A.backward.0 0",
        "DefaultModel > Module.a.A.forward.1 1", "DefaultModel > Module.a.A.backward.1 1", " > DefaultModel 0",
    ]  # fmt: skip


def test_a_backward_without_parent_goes_where_its_forward_is() -> None:
    module = "Module.a.A.forward.0"
    found = made(
        (module, None), ("Torch.mul.0.forward", module), ("Module.a.A.backward.0", None), ("Torch.mul.0.backward", None)
    )
    assert "Module.a.A.backward.0 > Torch.mul.0.backward 0" in found


def test_recomputed_modules_are_below_the_backward_of_the_module_around_them() -> None:
    """As msprobe places them; seen in its graph_visualize on a dump of this shape."""
    net, block = "Module.model.Net", "Module.model.layers.0.Block"
    found = made(
        (f"{net}.forward.0", None), (f"{block}.forward.0", f"{net}.forward.0"), (f"{net}.backward.0", None),
        (f"{block}.forward.1", None), (f"{block}.backward.1", None), (f"{block}.forward.2", None),
        recomputed=".forward.1",
    )  # fmt: skip
    assert found[2:5] == [
        f"{net}.backward.0 > {block}.forward.1 0", f"{net}.backward.0 > {block}.backward.1 0",
        f"DefaultModel > {net}.backward.0 0",
    ]  # fmt: skip
    assert found[-2].startswith(f"DefaultModel > {block}.forward.2")  # nobody recomputed it


FORWARD = "File m.py, line 1, in forward, \n x"
AUTOGRAD = "File /p/torch/autograd/function.py, line 5, in apply, \n x"


@pytest.mark.parametrize(
    ("frames", "is_recomputed"),
    [
        (["File /p/torch/utils/checkpoint.py, line 9, in recompute_fn, \n fn()"], True),
        ([FORWARD, "File c.py, line 2, in backward, \n x", AUTOGRAD], True),
        ([FORWARD, "File c.py, line 2, in backward, \n x", "File a.py, line 1, in g, \n x", AUTOGRAD], True),
        (["File /p/torch/utils/checkpoint.py, line 2, in backward, \n x", AUTOGRAD], True),
        (["File m.py, line 1, in f, \n x", "File c.py, line 2, in backward, \n x", AUTOGRAD], False),
        (["File c.py, line 2, in backward, \n x", "File train.py, line 5, in main, \n x"], False),
        (["File mine.py, line 9, in recompute_fn, \n fn()"], False),
        (None, False),
    ],
)  # fmt: skip
def test_what_a_recomputation_looks_like(frames: list[str] | None, is_recomputed: bool) -> None:
    with connect() as connection:
        query = "SELECT coalesce(is_recomputation($frames::VARCHAR[]), false)"
        assert connection.execute(query, {"frames": frames}).fetchall() == [(is_recomputed,)]


def test_a_circle_in_construct_json_loses_no_op() -> None:
    one, other = "Module.a.A.forward.0", "Module.b.B.forward.0"
    assert sorted(made((one, other), (other, one))) == [
        " > DefaultModel 0", "DefaultModel > Module.b.B.forward.0 0", "Module.b.B.forward.0 > Module.a.A.forward.0 0",
    ]  # fmt: skip
