"""Orders of the leaves of an op: the slots propose one, and another wins if its statistics fit far better."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from lakeprobe.mapping.ops import Leaf, distance

NEAR = 0.01
"""Up to this total distance between the leaves of two ops, no other order of the leaves is tried."""

_MOST_PERMUTED = 4
"""The largest number of leaves of one shape for which all orders are tried."""


def fitting_better(found: list[tuple[Leaf, Leaf]]) -> list[tuple[Leaf, Leaf]] | None:
    """Return another order of the same leaves with less than half of the distance, or None."""
    if not 2 <= len(found) <= _MOST_PERMUTED:
        return None
    total = sum(distance(leaf, other) for leaf, other in found)
    if total < NEAR:
        return None
    ours, theirs = zip(*found, strict=True)
    least, order = _orders(ours, theirs)[0]
    return list(zip(ours, order, strict=True)) if least < 0.5 * total else None


def nearest(ours: list[Leaf], theirs: list[Leaf]) -> list[tuple[Leaf, Leaf]]:
    """Return the pairing with the least distance between statistics, if it is far better than any other. Else empty."""
    if len(ours) != len(theirs) or not 2 <= len(ours) <= _MOST_PERMUTED:
        return []
    (least, order), (second, _), *_ = _orders(ours, theirs)
    return list(zip(ours, order, strict=True)) if least < 0.5 * second else []


def _orders(ours: Sequence[Leaf], theirs: Sequence[Leaf]) -> list[tuple[float, list[Leaf]]]:
    """Return all orders of `theirs`, each with its total distance from `ours`, the nearest first."""
    distances = [[distance(leaf, other) for other in theirs] for leaf in ours]
    ways = sorted((sum(map(list.__getitem__, distances, order)), order) for order in permutations(range(len(theirs))))
    return [(total, [theirs[place] for place in order]) for total, order in ways]
