"""Says in which order the elements of one tensor lie in another: transposed, rows moved, or shuffled."""

from __future__ import annotations

from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from lakeprobe.errors import TensorError
from lakeprobe.tensors.reference import TensorReference, element_count, open_tensor

_MOST_SLICES = 1_000_000
"""Slices along an axis that are told apart by their hashes."""

_MOST_ELEMENTS = 1 << 26
"""Elements that are sorted."""

_AXES = {2: ("rows", "columns")}


def order(target: TensorReference, golden: TensorReference) -> str | None:
    """In words how the elements of `target` lie in another order than those of `golden`; None if they are others.

    Raises TensorError if a side cannot be read.
    """
    if element_count(target) != element_count(golden) or element_count(target) < 2:
        return None
    ours, theirs = open_tensor(target), open_tensor(golden)
    if ours.ndim == theirs.ndim == 2 and ours.shape == theirs.shape[::-1] and np.array_equal(ours, theirs.T):
        return "transposed"
    if sorted(ours.shape) == sorted(theirs.shape) and (axes := _permutation(ours, theirs)):
        return f"its axes lie in the order {', '.join(map(str, axes))}"
    if ours.shape == theirs.shape:
        for axis in range(ours.ndim if ours.ndim > 1 else 0):
            if _same_slices(ours, theirs, axis):
                name = _AXES[2][axis] if ours.ndim == 2 else f"slices along axis {axis}"
                return f"the same {name} in another order"
    elif np.array_equal(ours.reshape(-1), theirs.reshape(-1)):
        return f"the same elements in the shape {list(ours.shape)} instead of {list(theirs.shape)}"
    if ours.size <= _MOST_ELEMENTS and np.array_equal(np.sort(ours, axis=None), np.sort(theirs, axis=None)):
        return "the same elements in another order"
    return None


def _permutation(ours: NDArray[Any], theirs: NDArray[Any]) -> tuple[int, ...] | None:
    """The axes of golden in the order in which the target has them, if that is all that differs."""
    from itertools import permutations

    if not 2 < ours.ndim < 6:
        return None
    for axes in permutations(range(ours.ndim)):
        is_kept = axes == tuple(range(ours.ndim))
        if not is_kept and ours.shape == (turned := theirs.transpose(axes)).shape and np.array_equal(ours, turned):
            return axes
    return None


def _same_slices(ours: NDArray[Any], theirs: NDArray[Any], axis: int) -> bool:
    if not 1 < ours.shape[axis] <= _MOST_SLICES:
        return False
    return _hashes(ours, axis) == _hashes(theirs, axis)


def _hashes(array: NDArray[Any], axis: int) -> list[int]:
    moved = np.moveaxis(array, axis, 0)
    return sorted(xxhash.xxh3_64_intdigest(np.ascontiguousarray(each).tobytes()) for each in moved)


def order_or_none(target: TensorReference, golden: TensorReference) -> str | None:
    """As `order`; None for a side that cannot be read, which the metrics report."""
    try:
        return order(target, golden)
    except TensorError:
        return None
