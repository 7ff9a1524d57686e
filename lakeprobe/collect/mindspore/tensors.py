"""Computes what is recorded of a tensor with numpy: statistics, digests and contents.

The numbers equal those of the kernels that msprobe calls on the CPU (mint.max, mint.min, mint.mean, ops.norm) to the
last bit. Comparison with the kernels showed how they compute:

- Sums are accumulated in float64, one number after another, and rounded to float32.
- The mean is that sum divided in float32. The norm is the square root of the sum of squares, squared and rounded in the
  tensor's own dtype.
- Max and min start with the first number and replace it only by a number that is greater (less). So NaN counts only if
  it comes first, and of 0.0 and -0.0 the first one wins.

From about 200 000 numbers on, the kernels add in chunks that depend on the machine, and the last bits may differ.
"""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from lakeprobe.collect.watching import values
from lakeprobe.collect.watching.values import NONE, Array, Number, Statistics

_FLOATS = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
_ONE_BY_ONE = 1 << 17
"""Arrays of up to this many numbers are summed one number after another."""


def statistics(array: Array) -> Statistics:
    """Return Max, Min, Mean and Norm (Euclidean).

    Integers and float64 are measured as float32, complex numbers by absolute value. Bool gives any and all, with no
    mean and norm. A 0-d array gives its value four times. An empty array gives four times None.
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
    """Return the first of the greatest or least numbers. NaN only if it is the first element."""
    found = flat[position(flat)]
    if not np.isnan(found) or np.isnan(flat[0]):
        return found
    numbers = flat[~np.isnan(flat)]
    return numbers[position(numbers)]


def _added(flat: Array) -> Any:
    """Return the sum in float64, in numpy's order of addition, which differs from the kernels'."""
    return flat.sum(dtype=np.float64)


def _sum(flat: Array, norm: float) -> Any:
    """Return the sum as float32.

    The order of addition matters if the sum is small compared with the numbers. Then this adds in the kernels' order.
    """
    total = _added(flat)
    doubt = flat.size**1.5 * norm * np.finfo(np.float64).eps
    if np.float32(total - doubt) == np.float32(total + doubt) or flat.size > _ONE_BY_ONE:
        return np.float32(total)
    return np.float32(np.cumsum(flat, dtype=np.float64)[-1])


def crc32(array: Array) -> str:
    """Return the CRC-32 of the bytes in C order. msprobe writes it as md5."""
    return values.crc32(_bytes(array))


def xor(array: Array) -> str | Number:
    """Return the XOR of the bytes in C order.

    As for PyTorch, an empty array gives None, and a 0-d array its value.
    """
    if not array.size:
        return None
    if not array.ndim:
        value: Number = array.item()
        return value
    return values.xor(_bytes(array))


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def copy(array: Array) -> Array:
    """Return a read-only copy in C order."""
    made = np.array(array, order="C")
    made.flags.writeable = False
    return made
