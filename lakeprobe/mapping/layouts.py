"""Describes tensors with a different layout in the two programs: transposed, fused, or padded.

The evidence is statistics, which do not depend on the order of elements. The results are notes, not differences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy

from lakeprobe.mapping.ops import TOLERANCE, Leaf
from lakeprobe.mapping.tensors import Matches, Tensor, Tensors
from lakeprobe.mapping.units import PARAMETERS, Numbers, Unit

_MOST_PARTS = 8
"""The maximum number of tensors fused into one, such as query, key and value, or an LSTM's gates in both directions."""


def of_pair(leaf: Leaf, other: Leaf) -> str:
    """Return how the shapes of two leaves of one tensor differ: transposed (also NCHW against NHWC), or reshaped."""
    if leaf.shape == other.shape or leaf.shape is None or other.shape is None:
        return "same shape"
    ours, theirs = ([length for length in shape if length != 1] for shape in (leaf.shape, other.shape))
    how = "transposed" if ours != theirs and sorted(ours) == sorted(theirs) else "reshaped"
    return f"{how}: {list(leaf.shape)} against {list(other.shape)}"


def of_parameters(target: Unit, golden: Unit, matches: Matches) -> dict[Tensor, str]:
    """Return for each parameter that only one run has in this form where it is in the other run."""
    units = zip((target, golden), matches.sides, matches.partner, strict=True)
    left = [_left(unit, tensors, partner) for unit, tensors, partner in units]
    notes: dict[Tensor, str] = {}
    for wholes, others in (left, left[::-1]):
        for whole in wholes:
            for parts in _parts(whole, others):
                notes[whole] = f"fused: holds {', '.join(map(_name, parts))}"
                notes |= dict.fromkeys(parts, f"fused: a part of {_name(whole)}")
                break
        for tensor in wholes:
            padded = next((other for other in others if _is_padded(tensor.leaf, other.leaf)), None)
            if padded is not None:
                shapes = f"{list(tensor.leaf.shape or ())} against {list(padded.leaf.shape or ())}"
                notes[tensor] = f"padded: {shapes} of {_name(padded)}"
    return notes


def _left(unit: Unit, tensors: Tensors, partner: Numbers) -> list[Tensor]:
    """Return the parameters without partner, in order of use."""
    columns = unit.columns
    leaf = numpy.flatnonzero((columns.role == PARAMETERS) & (tensors.of_leaf >= 0))
    leaf = leaf[partner[tensors.of_leaf[leaf]] < 0]
    used = (place for place in leaf.tolist() if unit.ops[columns.op[place]].direction == "forward")
    return list(dict.fromkeys(tensors.all[tensors.of_leaf[place]] for place in used))


def _name(tensor: Tensor) -> str:
    return next((leaf for leaf in tensor.sights if leaf.role == "parameters"), tensor.leaf).name


def _parts(whole: Tensor, others: list[Tensor]) -> Iterator[list[Tensor]]:
    """Yield neighbours among `others` that make up `whole`."""
    for start in range(len(others)):
        elements = 0
        for end in range(start, min(start + _MOST_PARTS, len(others))):
            elements += others[end].leaf.elements
            parts = others[start : end + 1]
            if elements == whole.leaf.elements and end > start and _make_up([part.leaf for part in parts], whole.leaf):
                yield parts
            if elements >= whole.leaf.elements:
                break


def _make_up(parts: list[Leaf], whole: Leaf) -> bool:
    """Return whether max, min and norm of the parts match those of the whole."""
    norms = [leaf.norm for leaf in parts if leaf.norm is not None]
    largest = [leaf.max for leaf in parts if leaf.max is not None]
    smallest = [leaf.min for leaf in parts if leaf.min is not None]
    if not len(norms) == len(largest) == len(smallest) == len(parts):
        return False
    return (
        _near(whole.max, max(largest))
        and _near(whole.min, min(smallest))
        and _near(whole.norm, math.sqrt(sum(norm**2 for norm in norms)))
    )


def _is_padded(leaf: Leaf, other: Leaf) -> bool:
    """Return whether one is the other padded with zeros, like a vocabulary that is rounded up."""
    if not leaf.shape or not other.shape or leaf.shape[1:] != other.shape[1:] or leaf.shape[0] == other.shape[0]:
        return False
    return _near(leaf.max, other.max) and _near(leaf.min, other.min) and _near(leaf.norm, other.norm)


def _near(ours: float | None, theirs: float | None) -> bool:
    if ours is None or theirs is None:
        return False
    return abs(ours - theirs) <= TOLERANCE * max(abs(ours), abs(theirs))
