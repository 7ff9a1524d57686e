"""The .npy reader against numpy.load, and the forged and damaged files that it must refuse."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from lakeprobe.errors import TensorError
from lakeprobe.tensors import open_tensor, read_tensor

DTYPES = [
    "?",
    "i1",
    "u1",
    "<i2",
    ">i4",
    "<u8",
    "<f2",
    ">f4",
    "<f8",
    "<c8",
    ">c16",
    "<U5",
    ">U5",
    "S3",
    "<M8[ns]",
]


def forged(path: Path, header: str, version: int = 1, data: bytes = b"\0" * 64) -> Path:
    width = 2 if version == 1 else 4
    path.write_bytes(
        b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(width, "little") + header.encode() + data
    )
    return path


def assert_read(path: Path, array: NDArray[Any]) -> None:
    found = open_tensor(read_tensor(path))
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_reads_what_numpy_writes(tmp_path: Path, dtype: str, order: Any, version: tuple[int, int]) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(dtype).copy(order)
    with open(tmp_path / "x.npy", "wb") as file:
        np.lib.format.write_array(file, array, version)
    assert_read(tmp_path / "x.npy", np.load(tmp_path / "x.npy"))


@pytest.mark.parametrize("array", [np.float64(3), np.empty((0, 4), np.float32), np.zeros((0, 3), order="F")])
def test_reads_scalars_and_empty_arrays(tmp_path: Path, array: Any) -> None:
    np.save(tmp_path / "x.npy", array)
    assert_read(tmp_path / "x.npy", np.asarray(array))


def test_reads_a_named_bfloat16(tmp_path: Path) -> None:
    values = np.arange(4).astype(ml_dtypes.bfloat16)
    header = "{'descr': 'bfloat16', 'fortran_order': False, 'shape': (4,)}"
    assert_read(forged(tmp_path / "x.npy", header, data=values.tobytes()), values)


def header_of(descr: str = "'<f4'", shape: str = "(4,)", order: str = "False", more: str = "") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}{more}}}"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (header_of(descr="'|O'"), "objects"),
        (header_of(descr="'<V2'"), "raw bytes"),
        (header_of(descr="[('a', '<f4')]"), "structured"),
        (header_of(descr="'<f4,<f4'"), "unknown element type"),
        (header_of(descr="'(2,)f4'"), "unknown element type"),
        (header_of(descr="'<f3'"), "unknown element type"),
        (header_of(shape="(40,)"), "truncated"),
        (header_of(shape="(2**40,)"), "unreadable header"),
        (header_of(shape="(9999999999999999999999,)"), "impossible shape"),
        (header_of(shape="(-4,)"), "impossible shape"),
        (header_of(shape="(-1, -4)"), "impossible shape"),
        (header_of(shape="(True,)"), "impossible shape"),
        (header_of(shape="[4]"), "impossible shape"),
        (header_of(shape="4"), "impossible shape"),
        (header_of(shape="(1,) * 9"), "unreadable header"),
        (header_of(shape=str((1,) * 70)), "dimensions"),
        (header_of(order="0"), "fortran_order"),
        (header_of(more=", 'extra': 1"), "header without"),
        ("{'descr': '<f4'}", "header without"),
        ("[1, 2]", "header without"),
        ("__import__('os').system('true')", "unreadable header"),
        ("(" * 5000, "unreadable header"),
        ("{'descr': '<f4\0', 'fortran_order': False, 'shape': (4,)}", "unreadable|unknown element"),
    ],
)
def test_refuses_forged_headers(tmp_path: Path, header: str, message: str) -> None:
    with pytest.raises(TensorError, match=message) as caught:
        read_tensor(forged(tmp_path / "x.npy", header))
    assert "x.npy" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("header", [header_of(shape="(4if 1 else 2,)"), header_of(descr="'\\d'")])
def test_python_does_not_warn_of_damaged_headers(tmp_path: Path, header: str) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(TensorError):
            read_tensor(forged(tmp_path / "x.npy", header))
    assert not warned


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"PK\x03\x04 something else",
        b"\x93NUMPY\x04\x00\x10\x00",
        b"\x93NUMPY\x01\x00\xff\x00{'descr'",
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'",
    ],
)
def test_refuses_what_is_no_npy(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(TensorError, match=r"x\.npy"):
        read_tensor(tmp_path / "x.npy")


def test_refuses_pickled_and_nameless_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}, None]), allow_pickle=True)
    with pytest.raises(TensorError, match="objects"):
        read_tensor(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.ones(3, ml_dtypes.bfloat16))
    with pytest.raises(TensorError, match="raw bytes"):
        read_tensor(tmp_path / "x.npy")


def test_refuses_truncated_data(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.ones(10))
    (tmp_path / "x.npy").write_bytes(buffer.getvalue()[:-1])
    with pytest.raises(TensorError, match="truncated"):
        read_tensor(tmp_path / "x.npy")


@pytest.mark.parametrize("name", ["x.npy", "x.pt"])
def test_missing_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(TensorError, match="No such file"):
        read_tensor(tmp_path / name)


def test_other_suffix(tmp_path: Path) -> None:
    with pytest.raises(TensorError, match="must end in"):
        read_tensor(tmp_path / "x.txt")
