"""Summarises float32 numbers in one pass: `native/summary.c`, or numpy where that is not there.

Both roads give the same numbers to the last bit, because they add in the same order, in float64: a block of numbers in
lanes, number i in lane i modulo 16, then the lanes in pairs, then the blocks one after the other.
"""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

import numpy as np

from lakeprobe.system import native

_INF = math.inf
_LANES = 16
_BLOCK = 1 << 16

_at = native.function("lakeprobe_summary", native.ADDRESS, native.SIZE, native.ADDRESS)
_LAYOUT = struct.Struct("4d5q")
_Memory = native.memory(_LAYOUT.size)


class Summary(NamedTuple):
    """What a pass through numbers tells."""

    high: float
    """The highest number: NaN if one is, -inf if there are no numbers."""
    low: float
    """The lowest number: NaN if one is, inf if there are no numbers."""
    sum: float
    squares: float
    """The sum of the squares. It is finite if and only if all numbers are."""
    zeros: int
    minus: int
    """1 if `high` or `low` is zero and there is a -0.0: then it may have either sign. Else 0."""
    nans: int
    above: int
    """The number of inf."""
    below: int
    """The number of -inf."""


is_native = _at is not None
"""Whether `at` can be called."""


def at(address: int, size: int) -> Summary:
    """Return the summary of `size` float32 numbers from `address` on, which need not be aligned.

    Only if `is_native`.
    """
    assert _at is not None
    result = _Memory()
    _at(address, size, result)
    return Summary._make(_LAYOUT.unpack(result))


def of(array: np.ndarray[Any, Any]) -> Summary:
    """Return the summary of float32 numbers of any shape and strides, in the order in which they lie in memory."""
    of_block = _of_memory if is_native else _of_block
    if array.flags.c_contiguous and (is_native or array.size <= _BLOCK):
        return of_block(array)
    summary = _of_block(array[:0])
    for block in np.nditer(array, ["external_loop", "buffered", "zerosize_ok"], order="K", buffersize=_BLOCK):
        summary = _joined(summary, of_block(np.ascontiguousarray(block)))
    return summary


def _of_memory(array: np.ndarray[Any, Any]) -> Summary:
    return at(array.__array_interface__["data"][0], array.size)


def _of_block(block: np.ndarray[Any, Any]) -> Summary:
    """Return what `at` does of a block, by numpy."""
    size = block.size
    wide = np.zeros((-(-size // _LANES), _LANES))
    wide.reshape(-1)[:size] = block.reshape(-1)
    squares = _total(wide * wide)
    nans = above = below = 0
    if not math.isfinite(squares):
        nans, above, below = (int(np.count_nonzero(found)) for found in (block != block, block == _INF, block == -_INF))
    high, low = block.max(initial=-_INF).item(), block.min(initial=_INF).item()
    zeros = size - int(np.count_nonzero(block))
    minus = int(not high or not low) and int(np.signbit(block[block == 0]).any())
    return Summary(high, low, _total(wide), squares, zeros, minus, nans, above, below)


def _total(numbers: np.ndarray[Any, Any]) -> float:
    """Return the sum of numbers that have a column for each lane."""
    with np.errstate(invalid="ignore"):  # inf and -inf
        lanes = np.add.reduce(numbers, axis=0, initial=0.0)
        while lanes.size > 1:
            lanes = lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]
    total: float = lanes.item()
    return total


def _joined(one: Summary, other: Summary) -> Summary:
    """Return the summary of the numbers of both."""
    high, low = max(one.high, other.high), min(one.low, other.low)
    if one.nans or other.nans:
        high = low = math.nan
    minus = int(high == 0 or low == 0) and (one.minus | other.minus)
    total, squares = one.sum + other.sum, one.squares + other.squares
    counts = (one.nans + other.nans, one.above + other.above, one.below + other.below)
    return Summary(high, low, total, squares, one.zeros + other.zeros, minus, *counts)
