"""Measures how far an op's result is from its reference: every number that a precision standard needs, from one pair.

Formulas: msprobe 26.2, api_accuracy_checker (docs/ops.md says them in words), and ours, which are `typical_error`,
`largest_error` and `signed_zeros`. Verdicts are SQL (sql/checks).
"""

from __future__ import annotations

import csv
from functools import cache
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from lakeprobe import resources

Array = NDArray[Any]

_TINY = float(np.finfo(np.float64).eps)
_SMALL_DTYPES = ("float8_e4m3fn", "float8_e5m2")
_FLOAT8_LEAST_EXPONENT = -22.0
_FLOAT8_FLOOR = 2.0**-1000


class Precision(Struct, frozen=True):
    """The limits that the standards have for a dtype; schemas/data/precisions.csv has them."""

    dtype: str
    small_value: float
    absolute_atol: float
    benchmark_atol: float
    rtol: float
    accumulative_bound: float
    balance_limit: float
    ratio_floor: float
    denominator_eps: float | None
    largest: float
    least_exponent: float
    mantissa_bits: float
    ulp_limit: float


class Measures(Struct, frozen=True):
    """What was measured of one leaf; a field is None where it does not apply. schemas/verifications.yaml explains them.

    Shares are of 0 to 1, errors in the tensor's own unit, ULPs in units of the last place of the reference.
    """

    cosine: float | None = None
    cosine_note: str | None = None
    max_abs_error: float | None = None
    one_hundredth_ratio: float | None = None
    one_thousandth_ratio: float | None = None
    one_ten_thousandth_ratio: float | None = None
    binary_error_share: float | None = None
    error_balance: float | None = None
    rmse: float | None = None
    small_value_error_share: float | None = None
    max_relative_error: float | None = None
    mean_relative_error: float | None = None
    nonfinite_error_share: float | None = None
    relative_error_share: float | None = None
    absolute_error_share: float | None = None
    accumulative_nonfinite_share: float | None = None
    accumulative_relative_share: float | None = None
    accumulative_absolute_share: float | None = None
    max_ulp: float | None = None
    mean_ulp: float | None = None
    ulp_share: float | None = None
    typical_error: float | None = None
    largest_error: float | None = None
    largest_ulp: float | None = None
    nonfinite_mismatches: int | None = None
    signed_zeros: int | None = None


@cache
def precisions() -> dict[str, Precision]:
    """The limits by dtype ('float16', 'bfloat16', …)."""
    with resources.data("precisions").open(encoding="utf-8") as file:
        return {
            row["dtype"]: Precision(
                row.pop("dtype"), **{name: float(text) if text else None for name, text in row.items()}  # type: ignore[arg-type]
            )
            for row in csv.DictReader(file)
        }  # fmt: skip


def precision_of(dtype: str) -> Precision:
    """The limits for `dtype`; of one that has none, those of float64."""
    return precisions().get(dtype) or precisions()["float64"]


def measure(reference: Array, device: Array, sensitivity: Array | None = None) -> Measures:
    """All measures of `device`, an array of the op's own dtype, against `reference`, of the same shape.

    `reference` is of the same kind, and of more precision if it can be. `sensitivity`, of the same shape, says how far
    the reference moves when its inputs move by a rounding; without it `typical_error` and `largest_error` are of the
    result's own rounding alone. bfloat16 and float8 have the dtypes of ml_dtypes. Empty arrays have no measures.
    """
    if device.size == 0:
        return Measures()
    with np.errstate(all="ignore"):
        if device.dtype.kind in "biu":
            return Measures(binary_error_share=_binary_error_share(reference, device), **_counted(reference, device))
        if device.dtype.kind == "c":
            return _measure_complex(reference, device, sensitivity)
        return _measure_floats(reference, device, sensitivity)


def _counted(reference: Array, device: Array) -> dict[str, Any]:
    """The measures of integers, which a standard for quantised results takes."""
    if device.dtype.kind == "b" or reference.dtype.kind == "b":
        return {}
    difference = np.abs(device.astype(np.float64) - reference.astype(np.float64))
    return {"max_abs_error": float(difference.max())}


def _measure_complex(reference: Array, device: Array, sensitivity: Array | None) -> Measures:
    """Complex numbers are measured as pairs of real ones, of which none alone may be wrong."""
    parts = [
        np.stack([array.real, array.imag], axis=-1)
        for array in (reference.astype(np.complex128), device)
    ]  # fmt: skip
    spread = None if sensitivity is None else np.stack([np.abs(sensitivity)] * 2, axis=-1)
    return _measure_floats(parts[0], parts[1], spread)


def _measure_floats(reference: Array, device: Array, sensitivity: Array | None) -> Measures:
    name = device.dtype.name
    limits = precision_of(name)
    small = name in (*_SMALL_DTYPES, "bfloat16")
    own = device.astype(np.float32) if small else device
    wide = reference.astype(np.float32) if reference.dtype.name in (*_SMALL_DTYPES, "bfloat16") else reference
    own, wide = own.reshape(-1), wide.reshape(-1)
    narrow = wide.astype(own.dtype)

    finite = np.isfinite(own) & np.isfinite(narrow)
    magnitude = np.abs(wide)
    denominator = magnitude + (limits.denominator_eps or np.finfo(wide.dtype).eps)
    error = np.abs(own - wide)
    relative = error / denominator
    is_small = (magnitude <= limits.small_value) & finite
    is_normal = finite & ~is_small

    cosine, cosine_note = _cosine(own, wide)
    normal_errors = relative[is_normal]
    ulp = ulp_errors(wide, own, name)
    typical, largest, largest_ulp = _rounding_errors(wide, own, limits, sensitivity)
    zeros = (own == 0) & (wide == 0)
    bound = limits.accumulative_bound
    below_one = (magnitude <= 1.0) & finite
    return Measures(
        cosine=cosine,
        cosine_note=cosine_note,
        max_abs_error=float(error.max()),
        one_hundredth_ratio=_share(np.abs(relative) < 0.01),
        one_thousandth_ratio=_share(np.abs(relative) < 0.001),
        one_ten_thousandth_ratio=_share(np.abs(relative) < 0.0001),
        binary_error_share=_binary_error_share(wide, own),
        error_balance=_balance(narrow, own),
        rmse=_rmse(error, ~is_normal),
        small_value_error_share=_share_of(error > limits.benchmark_atol, is_small),
        max_relative_error=float(normal_errors.max()) if normal_errors.size else 0.0,
        mean_relative_error=float(normal_errors.mean()) if normal_errors.size else 0.0,
        nonfinite_error_share=_nonfinite_share(narrow, own, denominator, finite, limits.rtol, limits),
        relative_error_share=_share_of(relative > limits.rtol, is_normal),
        absolute_error_share=_share_of(error > limits.absolute_atol, is_small),
        accumulative_nonfinite_share=_nonfinite_share(narrow, own, denominator, finite, bound, limits),
        accumulative_relative_share=_share_of(relative > bound, finite & ~below_one),
        accumulative_absolute_share=_share_of(error > bound, below_one),
        max_ulp=float(ulp.max()),
        mean_ulp=float(ulp.mean()),
        ulp_share=_share(ulp > limits.ulp_limit),
        typical_error=typical,
        largest_error=largest,
        largest_ulp=largest_ulp,
        nonfinite_mismatches=int(np.count_nonzero(~_same_nonfinite(narrow, own))),
        signed_zeros=int(np.count_nonzero(zeros & (np.signbit(own) != np.signbit(wide)))),
    )


def _cosine(own: Array, wide: Array) -> tuple[float | None, str | None]:
    """The cosine of the two as vectors, or why there is none: one element, or zeros (one side alone is an error)."""
    if own.size == 1:
        return None, "one element"
    own_largest, wide_largest = np.max(np.abs(own)), np.max(np.abs(wide))
    zeros = own_largest <= _TINY, wide_largest <= _TINY
    if all(zeros):
        return None, "both zero"
    if any(zeros):
        return None, "one zero"
    left, right = own.astype(np.float64) / own_largest, wide.astype(np.float64) / wide_largest
    cosine = np.dot(left, right) / (np.linalg.norm(left) * np.linalg.norm(right))
    return (float("nan"), "NaN") if np.isnan(cosine) else (float(np.clip(cosine, -1, 1)), None)


def _share(where: Array) -> float:
    return float(np.count_nonzero(where) / where.size)


def _share_of(where: Array, among: Array) -> float:
    """Which share of the elements `among` is `where`; 0 where there are none."""
    count = np.count_nonzero(among)
    return float(np.count_nonzero(where & among) / count) if count else 0.0


def _binary_error_share(reference: Array, device: Array) -> float:
    return _share(reference.reshape(-1) != device.reshape(-1))


def _balance(narrow: Array, own: Array) -> float:
    difference = own - narrow
    return float(abs(int(np.count_nonzero(difference > 0)) - int(np.count_nonzero(difference < 0))) / own.size)


def _rmse(error: Array, left_out: Array) -> float:
    """The root of the mean square error of normal elements; the factor is msprobe's, with its small constants."""
    mean_square = np.mean(np.square(np.where(left_out, 0, error)))
    factor = error.size / (error.size - np.count_nonzero(left_out) + 0.0001) + 0.0001
    return float(np.sqrt(mean_square * factor))


def _nonfinite_share(
    narrow: Array, own: Array, denominator: Array, finite: Array, limit: float, limits: Precision
) -> float:
    """The share of wrong elements among those that are not finite on a side: inf counts as the dtype's largest."""
    # in the dtype itself, as numpy 2 does: numpy 1 widens where a limit is a scalar of float64
    bounded, expected = (np.clip(array, -limits.largest, limits.largest).astype(array.dtype) for array in (own, narrow))
    distance = np.abs(bounded - expected)
    right = (distance / denominator <= limit) | (np.isnan(own) & np.isnan(narrow))
    return _share_of(~right, ~finite)


def _same_nonfinite(narrow: Array, own: Array) -> Array:
    """Where both are finite, or both are NaN, or both the same infinity."""
    same: Array = (
        (np.isfinite(own) & np.isfinite(narrow))
        | (np.isnan(own) & np.isnan(narrow))
        | (np.isinf(own) & (own == narrow))
    )
    return same


def ulp_errors(reference: Array, device: Array, dtype: str) -> Array:
    """How many units of the last place of `reference` each element is off; float8 keeps the sign as in msprobe."""
    if dtype in _SMALL_DTYPES:
        return _float8_ulp_errors(reference.astype(np.float64), device.astype(np.float64))
    limits = precision_of(dtype)
    arithmetic = np.float64 if dtype in ("float32", "float64") else np.float32
    magnitude = np.abs(reference)
    exponent = np.where(magnitude == 0, 0, np.floor(np.log2(magnitude)))
    exponent = np.maximum(exponent, limits.least_exponent)
    difference = (device.astype(arithmetic) - reference).astype(arithmetic)
    errors: Array = np.abs(difference * np.exp2(limits.mantissa_bits - exponent).astype(arithmetic))
    return errors


def _float8_ulp_errors(reference: Array, device: Array) -> Array:
    """float8 whose mantissa narrows with the exponent: 3, 2, 1 bits for exponents to 3, 7, 15, then logarithms."""
    exact = np.maximum(np.log2(np.abs(reference) + _FLOAT8_FLOOR), _FLOAT8_LEAST_EXPONENT)
    exponent = np.floor(exact)
    size = np.abs(exponent)
    bits = np.select([size <= 3, size <= 7, size <= 15], [3, 2, 1], 0)
    plain = (device - reference) * np.exp2(bits - exponent)
    logarithms = np.log2(np.abs(device) + _FLOAT8_FLOOR) * np.where(device >= 0, 1, -1)
    deviation = logarithms - exact * np.where(reference >= 0, 1, -1)
    errors: Array = np.where(bits == 0, deviation, plain)
    return errors


def spacing(reference: Array, limits: Precision) -> Array:
    """The distance of the dtype's numbers around each element of `reference`, in float64."""
    magnitude = np.abs(reference.astype(np.float64))
    exponent = np.floor(np.log2(np.where(magnitude > 0, magnitude, 2.0**limits.least_exponent)))
    around: Array = np.exp2(np.maximum(exponent, limits.least_exponent) - limits.mantissa_bits)
    return around


def _rounding_errors(
    wide: Array, own: Array, limits: Precision, sensitivity: Array | None
) -> tuple[float | None, float | None, float | None]:
    """The error in units of what rounding explains: the result's own last place, and what rounded inputs do to it.

    Typical is the ratio of the root mean squares; largest that of the worst element to its own unit and the root mean
    square of all units. The third is the worst element in its own last place alone. None where no element is finite on
    both sides.
    """
    finite = np.isfinite(own) & np.isfinite(wide)
    if not finite.any():
        return None, None, None
    exact = wide[finite].astype(np.float64)
    error = np.abs(own[finite].astype(np.float64) - exact)
    unit = place = spacing(exact, limits)
    if sensitivity is not None:
        moved = sensitivity.reshape(-1)[finite].astype(np.float64)
        unit = unit + np.where(np.isfinite(moved), moved, 0.0)
    scale = _root_mean_square(unit)
    typical = _root_mean_square(error) / scale
    return typical, float(np.max(error / (unit + scale))), float(np.max(error / place))


def _root_mean_square(numbers: Array) -> float:
    """Scaled by the largest, because squares of the smallest numbers of float64 are 0."""
    largest = float(np.max(numbers))
    return largest * float(np.sqrt(np.mean(np.square(numbers / largest)))) if largest else 0.0
