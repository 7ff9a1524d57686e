"""Summarises float32 numbers in one pass: `native/summary.c`, or numpy where that is not there.

Both roads give the same numbers to the last bit, because they add in the same order, in float64: number i in column i
modulo 128, one after the other, then the columns in halves.
"""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

import numpy as np

from lakeprobe.system import native

_INF = math.inf
_COLUMNS = 128
_BLOCK = 1 << 16
"""How many numbers are widened to float64 at once. A multiple of _COLUMNS."""

_at = native.function("lakeprobe_summary", native.ADDRESS, native.SIZE, native.ADDRESS)
_LAYOUT = struct.Struct("4d5q")
_Memory = native.memory(_LAYOUT.size)
_whole_at = native.function("lakeprobe_whole", native.ADDRESS, native.SIZE, native.ADDRESS)
_WHOLE = struct.Struct("5q")
_WholeMemory = native.memory(_WHOLE.size)


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


def at(address: int, size: int) -> tuple[Any, ...]:
    """Return the fields of the summary of `size` float32 numbers from `address` on, which need not be aligned.

    Only if `is_native`. A training step asks for thousands, so this makes no Summary of them.
    """
    assert _at is not None
    result = _Memory()
    _at(address, size, result)
    return _LAYOUT.unpack(result)


knows_integers = _whole_at is not None
"""Whether `of_integers_at` can be called."""


class Whole(NamedTuple):
    """What a pass through integers tells."""

    high: int
    low: int
    sum: int
    squares: int
    """The sum of the squares. Below 0 if it may be more than 2^53, and `sum` is then 0."""
    zeros: int


def of_integers_at(address: int, size: int) -> Whole:
    """Return the summary of `size` integers of 64 bits from `address` on. Only if `knows_integers`."""
    assert _whole_at is not None
    result = _WholeMemory()
    _whole_at(address, size, result)
    return Whole._make(_WHOLE.unpack(result))


def of(array: np.ndarray[Any, Any]) -> Summary:
    """Return the summary of float32 numbers of any shape and strides, in the order in which they lie in memory.

    An array that is not contiguous is copied.
    """
    flat = array.ravel(order="K")
    if not is_native:
        return _by_numpy(flat)
    return Summary._make(at(flat.__array_interface__["data"][0], flat.size))


def _by_numpy(flat: np.ndarray[Any, Any]) -> Summary:
    total, squares = _sums(flat)
    nans = above = below = 0
    if not math.isfinite(squares):
        nans, above, below = (int(np.count_nonzero(found)) for found in (flat != flat, flat == _INF, flat == -_INF))
    high, low = flat.max(initial=-_INF).item(), flat.min(initial=_INF).item()
    zeros = int(np.count_nonzero(flat == 0))
    minus = int((not high or not low) and np.signbit(flat[flat == 0]).any())
    return Summary(high, low, total, squares, zeros, minus, nans, above, below)


def _sums(flat: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Return the sum of the numbers and that of their squares."""
    sums, squares = np.zeros(_COLUMNS), np.zeros(_COLUMNS)
    with np.errstate(invalid="ignore"):  # inf and -inf
        for start in range(0, flat.size, _BLOCK):
            block = flat[start : start + _BLOCK]
            rows = np.zeros((1 + -(-block.size // _COLUMNS), _COLUMNS))  # the first one has what was added before
            rows[1:].reshape(-1)[: block.size] = block
            rows[0] = sums
            sums = np.add.reduce(rows, axis=0)
            np.square(rows, out=rows)
            rows[0] = squares
            squares = np.add.reduce(rows, axis=0)
        both = np.array((sums, squares))
        while both.shape[1] > 1:
            both = both[:, : both.shape[1] // 2] + both[:, both.shape[1] // 2 :]
    return both[0, 0].item(), both[1, 0].item()
