"""Reads what the record of a DTensor says of its layout: the mesh that it lies on, and its placement along each axis.

PyTorch's documentation of the placements: https://docs.pytorch.org/docs/stable/distributed.tensor.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from lakeprobe.layouts.placements import COPY, MEAN, SHARD, SUM, Leaf, Said, Way

SOURCE = "DTensor"

_MASKED = "DTensor masks rows of other ranks' words only when it adds the ranks' parts up"

_OF_SCORES = "loss_parallel gives the gradient of the scores, where the whole's is that of their logarithms"

_DEEPEST = 8
"""More axes than any mesh has; a record that nests deeper is not a mesh."""

_SUMS = {"sum": SUM, "avg": MEAN}

Spans = Mapping[frozenset[int], tuple[int, ...]]
"""The axes of the job that a set of ranks lies along, by their numbers."""


def groups(recorded: str) -> list[tuple[int, ...]]:
    """The groups of ranks along each axis of a recorded mesh, which is a list of ranks or of such lists."""
    places = _places(json.loads(recorded))
    return [group for axis in range(len(next(iter(places), ()))) for group in _lines(places, axis)]


def said(leaf: Leaf, spans: Spans) -> Said | None:
    """What a leaf's record says of its layout; None if it is not a DTensor's, or its mesh is not an axis of the job."""
    if leaf.record is None or '"placements"' not in leaf.record:
        return None
    record = json.loads(leaf.record)
    places, placements = _places(record.get("device_mesh")), record["placements"]
    ways: dict[int, Way] = {}
    for axis, placement in enumerate(placements if isinstance(placements, list) and places else ()):
        lines = _lines(places, axis) if axis < len(next(iter(places))) else []
        way = _way(placement)
        if not lines or way is None or frozenset(lines[0]) not in spans:
            continue
        ways.update(dict.fromkeys(spans[frozenset(lines[0])], way))
    is_masked = any(way.way == SUM for way in ways.values()) and (
        "MaskPartial" in leaf.record or ".embedding." in leaf.key.op.lower()
    )
    is_cut_loss = (
        ".cross_entropy." in leaf.key.op and leaf.key.slot.startswith("output") and leaf.direction == "backward"
    )
    is_of_scores = is_cut_loss and any(way.way == SHARD and way.dimension for way in ways.values())
    return Said(ways, SOURCE, _MASKED if is_masked else _OF_SCORES if is_of_scores else None) if ways else None


def _way(placement: Any) -> Way | None:
    """How a tensor lies along an axis by one recorded placement, such as {"Shard": {"dim": 0}}."""
    if not isinstance(placement, dict) or len(placement) != 1:
        return None
    [(kind, terms)] = placement.items()
    terms = terms if isinstance(terms, dict) else {}
    if kind == "Replicate":
        return Way(COPY)
    if kind in ("Partial", "MaskPartial"):
        way = _SUMS.get(str(terms.get("reduce_op", "sum")))
        return None if way is None else Way(way)
    dimension, blocks = terms.get("dim"), terms.get("split_factor", 1)
    if kind in ("Shard", "StridedShard") and type(dimension) is int and type(blocks) is int and blocks > 0:
        return Way(SHARD, dimension, blocks)
    return None


def _places(mesh: Any) -> dict[tuple[int, ...], int]:
    """The rank at each place of a mesh; nothing if it is not a full mesh of ranks."""
    found = dict(_walked(mesh, ()))
    sizes = (
        [len(set(along)) for along in zip(*found, strict=False)] if len({len(place) for place in found}) == 1 else [0]
    )
    return found if prod(sizes) == len(found) else {}


def _walked(mesh: Any, place: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], int]]:
    if type(mesh) is int and place:
        yield place, mesh
    elif isinstance(mesh, list) and len(place) < _DEEPEST:
        for nth, part in enumerate(mesh):
            yield from _walked(part, (*place, nth))


def _lines(places: Mapping[tuple[int, ...], int], axis: int) -> list[tuple[int, ...]]:
    """The groups of ranks that differ along one axis of a mesh only."""
    found: dict[tuple[int, ...], list[int]] = {}
    for place, rank in places.items():
        found.setdefault(place[:axis] + place[axis + 1 :], []).append(rank)
    return [tuple(sorted(line)) for line in found.values()]
