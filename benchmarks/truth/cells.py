"""A MindSpore training of a few steps, as data, and defects for any model: as `training.py` and `defects.py`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, nn, ops

from benchmarks.truth.planted import Cause, Defect


@dataclass
class Training:
    """A network whose result is its loss, what it is trained on, and how."""

    network: nn.Cell
    batches: list[tuple[Tensor, ...]]
    settings: dict[str, Any] = field(default_factory=lambda: {"learning_rate": 1e-3})
    clip: float | None = 1.0
    optimizer: Callable[..., nn.Optimizer] = nn.Adam

    def cell(self, path: str) -> nn.Cell:
        """The part of the network at `path`."""
        part: Any = self.network
        for name in path.split("."):
            part = part[int(name)] if name.isdigit() else getattr(part, name)
        return part

    def run(self, steps: int, after_step: Callable[[], None]) -> list[float]:
        """Train for some steps and give their losses; `after_step` is called after each."""
        self.network.set_train()
        parameters = self.network.trainable_params()
        optimizer = self.optimizer(parameters, **self.settings)
        loss_and_gradients = mindspore.value_and_grad(self.network, None, parameters)
        losses = []
        for step in range(steps):
            loss, gradients = loss_and_gradients(*self.batches[step % len(self.batches)])
            if self.clip is not None:
                gradients = ops.clip_by_global_norm(gradients, self.clip)
            optimizer(gradients)
            losses.append(float(loss.asnumpy()))
            after_step()
        return losses


OPTIMIZER = (Cause(r"^(Optimizer|Jit)\.\w+\.\d+\.forward"),)
"""The step of the optimizer: its settings, or what jit compiled of it."""


def inside(path: str, op: str) -> tuple[Cause, ...]:
    """The op in the cell at `path`, which is a leaf, or that cell itself; `op` is a pattern for its name."""
    return (*within(path, op), Cause(rf"^Cell\.{re.escape(path)}\.[A-Za-z]\w*\.forward"))


def within(path: str, op: str) -> tuple[Cause, ...]:
    """The op in the cell at `path` or below it. Naming that cell is not enough."""
    return (Cause(rf"\.({op})\.\d+\.forward", rf"^Cell\.{re.escape(path)}\."),)


def replaced(name: str, kind: str, path: str, make: Callable[[nn.Cell], nn.Cell], op: str = r"\w+") -> Defect:
    """A cell is replaced by another one."""

    def plant(training: Training) -> None:
        parent, _, child = path.rpartition(".")
        cell = make(training.cell(path))
        cell.update_parameters_name(f"{path}.")
        around = training.cell(parent) if parent else training.network
        if child.isdigit():
            around[int(child)] = cell
        else:
            setattr(around, child, cell)

    return Defect(name, kind, inside(path, op), plant)


def changed_weight(
    name: str, path: str, op: str, change: Callable[[np.ndarray], np.ndarray], parameter: str = "weight"
) -> Defect:
    """A parameter starts from other values. Its first consumer is the cause."""

    def plant(training: Training) -> None:
        weight = getattr(training.cell(path), parameter)
        weight.set_data(Tensor(np.ascontiguousarray(change(weight.asnumpy().copy()))))

    return Defect(name, "weights", inside(path, op), plant)


def one_element(values: np.ndarray) -> np.ndarray:
    """One element off by 1e-3."""
    values.reshape(-1)[values.size // 3] += 1e-3
    return values


def rewired(
    name: str, kind: str, path: str, make: Callable[[Any], Callable[..., Any]], causes: tuple[Cause, ...]
) -> Defect:
    """The cell at `path` computes otherwise: `make(cell)` gives its new `construct`."""

    def plant(training: Training) -> None:
        cell = training.cell(path)
        cell.construct = make(cell)

    return Defect(name, kind, causes, plant)


def other_data(
    name: str, causes: tuple[Cause, ...], change: Callable[[list[np.ndarray]], None], batch: int = 0
) -> Defect:
    """One batch has other data. The op that takes it first is the cause."""

    def plant(training: Training) -> None:
        arrays = [tensor.asnumpy().copy() for tensor in training.batches[batch]]
        change(arrays)
        training.batches[batch] = tuple(Tensor(array) for array in arrays)

    return Defect(name, "data", causes, plant, batch)


def loop(name: str, **settings: Any) -> Defect:
    """The optimizer has other settings."""
    return Defect(name, "loop", OPTIMIZER, lambda training: training.settings.update(settings))
