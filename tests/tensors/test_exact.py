"""Every metric and statistic against exact arithmetic: what a tensor holds as fractions, and sums without rounding.

What differs is what the docstrings of TensorMetrics and measure promise: results are rounded to 12 decimals, relative
errors have the precision of float32 where both sides are small floats, squares beyond float64 are infinite.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sampling import examples
from tensor_oracle import store

from lakeprobe.tensors import measure
from lakeprobe.tensors.kernel import family_of
from lakeprobe.tensors.reference import SMALL_FLOATS
from lakeprobe.tensors.statistics import measure as statistics_of

REALS = (*"?bhilqBHILQefd", ">f2", ">f4", ">f8", ">i2", ">i8", ">u8")
DTYPES = [np.dtype(name) for name in (*REALS, "F", "D", ">c8", ">c16")] + [
    np.dtype(getattr(ml_dtypes, name)) for name in SMALL_FLOATS if name != "float8_e8m0fnu"
]
SPECIAL = (
    0.0, -0.0, 1.0, -1.0, 0.1, 65504.0, 65520.0, -70000.0, 448.0, 6e-8, -6e-8, 1e-45, 5e-324, -5e-324, 1e-310, 3.4e38,
    1.7e308, 2.0**53, 2.0**53 + 2, math.inf, -math.inf, math.nan,
)  # fmt: skip
INTEGERS = (0, 1, -1, 127, 128, 255, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, -(2**53) - 1)
FLOOR = np.finfo(np.float64).eps
OVER = Fraction(np.finfo(np.float64).max)


# ---- tensors ----------------------------------------------------------------------------------------------


def cast(value: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return np.array(value, dtype)


def elements(dtype: np.dtype[Any], count: int) -> st.SearchStrategy[NDArray[Any]]:
    """`count` elements of `dtype`: ordinary ones, special ones, and any bits."""
    bits = st.binary(min_size=dtype.itemsize, max_size=dtype.itemsize)
    one: st.SearchStrategy[Any]
    if dtype.kind == "b":
        one = st.booleans().map(lambda value: cast(value, dtype))
    elif dtype.kind in "iu":
        span = np.iinfo(dtype)
        some = st.sampled_from([value for value in INTEGERS if span.min <= value <= span.max])
        one = (some | st.integers(-3, 100).map(lambda value: max(value, span.min))).map(lambda it: cast(it, dtype))
    elif dtype.kind == "c":
        part = st.sampled_from(SPECIAL) | st.floats(-100, 100)
        one = st.builds(complex, part, part).map(lambda value: cast(value, dtype))
    else:
        plain = st.sampled_from(SPECIAL) | st.floats(-100, 100)
        one = plain.map(lambda value: cast(value, dtype)) | bits.map(lambda it: np.frombuffer(it, dtype)[0])
    return st.lists(one, min_size=count, max_size=count).map(
        lambda many: (
            np.array([np.asarray(it, dtype).tobytes() for it in many], f"V{dtype.itemsize}").view(dtype)
            if many
            else np.empty(0, dtype)
        )
    )


def like(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """`array` as nearly as `dtype` has it."""
    plain = array.real if array.dtype.kind == "c" and dtype.kind != "c" else array
    return cast(plain, dtype)


LAYOUTS = ("plain", "scalar", "transposed", "every other")


@st.composite
def pairs(draw: st.DrawFn) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two tensors of one shape: often of one dtype, often nearly equal, seldom as they lie."""
    first = draw(st.sampled_from(DTYPES))
    second = draw(st.just(first) | st.sampled_from(DTYPES))
    layout = draw(st.sampled_from(LAYOUTS))
    count = 1 if layout == "scalar" else draw(st.integers(0, 3)) * 2
    target = draw(elements(first, count))
    with np.errstate(all="ignore"):
        golden = draw(elements(second, count) | st.just(like(target, second)))
    if draw(st.booleans()):  # what is not finite mostly stands at the same places
        unsound = ~np.isfinite(target.astype(complex)) | ~np.isfinite(golden.astype(complex))
        target, golden = (
            np.where(unsound, target.dtype.type(1), target),
            np.where(unsound, golden.dtype.type(1), golden),
        )
        target, golden = target.astype(first), golden.astype(second)
    return laid_out(target, layout), laid_out(golden, draw(st.sampled_from(("plain", layout))) if count > 1 else layout)


def laid_out(array: NDArray[Any], layout: str) -> NDArray[Any]:
    if layout == "scalar":
        return array.reshape(())
    square = array.reshape(2, -1)
    if layout == "transposed":
        return np.asfortranarray(square)
    if layout == "every other":
        wide = np.zeros((2, 2 * square.shape[1]), array.dtype)
        wide[:, ::2] = square
        return wide[:, ::2]
    return square


# ---- what is right ----------------------------------------------------------------------------------------


class Right(NamedTuple):
    """Parts of the metrics, exact: of elements that are finite, those that are not count as 0."""

    differences: list[Fraction]  # squared absolute values
    target: Fraction
    golden: Fraction
    product: Fraction
    largest: Fraction  # squared
    relative: list[tuple[Fraction, Fraction]]  # each with how far off it may be


def parts(array: NDArray[Any]) -> list[tuple[float | int, ...]]:
    """The elements in C order: a number, or real and imaginary part."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind == "c":
        return [(float(it.real), float(it.imag)) for it in flat.tolist()]
    if flat.dtype.kind in "iub":
        return [(it,) for it in flat.tolist()]
    return [(it,) for it in cast(flat, np.dtype(np.float64)).tolist()]  # any bits may be a signalling NaN


def right(target: NDArray[Any], golden: NDArray[Any]) -> Right | None:
    """None where NaN and inf do not match."""
    family = family_of(target.dtype, golden.dtype)
    working = np.float32 if family.working == np.float32 else np.float64
    wide = family.working.kind == "c"
    sums = [Fraction(0)] * 3
    differences, relative, largest = [], [], Fraction(0)
    for one, other in zip(parts(target), parts(golden), strict=True):
        one, other = [(*part, 0.0) if wide and len(part) == 1 else part for part in (one, other)]
        exact = None
        if family.exact_integers:
            exact = Fraction(int(one[0])) - Fraction(int(other[0]))
        n, b = [float(it) for it in one], [float(it) for it in other]
        for place, (left, there) in enumerate(zip(n, b, strict=True)):
            if not (math.isfinite(left) and math.isfinite(there)):
                if left != there and not (math.isnan(left) and math.isnan(there)):
                    return None
                n[place] = b[place] = 0.0
        exact_n, exact_b = [Fraction(it) for it in n], [Fraction(it) for it in b]
        gaps = [exact] if exact is not None else [x - y for x, y in zip(exact_n, exact_b, strict=True)]
        difference = sum((it * it for it in gaps), Fraction(0))
        size = sum((it * it for it in exact_b), Fraction(0))
        differences.append(difference)
        sums[0] += sum((it * it for it in exact_n), Fraction(0))
        sums[1] += size
        sums[2] += sum((x * y for x, y in zip(exact_n, exact_b, strict=True)), Fraction(0))
        largest = max(largest, size)
        relative.append(_relative(difference, size, sum((it * it for it in exact_n), Fraction(0)), working))
    return Right(differences, *sums[:2], sums[2], largest, relative)


def _relative(difference: Fraction, size: Fraction, target: Fraction, working: Any) -> tuple[Fraction, Fraction]:
    epsilon = Fraction(float(np.finfo(working).eps))
    if size == 0:
        value = root(difference) / epsilon
        return value, 4 * epsilon * (root(target) + epsilon) / epsilon
    value = root(difference / size)
    return value, 4 * epsilon * value + Fraction(float(np.finfo(working).smallest_subnormal))


def root(number: Fraction) -> Fraction:
    """The square root to 60 digits."""
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -5000, 5000
        return Fraction((Decimal(number.numerator) / Decimal(number.denominator)).sqrt())


def near(found: float, exact: Fraction, relative: float = 1e-12, absolute: float = 5.1e-13) -> bool:
    """Whether `found` is `exact` up to rounding; infinite where float64 ends."""
    if not math.isfinite(found):
        return found > 0 and exact > OVER * Fraction(0.99)
    return abs(Fraction(found) - exact) <= Fraction(relative) * exact + Fraction(absolute)


# ---- laws -------------------------------------------------------------------------------------------------

FAST = settings(max_examples=examples(400), suppress_health_check=[HealthCheck.function_scoped_fixture])


@FAST
@given(pair=pairs())
def test_metrics_are_what_exact_arithmetic_gives(tmp_path: Path, pair: tuple[NDArray[Any], NDArray[Any]]) -> None:
    target, golden = pair
    found = measure(store(tmp_path / "target", target, 3), store(tmp_path / "golden", golden))
    if not target.size:
        assert (found.status, found.equal) == ("empty", True)
        return
    exact = right(target, golden)
    if exact is None:
        assert (found.status, found.equal, found.cosine) == ("nonfinite", False, None)
        return
    assert found.status == ("scalar" if target.size == 1 else "measured")
    assert found.equal == (not any(exact.differences))
    assert near(found.max_abs_error, root(max(exact.differences)))
    # A real number is itself; a magnitude is rounded, to a multiple of the smallest number.
    slack = (1e-15, 0.0) if golden.dtype.kind != "c" else (1e-12, 5e-324)
    assert near(found.golden_max_abs, root(exact.largest), *slack)
    if squares_fit(exact.golden):
        assert near(found.golden_norm, root(exact.golden), absolute=1e-150)
    check_relative(found.max_relative_error, exact, target, golden)
    if target.size == 1:
        return
    total = sum(exact.differences, Fraction(0))
    if squares_fit(total):
        assert near(found.euclidean_distance, root(total), absolute=1e-150)
    for ratio, threshold in ((found.one_thousandth_ratio, 0.001), (found.five_thousandths_ratio, 0.005)):
        least = sum(value + slack < Fraction(threshold) for value, slack in exact.relative)
        most = sum(value - slack <= Fraction(threshold) * (1 + Fraction(1, 10**6)) for value, slack in exact.relative)
        assert least <= round(ratio * target.size) <= most
    check_cosine(found.cosine, exact, target.size)


def squares_fit(number: Fraction) -> bool:
    return number < OVER / 4


def check_relative(found: float, exact: Right, target: NDArray[Any], golden: NDArray[Any]) -> None:
    value, slack = max(exact.relative)
    family = family_of(target.dtype, golden.dtype)
    most = Fraction(float(np.finfo(np.float32 if family.working == np.float32 else np.float64).max))
    if math.isfinite(found):
        assert abs(Fraction(found) - value) <= slack + Fraction(6e-13)
    else:
        assert value + slack > most / 4  # a part of the quotient is beyond the precision


def check_cosine(found: float | None, exact: Right, size: int) -> None:
    norms = root(exact.target), root(exact.golden)
    if any(abs(float(norm) - FLOOR) < 1e-20 for norm in norms if norm < 1):
        return
    zeros = sum(norm <= Fraction(float(FLOOR)) for norm in norms)
    if zeros == 2:
        assert found == 1.0
    elif zeros == 1 or not (squares_fit(exact.target) and squares_fit(exact.golden)):
        assert found is None or abs(found) <= 1
    else:
        cosine = exact.product / (norms[0] * norms[1])
        assert found is not None
        assert abs(Fraction(found) - cosine) <= Fraction(6e-7 if found > 0.9999 else 1e-12 * (1 + size))
        assert abs(found) <= 1 + 1e-12


@FAST
@given(data=st.data(), dtype=st.sampled_from(DTYPES), layout=st.sampled_from(LAYOUTS), count=st.integers(0, 3))
def test_statistics_are_what_exact_arithmetic_gives(
    tmp_path: Path, data: st.DataObject, dtype: np.dtype[Any], layout: str, count: int
) -> None:
    array = laid_out(data.draw(elements(dtype, 1 if layout == "scalar" else 2 * count)), layout)
    found = statistics_of(store(tmp_path / "x", array, 1))
    if not array.size:
        assert found == {}
        return
    values = [math.hypot(*part) if len(part) > 1 else part[0] for part in parts(array)]
    if any(math.isnan(it) for it in values):
        assert math.isnan(found["Max"])
        assert math.isnan(found["Min"])
        assert math.isnan(found["Norm"])
        return
    close = {"rel": 0.0, "abs": 0.0}
    if dtype.kind == "c":  # a magnitude is a float64, of which numbers below 1e-308 have few digits
        close = {"rel": 1e-14, "abs": 5e-324}
    assert found["Max"] == pytest.approx(max(values), **close)
    assert found["Min"] == pytest.approx(min(values), **close)
    if dtype.kind == "b":
        assert set(found) == {"Max", "Min"}
        return
    if not all(map(math.isfinite, values)):
        assert not math.isfinite(found["Norm"])
        return
    exact = [Fraction(it) for it in values]
    total, squares = sum(exact, Fraction(0)), sum((it * it for it in exact), Fraction(0))
    size = sum(map(abs, exact), Fraction(0))
    if size < OVER / 4:
        off = abs(Fraction(found["Mean"]) * array.size - total)
        assert off <= Fraction(1e-14) * size + array.size * Fraction(5e-324)
    if squares_fit(squares):
        assert near(found["Norm"], root(squares), absolute=1e-150)
