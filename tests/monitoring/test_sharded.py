"""Sharded parameters over two ranks, against one process that has them whole."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import lakeprobe  # noqa: E402
from tests.monitoring import sharded_job  # noqa: E402
from tests.monitoring.sharded_job import RANKS, STEPS, data, network, optimizer_of  # noqa: E402

Norms = dict[tuple[int, int, str, str], float]


def monitored(folder: Path, kind: str) -> Norms:
    """The norms by rank, step, name and point."""
    command = [sys.executable, sharded_job.__file__]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), folder / "store", folder / "lake", kind], stderr=subprocess.PIPE, text=True
        )
        for rank in range(RANKS)
    ]
    said = [rank.communicate(timeout=300)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * RANKS, said
    query = "SELECT rank, step, name, point, value FROM series WHERE metric = 'norm'"
    with lakeprobe.open(folder / "lake") as lake:
        return {row[:4]: row[4] for row in lake.sql(query).fetchall()}


def test_fully_sharded_parameters(tmp_path: Path) -> None:
    norms = monitored(tmp_path, "fsdp")
    model = network()
    optimizer = optimizer_of(model)
    for step in range(STEPS):
        wholes = {name: float(parameter.detach().norm()) for name, parameter in model.named_parameters()}
        gradients = []
        for rank in range(RANKS):
            loss = model(data(step, rank)).square().mean()
            gradients.append(torch.autograd.grad(loss, list(model.parameters())))
            for (name, _), gradient in zip(model.named_parameters(), gradients[-1], strict=True):
                found = norms[rank, step, name, "gradient_unreduced"]
                assert found == pytest.approx(float(gradient.norm()), rel=1e-5)
        for (name, parameter), *of_ranks in zip(model.named_parameters(), *gradients, strict=True):
            parameter.grad = sum(of_ranks) / RANKS
            for point, whole in (("gradient", float(parameter.grad.norm())), ("parameter", wholes[name])):
                parts = [norms[rank, step, name, point] for rank in range(RANKS)]
                assert math.hypot(*parts) == pytest.approx(whole, rel=1e-5)
                assert min(parts) > 0
        optimizer.step()


def test_a_hand_made_split_of_hidden_units(tmp_path: Path) -> None:
    norms = monitored(tmp_path, "tensor")
    model = network()
    optimizer = optimizer_of(model)
    for step in range(STEPS):
        optimizer.zero_grad()
        model(data(step, 0)).square().mean().backward()
        for name, whole in (
            ("up.weight", model[0].weight),
            ("up.bias", model[0].bias),
            ("down.weight", model[2].weight),
        ):
            for point, tensor in (("gradient", whole.grad), ("parameter", whole.detach())):
                parts = [norms[rank, step, name, point] for rank in range(RANKS)]
                assert math.hypot(*parts) == pytest.approx(float(tensor.norm()), rel=1e-5)
        partial = [
            float((model[0](data(step, 0)).tanh()[:, part] @ model[2].weight[:, part].t()).detach().norm())
            for part in (slice(0, 4), slice(4, 8))
        ]
        assert [norms[rank, step, "all_reduce", "sent"] for rank in range(RANKS)] == pytest.approx(partial, rel=1e-5)
        optimizer.step()
