"""Metrics against naive formulas over whole arrays, and the laws that walking in blocks must keep."""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from msgspec.structs import astuple
from numpy.typing import NDArray
from real_dumps import DUMPS, needs_dumps
from sampling import examples
from tensor_oracle import naive_metrics, store

from lakeprobe.errors import TensorError
from lakeprobe.tensors import (
    TensorMetrics,
    TensorReference,
    kernel,
    measure,
    measure_pairs,
    metrics,
    read_tensor,
)

DTYPES = [
    *(np.float16, np.float32, np.float64, np.complex64, np.complex128, np.bool_),
    *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz),
]
in_tmp = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))


def measured(folder: Path, target: Any, golden: Any, threads: int = 1) -> TensorMetrics:
    sides = store(folder / "target", np.asarray(target)), store(folder / "golden", np.asarray(golden))
    return measure(*sides, threads)


def assert_close(found: TensorMetrics, expected: TensorMetrics, relative: float = 1e-12) -> None:
    for value, oracle in zip(astuple(found), astuple(expected), strict=True):
        if isinstance(oracle, float) and not isinstance(oracle, bool):
            # The absolute part: a value may fall on either side of the twelfth decimal.
            assert value == pytest.approx(oracle, rel=relative, abs=1.5e-12)
        else:
            assert value == oracle


def noisy_pair(dtype: Any, count: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Some elements equal, some near, some far, some zero on one side or both."""
    random = np.random.default_rng(seed)
    golden = random.standard_normal(count) * 4
    if np.dtype(dtype).kind == "u":
        golden = abs(golden)
    if np.dtype(dtype).kind == "c":
        golden = golden + 1j * random.standard_normal(count)
    target = golden * (1 + random.choice([0, 1e-4, 2e-3, 0.1], count))
    for side in (target, golden):
        side[random.random(count) < 0.1] = 0
    return target.astype(dtype), golden.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_naive_formulas(tmp_path: Path, dtype: Any) -> None:
    target, golden = noisy_pair(dtype, 5000)
    assert_close(measured(tmp_path, target, golden), naive_metrics(target, golden))


@pytest.mark.parametrize(
    ("target_dtype", "golden_dtype"),
    [
        (np.float16, np.float32),
        (ml_dtypes.bfloat16, np.float32),
        (ml_dtypes.bfloat16, np.float64),
        (ml_dtypes.float8_e5m2, np.complex128),
        (np.float32, np.float64),
        (np.float32, np.complex64),
        (np.int32, np.float32),
        (np.bool_, np.int64),
        (">f4", np.float32),
        (">i8", np.int64),
    ],
)
def test_agrees_with_naive_formulas_across_dtypes(tmp_path: Path, target_dtype: Any, golden_dtype: Any) -> None:
    target, golden = noisy_pair(np.float64, 3000)
    target, golden = target.astype(target_dtype), golden.astype(golden_dtype)
    assert_close(measured(tmp_path, target, golden), naive_metrics(target, golden))


def test_more_elements_than_a_piece(tmp_path: Path) -> None:
    target, golden = noisy_pair(np.float32, metrics._PIECE + kernel.BLOCK + 4097)
    one, two = (measured(tmp_path, target, golden, threads) for threads in (1, 2))
    assert one == two
    assert_close(one, naive_metrics(target, golden))


def test_zero_golden_element_uses_epsilon(tmp_path: Path) -> None:
    """As msprobe 26.2 has it in its results: a golden 0 counts as the spacing of its dtype at 1."""
    floats = measured(tmp_path, np.float32([1, 2]), np.float32([0, 2]))
    assert floats.max_relative_error == 8388608.0
    assert floats.one_thousandth_ratio == 0.5
    assert measured(tmp_path, [1, 2], [0, 2]).max_relative_error == 2.0**52
    assert measured(tmp_path, [3, 2], [0, 2]).max_relative_error == 3 * 2.0**52
    assert measured(tmp_path, np.float32([0, 2]), np.float32([0, 2])).max_relative_error == 0


def test_cosine_of_zero_tensors(tmp_path: Path) -> None:
    zeros, ones = np.zeros(4, np.float32), np.ones(4, np.float32)
    assert measured(tmp_path, zeros, zeros).cosine == 1.0
    assert measured(tmp_path, ones, zeros).cosine is None
    assert measured(tmp_path, zeros, ones).cosine is None
    assert measured(tmp_path, -ones, ones).cosine == -1.0


def test_cosine_of_tensors_that_are_nearly_zero(tmp_path: Path) -> None:
    """A norm of at most 2⁻⁵² counts as zero; just above it is a norm like any other."""
    ones = np.ones(1_000, np.float64)
    below, above = (np.full(1_000, 2.0**-52 * share / 1_000**0.5) for share in (0.9, 1.5))
    assert measured(tmp_path, below, ones).cosine is None
    assert measured(tmp_path, below, below * 0.5).cosine == 1.0
    assert measured(tmp_path, above, ones).cosine == 1.0
    assert measured(tmp_path, -above, above * 2).cosine == -1.0


@pytest.mark.parametrize(("angle", "digits"), [(0.0105, 6), (0.0142, 12), (0.02, 12)])
def test_a_cosine_above_0_9999_has_six_digits(tmp_path: Path, angle: float, digits: int) -> None:
    """0.0105 is a cosine of 0.9999449, 0.0142 of 0.999899, 0.02 of 0.9998."""
    golden, target = np.array([1.0, 0.0]), np.array([np.cos(angle), np.sin(angle)])
    assert measured(tmp_path, target, golden).cosine == round(float(np.cos(angle)), digits)


def test_ratios_are_strict(tmp_path: Path) -> None:
    golden = np.array([1000.0, 1000.0, 1000.0, 1000.0])
    found = measured(tmp_path, golden + np.array([0, 0.5, 1, 5]), golden)
    assert (found.one_thousandth_ratio, found.five_thousandths_ratio) == (0.5, 0.75)


def test_scalar(tmp_path: Path) -> None:
    found = measured(tmp_path, np.float32([[2.5]]), np.float32(2))
    assert found == TensorMetrics(
        "scalar", max_abs_error=0.5, max_relative_error=0.25, equal=False, golden_norm=2.0, golden_max_abs=2.0
    )


def test_shapes_are_squeezed(tmp_path: Path) -> None:
    row = np.arange(4, dtype=np.float32)
    assert measured(tmp_path, row.reshape(1, 4), row).equal is True
    assert measured(tmp_path, row.reshape(2, 2), row) == TensorMetrics("shape", equal=False)


def test_empty(tmp_path: Path) -> None:
    empty = np.empty((0, 3), np.float32)
    assert measured(tmp_path, empty, empty.reshape(1, 0, 3)) == TensorMetrics("empty", equal=True)
    assert measured(tmp_path, empty, empty.T) == TensorMetrics("empty", equal=False)
    assert measured(tmp_path, empty, np.ones(3)) == TensorMetrics("empty", equal=False)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, ml_dtypes.bfloat16])
def test_matching_nonfinite_elements_count_as_zeros(tmp_path: Path, dtype: Any) -> None:
    golden = np.array([np.nan, np.inf, -np.inf, 1, 2, 0], dtype)
    target = np.array([np.nan, np.inf, -np.inf, 1.5, 2, 0], dtype)
    assert_close(measured(tmp_path, target, golden), naive_metrics(target, golden))
    assert measured(tmp_path, golden, golden).equal is True


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize(
    ("target", "golden"),
    [
        ([np.nan, 1], [1, np.nan]),
        ([np.inf, 1], [-np.inf, 1]),
        ([np.nan, 1], [np.inf, 1]),
        ([0, np.inf], [0, 5]),
    ],
)
def test_nonfinite_elements_that_do_not_match(tmp_path: Path, dtype: Any, target: Any, golden: Any) -> None:
    found = measured(tmp_path, np.array(target, dtype), np.array(golden, dtype))
    assert found == TensorMetrics("nonfinite", equal=False)


def test_complex_is_compared_in_full(tmp_path: Path) -> None:
    golden = np.array([1 + 1j, 2], np.complex64)
    found = measured(tmp_path, golden.conj(), golden)
    assert found.equal is False
    assert found.max_abs_error == 2
    assert found.cosine == pytest.approx(4 / 6, abs=1e-12)


def test_integers_are_subtracted_exactly(tmp_path: Path) -> None:
    golden = np.array([2**62, 5], np.int64)
    found = measured(tmp_path, golden + 1, golden)
    assert found.equal is False
    assert (found.max_abs_error, found.euclidean_distance) == (1.0, 2**0.5)
    big = np.array([2**64 - 1, 0], np.uint64)
    assert measured(tmp_path, big, big - np.array([1, 0], np.uint64)).max_abs_error == 1.0
    assert measured(tmp_path, big[::-1].copy(), big).max_abs_error == 2.0**64
    assert measured(tmp_path, np.array([-(2**63), 0]), big).max_abs_error == 1.5 * 2.0**64
    assert measured(tmp_path, np.array([-1, 0]), big).equal is False


def test_equal_compares_values(tmp_path: Path) -> None:
    assert measured(tmp_path, np.float32([-0.0, 1]), np.float32([0.0, 1])).equal is True
    assert measured(tmp_path, np.float16([0.5, 1]), np.float64([0.5, 1])).equal is True
    assert measured(tmp_path, np.float64([0.1, 1]), np.float32([0.1, 1])).equal is False


def test_zero_difference_is_a_positive_zero(tmp_path: Path) -> None:
    assert str(measured(tmp_path, np.float32([1, 2]), np.float16([1, 2])).max_abs_error) == "0.0"


def test_text(tmp_path: Path) -> None:
    assert measured(tmp_path, ["ab", "c"], ["ab", "cde"]) == TensorMetrics("text", equal=False)
    assert measured(tmp_path, ["ab", "c"], np.array(["ab", "c"], "<U9")) == TensorMetrics("text", equal=True)
    assert measured(tmp_path, ["1", "2"], [1, 2]) == TensorMetrics("text", equal=False)
    times = np.array(["2026-01-01", "NaT"], "datetime64[D]")
    assert measured(tmp_path, times, times) == TensorMetrics("text", equal=True)


def test_unaligned(tmp_path: Path) -> None:
    target, golden = noisy_pair(np.float64, 1000)
    sides = store(tmp_path / "target", target, lead=3), store(tmp_path / "golden", golden, lead=13)
    assert_close(measure(*sides), naive_metrics(target, golden))


def test_unreadable(tmp_path: Path) -> None:
    good = store(tmp_path / "good", np.arange(4.0))
    gone = replace(good, file=str(tmp_path / "gone"))
    short = replace(good, shape=(400,), length=3200)
    first, second, third = measure_pairs([good, good, short], [gone, good, short], threads=2)
    assert (first.status, second.status, third.status) == ("unreadable", "measured", "unreadable")
    assert first.detail is not None
    assert "gone" in first.detail
    with pytest.raises(TensorError, match="gone"):
        measure(gone, good)


@pytest.mark.parametrize("layout", ["both transposed", "one transposed", "stepped", "expanded"])
def test_layout_does_not_matter(tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, golden = (side.reshape(60, 70) for side in noisy_pair(np.float32, 4200))
    expected = naive_metrics(target, golden)
    if layout == "both transposed":
        target, golden = np.asfortranarray(target), np.asfortranarray(golden)
    elif layout == "one transposed":
        target = np.asfortranarray(target)
    elif layout == "stepped":
        room = np.zeros((60, 200), np.float32)
        room[:, 3:143:2] = target
        target = room[:, 3:143:2]
    else:
        target = np.broadcast_to(target[:1], (60, 70))
        expected = naive_metrics(target, golden)
    assert_close(measured(tmp_path, target, golden), expected)
    monkeypatch.setattr("lakeprobe.tensors.blocks.GATHER_SPAN", 64)
    monkeypatch.setattr("lakeprobe.tensors.blocks.PIECE_BYTES", 400)
    assert_close(measured(tmp_path, target, golden), expected)


pairs = hnp.arrays(
    np.float32,
    st.tuples(st.just(2), st.integers(1, 40)),
    elements=st.floats(-1e6, 1e6, width=32) | st.sampled_from([np.nan, np.inf, -np.inf, -0.0]),
)


@in_tmp
@given(pair=pairs, block=st.integers(1, 50), threads=st.integers(1, 3))
def test_blocks_and_threads_do_not_matter(tmp_path: Path, pair: NDArray[Any], block: int, threads: int) -> None:
    whole = measured(tmp_path, *pair)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "BLOCK", block)
        patch.setattr(metrics, "BLOCK", block)
        patch.setattr(metrics, "_PIECE", 3 * block)
        assert_close(measured(tmp_path, *pair, threads=threads), whole)


@in_tmp
@given(pair=pairs)
def test_equal_iff_numpy_says_so(tmp_path: Path, pair: NDArray[Any]) -> None:
    assert measured(tmp_path, *pair).equal is np.array_equal(*pair, equal_nan=True)
    assert measured(tmp_path, pair[0], pair[0]).equal is True


@in_tmp
@given(pair=pairs)
def test_symmetric_parts_are_symmetric(tmp_path: Path, pair: NDArray[Any]) -> None:
    forth, back = measured(tmp_path, *pair), measured(tmp_path, *pair[::-1])
    assert (forth.status, forth.cosine, forth.euclidean_distance, forth.max_abs_error, forth.equal) == (
        back.status, back.cosine, back.euclidean_distance, back.max_abs_error, back.equal
    )  # fmt: skip


REAL = DUMPS / "A_pt_lm" / "L1_tensor"


@needs_dumps
def test_agrees_with_msprobe_on_real_dumps() -> None:
    (result,) = (REAL / "peer_out_ln_eps_step0").glob("compare_result_*.csv.gz")
    folders = [next((REAL / run / "step0").glob("*/dump_tensor_data")) for run in ("ln_eps", "golden")]
    with gzip.open(result, "rt") as file:
        rows = [row for row in csv.DictReader(file) if _is_number(row["EucDist"])]
    assert len(rows) > 100
    names = [[part.strip(" []'\"") for part in row["Data_name"].split(",")] for row in rows]
    sides: list[list[TensorReference]] = [
        [read_tensor(folder / name[side]) for name in names] for side, folder in enumerate(folders)
    ]
    for row, found in zip(rows, measure_pairs(*sides, threads=2), strict=True):
        for column, value in {
            "Cosine": found.cosine,
            "EucDist": found.euclidean_distance,
            "MaxAbsErr": found.max_abs_error,
            "MaxRelativeErr": found.max_relative_error,
            "One Thousandth Err Ratio": found.one_thousandth_ratio,
            "Five Thousandths Err Ratio": found.five_thousandths_ratio,
        }.items():
            if _is_number(row[column]):
                assert value == pytest.approx(float(row[column]), rel=1e-6, abs=1.5e-12), (row, column)


def _is_number(text: str) -> bool:
    try:
        return np.isfinite(float(text))
    except ValueError:
        return False
