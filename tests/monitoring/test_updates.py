"""Updates that are not one plain step: scaled gradients, steps that are skipped, closures, two updates in a step."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import lakeprobe  # noqa: E402

STEPS = 60
OVERFLOWS = (0, 1, 30)
"""Steps whose gradients are made inf, as an overflow in half precision makes them."""


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 3))


def norms(model: Any, scale: float = 1.0) -> dict[str, float]:
    return {name: float(each.grad.double().norm()) / scale for name, each in model.named_parameters()}


def rows(lake: Path, point: str, metric: str = "norm") -> dict[tuple[Any, ...], float]:
    with lakeprobe.open(lake) as opened:
        query = f"SELECT step, micro_step, name, value FROM series WHERE point = '{point}' AND metric = '{metric}'"
        found = opened.sql(query).fetchall()
    held = {tuple(row[:3]): row[3] for row in found}
    assert len(held) == len(found)
    return held


def scaled(lake: Path | None, *, fused: bool, overflows: tuple[int, ...] = OVERFLOWS) -> tuple[Any, list[Any]]:
    """Train with a scaler whose scale grows every ten steps. Returns the model and the unscaled norms of each step."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=10)
    points = ["gradient_unreduced", "gradient", "output_gradient", "parameter"]
    metrics = ["norm", "mean", "min", "max", "zeros", "nans"]
    monitor = None
    if lake is not None:
        monitor = lakeprobe.monitor(model, optimizer, run="npu", lake=lake, points=points, metrics=metrics)
    kept = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = (model(torch.randn(16, 6)) - 1).square().mean()
        scaler.scale(loss).backward()
        kept.append(norms(model, scaler.get_scale()))
        if step in overflows:
            model[2].weight.grad[0, 0] = math.inf
        if monitor:
            monitor.log("loss", loss)
        scaler.step(optimizer)
        scaler.update()
    if monitor:
        monitor.close()
    return model, kept


@pytest.mark.parametrize("fused", [False, True])
def test_gradients_are_unscaled_and_a_step_that_is_skipped_is_a_step(tmp_path: Path, fused: bool) -> None:
    methods = torch.amp.GradScaler.scale, torch.amp.GradScaler.step
    bare, expected = scaled(None, fused=fused)
    watched, _ = scaled(tmp_path / "lake", fused=fused)
    assert all(map(torch.equal, bare.parameters(), watched.parameters()))
    assert (torch.amp.GradScaler.scale, torch.amp.GradScaler.step) == methods
    unreduced, gradients = rows(tmp_path / "lake", "gradient_unreduced"), rows(tmp_path / "lake", "gradient")
    assert len(gradients) == len(unreduced) == 4 * STEPS
    for step, of in enumerate(expected):
        for name, norm in of.items():
            assert unreduced[step, 0, name] == pytest.approx(norm, rel=1e-6)
            if step in OVERFLOWS and name == "2.weight":
                assert not math.isfinite(gradients[step, None, name])
            else:
                assert gradients[step, None, name] == pytest.approx(norm, rel=1e-6)
    assert [step for step, _, _ in rows(tmp_path / "lake", "logged", "value")].count(5) == 2  # loss, learning rate
    skipped = rows(tmp_path / "lake", "scaler", "skipped")
    assert tuple(step for (step, _, _), value in sorted(skipped.items()) if value) == OVERFLOWS
    with lakeprobe.open(tmp_path / "lake") as lake:
        assert lake.watch("npu") == []


def test_gradients_that_never_recover_are_told(tmp_path: Path) -> None:
    scaled(tmp_path / "lake", fused=False, overflows=tuple(range(20, STEPS)))
    with lakeprobe.open(tmp_path / "lake") as lake:
        found = lake.watch("npu", ["nan"])
    assert {(each.step, each.name, each.point) for each in found} == {(20, "2.weight", "gradient")}


@pytest.mark.parametrize("keyword", [False, True])
def test_a_closure_is_measured_when_it_is_first_called(tmp_path: Path, keyword: bool) -> None:
    def trained(lake: Path | None) -> tuple[Any, list[dict[str, float]]]:
        model = network()
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
        monitor = lakeprobe.monitor(model, optimizer, run="npu", lake=lake) if lake else None
        kept: list[dict[str, float]] = []
        for _ in range(3):
            inputs, first = torch.randn(16, 6), len(kept)

            def closure(inputs: Any = inputs, first: int = first) -> Any:
                optimizer.zero_grad()
                loss = (model(inputs) - 1).square().mean()
                loss.backward()
                if len(kept) == first:
                    kept.append(norms(model))
                if monitor:
                    monitor.log("loss", loss)
                return loss

            optimizer.step(closure=closure) if keyword else optimizer.step(closure)
        if monitor:
            monitor.close()
        return model, kept

    bare, expected = trained(None)
    watched, _ = trained(tmp_path / "lake")
    assert all(map(torch.equal, bare.parameters(), watched.parameters()))
    found = rows(tmp_path / "lake", "gradient")
    wanted = {(step, None, name): norm for step, of in enumerate(expected) for name, norm in of.items()}
    assert found == pytest.approx(wanted, rel=1e-6)
    losses = [key[:2] for key in rows(tmp_path / "lake", "logged", "value") if key[2] == "loss"]
    assert (0, None) in losses
    assert (0, 1) in losses


def test_an_optimizer_that_updates_twice_in_a_step(tmp_path: Path) -> None:
    models = [network(), network()]
    critic, actor = optimizers = [torch.optim.SGD(model.parameters(), lr=1e-3) for model in models]
    wanted: dict[tuple[Any, ...], float] = {}
    with lakeprobe.monitor(models, optimizers, run="npu", lake=tmp_path / "lake", points=["gradient"]):
        for step in range(25):
            for number, optimizer, again in ((0, critic, None), (0, critic, 1), (1, actor, None)):
                optimizer.zero_grad()
                models[number](torch.randn(4, 6)).square().mean().backward()
                of = norms(models[number])
                wanted |= {(step, again, f"{number}:{name}"): norm for name, norm in of.items()}
                optimizer.step()
    assert rows(tmp_path / "lake", "gradient") == pytest.approx(wanted, rel=1e-6)
    with lakeprobe.open(tmp_path / "lake") as lake:
        assert lake.watch("npu") == []


def test_accumulated_gradients_are_those_of_the_update(tmp_path: Path) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    points = ["gradient_unreduced", "gradient"]
    partial: dict[tuple[Any, ...], float] = {}
    final: dict[tuple[Any, ...], float] = {}
    with lakeprobe.monitor(model, optimizer, run="npu", lake=tmp_path / "lake", points=points):
        for step in range(3):
            optimizer.zero_grad()
            for micro in range(4):
                scaler.scale(model(torch.randn(4, 6)).square().mean() / 4).backward()
                partial |= {(step, micro, name): norm for name, norm in norms(model, 1024).items()}
            final |= {(step, None, name): norm for name, norm in norms(model, 1024).items()}
            scaler.step(optimizer)
            scaler.update()
    assert rows(tmp_path / "lake", "gradient_unreduced") == pytest.approx(partial, rel=1e-6)
    assert rows(tmp_path / "lake", "gradient") == pytest.approx(final, rel=1e-6)
