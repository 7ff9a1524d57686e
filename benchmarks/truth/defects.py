"""Defects that ports have, for any PyTorch model: each gives a `Defect` with the ops that are its cause.

A path is a module's place in the network, as `nn.Module.get_submodule` takes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.truth.noise import FaultyKernel
from benchmarks.truth.planted import Cause, Defect
from benchmarks.truth.training import Training

Plant = Callable[[Training], None]


def inside(path: str, op: str, direction: str = "forward") -> tuple[Cause, ...]:
    """The op in the module at `path`, which is a leaf, or that module itself; `op` is a pattern for its name."""
    own = rf"^Module\.{re.escape(path)}\.[A-Za-z_]\w*\.{direction}"
    return (*within(path, op, direction), Cause(own))


def within(path: str, op: str, direction: str = "forward") -> tuple[Cause, ...]:
    """The op in the module at `path` or below it. Naming that module is not enough."""
    return (Cause(rf"\.({op})\.\d+\.{direction}", rf"^Module\.{re.escape(path)}\."),)


def call(op: str, direction: str = "forward") -> tuple[Cause, ...]:
    """The op, wherever it is called; `op` is a pattern for the function's name."""
    return (Cause(rf"\.({op})\.\d+\.{direction}"),)


def setting(name: str, path: str, attribute: str, value: Any, op: str, step: int = 0) -> Defect:
    """A module is set up with another value of an attribute."""

    def plant(training: Training) -> None:
        module = training.module(path)
        assert hasattr(module, attribute), f"{path} has no {attribute}"
        setattr(module, attribute, value)

    return Defect(name, "argument", inside(path, op), plant, step)


def lower_precision(name: str, path: str, op: str) -> Defect:
    """One module computes in bfloat16 and gives float32 again."""

    def plant(training: Training) -> None:
        module = training.module(path)
        forward = module.forward

        def lowered(*inputs: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return forward(*inputs).float()

        module.forward = lowered  # type: ignore[method-assign]

    return Defect(name, "dtype", inside(path, rf"{op}|float|to"), plant)


def replaced(name: str, path: str, make: Callable[[nn.Module], nn.Module], op: str = r"\w+") -> Defect:
    """A module is replaced by another one: other ops, or more or fewer of them."""

    def plant(training: Training) -> None:
        parent, _, child = path.rpartition(".")
        setattr(training.module(parent), child, make(training.module(path)))

    return Defect(name, "op", inside(path, op), plant)


def changed_weight(
    name: str, path: str, op: str, change: Callable[[torch.Tensor], torch.Tensor], parameter: str = "weight",
    *, shows: tuple[Cause, ...] = (),
) -> Defect:  # fmt: skip
    """A parameter starts from other values. Its first consumer is the cause.

    `shows` is where it shows first if no statistic of that op can show it, as where rows are exchanged.
    """

    def plant(training: Training) -> None:
        tensor = getattr(training.module(path), parameter)
        with torch.no_grad():
            tensor.copy_(change(tensor.detach().clone()))

    return Defect(name, "weights", inside(path, op) + shows, plant)


def one_element(tensor: torch.Tensor) -> torch.Tensor:
    """One element off by 1e-3."""
    tensor.view(-1)[tensor.numel() // 3] += 1e-3
    return tensor


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The last two dimensions (of one size) exchanged: the same statistics."""
    return tensor.transpose(-1, -2)


def flipped(tensor: torch.Tensor) -> torch.Tensor:
    """The last dimension in reverse: the same statistics."""
    return tensor.flip(-1)


def permuted(tensor: torch.Tensor) -> torch.Tensor:
    """The first two rows exchanged, as where parts are put together in another order."""
    half = tensor.shape[0] // 2
    return torch.cat([tensor[half:], tensor[:half]])


def reinitialised(tensor: torch.Tensor) -> torch.Tensor:
    """Other random numbers of the same spread."""
    generator = torch.Generator().manual_seed(99)
    return torch.randn(tensor.shape, generator=generator) * tensor.std() + tensor.mean()


def swapped_weights(name: str, first: str, second: str, op: str = "linear") -> Defect:
    """Two modules have each other's weight."""

    def plant(training: Training) -> None:
        one, other = (training.module(path).weight for path in (first, second))
        with torch.no_grad():
            kept = one.clone()
            one.copy_(other)
            other.copy_(kept)

    return Defect(name, "weights", inside(first, op) + inside(second, op), plant)


def frozen(name: str, path: str, op: str, parameter: str = "weight", *, shows: tuple[Cause, ...] = ()) -> Defect:
    """A parameter is not trained. It shows where the parameter is taken, or where its gradient is missing.

    `shows` is where else: the first op of a network has no enclosing module in the backward pass.
    """

    def plant(training: Training) -> None:
        getattr(training.module(path), parameter).requires_grad_(False)

    gradient = Cause(rf"^Module\.{re.escape(path)}\.\w+\.(parameters_grad|backward)")
    return Defect(name, "weights", (*inside(path, op), *within(path, op, "backward"), gradient, *shows), plant)


def other_data(
    name: str, causes: tuple[Cause, ...], change: Callable[[dict[str, Any]], None], batch: int = 0
) -> Defect:
    """One batch has other data. The op that takes it first is the cause."""
    return Defect(name, "data", causes, lambda training: change(training.batches[batch]), batch)


def loop(name: str, causes: tuple[Cause, ...], step: int = 0, **settings: Any) -> Defect:
    """The training loop is set up otherwise."""

    def plant(training: Training) -> None:
        for key, value in settings.items():
            assert hasattr(training, key), key
            setattr(training, key, value)

    return Defect(name, "loop", causes, plant, step)


def of_network(name: str, kind: str, causes: tuple[Cause, ...], **values: Any) -> Defect:
    """The network as a whole is set up with other values of its attributes."""

    def plant(training: Training) -> None:
        for key, value in values.items():
            assert hasattr(training.network, key), key
            setattr(training.network, key, value)

    return Defect(name, kind, causes, plant)


def optimizer(name: str, op: str, **settings: Any) -> Defect:
    """The optimizer has other settings: the first of its ops that the setting goes into is the cause."""
    return Defect(name, "loop", call(op), lambda training: training.settings.update(settings))


CLIPPING = call(r"_foreach_norm|vector_norm|_foreach_mul_|reciprocal|clamp|stack|mul_|__i?mul__|__r?truediv__|__add__")
"""The ops that norm and scale gradients; which of them are called depends on torch's release."""


def no_clipping(name: str = "no_clip") -> Defect:
    """Gradients are not clipped."""
    return loop(name, CLIPPING, clip=None)


def faulty_kernel(
    name: str, causes: tuple[Cause, ...], kernel: Any, nth: int, change: Callable[[torch.Tensor], torch.Tensor],
    output: int = 0,
) -> Defect:  # fmt: skip
    """The `nth` call of a kernel in each step gives a wrong result."""
    return Defect(
        name, "kernel", causes, lambda training: training.kernels.append(FaultyKernel(kernel, nth, change, output))
    )


def changed_forward(
    name: str, kind: str, path: str, make: Callable[[nn.Module, Any], Any], causes: tuple[Cause, ...]
) -> Defect:
    """The module at `path` computes otherwise: `make(module, forward)` gives its new forward."""

    def plant(training: Training) -> None:
        module = training.module(path)
        module.forward = make(module, module.forward)  # type: ignore[method-assign]

    return Defect(name, kind, causes, plant)


def two(name: str, first: Defect, second: Defect) -> Defect:
    """Two independent defects in one run: either is a true cause."""

    def plant(training: Training) -> None:
        first.plant(training)
        second.plant(training)

    return Defect(name, "two", first.causes + second.causes, plant, min(first.step, second.step))
