"""Metrics of modules of a kind, against numpy; gradients at a module's boundary, against torch's own hooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import lakeprobe  # noqa: E402


class Mixer(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Takes queries and keys, and gives two results."""

    def forward(self, query: Any, key: Any, scale: float = 1.0) -> Any:
        return query * key, (query + key) * scale


class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Attention, and a router of four experts."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.mixer, self.gate = torch.nn.Linear(4, 6), Mixer(), torch.nn.Linear(6, 4)

    def forward(self, x: Any) -> Any:
        hidden = self.wide(x)
        product, total = self.mixer(hidden.view(5, 2, 2, 3), hidden.view(5, 2, 2, 3) * 2, scale=0.5)
        return self.gate((product + total).reshape(5, 2, 6) + hidden)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[Any, float], Any, dict[str, Any]]:
    """Values by name, point and metric of one step; the model; and what torch's own hooks saw."""
    lake = tmp_path_factory.mktemp("features") / "lake"
    torch.manual_seed(0)
    model, x = Net(), torch.randn(5, 2, 4)
    model.wide.weight.data[3] = 0.0
    seen: dict[str, Any] = {}

    def keep(_: Any, arguments: Any, output: Any) -> None:
        seen["attention"] = [tensor.detach().double().numpy() for tensor in arguments]

    model.mixer.register_forward_hook(keep)
    seen["x"], seen["output"] = x, model(x).detach().double().numpy()
    model.mixer.register_full_backward_hook(lambda _, inputs, outputs: seen.update(inputs=inputs, outputs=outputs))
    model(x).square().mean().backward()
    seen["bare"] = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.mixer._backward_hooks.clear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer.zero_grad()
    points = ["input", "output", "input_gradient", "output_gradient"]
    kinds = {"attention": ["mixer"], "linear": ["wide"], "router_weight": ["gate"], "router_logit": ["gate"]}
    with lakeprobe.monitor(model, optimizer, run="npu", lake=lake, points=points, features=kinds):
        model(x).square().mean().backward()
        seen["watched"] = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
        optimizer.step()
    with lakeprobe.open(lake) as opened:
        rows = opened.sql("SELECT name, point, metric, value FROM series").fetchall()
    return {tuple(row[:3]): row[3] for row in rows}, model, seen


def test_gradients_at_a_boundary_are_those_of_torch(measured: Any) -> None:
    of, _, seen = measured
    for point, gradients in (("input_gradient", seen["inputs"]), ("output_gradient", seen["outputs"])):
        for place, gradient in enumerate(gradients):
            expected = float(gradient.double().norm())
            assert of[f"mixer[{place}]", point, "norm"] == pytest.approx(expected, rel=1e-12)
    assert ("wide", "input_gradient", "norm") not in of
    assert {name for name, point, _ in of if point == "input"} == {"", "wide", "gate", "mixer[0]", "mixer[1]"}
    assert all(torch.equal(seen["bare"][name], seen["watched"][name]) for name in seen["bare"])


def test_attention(measured: Any) -> None:
    of, _, seen = measured
    query, key = (tensor[:, 0, 0] for tensor in seen["attention"])
    scores = query @ key.T / np.sqrt(3)
    scores[np.triu_indices(5, 1)] = -np.inf
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    entropy = -np.where(weights > 0, weights * np.log(np.where(weights > 0, weights, 1)), 0).sum(1).mean()
    assert of["mixer", "attention", "entropy"] == pytest.approx(entropy, rel=1e-5)
    assert of["mixer", "attention", "softmax_max"] == pytest.approx(weights.max(1).mean(), rel=1e-5)


def test_linear(measured: Any) -> None:
    of, model, _ = measured
    singular = np.linalg.svd(model.wide.weight.detach().double().numpy(), compute_uv=False)
    assert of["wide", "linear", "spectral_norm"] == pytest.approx(singular[0], rel=1e-6)
    assert of["wide", "linear", "stable_rank"] == pytest.approx((singular**2).sum() / singular[0] ** 2, rel=1e-6)


def test_routers(measured: Any) -> None:
    of, model, seen = measured
    weight = model.gate.weight.detach().double().numpy()
    unit = weight / np.linalg.norm(weight, axis=1, keepdims=True)
    assert of["gate", "router_weight", "similarity"] == pytest.approx(
        (unit @ unit.T)[np.triu_indices(4, 1)].mean(), rel=1e-5
    )
    gates = np.exp(seen["output"]) / np.exp(seen["output"]).sum(-1, keepdims=True)
    assert of["gate", "router_logit", "expert_entropy"] == pytest.approx(
        -(gates * np.log(gates)).sum(-1).mean(), rel=1e-5
    )


def test_what_backward_reruns_is_measured_once(tmp_path: Path) -> None:
    from torch.utils.checkpoint import checkpoint

    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    points = ["output", "output_gradient"]
    with lakeprobe.monitor(model, optimizer, run="npu", lake=tmp_path / "lake", points=points):
        for reentrant in (True, False):
            x = torch.ones(2, 3, requires_grad=True)
            checkpoint(model, x, use_reentrant=reentrant).sum().backward()
            optimizer.step()
        model.eval()
        model(torch.ones(2, 3))
        optimizer.step()
    with lakeprobe.open(tmp_path / "lake") as lake:
        rows = lake.sql(
            "SELECT step, point, count(*) FROM series WHERE name = '1' GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    assert rows == [(step, point, 1) for step in (0, 1) for point in points]


def test_a_gradient_is_what_it_was_when_it_came_out_of_the_module(tmp_path: Path) -> None:
    first, second = torch.nn.Linear(3, 3), torch.nn.Tanh()
    model = torch.nn.ModuleDict({"first": first, "second": second})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    came: list[float] = []

    def doubled_(gradient: Any) -> None:
        came.append(float(gradient.double().norm()))
        gradient.mul_(2)

    with lakeprobe.monitor(model, optimizer, run="npu", lake=tmp_path / "lake", points=["input_gradient"]):
        y = first(torch.ones(2, 3))
        y.register_hook(doubled_)
        second(y).square().mean().backward()
        optimizer.step()
    with lakeprobe.open(tmp_path / "lake") as opened:
        [(found,)] = opened.sql("SELECT value FROM series WHERE name = 'second' AND metric = 'norm'").fetchall()
    assert found == pytest.approx(came[0], rel=1e-6)
