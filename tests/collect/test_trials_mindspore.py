"""Task perturb in MindSpore: each function runs again with changed inputs, and the training does not notice."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakeprobe

mindspore = pytest.importorskip("mindspore")

from mindspore import Tensor, mint, nn, ops  # noqa: E402

BOTH = ("forward", "backward")


class Model(nn.Cell):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = mint.nn.Linear(8, 16), nn.LayerNorm((16,))
        self.drop = nn.Dropout(p=0.3)

    def construct(self, x: Any) -> Any:
        return ops.softmax(self.drop(self.norm(ops.gelu(self.first(x)))), -1)


def train(lake: Path | None, **options: Any) -> tuple[list[Any], Any]:
    mindspore.set_seed(0)
    np.random.seed(0)
    model = Model()
    optimizer = nn.SGD(model.trainable_params(), 0.1)
    step = mindspore.value_and_grad(lambda x: ops.mul(model(x), 2.0).sum(-1).mean(), None, model.trainable_params())
    collector = lakeprobe.collect(model, run="ms", lake=lake, task="perturb", **options) if lake else None
    with collector or contextlib.nullcontext():
        for number in range(2):
            _, gradients = step(Tensor(np.random.default_rng(number).standard_normal((4, 8)).astype(np.float32)))
            optimizer(gradients)
            if collector:
                collector.step()
    return [parameter.asnumpy() for parameter in model.get_parameters()], mindspore.get_rng_state().asnumpy()


def rows(lake: Path, query: str) -> list[tuple[Any, ...]]:
    with lakeprobe.open(lake) as opened:
        return opened.sql(query).fetchall()


def test_the_training_does_not_notice_and_every_function_is_tried(tmp_path: Path) -> None:
    (plain, state), (watched, watched_state) = train(None), train(tmp_path / "lake", fuzz_stage=BOTH)
    assert all(np.array_equal(one, other) for one, other in zip(plain, watched, strict=True))
    assert np.array_equal(state, watched_state)
    found = rows(tmp_path / "lake", "FROM perturbations SELECT DISTINCT op, mode WHERE step = 1 AND status = 'stable'")
    for direction in BOTH:
        assert {(f"Functional.softmax.0.{direction}", mode) for mode in ("no_change", "bit_noise", "to_cpu")} <= set(
            found
        )
    assert rows(tmp_path / "lake", "FROM perturbations SELECT op WHERE status IN ('random', 'differs')") == []


def test_what_is_wrong_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    softmax, calls = ops.softmax, iter(range(1000))
    monkeypatch.setattr(ops, "softmax", lambda x, axis: softmax(x, axis) * (1 + 1e-3 * next(calls)))
    x = Tensor(np.linspace(0.5, 1, 8).astype(np.float32))
    near = x - 1.5e-4
    with lakeprobe.collect(None, run="ms", lake=tmp_path / "lake", task="perturb", fuzz_stage=BOTH):
        ops.grad(lambda x: (ops.softmax(x, -1) * ops.sub(x, near)).sum())(x)
    found = rows(
        tmp_path / "lake", "FROM perturbations SELECT DISTINCT op, mode, status WHERE status NOT IN ('stable', 'skip')"
    )
    assert ("Functional.softmax.0.forward", "no_change", "random") in found
    assert ("Functional.sub.0.forward", "bit_noise", "unstable") in found


def test_fix_lets_the_training_go_on_in_higher_precision(tmp_path: Path) -> None:
    x = Tensor(np.random.default_rng(0).standard_normal((4, 64)), mindspore.float16)
    with lakeprobe.collect(
        None, run="ms", lake=tmp_path / "lake", task="perturb", pert_mode="improve_precision", handler_type="fix"
    ):
        y = ops.softmax(x, -1)
    expected = ops.softmax(x.astype(mindspore.float32), -1).astype(mindspore.float16)
    assert y.dtype == mindspore.float16
    assert np.array_equal(y.asnumpy(), expected.asnumpy())


def test_a_run_is_perturbed_afterwards(tmp_path: Path) -> None:
    x = Tensor(np.linspace(0.5, 1, 8).astype(np.float32))
    with lakeprobe.collect(None, run="ms", lake=tmp_path / "lake", task="tensor"):
        ops.grad(lambda x: ops.sub(ops.gelu(x), 0.7).sum())(x)
    with lakeprobe.open(tmp_path / "lake") as lake:
        lake.perturb("ms")
        found = lake.sql("FROM perturbations SELECT DISTINCT op, mode, status ORDER BY ALL").fetchall()
    assert ("Functional.gelu.0.backward", "no_change", "stable") in found
    assert ("Functional.gelu.0.forward", "bit_noise", "stable") in found
    assert ("Functional.sub.0.forward", "improve_precision", "skip") in found
