"""Finds the layout in which two programs' versions of one tensor agree: order of axes, split and merged axes.

Statistics do not depend on the order of elements. Only contents tell. Layouts are tried on a sample, and one is
accepted only if it fits far better than the order in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from math import prod

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from lakeprobe.tensors.blocks import squeezed
from lakeprobe.tensors.reference import (
    TensorReference,
    byte_strides,
    element_count,
    is_contiguous,
    numpy_dtype,
    open_tensor,
)

_MOST_AXES = 6
"""The largest number of axes for which all orders are tried."""

_SAMPLE = 4096
"""The number of elements in a sample."""

_SURE = 0.9
"""The correlation of two samples above which they count as one tensor."""

_AHEAD = 0.05
"""How much better than the order in memory another layout must be."""


_FUSED = (2, 3, 4)
"""The numbers of parts that one axis may hold: gate and up; query, key and value; the gates of an LSTM."""

_MOST_HEADS = 128

_ONE_BY_ONE = "compared one element after the other"


class Arrangement(Struct, frozen=True):
    """Two tensors as arrays of one shape whose elements correspond, and a note on how that was reached."""

    target: TensorReference
    golden: TensorReference
    note: str


def arrange(target: TensorReference, golden: TensorReference, are_alike: bool = True) -> Arrangement | None:
    """Return the arrangement in which the two are one tensor. None if they have the same layout, or if none fits.

    `are_alike`: whether their statistics agree. Only then are fused parts in another order searched. Raises TensorError
    if a side cannot be read.
    """
    if element_count(target) != element_count(golden) or element_count(target) < 2:
        return None
    if any(numpy_dtype(each.dtype).kind in "SUmM" for each in (target, golden)):
        return None
    ours, theirs = squeezed(target), squeezed(golden)
    as_they_lie = Arrangement(ours, theirs, _ONE_BY_ONE) if ours.shape == theirs.shape else None
    least = _SURE if as_they_lie is None else _correlation(ours, theirs) + _AHEAD
    if as_they_lie is not None and least > 1:
        return None if target.shape == golden.shape else as_they_lie
    ways = list(_ways(ours, theirs))
    fused = (other for way in ([as_they_lie] if as_they_lie else ways) for other in _fused_otherwise(way))
    for some in (ways, fused if are_alike else ()):
        best, found = max(((_correlation(way.target, way.golden), way) for way in some), key=_fit, default=(0.0, None))
        if best > max(least, _SURE):
            return found
    return None


def _fit(way: tuple[float, Arrangement | None]) -> float:
    return way[0]


def _ways(target: TensorReference, golden: TensorReference) -> Iterator[Arrangement]:
    """Yield arrangements with equal layouts: first element by element, then by the order of the finer one's axes."""
    if target.shape != golden.shape and is_contiguous(target) and is_contiguous(golden):
        yield Arrangement(_flat(target), _flat(golden), _ONE_BY_ONE)
    is_finer = len(target.shape) >= len(golden.shape)
    finer, coarser = (target, golden) if is_finer else (golden, target)
    if len(finer.shape) > _MOST_AXES:
        return
    for order in permutations(range(len(finer.shape))):
        shape = tuple(finer.shape[axis] for axis in order)
        strides = _split(coarser, shape)
        if strides is None or (shape == coarser.shape == finer.shape and order == tuple(range(len(shape)))):
            continue
        one = replace(finer, shape=shape, strides=tuple(byte_strides(finer)[axis] for axis in order))
        other = replace(coarser, shape=shape, strides=strides)
        sides = (one, other) if is_finer else (other, one)
        side = "the target's" if is_finer else "golden's"
        yield Arrangement(*sides, f"compared with {side} axes in the order {', '.join(map(str, order))}")


def _fused_otherwise(way: Arrangement) -> Iterator[Arrangement]:
    """Yield the arrangement with an axis that one side orders by part and the other by head."""
    target, golden = way.target, way.golden
    for axis, extent in enumerate(target.shape):
        for parts in (parts for parts in _FUSED if extent % parts == 0):
            for heads in (heads for heads in range(2, min(extent // parts, _MOST_HEADS) + 1)):
                if extent // parts % heads:
                    continue
                inner = extent // parts // heads
                shape = (*target.shape[:axis], heads, parts, inner, *target.shape[axis + 1 :])
                note = f"{way.note}, axis {axis} as {parts} parts of {heads} heads"
                for by_part, by_head in ((target, golden), (golden, target)):
                    strides = byte_strides(by_part)
                    step = strides[axis]
                    within = (step * inner, step * inner * heads, step)
                    one = replace(by_part, shape=shape, strides=(*strides[:axis], *within, *strides[axis + 1 :]))
                    other = replace(by_head, shape=shape, strides=_split(by_head, shape))
                    yield Arrangement(*((one, other) if by_part is target else (other, one)), note)


def _split(coarser: TensorReference, shape: Sequence[int]) -> tuple[int, ...] | None:
    """Return the strides of `coarser` with its axes split into `shape`. None if they cannot be split so."""
    strides: list[int] = []
    place = 0
    for extent, stride in zip(coarser.shape, byte_strides(coarser), strict=True):
        start = place
        while prod(shape[start:place]) < extent and place < len(shape):
            place += 1
        if prod(shape[start:place]) != extent:
            return None
        strides += [stride * prod(shape[axis + 1 : place]) for axis in range(start, place)]
    return tuple(strides) if place == len(shape) else None


def _flat(reference: TensorReference) -> TensorReference:
    return replace(reference, shape=(element_count(reference),), strides=None)


def _correlation(target: TensorReference, golden: TensorReference) -> float:
    """Return Pearson's correlation of samples of two arrays of one shape. 1 if they are equal, 0 if one is constant."""
    one, other = _sample(target), _sample(golden)
    if np.array_equal(one, other):
        return 1.0
    finite = np.isfinite(one) & np.isfinite(other)
    one, other = one[finite] - one[finite].mean() if finite.any() else one[:0], other[finite]
    if not len(one) or not one.any():
        return 0.0
    other = other - other.mean()
    norm = float(np.sqrt(np.square(one).sum()) * np.sqrt(np.square(other).sum()))
    return float((one * other).sum() / norm) if norm > 0 else 0.0


def _sample(reference: TensorReference) -> NDArray[np.float64]:
    """Return a sample of the array in float64, from the same places for each array of one shape."""
    array = open_tensor(reference)
    if array.size <= _SAMPLE:
        chosen = array.reshape(-1)
    else:
        places = np.random.default_rng(0).integers(0, array.size, _SAMPLE)
        chosen = array[np.unravel_index(places, array.shape)]
    if np.iscomplexobj(chosen):
        chosen = np.abs(chosen)
    return np.clip(chosen.astype(np.float64), -1e150, 1e150)
