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


def clipped(optimizer: Any) -> Any:
    """An optimizer that clips gradients before each step."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    optimizer.register_step_pre_hook(lambda *_: nn.utils.clip_grad_norm_(parameters, 1.0) and None)
    return optimizer


class Decaying(torch.optim.Optimizer):
    """Reads parameters one by one, and updates them at once. A sparse gradient is scaled."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self) -> None:
        parameters = self.param_groups[0]["params"]
        torch.ones(2).to_sparse().mul_(2)
        torch._foreach_add_(parameters, [parameter * -0.1 for parameter in parameters])


class Plain(torch.optim.Optimizer):
    """Writes into the memory of parameters."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})

    def step(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.add_(parameter.grad, alpha=-group["lr"])


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (lambda given: clipped(torch.optim.SGD(given, foreach=True)), ["Optimizer.SGD.0.forward"]),
        (lambda given: clipped(torch.optim.SGD(given, foreach=False)), []),
        (lambda given: torch.optim.Adafactor(given, foreach=True), ["Optimizer.Adafactor.0.forward"]),
        (lambda given: torch.optim.Adafactor(given, foreach=False), []),
        (Plain, []),
        (Decaying, ["Optimizer.Decaying.0.forward"]),
    ],
    ids=[
        "SGD, clipped",
        "SGD one by one, clipped",
        "Adafactor",
        "Adafactor one by one",
        "one's own",
        "one's own, at once",
    ],
)
def test_other_ops_in_a_step_do_not_say_its_settings(make: Any, shown: list[str], memory: Memory) -> None:
    found = stepped(memory, lambda model: make(model.parameters()))
    assert len(found) > 1
    assert [op for op in found if op.startswith("Optimizer")] == shown


def stepped_with_closure(memory: Memory, optimizer: Any, model: Any) -> None:
    """Train a step as Lightning does."""

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(torch.ones(2, 3)).square().sum()
        loss.backward()
        return loss

    watched = capture(memory, model, level="mix")
    watched.start(model)
    optimizer.step(closure)
    watched.close()
    assert watched.recorder.failures == []


@pytest.mark.parametrize("foreach", [True, False])
def test_what_runs_in_a_closure_is_no_part_of_the_update(foreach: bool, memory: Memory) -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    stepped_with_closure(memory, torch.optim.AdamW(model.parameters(), foreach=foreach), model)
    assert ([*bodies(memory)][-1] == "Optimizer.AdamW.0.forward") is foreach
    parents = memory.steps[-1].parents
    assert parents["Functional.linear.0.forward"] == "Module.0.Linear.forward.0"
    assert parents["Functional.linear.1.backward"] == "Module.1.Linear.backward.0"
    assert parents["Tensor.square.0.forward"] == "optimizer"


def test_a_step_that_an_exception_ended_says_nothing_of_the_next(memory: Memory) -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), foreach=True)
    watched = capture(memory, model)
    watched.start(model)
    with pytest.raises(ZeroDivisionError):
        optimizer.step(lambda: 1 / 0)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    watched.close()
    assert [op for op in bodies(memory) if op.startswith("Optimizer")] == ["Optimizer.SGD.0.forward"]
    assert watched.recorder.thread.updates == ()


@pytest.mark.parametrize(("kind", "said"), [("Adam", True), ("NAdam", True), ("RAdam", True), ("AdamW", None)])
def test_decay_that_is_decoupled_is_said_where_it_may_not_be(kind: str, said: bool | None, memory: Memory) -> None:
    options = {} if said is None else {"decoupled_weight_decay": said}
    found = stepped(memory, lambda model: getattr(torch.optim, kind)(model.parameters(), foreach=True, **options))
    assert settings(memory, found[0]).get("decoupled_weight_decay") is said


def test_modules_alone_say_nothing_of_optimizers(memory: Memory) -> None:
    assert stepped(memory, lambda model: torch.optim.SGD(model.parameters(), lr=0.1, foreach=True), "L0") == []


def test_optimizers_step_unseen_afterwards(memory: Memory) -> None:
    hooks = (steps._global_optimizer_pre_hooks, steps._global_optimizer_post_hooks)
    before = [*map(len, hooks)]
    stepped(memory, lambda model: torch.optim.SGD(model.parameters(), lr=0.1, foreach=True))
    assert [*map(len, hooks)] == before


@pytest.mark.parametrize("closed", [False, True])
def test_another_rate_is_named_in_the_step_in_which_it_acts(closed: bool, tmp_path: Path) -> None:
    for run, rate in (("golden", 1e-3), ("target", 1.1e-3)):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, foreach=True)
        with lakeprobe.collect(model, run=run, lake=tmp_path / "lake", level="mix", task="statistics") as collector:

            def closure(model: Any = model, optimizer: Any = optimizer) -> None:
                optimizer.zero_grad()
                model(torch.ones(2, 3)).square().sum().backward()

            for _ in range(2):
                if closed:
                    optimizer.step(closure)
                else:
                    closure()
                    optimizer.step()
                collector.step()
    with lakeprobe.open(tmp_path / "lake") as lake:
        origins = lake.compare("target", "golden").first_difference().origins
        named = origins.project("step, golden_op").fetchall()[0]
    assert named == (0, "Optimizer.AdamW.0.forward")
