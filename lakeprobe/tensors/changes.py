"""The changes of `lakeprobe.changes` for arrays of numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from lakeprobe.changes import CPU_TOLERANCE, LIMITS, NOISE, SMALL, Compared, floor_of, judged

Array = NDArray[Any]


def compared(mode: str, plain: Array, changed: Array, *, backward: bool, limit: float | None = None) -> Compared:
    """Compare a result with that of changed inputs. Both have the same shape and a dtype of LIMITS.

    `limit` is as in `judged`.
    """
    dtype = plain.dtype.name
    quotient, flips_sign = ratio(changed, plain, backward=backward)
    return judged(mode, quotient, flips_sign, within_cpu_tolerance(changed, plain), dtype, limit)


def ratio(changed: Array, plain: Array, *, backward: bool) -> tuple[float, bool]:
    """Return the largest quotient of two elements, from 1 on, and whether an element changed its sign.

    Elements of smaller size than the floor count as the floor. All elements count, not only those of the last chunk.
    """
    floor = floor_of(plain.dtype.name, backward=backward)
    with np.errstate(all="ignore"):
        one, other = changed.astype(np.float64), plain.astype(np.float64)
        flips_sign = bool((one * other < -(floor**2)).any())
        quotient = np.maximum(np.abs(one), floor) / np.maximum(np.abs(other), floor)
        quotient[np.isnan(quotient)] = 1.0
    return max(float(quotient.max()), 1 / max(float(quotient.min()), 1e-300)), flips_sign


def within_cpu_tolerance(changed: Array, plain: Array) -> bool:
    """Return whether each element is that of the CPU, by its difference or by its relative difference."""
    tolerance = CPU_TOLERANCE[plain.dtype.name]
    with np.errstate(all="ignore"):
        one, other = changed.astype(np.float64), plain.astype(np.float64)
        near = np.abs(one - other) <= tolerance * np.maximum(1.0, np.abs(other))
    return bool((near | (one == other) | (np.isnan(one) & np.isnan(other))).all())


# ---- changes ------------------------------------------------------------------------------------------------


def add_noise(array: Array) -> Array:
    """Each element x with |x| > sqrt(noise) becomes x + noise."""
    noise = NOISE[array.dtype.name]
    wide = array.astype(np.float32) if array.dtype.name in SMALL else array
    if not array.size or not np.abs(wide).max() >= noise:
        return array
    added = (wide + wide.dtype.type(noise)).astype(array.dtype)
    return np.where(np.abs(wide) > noise**0.5, added, array)


def bit_noise(array: Array) -> Array:
    """The lowest bit of each element that is not subnormal is flipped."""
    words = np.dtype(f"i{array.dtype.itemsize}")
    flipped = (np.ascontiguousarray(array).view(words) ^ words.type(1)).view(array.dtype)
    with np.errstate(invalid="ignore"):  # NaN in bfloat16
        return np.where(np.abs(array) > ml_dtypes.finfo(array.dtype).tiny, flipped, array)


def change_value(array: Array) -> Array:
    """The first element and the last are exchanged."""
    flat = array.reshape(-1).copy()
    flat[:1], flat[-1:] = flat[-1:].copy(), flat[:1].copy()
    return flat.reshape(array.shape)


def improve_precision(array: Array) -> Array:
    """16 bits become float32."""
    return array.astype(np.float32) if array.dtype.name in SMALL else array


FIRST_ONLY: dict[str, Callable[[Array], Array]] = {
    "add_noise": add_noise,
    "change_value": change_value,
    "bit_noise": bit_noise,
}
"""Changes of the first floating-point tensor of a call."""


def changed(arrays: dict[str, Array], mode: str) -> tuple[dict[str, Array], list[str]]:
    """Return the arrays of a call changed in a mode that changes arrays, and the names of those that differ now."""
    floats = [name for name, array in arrays.items() if array.dtype.name in LIMITS]
    chosen = floats if mode == "improve_precision" else floats[:1]
    change = improve_precision if mode == "improve_precision" else FIRST_ONLY[mode]
    new = {name: change(arrays[name]) for name in chosen}
    return arrays | new, [name for name in chosen if new[name].tobytes() != arrays[name].tobytes()]


def relative_difference(one: Array, other: Array) -> float:
    """Return the relative difference of two arrays, by the norms of their finite elements."""
    first, second = one.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(first) & np.isfinite(second)
    size = float(np.linalg.norm(second[finite]))
    return float(np.linalg.norm(first[finite] - second[finite])) / size if size else 0.0
