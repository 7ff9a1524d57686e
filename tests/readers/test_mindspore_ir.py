"""MindSpore's IR: real kernels have the line of the user's code, and a damaged file is one line."""

from __future__ import annotations

import base64
import csv
import gzip
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from program import lakeprobe as run

import lakeprobe
from lakeprobe.errors import DumpError
from lakeprobe.readers.mindspore_ir import frames_by_kernel, nodes
from tests.readers.test_acl import kernel_file, written

IR = Path(__file__).parents[1] / "data/mindspore_ir"
"""The IR of train.py and train_one_step.py there, of MindSpore 2.8 in graph mode, and the files of a kernel dump."""
NO_KERNELS = {"Load", "UpdateState", "MakeTuple", "TupleGetItem", "Depend"}
"""Operators of the IR that only name, order or bundle what others compute."""


def kernel_dump(folder: Path, with_ir: bool = True) -> Path:
    """The dump of train.py, with other numbers."""
    iteration = folder / "rank_0/Net/0/0"
    iteration.mkdir(parents=True)
    for name in (IR / "kernels.txt").read_text().split():
        np.save(iteration / name, np.ones(2, np.float32))
    if with_ir:
        (folder / "rank_0/graphs").mkdir()
        shutil.copy(IR / "graph.ir", folder / "rank_0/graphs/ms_output_trace_code_graph_0.ir")
    return folder


def line_of(text: str) -> int:
    """The line of train.py that begins so."""
    lines = (IR / "train.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(text))


def test_every_kernel_has_its_line(tmp_path: Path) -> None:
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        report = lake.ingest(kernel_dump(tmp_path / "dump"))
        joined = "ops left join stacks using (stack)"
        query = f"select api_type, api, user_frame(frames) from {joined} where api_type <> 'Parameter'"
        kernels = lake.sql(query).fetchall()
    assert len(kernels) == 21
    assert all(frame is not None and frame.startswith("File /data/train/train.py, line ") for _, _, frame in kernels)
    assert not any("no line of code" in note for note in report.notes)
    lines = {name: frame for _, name, frame in kernels}
    expected = {
        "Default_LayerNorm-op0": "hidden = ops.relu",
        "Default_ReLU-op0": "hidden = ops.relu",
        "Default_Add-op0": "return x + self.down(hidden)",
        "Default_Sub-op0": "difference = self.net(x) - y",
        "Default_ReduceMean-op0": "return ops.reduce_mean",
        "Gradients_Default_Grad_LayerNorm_LayerNormGrad-op0": "hidden = ops.relu",
        "Gradients_Default_Grad_BiasAdd_BiasAddGrad-op1": "return x + self.down(hidden)",
        "Gradients_Default_Grad_ReduceMean_RealDiv-op0": "return ops.reduce_mean",
    }
    for name, code in expected.items():
        assert f", line {line_of(code)}, in construct, {code}" in lines[name]
        assert "<~~" not in lines[name]


def test_compare_and_show_name_the_line(tmp_path: Path) -> None:
    golden, target = kernel_dump(tmp_path / "golden"), kernel_dump(tmp_path / "target")
    changed = next((target / "rank_0/Net/0/0").glob("ReLU.*.output.0.*"))
    np.save(changed, np.full(2, 5, np.float32))
    lake = ("--lake", tmp_path / "lake")
    done = run("compare", target, golden, *lake)
    place = f"File /data/train/train.py, line {line_of('hidden =')}, in construct, hidden = ops.relu"
    assert f"  at {place}" in done.out
    assert place in run("show", "ReLU.Default_ReLU-op0", *lake).out


def test_binary_files_of_kernels_have_their_lines_too(tmp_path: Path) -> None:
    dump = tmp_path / "npu"
    files = {"ReLU.Default_ReLU-op0.1.2.1795392455472088": kernel_file([np.ones(2, np.float32)], [])}
    written(dump / "20260101000000/0/net/0/0", files)
    (dump / "graphs").mkdir()
    shutil.copy(IR / "graph.ir", dump / "graphs/graph.ir")
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        lake.ingest(dump)
        [(frame,)] = lake.sql("select user_frame(frames) from ops join stacks using (stack)").fetchall()
    assert f"train.py, line {line_of('hidden =')}, in construct, hidden = ops.relu" in frame


def test_blame_and_the_page_name_the_line(tmp_path: Path) -> None:
    golden, target = kernel_dump(tmp_path / "golden"), kernel_dump(tmp_path / "target")
    changed = next((target / "rank_0/Net/0/0").glob("ReLU.*.output.0.*"))
    np.save(changed, np.full(2, 5, np.float32))
    lake = ("--lake", tmp_path / "lake")
    run("compare", target, golden, *lake)
    place = f"train.py, line {line_of('hidden =')}, in construct"
    assert place in run("blame", "target_vs_golden", *lake).out
    run("view", "target_vs_golden", "-o", tmp_path / "page.html", *lake)
    page = (tmp_path / "page.html").read_text()
    packed = max(re.findall(r"[A-Za-z0-9+/=]{200,}", page), key=len)
    assert place.encode() in gzip.decompress(base64.b64decode(packed))


def test_code_mapping_is_written_as_msprobe_does(tmp_path: Path) -> None:
    lake = ("--lake", tmp_path / "lake")
    run("ingest", kernel_dump(tmp_path / "dump"), "--run", "npu", *lake)
    run("export", "npu", tmp_path / "code_mapping.csv", "--format", "code-mapping", *lake)
    with (tmp_path / "code_mapping.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["File Path", "Code Stack", "Scope Name"]
    files = {path.name for path in (tmp_path / "dump").rglob("*.npy")}
    assert {row["File Path"] for row in rows} == files
    relu = next(row for row in rows if row["Scope Name"] == "Default_ReLU-op0")
    assert f"train.py, line {line_of('hidden =')}, in construct" in relu["Code Stack"]
    done = run("export", "npu", tmp_path / "code_mapping.csv", "--format", "code-mapping", *lake)
    assert "exists already" in done.err
    assert "no perturbation npu" in run("export", "npu", tmp_path / "f.csv", "--format", "free-benchmark", *lake).err


def test_a_dump_without_ir_has_no_lines_and_no_note(tmp_path: Path) -> None:
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        report = lake.ingest(kernel_dump(tmp_path / "dump", with_ir=False))
        assert lake.sql("select count(stack) from ops").fetchall() == [(0,)]
    assert not any("line of code" in note for note in report.notes)


def test_kernels_that_the_ir_lacks_are_counted(tmp_path: Path) -> None:
    folder = kernel_dump(tmp_path / "dump")
    np.save(
        folder / "rank_0/Net/0/0/Exp.Other_Exp-op0.0.0.1795392455478995.input.0.DefaultFormat.Float32.npy", np.ones(2)
    )
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        notes = lake.ingest(folder).notes
    assert any("1 of 22 kernels have no line of code in the IR, for example Other_Exp-op0" in note for note in notes)


def test_nodes_of_the_real_file() -> None:
    found = nodes(IR / "graph.ir")
    matmul = next(node for node in found if node.scope == "Default/MatMul-op1")
    assert (matmul.graph, matmul.op) == ("kernel_graph0", "MatMul")
    gradients = [node for node in found if node.forward_id == matmul.unique_id]
    assert gradients
    assert all(node.scope.startswith("Gradients/") for node in gradients)


def test_kernels_of_an_optimizer_have_the_line_of_what_they_update(tmp_path: Path) -> None:
    """nn.TrainOneStepCell is the outermost cell: no line of the user's calls the optimizer."""
    path = tmp_path / "graph.ir"
    path.write_bytes(gzip.decompress((IR / "train_one_step.ir.gz").read_bytes()))
    kernels = [node for node in nodes(path) if node.scope and node.op.removeprefix("PrimFunc_") not in NO_KERNELS]
    lines = {node.scope: [frame for frame in node.frames if "/data/train/" in frame] for node in kernels}
    up, down = "hidden = ops.relu(self.norm(self.up(x)))", "return self.down(hidden)"
    assert [scope for scope, found in lines.items() if not found] == ["Default/optimizer-Adam/AssignAdd-op0"]  # a count
    assert len(kernels) == 82
    updates = [node for node in kernels if node.op == "Adam"]
    assert all(
        node.frames[0].startswith("File /opt/python/site-packages/mindspore/nn/optim/adam.py") for node in updates
    )
    of_update = [lines[node.scope][0].rpartition("construct, ")[2] for node in updates]
    mark = "[its input comes from here]"
    assert sorted(of_update) == [f"{up} {mark}"] * 4 + [f"{down} {mark}"] * 2  # parameters of norm and up, and of down
    assert lines["Default/optimizer-Adam/Mul-op0"][0].endswith("[it is used for what comes from here]")
    assert not any("[" in frame for frame in lines["Default/network-Loss/net-Net/up-Dense/MatMul-op0"])


OLD = """#IR entry: @train.1
subgraph @train.1() {
  %1([CNode]2) = MatMul(%para1_x, %para2_w) {instance name: matmul} cnode_primal_attrs: {unique_id: "7"}
      : (<Tensor[Float32], (2, 3)>) -> (<Tensor[Float32], (2, 3)>)
      # scope: (Default/fc-Dense/MatMul-op1)
      # In file /train/net.py(31)/        return self.fc(x)/
  %2([CNode]3) = MatMul(%1, Tensor(shape=[2], dtype=Float32, value=
   [1.0, 2.0])) cnode_primal_attrs: {forward_unique_id: "7"}
      # scope: (Gradients/Default/fc-Dense/gradMatMul/MatMul-op2)
  %3(CNode_4) = Neg(%2)
  Return(%3)
      : (<Tensor[Float32], (2, 3)>)
}
"""


def test_old_files_gradients_and_nodes_without_a_scope(tmp_path: Path) -> None:
    """msprobe's code_mapping fails on a node without a scope, and maps no gradient."""
    (tmp_path / "old.ir").write_text(OLD)
    frame = ["File /train/net.py, line 31, in construct, return self.fc(x)"]
    assert [(node.op, node.scope, node.frames) for node in nodes(tmp_path / "old.ir")] == [
        ("MatMul", "Default/fc-Dense/MatMul-op1", frame),
        ("MatMul", "Gradients/Default/fc-Dense/gradMatMul/MatMul-op2", frame),
        ("Neg", "", [f"{frame[0]} [its input comes from here]"]),
    ]
    assert frames_by_kernel([tmp_path / "old.ir"])["Default_fc-Dense_MatMul-op1"] == frame


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[: len(data) // 2], "ends in the middle of the graph"),
        (lambda data: b"subgraph @a\n", r"^[^\n]*ends in the middle of the graph 'a.n';[^\n]*$"),
        (lambda data: b"", "it has no node"),
        (lambda data: b"no graph\n", "it has no node"),
        (lambda data: data[:9000] + b"\xff\xfe\n" + data[9000:], "is not text"),
    ],
)
def test_a_damaged_ir_is_one_line(tmp_path: Path, change: object, message: str) -> None:
    folder = kernel_dump(tmp_path / "dump")
    path = folder / "rank_0/graphs/ms_output_trace_code_graph_0.ir"
    assert callable(change)
    path.write_bytes(change(path.read_bytes()))
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        with pytest.raises(DumpError, match=message) as caught:
            lake.ingest(folder)
        assert lake.runs == []
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
