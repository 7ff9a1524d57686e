"""Task perturb: each call of the training runs again with changed inputs, and the training does not notice."""

from __future__ import annotations

import contextlib
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program import lakeprobe as program

import lakeprobe
from lakeprobe.changes import USUAL_MODES
from lakeprobe.collect.debugger import PrecisionDebugger
from lakeprobe.collect.watching.preheat import Preheat
from lakeprobe.errors import UsageError
from lakeprobe.tensors import changes as of_arrays

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from lakeprobe.checks.pytorch.tensors import to_numpy, to_torch  # noqa: E402
from lakeprobe.collect.pytorch import changes as of_tensors  # noqa: E402

BOTH = ("forward", "backward")


class Model(nn.Module):
    """Ops that draw random numbers, write in place, and keep buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        h = functional.dropout(functional.gelu(self.first(x)), 0.3)
        h = self.norm(h)
        h += 1
        h[0] = 0.5
        return self.last(functional.relu(h, inplace=True))


def train(lake: Path | None, **options: Any) -> tuple[dict[str, Any], Any]:
    """Three steps. Returns the parameters and buffers, and the state of the random number generator."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    collector = lakeprobe.collect(model, run="npu", lake=lake, task="perturb", **options) if lake else None
    with collector or contextlib.nullcontext():
        for _ in range(3):
            loss = functional.cross_entropy(model(torch.randn(4, 8)), torch.arange(4))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if collector:
                collector.step()
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}, torch.get_rng_state()


def rows(lake: Path, query: str) -> list[tuple[Any, ...]]:
    with lakeprobe.open(lake) as opened:
        return opened.sql(query).fetchall()


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of a training that was tried in all modes. Asserts that the training did not notice."""
    lake = tmp_path_factory.mktemp("trials") / "lake"
    (plain, state), (watched, watched_state) = train(None), train(lake, fuzz_stage=BOTH)
    assert [name for name in plain if not torch.equal(plain[name], watched[name])] == []
    assert torch.equal(state, watched_state)
    return lake


def test_every_call_is_tried_in_every_mode(tried: Path) -> None:
    ops = {op for (op,) in rows(tried, "SELECT op FROM ops WHERE step = 1 AND api <> 'add_'")}  # of whole numbers
    assert {"Functional.linear.0.forward", "Functional.dropout.0.forward", "Tensor.__iadd__.0.forward"} <= ops
    found = rows(tried, "FROM perturbations SELECT DISTINCT op, mode WHERE step = 1 AND direction = 'forward'")
    assert {(op, mode) for op in ops for mode in USUAL_MODES} <= set(found)
    assert rows(tried, "FROM perturbations SELECT op, mode WHERE status IN ('random', 'differs')") == []
    slots = rows(
        tried,
        """SELECT slot, dtype, shape FROM perturbations
        WHERE op = 'Functional.linear.1.backward' AND mode = 'bit_noise' AND step = 2 ORDER BY place""",
    )
    assert slots == [("input.0", "float32", [4, 16]), ("input.1", "float32", [4, 16]), ("input.2", "float32", [4])]
    problems = dict(
        rows(
            tried, "SELECT DISTINCT mode, problem FROM perturbations WHERE op LIKE '%dropout%' AND problem IS NOT NULL"
        )
    )
    assert "it draws random numbers" in problems["to_cpu"]


def test_rows_join_the_ops_and_leave_with_the_run(tried: Path) -> None:
    [(joined,)] = rows(
        tried, "SELECT count(*) FROM perturbations JOIN ops USING (run, step, rank, seq) WHERE ops.op = ran"
    )
    [(every,)] = rows(tried, "SELECT count(*) FROM perturbations WHERE perturbation = 'npu' AND place IS NOT NULL")
    assert joined == every > 100


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """gelu is not the same twice, silu has a backward that is not, and softmax is wrong by 1e-3 but on float64."""
    gelu, silu, softmax = functional.gelu, functional.silu, functional.softmax
    calls = iter(range(1000))

    class Unsteady(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            context.save_for_backward(x)
            return silu(x)

        @staticmethod
        def backward(context: Any, *gradients: Any) -> Any:
            return gradients[0] * (1 + 1e-3 * next(calls))

    monkeypatch.setattr(functional, "gelu", lambda x: gelu(x) * (1 + 1e-3 * next(calls)))
    monkeypatch.setattr(functional, "silu", lambda x: Unsteady.apply(x))
    monkeypatch.setattr(
        functional, "softmax", lambda x, dim: softmax(x, dim) * (1.001 if x.dtype == torch.float32 else 1)
    )


def test_what_is_wrong_is_named(tmp_path: Path, broken: None) -> None:
    x = (0.5 + torch.rand(8) / 2).requires_grad_()
    near = x.detach() - 1.5e-4
    with lakeprobe.collect(run="npu", lake=tmp_path / "lake", task="perturb", fuzz_stage=BOTH):
        loss = functional.gelu(x) + functional.silu(x) + functional.softmax(x, -1) + (x - near)
        (loss * loss).sum().backward()
    found = rows(
        tmp_path / "lake", "FROM perturbations SELECT DISTINCT op, mode, status WHERE status NOT IN ('stable', 'skip')"
    )
    assert ("Functional.gelu.0.forward", "no_change", "random") in found
    assert ("Functional.silu.0.backward", "no_change", "random") in found
    assert ("Functional.softmax.0.forward", "to_cpu", "differs") in found
    assert ("Tensor.__sub__.0.forward", "bit_noise", "unstable") in found
    right = {
        "Tensor.__mul__.0.forward",
        "Tensor.__add__.0.forward",
        "Tensor.sum.0.forward",
        "Functional.silu.0.forward",
    }
    assert not right & {op for op, *_ in found}
    [(condition,)] = rows(tmp_path / "lake", "SELECT max(condition) FROM perturbations WHERE op LIKE '%__sub__%'")
    assert condition > 1000


def test_fix_lets_the_training_go_on_in_higher_precision(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(4, 64, dtype=torch.bfloat16), torch.randn(64, 64, dtype=torch.bfloat16, requires_grad=True)
    with lakeprobe.collect(
        run="npu", lake=tmp_path / "lake", task="perturb", pert_mode="improve_precision", handler_type="fix"
    ):
        y = functional.softmax(x @ weight, -1)
        y.sum(0)[0].backward()
    assert y.dtype == torch.bfloat16
    wide = weight.detach().float().requires_grad_()
    expected = torch.softmax((x.float() @ wide).bfloat16().float(), -1).bfloat16()
    assert torch.equal(y, expected)
    assert weight.grad.dtype == torch.bfloat16
    assert rows(tmp_path / "lake", "SELECT count(*) FROM perturbations WHERE status = 'stable'")[0][0] >= 3


def test_only_what_the_list_names_is_tried(tmp_path: Path) -> None:
    train(tmp_path / "lake", list=["gelu"], pert_mode="no_change")
    assert rows(tmp_path / "lake", "SELECT DISTINCT op FROM perturbations") == [("Functional.gelu.0.forward",)]


def test_msprobes_configuration_is_read(tmp_path: Path) -> None:
    options = {
        "list": ["linear"],
        "fuzz_device": "cpu",
        "pert_mode": "to_cpu",
        "fuzz_level": "L1",
        "fuzz_stage": "backward",
    }
    config = {"task": "free_benchmark", "dump_path": str(tmp_path / "npu"), "level": "L1", "free_benchmark": options}
    (tmp_path / "config.json").write_text(json.dumps(config))
    debugger = PrecisionDebugger(str(tmp_path / "config.json"))
    layer = nn.Linear(3, 3)
    debugger.start()
    layer(torch.ones(2, 3)).sum().backward()
    debugger.stop()
    debugger.step()
    PrecisionDebugger.close()
    found = rows(tmp_path / "lake", "SELECT DISTINCT op, mode, status FROM perturbations")
    assert found == [("Functional.linear.0.backward", "to_cpu", "stable")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pert_mode": "shake"}, "pert_mode should be one or several of improve_precision"),
        ({"fuzz_stage": "sideways"}, "fuzz_stage should be one or several of forward, backward"),
        (
            {"handler_type": "fix"},
            "handler_type fix needs fuzz_stage forward, and pert_mode improve_precision or to_cpu",
        ),
        ({"level": "mix"}, "task perturb needs level L1"),
        ({"preheat_step": 0}, "preheat_step should be a whole number from 1"),
    ],
)
def test_a_wrong_option_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        lakeprobe.collect(nn.Linear(2, 2), run="npu", lake=tmp_path / "lake", task="perturb", **options)
    assert not (tmp_path / "lake").exists()


def test_an_op_that_refuses_changed_inputs_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def picky(x: Any) -> Any:
        if x.dtype != torch.float32:
            raise RuntimeError("no kernel for float64\nin detail")
        return x * 2

    monkeypatch.setattr(functional, "gelu", picky)
    with lakeprobe.collect(run="npu", lake=tmp_path / "lake", task="perturb", pert_mode="to_cpu"):
        functional.gelu(torch.ones(3))
    [(status, problem)] = rows(tmp_path / "lake", "SELECT status, problem FROM perturbations")
    assert (status, problem) == ("skip", "the op refused the changed inputs: no kernel for float64")


def test_preheating_learns_limits_from_samples() -> None:
    preheat = Preheat(steps=3, most=20)
    sampled = []
    for step in range(3):
        sampled.append([number for number in range(7) if preheat.wants("mul")])
        if step:
            preheat.take("mul", "float32", 1.01, is_right=True)
            preheat.take("exp", "float32", 1.5 if step == 1 else 4.0, is_right=step == 1)
        preheat.next_step()
    # of 7 calls, ceil(7 / 3) = 3 samples at (3 i + step) mod 7
    assert sampled == [[], [0, 1, 4], [1, 2, 5]] or sampled == [[], [1, 4, 0], [2, 5, 1]]
    assert preheat.is_over
    assert preheat.wants("mul")
    assert preheat.limit("mul", "float32") == 1 + 1.05 / 4
    assert preheat.limit("exp", "float32") == 1 + 1.05 / 2  # the wrong one is beyond it
    assert preheat.limit("mul", "float16") is None


def test_preheating_samples_and_then_tries_all(tmp_path: Path) -> None:
    train(tmp_path / "lake", pert_mode="bit_noise", if_preheat=True, preheat_step=2, max_sample=1, list=["linear"])
    found = rows(
        tmp_path / "lake",
        """SELECT step, count(*), bool_and(status = 'stable'), min("limit")
        FROM perturbations GROUP BY step ORDER BY step""",
    )
    assert [row[:3] for row in found] == [(1, 1, True), (2, 2, True)]
    assert found[1][3] == pytest.approx(1.05 / 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_are_changed_and_compared_as_arrays_are(dtype: Any) -> None:
    torch.manual_seed(1)
    plain = torch.cat([torch.randn(500), torch.tensor([0.0, -0.0, 1e-7, 3e4, float("inf"), float("nan")])]).to(dtype)
    array = to_numpy(plain)
    for mode in ("add_noise", "bit_noise", "change_value"):
        changed, expected = of_tensors.FIRST_ONLY[mode](plain), of_arrays.FIRST_ONLY[mode](array)
        assert to_numpy(changed).tobytes() == expected.tobytes(), mode
        for backward in (False, True):
            for each in ("bit_noise", "no_change", "to_cpu"):
                one = of_tensors.compared(each, plain, changed, backward=backward)
                other = of_arrays.compared(each, array, expected, backward=backward)
                assert np.allclose(one[:2], other[:2], rtol=1e-12)
                assert one[2:] == other[2:]
    assert to_torch(of_arrays.improve_precision(array)).dtype in (torch.float32, torch.float64)


def test_msprobes_file_is_written(tmp_path: Path, broken: None) -> None:
    with lakeprobe.collect(run="npu", lake=tmp_path / "lake", task="perturb", pert_mode="no_change"):
        functional.relu(functional.gelu(torch.ones(2, 3)))
    out = tmp_path / "free_benchmark.csv"
    done = program("export", "npu", out, "--format", "free-benchmark", "--lake", tmp_path / "lake")
    assert done.code == 0
    with out.open(encoding="utf-8-sig", newline="") as file:
        [row] = csv.DictReader(file)
    expected = {
        "rank": "0", "pert_mode": "no_change", "stage": "forward", "step": "0", "api_name": "Functional.gelu.0",
        "dtype": "torch.float32", "shape": "[2, 3]", "output_index": "0",
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert float(row["max_rel"]) == pytest.approx(1e-3, rel=0.01)
