"""The metrics of an array in the host's memory, the same for every framework."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import xxhash

from lakeprobe.tensors import summary

OF_ARRAYS = frozenset(("signs", "shares"))
"""The metrics that are measured on the host alone."""

OF_SUMMARIES = frozenset(("norm", "mean", "min", "max", "nans"))
"""The metrics that one pass through float32 numbers gives."""

_CHUNK = 8192
"""The number of elements that are widened at once: too few for BLAS to start threads."""

_ROW = 4096
"""The number of squares that are summed in float32 where a norm need not be exact."""

_SMALLEST = 1e-24
"""Below this a sum of squares may have lost what float32 cannot hold."""


def numbers(array: np.ndarray, metrics: frozenset[str], eps: float, *, exact: bool) -> dict[str, float]:
    """Return those of `metrics` that are numbers, of an array of one dimension, in float32 or float64.

    norm is the Euclidean norm and mean the arithmetic mean, both accumulated in float64. If not `exact`, and without
    functions in C, a norm of float32 without a mean may be off by a float32's rounding. zeros is the share of elements
    below `eps` in magnitude, nans the number of NaN. An empty array has a norm and NaNs of 0 and nothing else.
    """
    if not array.size:
        return dict.fromkeys(metrics & {"norm", "nans"}, 0.0)
    if array.dtype == np.float32 and (exact or "mean" in metrics or summary.is_native):
        found = of_summary(summary.of(array), array.size, metrics)
    else:
        found = _one_by_one(array, metrics, exact=exact)
    if "zeros" in metrics:
        found["zeros"] = sum(int(np.count_nonzero(np.abs(chunk) < eps)) for chunk in _chunks(array)) / array.size
    return {metric: number for metric, number in found.items() if metric in metrics}


def of_summary(found: Sequence[float], size: int, metrics: frozenset[str]) -> dict[str, float]:
    """Return those of `metrics` that follow from a summary (`tensors/summary.py`) of `size` numbers, one or more."""
    return {metric: _OF_SUMMARY[metric](found, size) for metric in _among_summaries(metrics)}


_OF_SUMMARY: dict[str, Callable[[Sequence[float], int], float]] = {
    "norm": lambda found, _: math.sqrt(found[3]),
    "mean": lambda found, size: found[2] / size,
    "min": lambda found, _: found[1],
    "max": lambda found, _: found[0],
    "nans": lambda found, _: float(found[6]),
}
"""How each metric follows from the fields of a summary and the number of elements."""


@cache
def _among_summaries(metrics: frozenset[str]) -> tuple[str, ...]:
    return tuple(metric for metric in _OF_SUMMARY if metric in metrics)


def _one_by_one(array: np.ndarray, metrics: frozenset[str], *, exact: bool) -> dict[str, float]:
    found: dict[str, float] = {}
    if "mean" in metrics:
        squares, total = _sums(array)
        found["norm"], found["mean"] = math.sqrt(squares), total / array.size
    elif "norm" in metrics:
        found["norm"] = math.sqrt(_sums(array)[0] if exact or array.dtype != np.float32 else _fast_squares(array))
    if "min" in metrics:
        found["min"] = float(np.minimum.reduce(array))
    if "max" in metrics:
        found["max"] = float(np.maximum.reduce(array))
    if "nans" in metrics:
        has_none = "norm" in found and not math.isnan(found["norm"])
        found["nans"] = 0.0 if has_none else float(np.count_nonzero(np.isnan(array)))
    return found


def shares(array: np.ndarray, bounds: Sequence[float], named: Sequence[float]) -> dict[str, float]:
    """Return the share of elements in each interval that ends with a bound, and beyond the last, and of zeros.

    An interval has its upper end, not its lower one. It is called after the bounds `named`. Elements and bounds are
    compared in float32.
    """
    names = [f"({low}, {high}]" for low, high in pairwise(["-inf", *named])] + [f"({named[-1]}, inf)"]
    size = max(array.size, 1)
    places = np.searchsorted(np.array(bounds, np.float32), array.astype(np.float32, copy=False))
    counts = np.bincount(places, minlength=len(names)).tolist()
    found = {name: count / size for name, count in zip(names, counts, strict=True)}
    return found | {"=0": np.count_nonzero(array == 0) / size}


def signs(array: np.ndarray) -> bytes:
    """Return a bit for each element, 1 if it is above 0."""
    return np.packbits(array > 0).tobytes()


def digest(elements: np.ndarray) -> str:
    """Return XXH3-64 of the bytes of an array, in their logical order."""
    return xxhash.xxh3_64_hexdigest(np.ascontiguousarray(elements).reshape(-1).view(np.uint8).data)


def md5(array: np.ndarray) -> str:
    """Return MD5 of the elements as float32."""
    return hashlib.md5(array.astype(np.float32, copy=False).tobytes(), usedforsecurity=False).hexdigest()


def _fast_squares(array: np.ndarray) -> float:
    """Return the sum of the squares, of a row in float32, of all rows in float64.

    What float32 cannot square is summed exactly.
    """
    whole = array.size - array.size % _ROW
    rest = array[whole:].astype(np.float64)
    squares = float(rest.dot(rest))
    if not whole:
        return squares
    rows = array[:whole].reshape(-1, _ROW)
    with np.errstate(over="ignore", invalid="ignore"):
        of_rows = np.matmul(rows[:, None, :], rows[:, :, None])  # BLAS: a dot of each row
    squares += float(of_rows.sum(dtype=np.float64))
    return squares if _SMALLEST < squares < math.inf else _sums(array)[0]


def _sums(array: np.ndarray) -> tuple[float, float]:
    """Return the sum of the squares and the sum, accumulated in float64."""
    squares = total = 0.0
    for chunk in _chunks(array):
        wide = chunk.astype(np.float64)
        squares += float(wide.dot(wide))
        total += float(wide.sum())
    return squares, total


def _chunks(array: np.ndarray) -> Iterable[Any]:
    return (array[begin : begin + _CHUNK] for begin in range(0, array.size, _CHUNK))
