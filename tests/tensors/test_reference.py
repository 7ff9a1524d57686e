"""Opening a reference: what it maps, and which references it refuses."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tensor_oracle import store

from lakeprobe.errors import TensorError
from lakeprobe.tensors import open_tensor
from lakeprobe.tensors.reference import SMALL_FLOATS, TensorReference, dtype_name, numpy_dtype


@pytest.mark.parametrize("lead", [0, 3, 4096, 5000])
@pytest.mark.parametrize("order", ["C", "F"])
def test_maps_the_values(tmp_path: Path, lead: int, order: Any) -> None:
    array = np.arange(24, dtype=np.float64).reshape(2, 3, 4).copy(order)
    found = open_tensor(store(tmp_path / "x", array, lead))
    np.testing.assert_array_equal(found, array)
    assert not found.flags.writeable
    assert found.strides == array.strides


@pytest.mark.parametrize("array", [np.float32(2), np.empty((0, 3)), np.broadcast_to(np.float32(1), (3, 2))])
def test_maps_scalars_empty_and_expanded_ones(tmp_path: Path, array: Any) -> None:
    found = open_tensor(store(tmp_path / "x", np.asarray(array)))
    np.testing.assert_array_equal(found, array)
    assert not found.flags.writeable


def test_sees_a_replaced_file_and_keeps_none_open(tmp_path: Path) -> None:
    reference = store(tmp_path / "x", np.ones(4))
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    old = open_tensor(reference)
    store(tmp_path / "y", np.zeros(4))
    os.replace(tmp_path / "y", tmp_path / "x")
    assert open_tensor(reference)[0] == 0
    assert old[0] == 1
    del old
    assert not before or len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    "changes",
    [
        {"offset": -8},
        {"offset": 8},
        {"offset": 2**70},
        {"length": 24},
        {"length": -1},
        {"length": 2**40},
        {"shape": (5,)},
        {"shape": (-4,)},
        {"shape": (2**61, 2**61)},
        {"shape": (1,) * 70},
        {"strides": (16,)},
        {"strides": (-8,)},
        {"strides": (8, 8)},
        {"dtype": "complex128"},
        {"dtype": "object"},
        {"dtype": "O"},
        {"dtype": "V8"},
        {"dtype": "f4,f4"},
        {"dtype": "U0"},
        {"dtype": "nonsense"},
        {"file": "/nowhere/at/all"},
        {"file": "nul\0byte"},
    ],
)
def test_refuses_what_does_not_fit_the_file(tmp_path: Path, changes: dict[str, Any]) -> None:
    reference = store(tmp_path / "x", np.ones(4))
    with pytest.raises(TensorError) as caught:
        open_tensor(replace(reference, **changes))
    assert "\n" not in str(caught.value)


def test_dtype_names_return() -> None:
    names = [
        *SMALL_FLOATS,
        "float32",
        "bool",
        "complex64",
        "uint16",
        ">f4",
        "<U5",
        ">U5",
        "|S3",
        "datetime64[ns]",
    ]
    assert [dtype_name(numpy_dtype(name)) for name in names] == names
    assert numpy_dtype("bfloat16") == ml_dtypes.bfloat16


def test_a_reference_is_a_value(tmp_path: Path) -> None:
    reference = TensorReference("f", 0, 4, "float32", (1,), None)
    assert reference == replace(reference)
    assert {reference: 1}[replace(reference)] == 1
