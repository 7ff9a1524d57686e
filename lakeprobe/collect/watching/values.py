"""What is recorded of plain Python values and of numpy arrays, the same in every framework."""

import zlib
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Leaf = dict[str, Any]
Number = float | int | bool | None

Statistics = tuple[Number, Number, Number, Number]
"""Max, Min, Mean, Norm as msprobe gives them; None where it gives null."""
NUMBERS = ("Max", "Min", "Mean", "Norm")
NONE: Statistics = (None, None, None, None)

Wide = tuple[float | None, float | None, int, int, int, int | None]
"""Mean and norm (Euclidean) accumulated in float32 or float64; how many are NaN, inf, -inf, and 0.0 or -0.0.

Mean and norm are None where the tensor's own statistics are just these, the last where zeros were not counted.
"""

DEEPEST = 400
"""Containers are followed no deeper, as in msprobe: what is deeper is null."""
PLAIN = (bool, int, float, str)
BUILTIN = (*PLAIN, slice, type(...), np.generic)
"""The classes that `builtin` knows."""

_HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def builtin(value: Any) -> Leaf:
    """The leaf of a slice, of `...`, of a number of numpy, or of a plain value, its class a derived one or not."""
    if isinstance(value, slice):
        return {"type": "slice", "value": [_whole(part) for part in (value.start, value.stop, value.step)]}
    if value is ...:
        return {"type": "ellipsis", "value": "..."}
    if isinstance(value, np.generic):
        number = value.item()  # long doubles, complex numbers, bytes and dates have no like in JSON: their text
        return {"type": type(value).__name__, "value": number if type(number) in PLAIN else str(value)}
    plain = next(kind for kind in PLAIN if isinstance(value, kind))
    return {"type": type(value).__name__, "value": str.__str__(value) if plain is str else plain(value)}


def _whole(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def unrecordable(value: Any) -> Leaf:
    """The leaf of a value that could not be recorded: the name of its class."""
    return {"type": f"{type(value).__module__}.{type(value).__qualname__}"}


def array_leaf(array: Array, kinds: str) -> Leaf:
    """The leaf of a numpy array, without contents; `kinds` are the kinds of dtypes that msprobe has statistics of."""
    leaf: Leaf = {"type": "numpy.ndarray", "dtype": str(array.dtype), "shape": list(array.shape)}
    numbers: tuple[Any, ...] = NONE
    if array.size and array.dtype.kind in kinds:
        numbers = tuple(measure(array).item() for measure in (np.max, np.min, np.mean, np.linalg.norm))
    leaf.update(zip(NUMBERS, numbers, strict=True))
    measured = wide(array)
    if measured is not None:
        leaf["wide"] = measured
    return leaf


def wide(array: Array) -> Wide | None:
    """What an array's own dtype may be too narrow for, in float64; None of no elements, and of what are no numbers.

    NaN and inf count as what they are: with one of them the mean is NaN, inf or -inf. Bool: False is 0, True is 1.
    Complex: of the absolute values, NaN where either part is.
    """
    if not array.size or not (array.dtype.kind in "biufc" or array.dtype in _HALVES):
        return None
    with np.errstate(all="ignore"):
        if array.dtype.kind == "c":
            array = np.where(np.isnan(array), np.nan, np.abs(array.astype(np.complex128)))
        flat = array.reshape(-1).astype(np.float64)
        mean, norm = flat.mean().item(), np.linalg.norm(flat).item()
    zeros = flat.size - int(np.count_nonzero(flat))
    if np.isfinite(norm):
        return mean, norm, 0, 0, 0, zeros
    special = [int(np.count_nonzero(which)) for which in (np.isnan(flat), flat == np.inf, flat == -np.inf)]
    return mean, norm, special[0], special[1], special[2], zeros


def crc32(data: Array) -> str:
    """CRC-32 of bytes (uint8), as 8 hexadecimal digits. What msprobe writes as md5 of a tensor's bytes in C order."""
    return f"{zlib.crc32(data.data):08x}"


def xor(data: Array) -> str:
    """All 64-bit words of bytes (uint8), the last filled up with zeros, XORed: 0x and 16 digits."""
    whole = data.size // 8 * 8
    word = np.bitwise_xor.reduce(data[:whole].view(np.uint64)) if whole else np.uint64(0)
    rest = int.from_bytes(data[whole:].tobytes(), "little")
    return f"0x{int(word) ^ rest:016x}"
