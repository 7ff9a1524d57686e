"""Both roads to a summary of float32 numbers, in C and in numpy, beside each other and beside exact arithmetic."""

import math
import os
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeprobe.system import native
from lakeprobe.tensors import summary
from lakeprobe.tensors.summary import Summary

ROADS = [True, False] if summary.is_native else [False]

SPECIAL = [0.0, -0.0, 1.0, -1.0, 3.4028235e38, -3.4028235e38, 1e-45, -1e-45, 1.1754942e-38, 1e-30, 16777216.0]
NOT_FINITE = [math.nan, math.inf, -math.inf]
SIZES = [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 4095, 65535, 65536, 65537, 131072, 131089]


def by(road: bool, array: "np.ndarray[Any, Any]") -> Summary:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "is_native", road)
        return summary.of(array)


def bits(result: Summary) -> bytes:
    """All NaN are one, every zero counts with its sign, unless the summary says that it may have either."""
    high, low = (abs(result.high), abs(result.low)) if result.minus else (result.high, result.low)
    numbers = [math.nan if number != number else number for number in (high, low, *result[2:])]
    return np.array(numbers, np.float64).tobytes()


def arrays(specials: list[float]) -> st.SearchStrategy["np.ndarray[Any, Any]"]:
    """Numbers of one magnitude, with some of `specials` among them, in one of the sizes that matter."""

    def made(size: int, seed: int, power: int, among: list[float]) -> "np.ndarray[Any, Any]":
        chance = np.random.default_rng(seed)
        array = (chance.standard_normal(size) * 10.0**power).astype(np.float32)
        if size:
            array[chance.integers(size, size=len(among))] = among
        return array

    sizes = st.one_of(st.integers(0, 100), st.sampled_from(SIZES))
    return st.builds(made, sizes, st.integers(0, 2**32), st.integers(-46, 37), st.lists(st.sampled_from(specials)))


few = st.lists(st.one_of(st.floats(width=32), st.sampled_from(SPECIAL + NOT_FINITE)), max_size=40).map(
    lambda numbers: np.array(numbers, np.float32)
)


@given(st.one_of(few, arrays(SPECIAL), arrays(SPECIAL + NOT_FINITE)))
def test_both_roads_give_the_same_bits(array: "np.ndarray[Any, Any]") -> None:
    assert len({bits(by(road, array)) for road in ROADS}) == 1


@given(st.one_of(few.filter(lambda array: np.isfinite(array).all()), arrays(SPECIAL)))
def test_a_summary_of_finite_numbers_beside_exact_arithmetic(array: "np.ndarray[Any, Any]") -> None:
    numbers = array.tolist()
    for road in ROADS:
        result = by(road, array)
        assert result.high == max(numbers, default=-math.inf)
        assert result.low == min(numbers, default=math.inf)
        assert result.zeros == numbers.count(0.0)
        assert result[6:] == (0, 0, 0)
        # a sum of n float64 numbers in 16 lanes is off by at most n roundings
        error = len(numbers) * 2.0**-53
        assert abs(result.sum - math.fsum(numbers)) <= error * math.fsum(map(abs, numbers))
        exact = (
            sum(Fraction(number) ** 2 for number in numbers)
            if len(numbers) < 100
            else math.fsum(n * n for n in numbers)
        )
        assert abs(Fraction(result.squares) - Fraction(exact)) <= Fraction(error) * Fraction(exact)


@given(few)
def test_what_is_not_finite_is_counted(array: "np.ndarray[Any, Any]") -> None:
    numbers = array.tolist()
    finite = bool(np.isfinite(array).all())
    for road in ROADS:
        result = by(road, array)
        assert math.isfinite(result.squares) == finite
        assert result.nans == sum(number != number for number in numbers)
        assert (result.above, result.below) == (numbers.count(math.inf), numbers.count(-math.inf))
        if result.nans:
            assert all(number != number for number in (result.high, result.low, result.sum, result.squares))
        elif not finite:
            assert result.high == max(numbers)
            assert result.low == min(numbers)
            assert result.squares == math.inf
            assert (
                result.sum == sum(number for number in numbers if not math.isfinite(number)) or result.sum != result.sum
            )


@given(few.filter(lambda array: array.size and not np.isnan(array).any()))
def test_a_zero_at_the_end_of_the_range_may_have_either_sign_if_there_is_a_minus(array: "np.ndarray[Any, Any]") -> None:
    at_the_end = not array.max() or not array.min()
    expected = int(at_the_end and bool(np.signbit(array[array == 0]).any()))
    assert [by(road, array).minus for road in ROADS] == [expected] * len(ROADS)


VIEWS = {
    "transposed": lambda a: a.T,
    "every other column": lambda a: a[:, ::2],
    "upside down": lambda a: a[::-1],
    "expanded": lambda a: np.broadcast_to(a[:, :1], a.shape),
    "of no dimension": lambda a: a[1, 2],
    "of three dimensions": lambda a: a.reshape(300, 7, 100).transpose(0, 2, 1),
    "misaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), np.float32, offset=1),
    "read-only": lambda a: np.frombuffer(a.tobytes(), np.float32),
    "empty": lambda a: a[:, :0],
}


@pytest.mark.parametrize("view", VIEWS)
def test_arrays_of_any_strides(view: str) -> None:
    array = np.asarray(VIEWS[view](np.random.default_rng(0).standard_normal((300, 700)).astype(np.float32)))
    results = [by(road, array) for road in ROADS]
    assert len({bits(result) for result in results}) == 1
    result = results[0]
    numbers = array.reshape(-1).tolist()
    assert result.high == max(numbers, default=-math.inf)
    assert result.low == min(numbers, default=math.inf)
    assert result.sum == pytest.approx(math.fsum(numbers), rel=1e-12, abs=1e-9)
    assert result.squares == pytest.approx(math.fsum(number * number for number in numbers), rel=1e-12)


def test_a_transposed_array_has_the_same_bits_as_what_it_is_a_view_of() -> None:
    array = np.random.default_rng(1).standard_normal((300, 70, 11)).astype(np.float32)
    assert {bits(by(road, view)) for road in ROADS for view in (array, array.T, array.transpose(1, 0, 2))} == {
        bits(by(False, array))
    }


def test_what_a_thread_is_told_is_its_own() -> None:
    from concurrent.futures import ThreadPoolExecutor

    known = [np.full(1000 + number, number, np.float32) for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda array: [summary.of(array) for _ in range(50)], known))
    for number, (array, told) in enumerate(zip(known, results, strict=True)):
        assert {(result.high, result.sum) for result in told} == {(number, number * array.size)}


PROGRAM = """
import numpy as np
from lakeprobe.system import native
from lakeprobe.tensors import summary
print(native.state())
print(summary.is_native)
print(summary.of(np.arange(100_000, dtype=np.float32)).sum)
"""


def test_everything_works_without_the_functions_in_c() -> None:
    environment = {**os.environ, "LAKEPROBE_NATIVE": "0"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["not used, because LAKEPROBE_NATIVE is 0", "False", "4999950000.0"]


def test_a_library_that_cannot_be_loaded_is_none(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels.so").write_bytes(b"no library")
    monkeypatch.setattr("lakeprobe.resources.folder", lambda name: tmp_path)
    native._library.cache_clear()
    try:
        assert native.function("lakeprobe_summary") is None
        assert native.state() == "missing: install lakeprobe again where there is a C compiler"
    finally:
        native._library.cache_clear()
