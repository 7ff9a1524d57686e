"""Optimizers that update all parameters at once: their settings are one op, so another rate is found where it acts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from memory import Memory, bodies, capture

import lakeprobe

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.optim import optimizer as steps  # noqa: E402

Make = Callable[[nn.Module], Any]


def stepped(memory: Memory, make: Make, level: str = "L1") -> list[str]:
    """The optimizers and their ops in one step of training."""
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    optimizer = make(model)
    watched = capture(memory, model, level=level)
    watched.start(model)
    model(torch.ones(2, 3)).sum().backward()
    before = len(bodies(memory))
    optimizer.step()
    watched.close()
    assert watched.recorder.failures == []
    return [*bodies(memory)][before:]


def settings(memory: Memory, op: str) -> dict[str, Any]:
    """What the op `op` says of its optimizer."""

    def value(leaf: Any) -> Any:
        return [*map(value, leaf)] if isinstance(leaf, list) else leaf["value"]

    body = bodies(memory)[op]
    assert (body["input_args"], body["output"]) == ([], [])
    return {name: value(leaf) for name, leaf in body["input_kwargs"].items()}


def test_an_optimizer_of_which_no_op_is_recorded_says_its_settings(memory: Memory) -> None:
    found = stepped(memory, lambda model: torch.optim.AdamW(model.parameters(), lr=2e-3, foreach=True))
    assert found == ["Optimizer.AdamW.0.forward"]
    assert settings(memory, found[0]) == {
        "lr": 0.002, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01, "amsgrad": False, "maximize": False,
    }  # fmt: skip
    assert "test_optimizers.py" in str(memory.steps[-1].stacks[found[0]])


def test_settings_that_groups_differ_in_are_lists(memory: Memory) -> None:
    def make(model: Any) -> Any:
        groups = [{"params": model[0].parameters(), "lr": torch.tensor(0.5)}, {"params": model[1].parameters()}]
        return torch.optim.SGD(groups, lr=0.1, momentum=0.9, foreach=True)

    found = stepped(memory, make)
    assert settings(memory, found[0]) == {
        "lr": [0.5, 0.1], "momentum": 0.9, "dampening": 0, "weight_decay": 0, "nesterov": False, "maximize": False,
    }  # fmt: skip


@pytest.mark.parametrize(("level", "expected"), [("L1", True), ("mix", True), ("L0", False)])
def test_the_ops_of_an_optimizer_say_more_than_its_settings(memory: Memory, level: str, expected: bool) -> None:
    found = stepped(memory, lambda model: torch.optim.SGD(model.parameters(), lr=0.1, foreach=False), level)
    assert bool(found) is expected
    assert not [op for op in found if op.startswith("Optimizer")]


def test_modules_alone_say_nothing_of_optimizers(memory: Memory) -> None:
    assert stepped(memory, lambda model: torch.optim.SGD(model.parameters(), lr=0.1, foreach=True), "L0") == []


def test_optimizers_step_unseen_afterwards(memory: Memory) -> None:
    hooks = (steps._global_optimizer_pre_hooks, steps._global_optimizer_post_hooks)
    before = [*map(len, hooks)]
    stepped(memory, lambda model: torch.optim.SGD(model.parameters(), lr=0.1, foreach=True))
    assert [*map(len, hooks)] == before


def test_another_rate_is_named_in_the_step_in_which_it_acts(tmp_path: Path) -> None:
    for run, rate in (("golden", 1e-3), ("target", 1.1e-3)):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, foreach=True)
        with lakeprobe.collect(model, run=run, lake=tmp_path / "lake", level="mix", task="statistics") as collector:
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.ones(2, 3)).square().sum().backward()
                optimizer.step()
                collector.step()
    with lakeprobe.open(tmp_path / "lake") as lake:
        origins = lake.compare("target", "golden").first_difference().origins
        named = origins.project("step, golden_op").fetchall()[0]
    assert named == (0, "Optimizer.AdamW.0.forward")
