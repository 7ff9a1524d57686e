"""The arithmetic on one block of two tensors: what the metrics need, as sums and maxima that can be merged.

A block stays in the cache, so it is read from memory once however many numbers are computed from it. Buffers are reused
(complex, 64-bit integer and non-finite blocks take a few more). Sums are float64. Nothing here opens files or knows
tensors.

Two roads lead to the sums: one pass in C (`native/pair.c`), and some fifteen passes in numpy, for complex numbers,
64-bit integers, and where the functions in C are not there. Only the order of additions differs, so the last bits of
sums.

Real numbers are widened to float32 or float64, the precision of relative errors. A complex number becomes complex128,
which is two float64 in all sums. Formulas: msprobe 26.2, core/compare/algorithm/builtin_algorithm, with complex numbers
in full, the sign of infinities respected and integers subtracted exactly.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from math import fsum
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from lakeprobe.system import native
from lakeprobe.tensors.reference import SMALL_FLOATS, numpy_dtype

#: Elements per block. Most numpy calls release and take the GIL, which costs two threads more than a block that exceeds
#: the L2 cache. Of 2^15 to 2^18, this and the next were best, for one thread and for two.
BLOCK = 1 << 17
# OpenBLAS spreads a dot product of more than 10 000 elements over its own threads, which compete with ours: two threads
# then did half the work of one. vecdot on rows of this width stays on the calling thread.
_DOT_WIDTH = 4096
_dots = getattr(np, "vecdot", partial(np.einsum, "...i,...i"))  # numpy 1.26, which MindSpore requires, lacks vecdot

_PAIR = (native.ADDRESS, native.ADDRESS, native.SIZE, native.ADDRESS)
_COMPILED = {name: native.function(f"lakeprobe_pair_{name}", *_PAIR) for name in ("float32", "float64")}
_LAYOUT = struct.Struct("4d2q3d")
"""What the functions in C write: the fields of Partial from target_squares on."""
_Memory = native.memory(_LAYOUT.size)

Floats = NDArray[np.float64]


class Partial(NamedTuple):
    """What a block or a run of blocks adds to a pair's metrics.

    `_MERGED` says how to merge them. Counts are elements.
    """

    elements: int = 0
    differing: bool = False
    mismatched: bool = False
    target_squares: float = 0.0
    difference_squares: float = 0.0
    golden_squares: float = 0.0
    product: float = 0.0
    below_one_thousandth: int = 0
    below_five_thousandths: int = 0
    max_difference: float = 0.0
    max_relative: float = 0.0
    max_golden: float = 0.0


MISMATCH = Partial(differing=True, mismatched=True)


def merge(partials: Iterable[Partial]) -> Partial:
    """Merge by sums and maxima. fsum makes the order of parts irrelevant."""
    parts = list(partials)
    return Partial(**{name: merged([getattr(part, name) for part in parts]) for name, merged in _MERGED.items()})


def _total(numbers: Iterable[float]) -> float:
    """Return the correctly rounded sum, or the plain sum if fsum raises, which it does for inf and overflow."""
    numbers = tuple(numbers)
    try:
        return fsum(numbers)
    except (OverflowError, ValueError):
        return sum(numbers)


_MERGED: dict[str, Callable[[list[Any]], Any]] = {
    "elements": sum,
    "differing": any,
    "mismatched": any,
    "target_squares": _total,
    "difference_squares": _total,
    "golden_squares": _total,
    "product": _total,
    "below_one_thousandth": sum,
    "below_five_thousandths": sum,
    "max_difference": max,
    "max_relative": max,
    "max_golden": max,
}


class Family(NamedTuple):
    """How a pair's elements are widened. Relative errors have the precision of the working dtype."""

    working: np.dtype[Any]
    exact_integers: bool


def family_of(target: np.dtype[Any], golden: np.dtype[Any]) -> Family:
    """Return complex128 if one side is complex, float32 if both are floats of at most 32 bits, else float64."""
    kinds = {target.kind, golden.kind}
    if "c" in kinds:
        return Family(np.dtype(np.complex128), False)
    if all(_is_small_float(dtype) for dtype in (target, golden)):
        return Family(np.dtype(np.float32), False)
    wide = max(dtype.itemsize for dtype in (target, golden)) == 8
    return Family(np.dtype(np.float64), wide and kinds <= set("iub"))


def _is_small_float(dtype: np.dtype[Any]) -> bool:
    return dtype.name in SMALL_FLOATS or (dtype.kind == "f" and dtype.itemsize <= 4)


class Scratch(Struct, frozen=True):
    """The buffers of one thread for pairs of one pair of stored dtypes. Row 0 belongs to the target.

    `stored` holds blocks as read, `values` as widened. They share memory if nothing needs widening. `wide` holds
    target, difference and golden as float64. Unless `values` is float32, it is the outer rows of `wide`. `compiled` is
    the function in C, if there is one for such values.
    """

    family: Family
    compiled: Callable[..., None] | None
    stored: tuple[NDArray[np.uint8], NDArray[np.uint8]]
    values: NDArray[Any]
    wide: Floats
    quotient: NDArray[Any]
    mask: NDArray[np.bool_]


def new_scratch(target: np.dtype[Any], golden: np.dtype[Any]) -> Scratch:
    """Return buffers for pairs of these stored dtypes, BLOCK elements each."""
    family = family_of(target, golden)
    reals = BLOCK * max(1, family.working.itemsize // 8)
    # Padding gives the rows of a block equal and even lengths. It adds at most two reals per row.
    wide = np.empty((3, reals + 2 * (reals // _DOT_WIDTH + 1)))
    if family.working.itemsize < 8:
        values: NDArray[Any] = np.empty((2, BLOCK), family.working)
    else:
        values = wide[0::2, :reals].view(family.working)
    stored = [
        row.view(np.uint8) if dtype == family.working else np.empty(BLOCK * dtype.itemsize, np.uint8)
        for row, dtype in zip(values, (target, golden), strict=True)
    ]
    precision = np.float32 if family.working == np.float32 else np.float64
    quotient = np.empty((2, BLOCK), precision)
    compiled = None if family.exact_integers else _COMPILED.get(family.working.name)
    return Scratch(family, compiled, (stored[0], stored[1]), values, wide, quotient, np.empty(BLOCK, np.bool_))


def measure_block(scratch: Scratch, target: NDArray[Any], golden: NDArray[Any]) -> Partial:
    """Return the metrics' parts of one block: two 1-D arrays of equal size, 1 to BLOCK, of any numeric dtypes.

    Call it under `np.errstate(all="ignore")`, because overflow and division by zero are handled here.
    """
    values = scratch.values[:, : target.size]
    widen(golden, values[1])
    if scratch.compiled is None and same_bytes(target, golden):
        partial = _measure_same(scratch, values[1])
        if np.isfinite(partial.golden_squares):
            return partial
    widen(target, values[0])
    exact = subtract_integers(target, golden) if scratch.family.exact_integers else None
    partial = _measure(scratch, values, exact)
    if np.isfinite(partial.target_squares + partial.golden_squares):
        return partial
    # Something is not finite: an element, or only its square.
    if not clear_matching_nonfinite(_as_reals(values)):
        return MISMATCH
    return _measure(scratch, values, exact)


def same_bytes(target: NDArray[Any], golden: NDArray[Any]) -> bool:
    """Return whether two blocks hold the same bytes of the same dtype. The first few bytes usually tell."""
    if target.dtype != golden.dtype:
        return False
    left, right = target.view(np.uint8), golden.view(np.uint8)
    return bool(np.array_equal(left[:256], right[:256]) and np.array_equal(left, right))


def widen(values: NDArray[Any], out: NDArray[Any]) -> None:
    """Convert a block to the working dtype. Exact except for integers beyond 2^53 and long doubles."""
    if values.dtype == out.dtype and np.may_share_memory(values, out):
        return
    if values.dtype.name.startswith("float8_") and out.dtype == np.float32:
        # 2.5 times as fast as ml_dtypes' conversion.
        np.take(_float8_table(values.dtype.name), values.view(np.uint8), out=out, mode="clip")
    else:
        np.copyto(out, values, casting="unsafe")


@lru_cache
def _float8_table(name: str) -> NDArray[np.float32]:
    """Return the value of each of the 256 bit patterns."""
    patterns = np.arange(256, dtype=np.uint8).view(numpy_dtype(name))
    return np.asarray(patterns, np.float32)


def subtract_integers(target: NDArray[Any], golden: NDArray[Any]) -> Floats:
    """Return target - golden as float64, rounded once: exact to 53 bits even if float64(element) is not.

    The upper and lower 32 bits are subtracted separately, so that no pair of 64-bit types, signed or not, overflows.
    """
    upper, lower = (high - low for high, low in zip(_halves(target), _halves(golden), strict=True))
    return upper.astype(np.float64) * 2.0**32 + lower.astype(np.float64)


def _halves(integers: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    wide = integers.astype(np.uint64 if integers.dtype.kind == "u" else np.int64)
    return (wide >> 32).astype(np.int64), (wide & 0xFFFFFFFF).astype(np.int64)


def _as_reals(values: NDArray[Any]) -> NDArray[Any]:
    """Return complex rows as rows of twice as many reals, and real rows unchanged."""
    return values.view(np.float64) if values.dtype.kind == "c" else values


def clear_matching_nonfinite(values: NDArray[Any]) -> bool:
    """Set NaN and inf that both rows have at the same places to zero. Returns False if places or signs of inf differ.

    Real and imaginary parts are separate places.
    """
    unsound = ~np.isfinite(values)
    if not np.array_equal(unsound[0], unsound[1]):
        return False
    if not np.array_equal(values[0][unsound[0]], values[1][unsound[1]], equal_nan=True):
        return False
    values[unsound] = 0
    return True


def _measure(scratch: Scratch, values: NDArray[Any], exact: Floats | None) -> Partial:
    size = values.shape[1]
    if scratch.compiled is not None:
        return _measure_compiled(scratch.compiled, values)
    reals = _as_reals(values)
    wide = _wide_rows(scratch, reals.shape[1])
    target, difference, golden = flat = wide.reshape(3, -1)[:, : reals.shape[1]]
    if reals.dtype != wide.dtype:
        np.copyto(flat[0::2], reals)
    if exact is None:
        np.subtract(target, golden, out=difference)
    else:
        difference[:] = exact
    target_squares, difference_squares, golden_squares = _dots(wide, wide).sum(axis=1)
    max_difference = _greatest(difference.view(np.complex128) if values.dtype.kind == "c" else difference)
    if max_difference == 0:
        relative, small, middling = 0.0, size, size
    else:
        relative, small, middling = _relative(scratch, values, difference)
    return Partial(
        elements=size,
        differing=max_difference != 0,
        mismatched=False,
        target_squares=float(target_squares),
        difference_squares=float(difference_squares),
        golden_squares=float(golden_squares),
        product=float(_dots(wide[0], wide[2]).sum()),
        below_one_thousandth=small,
        below_five_thousandths=middling,
        max_difference=max_difference,
        max_relative=relative,
        max_golden=_greatest(values[1]),
    )


def _measure_compiled(compiled: Callable[..., None], values: NDArray[Any]) -> Partial:
    memory = _Memory()
    target, golden = (row.__array_interface__["data"][0] for row in values)  # ctypes.data takes twice as long
    compiled(target, golden, values.shape[1], memory)
    numbers = _LAYOUT.unpack(memory)
    partial = Partial(values.shape[1], False, False, *numbers)
    return partial._replace(differing=partial.max_difference != 0)


def _measure_same(scratch: Scratch, golden: NDArray[Any]) -> Partial:
    """Return the parts of a block whose two sides are equal, with a third of the work."""
    reals = _as_reals(golden)
    wide = _wide_rows(scratch, reals.size)[2]
    if reals.dtype != wide.dtype:
        np.copyto(wide.reshape(-1)[: reals.size], reals)
    squares = float(_dots(wide, wide).sum())
    size = golden.size
    return Partial(
        elements=size,
        target_squares=squares,
        golden_squares=squares,
        product=squares,
        below_one_thousandth=size,
        below_five_thousandths=size,
        max_golden=_greatest(golden),
    )


def _wide_rows(scratch: Scratch, size: int) -> Floats:
    """Return the first `size` reals of the wide buffers, cut into rows for the dot products and padded with zeros."""
    rows = -(-size // _DOT_WIDTH)
    # An even width, so that no complex number is cut in two.
    width = 2 * -(-size // (2 * rows))
    wide = scratch.wide[:, : rows * width]
    wide[:, size:] = 0
    return wide.reshape(3, rows, width)


def _greatest(values: NDArray[Any]) -> float:
    """Return max |values|, without a buffer for the magnitudes of reals."""
    if values.dtype.kind == "c":
        return float(np.abs(values).max())
    return max(abs(float(values.max())), abs(float(values.min())))


def _relative(scratch: Scratch, values: NDArray[Any], difference: Floats) -> tuple[float, int, int]:
    """Return the greatest relative error of a block, and the numbers of elements below 0.001 and below 0.005."""
    size = values.shape[1]
    errors = scratch.quotient[0, :size]
    greatest = np.nan
    if values.dtype.kind != "c":
        if values.dtype == np.float32:
            np.subtract(values[0], values[1], out=errors)
            np.divide(errors, values[1], out=errors)
        else:
            np.divide(difference, values[1], out=errors)
        np.absolute(errors, out=errors)
        greatest = float(errors.max())
    # Zeros among the golden elements give inf or NaN. Only then is their own formula needed.
    if not np.isfinite(greatest):
        _guard_zeros(scratch, values, difference)
        greatest = float(errors.max())
    small, middling = (_count_below(scratch, errors, greatest, threshold) for threshold in (0.001, 0.005))
    return greatest, small, middling


def _count_below(scratch: Scratch, errors: NDArray[Any], greatest: float, threshold: float) -> int:
    limit = errors.dtype.type(threshold)
    if greatest < limit:  # not if it is NaN
        return errors.size
    return int(np.count_nonzero(np.less(errors, limit, out=scratch.mask[: errors.size])))


def _guard_zeros(scratch: Scratch, values: NDArray[Any], difference: Floats) -> None:
    """Compute relative errors |(n + e) - (b + e)| / |b + e|, where e is the precision's epsilon if b == 0, else 0."""
    size = values.shape[1]
    numerator, denominator = scratch.quotient[:, :size]
    mask = np.equal(values[1], 0, out=scratch.mask[:size])
    np.multiply(mask, np.finfo(numerator.dtype).eps, out=denominator)
    if values.dtype.kind == "c":
        shifted = values + denominator
        np.absolute(shifted[0] - shifted[1], out=numerator)
        np.absolute(shifted[1], out=denominator)
    else:
        np.add(values[0], denominator, out=numerator)
        np.add(values[1], denominator, out=denominator)
        np.subtract(numerator, denominator, out=numerator)
        if scratch.family.exact_integers:
            np.copyto(numerator, difference, where=~mask)
    np.divide(numerator, denominator, out=numerator)
    np.absolute(numerator, out=numerator)
