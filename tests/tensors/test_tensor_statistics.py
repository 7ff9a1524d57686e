"""The statistics of a tensor against numpy on the whole array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lakeprobe.tensors import read_tensor
from lakeprobe.tensors.reference import TensorReference
from lakeprobe.tensors.statistics import measure


def measured(tmp_path: Path, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    np.save(tmp_path / "a.npy", array)
    return measure(read_tensor(tmp_path / "a.npy"))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (700, 401)])
def test_floats(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(3, 2, shape).astype(dtype)
    wide = array.astype(np.float64)
    found = measured(tmp_path, array)
    assert (found["Max"], found["Min"]) == (wide.max(), wide.min())
    assert found["Mean"] == pytest.approx(wide.mean(), rel=1e-12)
    assert found["Norm"] == pytest.approx(np.sqrt((wide**2).sum()), rel=1e-12)


def test_a_transposed_array(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    assert measured(tmp_path, array) == {"Max": 11.0, "Min": 0.0, "Mean": 5.5, "Norm": pytest.approx(506**0.5)}


def test_bfloat16_and_float8(tmp_path: Path) -> None:
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        array = np.array([1.5, -2, 0.25], dtype)
        (tmp_path / "a").write_bytes(array.tobytes())
        reference = TensorReference(str(tmp_path / "a"), 0, array.nbytes, array.dtype.name, (3,), None)
        assert measure(reference) == {"Max": 1.5, "Min": -2.0, "Mean": pytest.approx(-0.25 / 3), "Norm": 6.3125**0.5}


def test_integers_are_exact_and_stay_integers(tmp_path: Path) -> None:
    found = measured(tmp_path, np.array([2**63 - 1, -(2**63), 5], np.int64))
    assert (found["Max"], found["Min"]) == (2**63 - 1, -(2**63))
    assert type(found["Max"]) is int
    assert measured(tmp_path, np.array([2**64 - 1, 0], np.uint64))["Max"] == 2**64 - 1


def test_bool_is_any_and_all(tmp_path: Path) -> None:
    assert measured(tmp_path, np.array([True, False])) == {"Max": True, "Min": False}


def test_complex_is_measured_by_its_absolute_values(tmp_path: Path) -> None:
    found = measured(tmp_path, np.array([3 + 4j, -1j]))
    assert found == {"Max": 5.0, "Min": 1.0, "Mean": 3.0, "Norm": pytest.approx(26**0.5)}


def test_nan_in_one_block_is_the_max_of_all(tmp_path: Path) -> None:
    array = np.ones(200_000, np.float32)
    array[150_000] = np.nan
    assert all(np.isnan(value) for value in measured(tmp_path, array).values())
    array[150_000] = -np.inf
    found = measured(tmp_path, array)
    assert (found["Max"], found["Min"], found["Norm"]) == (1.0, -np.inf, np.inf)


@pytest.mark.parametrize("array", [np.empty((0, 3)), np.array(["a"]), np.array(["2020-01-01"], "datetime64[D]")])
def test_what_has_no_statistics(tmp_path: Path, array: np.ndarray[Any, Any]) -> None:
    assert measured(tmp_path, array) == {}
