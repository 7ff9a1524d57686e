"""Runs a call with changed inputs and holds the results against those of the call as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from lakeprobe.changes import LIMITS, NOISY
from lakeprobe.checks.calls import Perturbed
from lakeprobe.checks.pytorch.runner import Plan, Results
from lakeprobe.checks.pytorch.tensors import Array
from lakeprobe.tensors import changes


def perturb(plan: Plan, device: torch.device, modes: Sequence[str]) -> Iterator[Perturbed]:
    """What each change of the inputs does to each result. Raises CannotRunError for an op that draws random numbers."""
    plain = plan.on(device)()
    if plain.is_random:
        plan = plan.without_chance()
        plain = plan.on(device)()
    for mode in modes:
        changed, size = _changed(plan, device, mode)
        if changed is None:
            yield Perturbed(mode, problem="it changes no input")
            continue
        for direction in ("forward", "backward"):
            for slot, result in plain.of(direction).items():
                other = changed.of(direction).get(slot)
                if other is not None and result.size and result.dtype.name in LIMITS:
                    yield _compared(mode, direction, slot, result, other.astype(result.dtype), size)


def _changed(plan: Plan, device: torch.device, mode: str) -> tuple[Results | None, float]:
    """The results with changed inputs, and the relative size of the change; None if nothing is changed."""
    if mode == "no_change":
        return plan.on(device)(), 0.0
    if mode == "to_cpu":
        return plan.raised()(), 0.0
    arrays, moved = changes.changed(plan.arguments.arrays, mode)
    if not moved:
        return None, 0.0
    size = changes.relative_difference(arrays[moved[0]], plan.arguments.arrays[moved[0]])
    return plan.with_arrays(arrays).on(device)(), size


def _compared(mode: str, direction: str, slot: str, plain: Array, changed: Array, size: float) -> Perturbed:
    found = changes.compared(mode, plain, changed, backward=direction == "backward")
    condition = changes.relative_difference(changed, plain) / size if size and mode in NOISY else None
    return Perturbed(mode, direction, slot, plain.dtype.name, list(plain.shape), *found, condition)
