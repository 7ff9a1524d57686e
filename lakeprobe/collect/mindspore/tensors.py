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

import zlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Number = float | int | bool | None
Statistics = tuple[Number, Number, Number, Number]
"""Max, Min, Mean, Norm as msprobe gives them; None where it gives null."""

Wide = tuple[float, float, int, int, int, int]
"""Mean and norm (Euclidean) accumulated in float64; how many are NaN, inf, -inf, and 0.0 or -0.0."""

NONE: Statistics = (None, None, None, None)
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


def wide(array: Array) -> Wide | None:
    """What a tensor's own dtype may be too narrow for; None of no elements, and of what are no numbers.

    NaN and inf count as what they are: with one of them the mean is NaN, inf or -inf. Bool: False is 0, True is 1.
    Complex: of the absolute values, NaN where either part is.
    """
    if not array.size or not (array.dtype.kind in "biufc" or array.dtype in _FLOATS):
        return None
    with np.errstate(all="ignore"):
        if array.dtype.kind == "c":
            array = np.where(np.isnan(array), np.nan, np.abs(array.astype(np.complex128)))
        flat = array.reshape(-1).astype(np.float64)
        mean, norm = flat.mean().item(), np.linalg.norm(flat).item()
    zeros = flat.size - int(np.count_nonzero(flat))
    if np.isfinite(norm):
        return mean, norm, 0, 0, 0, zeros
    odd = [int(np.count_nonzero(which)) for which in (np.isnan(flat), flat == np.inf, flat == -np.inf)]
    return mean, norm, odd[0], odd[1], odd[2], zeros


def crc32(array: Array) -> str:
    """CRC-32 of the bytes in C order, as 8 hexadecimal digits. What msprobe writes as md5."""
    return f"{zlib.crc32(_bytes(array).data):08x}"


def xor(array: Array) -> str | Number:
    """All 64-bit words of the bytes in C order, the last filled up with zeros, XORed: 0x and 16 digits.

    As for PyTorch: None for no elements, the value itself for one value without dimensions.
    """
    if not array.size:
        return None
    if not array.ndim:
        value: Number = array.item()
        return value
    data = _bytes(array)
    whole = data.size // 8 * 8
    word = np.bitwise_xor.reduce(data[:whole].view(np.uint64)) if whole else np.uint64(0)
    rest = int.from_bytes(data[whole:].tobytes(), "little")
    return f"0x{int(word) ^ rest:016x}"


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def copy(array: Array) -> Array:
    """The contents as an array of their own, read-only, C order."""
    made = np.array(array, order="C")
    made.flags.writeable = False
    return made
