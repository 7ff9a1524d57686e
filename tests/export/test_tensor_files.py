"""Tensor files: every dtype and layout is written so that numpy, our reader and torch read the same bits."""

from __future__ import annotations

import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from lakeprobe.errors import TensorError
from lakeprobe.export.tensor_files import is_torch_dtype, write_tensor
from lakeprobe.tensors import TensorReference, content_hash, open_tensor, read_tensor
from lakeprobe.tensors.reference import SMALL_FLOATS

FIXTURES = Path(__file__).parents[1] / "data" / "tensors"


def readable(pattern: str) -> list[Path]:
    """The tensor files of every dtype and layout, but those that are damaged on purpose or hold nameless bytes."""
    found = []
    for path in sorted(FIXTURES.glob(pattern)):
        try:
            read_tensor(path)
        except TensorError:
            continue
        found.append(path)
    return found


def name(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("fixture", readable("*.pt"), ids=name)
def test_pt(fixture: Path, tmp_path: Path) -> None:
    before = read_tensor(fixture)
    path = tmp_path / "tensor.pt"
    assert write_tensor(before, path) == open_tensor(before).nbytes
    after = read_tensor(path)
    assert (after.dtype, after.shape, after.strides) == (before.dtype, before.shape, None)
    assert content_hash(after) == content_hash(before)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert all(member.compress_type == zipfile.ZIP_STORED for member in archive.infolist())


@pytest.mark.parametrize("fixture", readable("*.pt"), ids=name)
def test_torch_reads_what_torch_wrote(fixture: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "tensor.pt"
    write_tensor(read_tensor(fixture), path)
    before = torch.load(fixture, weights_only=False).detach()
    after = torch.load(path, weights_only=True)
    assert (after.dtype, after.shape) == (before.dtype, before.shape)
    as_bytes = [tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (before, after) if tensor.numel()]
    assert not as_bytes or torch.equal(*as_bytes)


@pytest.mark.parametrize("fixture", readable("*.npy") + readable("*.pt"), ids=name)
def test_npy(fixture: Path, tmp_path: Path) -> None:
    before = read_tensor(fixture)
    path = tmp_path / "tensor.npy"
    write_tensor(before, path)
    after = np.load(path, allow_pickle=False)
    expected = open_tensor(before)
    if before.dtype in SMALL_FLOATS:
        expected = expected.astype(np.float32)
    assert (after.dtype, after.shape) == (expected.dtype, expected.shape)
    assert after.tobytes() == expected.tobytes()
    if before.dtype not in SMALL_FLOATS:
        assert content_hash(read_tensor(path)) == content_hash(before)


@pytest.mark.parametrize("dtype", ["float32", ">f8", "bfloat16", "bool", "<U3"])
def test_large_and_strided(dtype: str, tmp_path: Path) -> None:
    """More than one block, columns first; in .npy as in .pt, where torch has the dtype."""
    stored = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    array = (np.arange(1200 * 700).reshape(1200, 700) % 251).astype(stored)
    (tmp_path / "raw").write_bytes(array.tobytes())
    size = stored.itemsize
    reference = TensorReference(
        str(tmp_path / "raw"), 0, array.nbytes, dtype, array.shape[::-1], (size, size * array.shape[1])
    )
    for suffix in (".npy", *([".pt"] if is_torch_dtype(dtype) else [])):
        path = tmp_path / f"tensor{suffix}"
        write_tensor(reference, path)
        expected = array.T.astype(np.float32) if suffix == ".npy" and dtype == "bfloat16" else array.T
        assert np.array_equal(open_tensor(read_tensor(path)), expected)


def test_torch_has_no_text(tmp_path: Path) -> None:
    np.save(tmp_path / "text.npy", np.array(["a", "bc"]))
    with pytest.raises(TensorError, match=r"torch has no dtype <U2, so x\.pt cannot hold the tensor"):
        write_tensor(read_tensor(tmp_path / "text.npy"), tmp_path / "x.pt")


def test_a_file_that_became_shorter(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(100))
    reference = read_tensor(tmp_path / "a.npy")
    (tmp_path / "a.npy").write_bytes(b"")
    with pytest.raises(TensorError, match="truncated tensor"):
        write_tensor(reference, tmp_path / "b.npy")
