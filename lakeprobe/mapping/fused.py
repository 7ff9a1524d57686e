"""Holds parameters that are one tensor in one run against the several of which the other run has made them.

Max, min and norm of all parts together are those of the whole, in whatever order it holds their rows. Where they are
not, the two still belong together if ops take the whole and each of the parts with one tensor, or two at one place.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache

from lakeprobe.mapping.gathered import is_within
from lakeprobe.mapping.layouts import are_near, are_near_norms, name_of, parameters_left
from lakeprobe.mapping.ops import TOLERANCE, Leaf
from lakeprobe.mapping.row_pairs import RowPair
from lakeprobe.mapping.tensors import Matches, Tensor
from lakeprobe.mapping.units import Unit

_MOST_PARTS = 8
"""The maximum number of tensors fused into one, such as query, key and value, or an LSTM's gates in both directions."""

_STEP = 0.01
"""How far a step of the optimizer may move a vector that has no gradient but what rounding leaves, as the bias of keys:
Adam moves it as far as any other."""


def compare_fused(target: Unit, golden: Unit, matches: Matches) -> tuple[list[RowPair], dict[Tensor, str]]:
    """Return the pairs in which the parts do not make up the whole, and a note on every whole and every part."""
    found: list[RowPair] = []
    notes: dict[Tensor, str] = {}
    ours, theirs = parameters_left(target, golden, matches)
    taken_with = cache(_taken_with)  # a tensor is a neighbour of many
    for wholes, others, is_target in ((ours, theirs, True), (theirs, ours, False)):
        neighbours = _neighbours(others)
        for whole in wholes:
            candidates = neighbours.get(_size(whole), ())
            parts = next((parts for parts in candidates if _make_up(parts, whole)), None)
            if parts is None:
                parts = next((parts for parts in candidates if _are_taken_alike(parts, whole, taken_with)), None)
                if parts is not None:
                    wrong = next((part for part in parts if not is_within(part.leaf, whole.leaf)), parts[0])
                    leaves = (whole.leaf, wrong.leaf) if is_target else (wrong.leaf, whole.leaf)
                    names = " and ".join(map(name_of, parts))
                    found.append(RowPair(*leaves, 0.8, (f"fused: {names} do not make up {name_of(whole)}",)))
            if parts is not None:
                notes[whole] = f"fused: holds {', '.join(map(name_of, parts))}"
                notes |= dict.fromkeys(parts, f"fused: a part of {name_of(whole)}")
    return found, notes


def _neighbours(tensors: Sequence[Tensor]) -> dict[tuple[int, int], list[Sequence[Tensor]]]:
    """Return all neighbours among those of `tensors` with as many axes, by `_size` of what they would make up."""
    with_axes: dict[int, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        with_axes[_size(tensor)[0]].append(tensor)
    found: dict[tuple[int, int], list[Sequence[Tensor]]] = defaultdict(list)
    for axes, alike in with_axes.items():
        for start, first in enumerate(alike):
            elements = first.leaf.elements
            for end in range(start + 1, min(start + _MOST_PARTS, len(alike))):
                added = alike[end].leaf.elements
                elements += added
                if added:
                    found[axes, elements].append(alike[start : end + 1])
    return found


def _size(tensor: Tensor) -> tuple[int, int]:
    """Return the number of axes and the number of elements."""
    return len(tensor.leaf.shape or ()), tensor.leaf.elements


def _make_up(parts: Sequence[Tensor], whole: Tensor) -> bool:
    """Return whether max, min and norm of the parts match those of the whole."""
    leaves = [part.leaf for part in parts]
    norms = [leaf.norm for leaf in leaves if leaf.norm is not None]
    largest = [leaf.max for leaf in leaves if leaf.max is not None]
    smallest = [leaf.min for leaf in leaves if leaf.min is not None]
    if not len(norms) == len(largest) == len(smallest) == len(parts):
        return False
    tolerance = _STEP if len(whole.leaf.shape or ()) == 1 else TOLERANCE
    return (
        are_near(whole.leaf.max, max(largest), tolerance)
        and are_near(whole.leaf.min, min(smallest), tolerance)
        and are_near_norms(whole.leaf.norm, math.sqrt(sum(norm**2 for norm in norms)), tolerance)
    )


def _are_taken_alike(parts: Sequence[Tensor], whole: Tensor, taken_with: Callable[[Tensor], set[Tensor]]) -> bool:
    """Return whether ops take the whole and each of the parts with one tensor, or with two at the same place."""
    common = {other.like for other in taken_with(whole)} - {None}
    return bool(common.intersection(*map(taken_with, parts)))


def _taken_with(tensor: Tensor) -> set[Tensor]:
    """Return what forward ops take in together with a parameter."""
    takes = (sight.op for sight in tensor.sights if sight.op.direction == "forward" and sight.role != "output")
    inputs = (_input(leaf, tensor) for op in takes for leaf in op.leaves)
    return {other for other in inputs if other is not None}


def _input(leaf: Leaf, parameter: Tensor) -> Tensor | None:
    """Return the tensor of an input other than `parameter`."""
    return leaf.tensor if leaf.role == "input" and leaf.tensor is not parameter else None
