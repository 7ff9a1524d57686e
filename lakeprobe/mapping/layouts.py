"""Describes tensors with a different layout in the two programs: transposed, reshaped, or padded.

The evidence is statistics, which do not depend on the order of elements. The results are notes, not differences.
"""

from __future__ import annotations

from collections import defaultdict

import numpy

from lakeprobe.mapping.ops import TOLERANCE, Leaf, spacing_of
from lakeprobe.mapping.tensors import Matches, Tensor, Tensors
from lakeprobe.mapping.units import PARAMETERS, Numbers, Unit


def of_pair(leaf: Leaf, other: Leaf) -> str:
    """Return how the shapes of two leaves of one tensor differ: transposed (also NCHW against NHWC), or reshaped."""
    if leaf.shape == other.shape or leaf.shape is None or other.shape is None:
        return "same shape"
    ours, theirs = ([length for length in shape if length != 1] for shape in (leaf.shape, other.shape))
    how = "transposed" if ours != theirs and sorted(ours) == sorted(theirs) else "reshaped"
    return f"{how}: {list(leaf.shape)} against {list(other.shape)}"


def of_padded(target: Unit, golden: Unit, matches: Matches) -> dict[Tensor, str]:
    """Return for each parameter that only one run has in this form with which it is equal but for zeros."""
    left = parameters_left(target, golden, matches)
    notes = {}
    for wholes, others in (left, left[::-1]):
        with_rows: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
        for other in others:
            with_rows[_row(other.leaf)].append(other)
        for tensor in wholes:
            alike = with_rows[_row(tensor.leaf)]
            padded = next((other for other in alike if _is_padded(tensor.leaf, other.leaf)), None)
            if padded is not None:
                shapes = f"{list(tensor.leaf.shape or ())} against {list(padded.leaf.shape or ())}"
                notes[tensor] = f"padded: {shapes} of {name_of(padded)}"
    return notes


def parameters_left(target: Unit, golden: Unit, matches: Matches) -> tuple[list[Tensor], list[Tensor]]:
    """Return the parameters of each side that the other does not have in this form, in order of use."""
    ours, theirs = map(_left, (target, golden), matches.sides, matches.partner)
    return ours, theirs


def _left(unit: Unit, tensors: Tensors, partner: Numbers) -> list[Tensor]:
    """Return the parameters without partner, in order of use."""
    columns = unit.columns
    leaf = numpy.flatnonzero((columns.role == PARAMETERS) & (tensors.of_leaf >= 0))
    leaf = leaf[partner[tensors.of_leaf[leaf]] < 0]
    used = (place for place in leaf.tolist() if unit.ops[columns.op[place]].direction == "forward")
    return list(dict.fromkeys(tensors.all[tensors.of_leaf[place]] for place in used))


def name_of(tensor: Tensor) -> str:
    """Return the name of a parameter in its module, or of its first sight."""
    return next((leaf for leaf in tensor.sights if leaf.role == "parameters"), tensor.leaf).name


def _is_padded(leaf: Leaf, other: Leaf) -> bool:
    """Return whether one of two with rows of one shape is the other padded with zeros, like a vocabulary rounded up."""
    if not leaf.shape or not other.shape or leaf.shape[0] == other.shape[0]:
        return False
    return are_near(leaf.max, other.max) and are_near(leaf.min, other.min) and are_near_norms(leaf.norm, other.norm)


def _row(leaf: Leaf) -> tuple[int, ...]:
    """Return the shape of a row."""
    return (leaf.shape or ())[1:]


def are_near(ours: float | None, theirs: float | None, tolerance: float = TOLERANCE) -> bool:
    """Return whether two statistics are known and equal up to `tolerance`, relative to the larger one."""
    if ours is None or theirs is None:
        return False
    return abs(ours - theirs) <= tolerance * max(abs(ours), abs(theirs))


def are_near_norms(ours: float | None, theirs: float | None, tolerance: float = TOLERANCE) -> bool:
    """Return whether two norms are equal up to `tolerance`, or as nearly as few digits tell."""
    return are_near(ours, theirs, max(tolerance, spacing_of(ours), spacing_of(theirs)))
