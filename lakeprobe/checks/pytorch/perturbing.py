"""Runs a call with changed inputs and holds the results against those of the call as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from lakeprobe.checks.calls import Perturbed
from lakeprobe.checks.pytorch import changes
from lakeprobe.checks.pytorch.runner import Plan, Results
from lakeprobe.checks.pytorch.tensors import Array, to_numpy, to_torch


def perturb(plan: Plan, device: torch.device, modes: Sequence[str]) -> Iterator[Perturbed]:
    """What each change of the inputs does to each result. Raises CannotRunError for an op that draws random numbers."""
    plain = plan.on(device)()
    if plain.is_random:
        plan = plan.without_chance()
        plain = plan.on(device)()
    for mode in modes:
        changed, size = _changed(plan, device, mode)
        if changed is None:
            yield Perturbed(mode, problem="no input is changed by it")
            continue
        for direction in ("forward", "backward"):
            for slot, result in plain.of(direction).items():
                other = changed.of(direction).get(slot)
                if other is not None and result.size and result.dtype.name in changes.LIMITS:
                    yield _compared(mode, direction, slot, result, other.astype(result.dtype), size)


def _changed(plan: Plan, device: torch.device, mode: str) -> tuple[Results | None, float]:
    """The results with changed inputs, and the relative size of the change; None if nothing is changed."""
    if mode == "no_change":
        return plan.on(device)(), 0.0
    if mode == "to_cpu":
        return plan.raised()(), 0.0
    change = changes.improve_precision if mode == "improve_precision" else changes.FIRST_ONLY[mode]
    floats = [slot for slot, array in plan.arguments.arrays.items() if array.dtype.name in changes.LIMITS]
    arrays = dict(plan.arguments.arrays)
    for slot in floats if mode == "improve_precision" else floats[:1]:
        arrays[slot] = to_numpy(change(to_torch(arrays[slot])))
    moved = [slot for slot in floats if arrays[slot].tobytes() != plan.arguments.arrays[slot].tobytes()]
    if not moved:
        return None, 0.0
    return plan.with_arrays(arrays).on(device)(), _apart(arrays[moved[0]], plan.arguments.arrays[moved[0]])


def _apart(changed: Array, plain: Array) -> float:
    """The relative difference of two arrays, by their norms over finite elements."""
    one, other = changed.astype(np.float64), plain.astype(np.float64)
    finite = np.isfinite(one) & np.isfinite(other)
    size = float(np.linalg.norm(other[finite]))
    return float(np.linalg.norm(one[finite] - other[finite])) / size if size else 0.0


def _compared(mode: str, direction: str, slot: str, plain: Array, changed: Array, size: float) -> Perturbed:
    found, flips = changes.ratio(changed, plain, backward=direction == "backward")
    limit = 1.0 if mode == "no_change" else changes.LIMITS[plain.dtype.name]
    consistent = changes.within_cpu_tolerance(changed, plain) if mode == "to_cpu" else found <= limit and not flips
    condition = _apart(changed, plain) / size if size and mode in ("add_noise", "bit_noise") else None
    return Perturbed(
        mode, direction, slot, plain.dtype.name, list(plain.shape), found - 1, limit - 1, flips, consistent, condition
    )
