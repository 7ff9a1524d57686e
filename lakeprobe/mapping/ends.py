"""What the forward pass of each run ends with: its last single number, as the loss, from which the gradients come."""

from __future__ import annotations

from lakeprobe.mapping.layouts import are_near_norms
from lakeprobe.mapping.tensors import Tensor
from lakeprobe.mapping.units import Unit


def differing_ends(target: Unit, golden: Unit) -> tuple[Tensor, Tensor] | None:
    """Return the last single numbers of both forward passes, if they differ and so does the whole backward pass.

    Where any gradient agrees, the gradients may come from another number than the last, as one that is only shown.
    """
    ours, theirs = _last_number(target), _last_number(golden)
    if ours is None or theirs is None or _are_one(ours, theirs) or _has_common_gradient(target):
        return None
    return ours, theirs


def _are_one(number: Tensor, other: Tensor) -> bool:
    """Return whether two numbers agree, but for the sign: a minus at the end is not always recorded."""
    return number.partner is other or are_near_norms(_magnitude(number), _magnitude(other))


def _magnitude(number: Tensor) -> float | None:
    return None if number.leaf.norm is None else abs(number.leaf.norm)


def _last_number(unit: Unit) -> Tensor | None:
    """Return the last single number that an op gives before the backward pass. None without a backward pass."""
    first = next((op.place for op in unit.ops if op.direction == "backward"), 0)
    given = (
        leaf.tensor
        for op in reversed(unit.ops[:first])
        for leaf in op.leaves
        if op.kind == "api" and leaf.role == "output" and leaf.kind == "float" and leaf.elements == 1
    )
    return next((tensor for tensor in given if tensor is not None), None)


def _has_common_gradient(unit: Unit) -> bool:
    """Return whether some result of the backward pass is in the other run, too."""
    return any(
        leaf.role != "input" and leaf.tensor is not None and leaf.tensor.partner is not None
        for op in unit.ops
        if op.direction == "backward"
        for leaf in op.leaves
    )
