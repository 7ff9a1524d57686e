"""ptdbg_ascend dumps held against each other as ptdbg_ascend 2.2 did it, and against a dump of today's msprobe."""

from __future__ import annotations

import json
import math
import re
import shutil
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from peer_pairs import rank_in, read_table
from real_dumps import DUMPS, needs_dumps

import lakeprobe
from lakeprobe.readers import ptdbg_names

LEGACY = DUMPS / "F_ptdbg_legacy" / "all"
PAIR = Path(__file__).resolve().parents[1] / "data" / "ptdbg" / "pair.tar.xz"
Array = NDArray[np.float32]
Row = dict[str, Any]


def compared(folder: Path, target: Path, golden: Path, rule: str | None = None) -> list[Row]:
    """The rows of the comparison of two runs."""
    with lakeprobe.open(folder / "lake", create=True) as lake:
        relation = lake.compare(target, golden, rule=rule, jobs=1).rows
        return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


# ---- ptdbg_ascend's own results ---------------------------------------------------------------------------


@needs_dumps
def test_numbers_and_verdicts_are_ptdbgs(tmp_path: Path) -> None:
    """compare_distributed of ptdbg_ascend 2.2: the same rows in the same order, rank by rank."""
    rows = compared(tmp_path, LEGACY / "ln_eps", LEGACY / "golden", "ptdbg")
    tables = {rank_in(path): read_table(path) for path in (LEGACY / "peer_out_ln_eps").glob("compare_result_*.csv")}
    assert {rank: len(table) for rank, table in tables.items()} == {0: 329, 1: 329}
    for rank, table in tables.items():
        for ours, theirs in zip((row for row in rows if row["rank"] == rank), table, strict=True):
            op, what, indexes = ptdbg_names.split(theirs["NPU Name"])
            assert ours["target_name"] == ours["golden_name"] == f"{op}.{what}.{indexes}"
            check_numbers(ours, theirs)


def check_numbers(ours: Row, theirs: dict[str, str]) -> None:
    for side, name in (("target", "NPU"), ("golden", "Bench")):
        for statistic in ("max", "min", "mean"):
            assert ours[f"{side}_{statistic}"] == float(theirs[f"{name} {statistic}"])
        assert ours[f"{side}_dtype"] == theirs[f"{name} Tensor Dtype"]
        assert ours[f"{side}_shape"] == json.loads(theirs[f"{name} Tensor Shape"])
    if theirs["Cosine"] == "Nan":  # ptdbg measures nothing where there is inf, even at the same places
        assert theirs["Accuracy Reached or Not"] == "Nan"
        assert -math.inf in (ours["target_min"], ours["golden_min"])
        return
    assert math.isclose(ours["max_abs_error"], float(theirs["MaxAbsErr"]), abs_tol=5.1e-7)
    cosine = 1.0 if ours["cosine"] > 0.99999 else ours["cosine"]  # as ptdbg shows it
    assert math.isclose(cosine, float(theirs["Cosine"]), abs_tol=1e-6)
    assert {"pass": "Yes", "error": "No"}[ours["verdict"]] == theirs["Accuracy Reached or Not"]


@needs_dumps
@pytest.mark.parametrize("rule", ["ptdbg", None])
def test_the_planted_defect_is_found(tmp_path: Path, rule: str | None) -> None:
    """LayerNorm's eps in ln2 of the second layer, on rank 1; ptdbg also records the function inside it."""
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        comparison = lake.compare(LEGACY / "ln_eps", LEGACY / "golden", rule=rule, jobs=1)
        found = [(finding.rank, finding.op) for finding in comparison.summary().first]
        rows = comparison.rows.filter("rank = 1 AND difference = 'different'")
        first_rows = rows.order("row").limit(2).project("target_name").fetchall()
    assert found == [(1, "Torch.layer_norm.3.forward")]
    assert first_rows == [("Torch.layer_norm.3.forward.output.0",), ("Functional.layer_norm.3.forward.output.0",)]


@needs_dumps
def test_call_stacks_alone(tmp_path: Path) -> None:
    stacks = DUMPS / "F_ptdbg_legacy" / "stack_only" / "golden"
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        lake.ingest(stacks)
        dumps = lake.sql("SELECT task, ops, tensor_rows FROM dumps ORDER BY rank").fetchall()
        ((frames,),) = lake.sql(
            "SELECT frames FROM ops JOIN stacks USING (run, step, rank, stack) "
            "WHERE op = 'Tensor.masked_fill.0.forward' AND rank = 1"
        ).fetchall()
    assert dumps == [("statistics", 132, 0)] * 2
    frame = 'File /data/train/lm_model_pt.py, line 54, in forward, \n scores = scores.masked_fill(mask, float("-inf"))'
    assert frame in frames


# ---- a dump of today's msprobe ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """golden: ptdbg_ascend 2.2; target: msprobe 26.2; the same model, seed and step (tests/data/ptdbg/README.md)."""
    folder = tmp_path_factory.mktemp("pair")
    with tarfile.open(PAIR) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize("rule", [None, "ptdbg"])
def test_a_dump_of_today_pairs_with_one_of_ptdbg(tmp_path: Path, pair: Path, rule: str | None) -> None:
    rows = compared(tmp_path, pair / "target", pair / "golden", rule)
    paired = [row for row in rows if row["matched_by"]]
    assert len({row["target_op"] for row in paired}) == 104
    assert len(paired) == 265
    for row in paired:
        assert row["target_name"] == row["golden_name"]
        assert (row["outcome"], row["verdict"], row["difference"]) == ("equal", "pass", "equal")
    golden_alone = Counter(row["golden_op"] for row in rows if row["golden_op"] and not row["matched_by"])
    assert Counter(op.rpartition(".")[2] + " " + op.split(".")[0] + "." + op.split(".")[1] for op in golden_alone) == {
        "forward Torch.embedding": 2, "backward Torch.embedding": 2,  # inside Functional.embedding
        "forward Torch.layer_norm": 5, "backward Torch.layer_norm": 5,
        "forward Tensor.softmax": 2, "backward Tensor.softmax": 2,
        "backward Functional.dropout": 4,  # which msprobe does not see where p is 0
    }  # fmt: skip
    paired_ops = {row["target_op"] for row in paired}
    target_alone = {row["target_op"] for row in rows if row["target_op"]} - paired_ops
    assert {op.partition(".")[2] for op in target_alone} == {  # ptdbg left out integers and 0-d tensors
        "arange.0.forward", "triu.0.forward", "float.0.forward", "reshape.2.forward", "__truediv__.0.forward",
        "__truediv__.0.backward", "float.0.backward",
    }  # fmt: skip


def test_statistics_alone_agree_too(tmp_path: Path, pair: Path) -> None:
    """Without the files there are max, min and mean on one side, and a norm too on the other."""
    golden, target = tmp_path / "golden" / "rank0", tmp_path / "target" / "rank0"
    for folder in (golden, target):
        folder.mkdir(parents=True)
    shutil.copy(pair / "golden" / "ptdbg_dump_v2.2" / "rank0" / "npu_dump.pkl", golden)
    dump = (pair / "target" / "step0" / "rank0" / "dump.json").read_text()
    without_files = re.sub(r',\s*"data_name": "[^"]*"', "", dump).replace('"task": "tensor"', '"task": "statistics"')
    (target / "dump.json").write_text(without_files)
    rows = compared(tmp_path, target.parent, golden.parent, "ptdbg")
    paired = [row for row in rows if row["matched_by"]]
    assert len(paired) == 265
    assert {(row["verdict"], row["difference"]) for row in paired} == {("pass", "equal")}
    assert all(row["target_max"] == row["golden_max"] and row["target_mean"] == row["golden_mean"] for row in paired)
    assert {row["verdict"] for row in rows if not row["matched_by"]} == {"skipped"}  # the -inf of masks among them


@needs_dumps
def test_the_shared_dump_of_the_same_model(tmp_path: Path) -> None:
    """msprobe's default risk level leaves out transpose and reshape; all that it records of the model pairs."""
    rows = compared(tmp_path, DUMPS / "A_pt_lm" / "L1_tensor" / "golden" / "step0", LEGACY / "golden")
    paired = [row for row in rows if row["matched_by"]]
    assert len({row["target_op"] for row in paired}) == 80
    assert len(paired) == 217
    assert {row["difference"] for row in paired} == {"equal"}


# ---- small dumps ------------------------------------------------------------------------------------------


def write_ptdbg(folder: Path, tensors: dict[str, Array], pkl: str = "npu_dump") -> Path:
    """A dump of ptdbg_ascend 2.2 with these tensors, by the names of their lines."""
    rank = folder / "ptdbg_dump_v2.2" / "rank0"
    (rank / pkl).mkdir(parents=True)
    lines = []
    for name, values in tensors.items():
        np.save(rank / pkl / f"{name}.npy", values)
        statistics = [float(values.max()), float(values.min()), float(values.mean())]
        lines.append(json.dumps([name, 1, [], f"torch.{values.dtype}", list(values.shape), statistics]))
    (rank / f"{pkl}.pkl").write_text("\n".join(lines) + "\n")
    return folder


def write_msprobe(folder: Path, tensors: dict[str, Array]) -> Path:
    """A dump of msprobe with these tensors, by the names of their rows."""
    data: dict[str, Any] = {}
    for name, values in tensors.items():
        op, _, slot = name.rpartition(".output.")
        leaf = {
            "type": "torch.Tensor", "dtype": f"torch.{values.dtype}", "shape": list(values.shape),
            "Max": float(values.max()), "Min": float(values.min()), "Mean": float(values.mean()),
            "Norm": float(np.linalg.norm(values)), "requires_grad": False,
        }  # fmt: skip
        assert slot == "0"
        data[op] = {"input": [], "output": [leaf]}
    folder.mkdir(parents=True)
    head = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (folder / "dump.json").write_text(json.dumps(head, indent=1))
    return folder


def test_the_old_verdict(tmp_path: Path) -> None:
    """An error if, and only if, the cosine is below 0.99 and the largest absolute error above 0.001; in plain numpy."""
    generator = np.random.default_rng(5)
    pairs = [([0.0025, 0.002], [0.001, 0.002]), ([0.0019, 0.002], [0.001, 0.002]), ([1.0, 0.17], [1.0, 0.0])]
    for _ in range(60):
        scale, noise = 10.0 ** generator.uniform(-4, 1), 10.0 ** generator.uniform(-3, 0)
        values = scale * generator.standard_normal(32)
        pairs.append((values + noise * scale * generator.standard_normal(32), values))
    target, golden, expected = {}, {}, {}
    for call, (ours, theirs) in enumerate(pairs):
        name = f"Torch_f_{call}_forward_output"
        target[name], golden[name] = np.array(ours, np.float32), np.array(theirs, np.float32)
        n, b = target[name].astype(float), golden[name].astype(float)
        cosine, error = n @ b / np.linalg.norm(n) / np.linalg.norm(b), np.abs(n - b).max()
        expected[f"Torch.f.{call}.forward"] = (bool(cosine < 0.99), bool(error > 0.001))
    assert list(expected.values())[:3] == [(True, True), (True, False), (True, True)]
    assert len(set(expected.values())) == 4
    one, off = np.ones(1, np.float32), np.full(1, 9.0)  # of one element: the cosine is 1 in ptdbg; dtypes play no part
    target["Torch_one_0_forward_output"], golden["Torch_one_0_forward_output"] = off, one
    expected["Torch.one.0.forward"] = (False, True)
    rows = compared(tmp_path, write_ptdbg(tmp_path / "npu", target), write_ptdbg(tmp_path / "gpu", golden), "ptdbg")
    found = {row["target_op"]: row["verdict"] for row in rows}
    assert found == {op: "error" if all(conditions) else "pass" for op, conditions in expected.items()}
    messages = {message for row in rows for message in row["messages"]}
    assert messages == {"error: the cosine is below 0.99 and the largest absolute error above 0.001"}


def test_what_ptdbg_cannot_measure_is_judged_as_by_default(tmp_path: Path) -> None:
    plain = np.arange(1, 7, dtype=np.float32)
    broken = plain.copy()
    broken[2] = np.nan
    target = {"Torch_f_0_forward_output": plain.reshape(2, 3), "Torch_g_0_forward_output": broken,
              "Torch_h_0_forward_output": plain}  # fmt: skip
    golden = {"Torch_f_0_forward_output": plain.reshape(3, 2), "Torch_g_0_forward_output": plain}
    rows = compared(tmp_path, write_ptdbg(tmp_path / "npu", target), write_ptdbg(tmp_path / "gpu", golden), "ptdbg")
    assert [(row["target_op"], row["verdict"]) for row in rows] == [
        ("Torch.f.0.forward", "error"), ("Torch.g.0.forward", "error"), ("Torch.h.0.forward", "unmatched"),
    ]  # fmt: skip


def marked(value: int) -> Array:
    return np.full((2, 2), value, np.float32)


@pytest.mark.parametrize("old_is_target", [False, True])
def test_calls_inside_functional_are_counted_apart(tmp_path: Path, old_is_target: bool) -> None:
    """The model calls torch.relu, F.relu and torch.relu again: Torch.relu.1 of ptdbg is the one inside F.relu."""
    old = write_ptdbg(tmp_path / "old", {
        "Torch_relu_0_forward_output": marked(1),
        "Torch_relu_1_forward_output": marked(2),
        "Functional_relu_0_forward_output": marked(2),
        "Torch_relu_2_forward_output": marked(3),
        "Torch_relu_2_backward_output.0": marked(4),
        "Torch_relu_1_backward_output.0": marked(5),
        "Functional_relu_0_backward_output.0": marked(5),
        "Torch_relu_0_backward_output.0": marked(6),
    })  # fmt: skip
    new = write_msprobe(tmp_path / "new", {
        "Torch.relu.0.forward.output.0": marked(1),
        "Functional.relu.0.forward.output.0": marked(2),
        "Torch.relu.1.forward.output.0": marked(3),
        "Torch.relu.1.backward.output.0": marked(4),
        "Functional.relu.0.backward.output.0": marked(5),
        "Torch.relu.0.backward.output.0": marked(6),
    })  # fmt: skip
    target, golden = (old, new) if old_is_target else (new, old)
    rows = compared(tmp_path, target, golden, "ptdbg")
    paired = [row for row in rows if row["matched_by"]]
    assert len(paired) == 6
    assert all(row["target_max"] == row["golden_max"] for row in paired)
    alone = {row["target_op"] or row["golden_op"] for row in rows if not row["matched_by"]}
    assert alone == {"Torch.relu.1.forward", "Torch.relu.1.backward"}


def test_between_two_dumps_of_ptdbg_calls_pair_by_number(tmp_path: Path) -> None:
    """Also where one of them has a range of the calls only."""
    everything = {
        "Torch_relu_0_forward_output": marked(1),
        "Functional_relu_0_forward_output": marked(1),
        "Torch_relu_1_forward_output": marked(2),
        "Torch_relu_2_forward_output": marked(3),
        "Functional_relu_1_forward_output": marked(3),
    }
    some = {name: values for name, values in everything.items() if values.max() > 1}
    npu, gpu = write_ptdbg(tmp_path / "npu", some, "range_npu_dump"), write_ptdbg(tmp_path / "gpu", everything)
    rows = compared(tmp_path, npu, gpu, "ptdbg")
    assert [(row["target_op"], row["target_op"] == row["golden_op"]) for row in rows if row["target_op"]] == [
        ("Torch.relu.1.forward", True), ("Torch.relu.2.forward", True), ("Functional.relu.1.forward", True),
    ]  # fmt: skip


def test_modes_in_one_folder_pair_mode_by_mode(tmp_path: Path) -> None:
    for run, value in (("npu", 1), ("gpu", 2)):
        write_ptdbg(tmp_path / run, {"Torch_relu_0_forward_output": marked(value)}, f"{run}_dump")
        write_ptdbg(tmp_path / run, {"Torch_relu_0_forward_output": marked(10 * value)}, f"list_{run}_dump")
    rows = compared(tmp_path, tmp_path / "npu", tmp_path / "gpu", "ptdbg")
    assert sorted((row["part"], row["target_max"], row["golden_max"]) for row in rows) == [
        ("", 1.0, 2.0), ("list", 10.0, 20.0),
    ]  # fmt: skip
