"""The array of a recorded tensor: its content, or random values with the statistics that were recorded."""

from __future__ import annotations

import zlib
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from lakeprobe.checks.calls import CannotRunError, Leaf
from lakeprobe.errors import TensorError
from lakeprobe.tensors import open_tensor

Array = NDArray[Any]
_MOST_ELEMENTS = 1 << 28
_NAMES = {"bool": "bool_", "half": "float16", "float": "float32", "double": "float64", "long": "int64", "int": "int32"}


def array_of(leaf: Leaf, seed: int) -> Array:
    """The array that stands for a tensor leaf. Raises CannotRunError if neither content nor shape is known."""
    if leaf.reference is not None:
        try:
            return np.array(open_tensor(leaf.reference), order="C")
        except TensorError as error:
            raise CannotRunError(f"{leaf.slot}: {error}") from error
    if leaf.content is not None or leaf.content_problem is not None:
        raise CannotRunError(f"{leaf.slot}: {leaf.content_problem or 'its content is not in the lake any more'}")
    return random_array(leaf, seed)


def random_array(leaf: Leaf, seed: int) -> Array:
    """Random values with the dtype, shape, least and greatest value, NaN, inf and zeros that were recorded of `leaf`.

    The first element is the least, the last the greatest, those between are uniform. The same leaf and seed give the
    same values. Raises CannotRunError without shape, dtype or statistics.
    """
    dtype = _dtype(leaf)
    shape = tuple(leaf.shape or ())
    count = int(np.prod(shape, dtype=np.int64))
    if leaf.shape is None:
        raise CannotRunError(f"{leaf.slot} has no recorded shape")
    if count > _MOST_ELEMENTS:
        raise CannotRunError(f"{leaf.slot} would have {count} random elements, more than {_MOST_ELEMENTS}")
    if count and leaf.max is None and dtype.kind != "b" and leaf.nan_count is None:
        raise CannotRunError(f"{leaf.slot} has neither content nor statistics in the dump")
    random = np.random.default_rng([seed, zlib.crc32(f"{leaf.slot}{leaf.dtype}{shape}".encode())])
    if dtype.kind == "b":
        return _booleans(random, leaf, count).reshape(shape)
    if dtype.kind in "iu":
        return _integers(random, leaf, dtype, count).reshape(shape)
    return _floats(random, leaf, dtype, count).reshape(shape)


def _dtype(leaf: Leaf) -> np.dtype[Any]:
    name = _NAMES.get(leaf.plain_dtype, leaf.plain_dtype)
    try:
        return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)
    except TypeError:
        raise CannotRunError(f"{leaf.slot} has the dtype {leaf.dtype}, which cannot be made up") from None


def _booleans(random: np.random.Generator, leaf: Leaf, count: int) -> Array:
    low, high = bool(leaf.min), leaf.max is None or bool(leaf.max)
    return random.integers(low, high + 1, count).astype(bool) if low <= high else np.zeros(count, bool)


def _integers(random: np.random.Generator, leaf: Leaf, dtype: np.dtype[Any], count: int) -> Array:
    low = leaf.min_int if leaf.min_int is not None else int(leaf.min or 0)
    high = leaf.max_int if leaf.max_int is not None else int(leaf.max or 0)
    values = random.integers(min(low, high), max(low, high), count, dtype=np.int64, endpoint=True).astype(dtype)
    return _with_ends(values, low, high)


def _floats(random: np.random.Generator, leaf: Leaf, dtype: np.dtype[Any], count: int) -> Array:
    ends = [0.0 if end is None else end for end in (leaf.min, leaf.max)]
    low, high = (end if np.isfinite(end) else np.sign(end) if np.isinf(end) else 0.0 for end in ends)
    values = random.uniform(min(low, high), max(low, high), count)
    if leaf.zero_count and count:
        values[random.permutation(count)[: leaf.zero_count]] = 0.0
    values = _with_ends(values, ends[0], ends[1])
    special = ((leaf.nan_count, np.nan), (leaf.posinf_count, np.inf), (leaf.neginf_count, -np.inf))
    places = iter(random.permutation(count))
    for number, value in special:
        for _ in range(min(number or 0, count)):
            place = next(places, None)
            if place is not None:
                values[place] = value
    with np.errstate(over="ignore"):
        made: Array = values.astype(dtype)
    return made


def _with_ends(values: Array, first: float, last: float) -> Array:
    if values.size:
        values[-1] = last
        values[0] = first
    return values
