"""What is recorded of a tensor: statistics, digests, contents, worked out by numpy.

The numbers are those of the kernels that msprobe calls on the CPU (mint.max, mint.min, mint.mean, ops.norm), to the
last bit. What the kernels do was found by comparing with them:

- sums are made in float64, one number after another, and rounded to float32;
- the mean is that sum divided in float32; the norm is the root of the sum of the squares, squared and rounded in the
  tensor's own dtype;
- the greatest and the least start with the first number, and a number that is not greater (less) changes nothing: so
  NaN counts only where it comes first, and of 0.0 and -0.0 the first.

From about 200 000 numbers on the kernels add in pieces, which depend on the machine: then the last bits may differ.
"""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from lakeprobe.collect.watching import values
from lakeprobe.collect.watching.values import NONE, Array, Number, Statistics

_FLOATS = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
_ONE_BY_ONE = 1 << 17
"""So many numbers at most are added one after another."""


def statistics(array: Array) -> Statistics:
    """Max, Min, Mean and Norm (Euclidean). Integers and float64 are measured as float32, complex by absolute value.

    Bool: any and all. One value without dimensions: that value, four times. No elements: none.
    """
    if not array.size:
        return NONE
    if array.dtype.kind == "b":
        return bool(array.any()), bool(array.all()), None, None
    if array.dtype.kind == "c":
        size = np.abs(array)
        return np.max(size).item(), np.min(size).item(), np.mean(size).item(), float(np.linalg.norm(size))
    if not array.ndim:
        value = array.item()
        return value, value, value, value
    with np.errstate(all="ignore"):
        return _real(array if array.dtype in _FLOATS else array.astype(np.float32))


def _real(array: Array) -> Statistics:
    flat = array.reshape(-1)
    own = flat.dtype.type
    norm = np.sqrt(own(_added(flat * flat)))
    mean = own(_sum(flat, float(norm)) / np.float32(flat.size))
    return float(_first(flat, np.argmax)), float(_first(flat, np.argmin)), float(mean), float(norm)


def _first(flat: Array, position: Callable[[Array], Any]) -> Any:
    """The first of the greatest or least numbers; NaN only if it comes before all others."""
    found = flat[position(flat)]
    if not np.isnan(found) or np.isnan(flat[0]):
        return found
    numbers = flat[~np.isnan(flat)]
    return numbers[position(numbers)]


def _added(flat: Array) -> Any:
    """The sum in float64, in numpy's order, which is not the kernels'."""
    return flat.sum(dtype=np.float64)


def _sum(flat: Array, norm: float) -> Any:
    """The sum as float32. Where the order of adding may matter, as the sum is small beside its numbers: in theirs."""
    total = _added(flat)
    doubt = flat.size**1.5 * norm * np.finfo(np.float64).eps
    if np.float32(total - doubt) == np.float32(total + doubt) or flat.size > _ONE_BY_ONE:
        return np.float32(total)
    return np.float32(np.cumsum(flat, dtype=np.float64)[-1])


def crc32(array: Array) -> str:
    """CRC-32 of the bytes in C order. What msprobe writes as md5."""
    return values.crc32(_bytes(array))


def xor(array: Array) -> str | Number:
    """The XOR of the bytes in C order. As for PyTorch: None for no elements, one value without dimensions itself."""
    if not array.size:
        return None
    if not array.ndim:
        value: Number = array.item()
        return value
    return values.xor(_bytes(array))


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def copy(array: Array) -> Array:
    """The contents as an array of their own, read-only, C order."""
    made = np.array(array, order="C")
    made.flags.writeable = False
    return made
