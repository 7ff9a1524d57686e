"""Writes a tensor as a `.npy` file of numpy's format, or as the `.pt` file that torch.save would write, without torch.

Elements are read and written in blocks, in C order whatever the strides were, so that a tensor of any size needs the
memory of a few blocks. Sources of the formats: numpy.lib.format; torch/serialization.py, torch/_utils.py (2.13).
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakeprobe.errors import TensorError
from lakeprobe.tensors import TensorReference
from lakeprobe.tensors.blocks import flatten, piece_elements, read_blocks, split
from lakeprobe.tensors.reference import (
    SMALL_FLOATS,
    contiguous_strides,
    element_count,
    is_contiguous,
    numpy_dtype,
    opened,
)

_BLOCK_BYTES = 1 << 20
_ROOT = "archive"
_STORAGES = {
    "bfloat16": "BFloat16Storage",
    "bool": "BoolStorage",
    "complex128": "ComplexDoubleStorage",
    "complex64": "ComplexFloatStorage",
    "float16": "HalfStorage",
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "int16": "ShortStorage",
    "int32": "IntStorage",
    "int64": "LongStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
}
"""torch's storage class by dtype. Other torch dtypes use an UntypedStorage, with the dtype given separately."""

_UNTYPED = (
    *("uint16", "uint32", "uint64"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)


def is_torch_dtype(name: str) -> bool:
    """Return whether a `.pt` file can hold elements of the dtype `name` of a reference."""
    plain = numpy_dtype(name).newbyteorder("=").name
    return plain in _STORAGES or plain in _UNTYPED


def write_tensor(reference: TensorReference, path: Path) -> int:
    """Write the tensor to `path`, in the format of its suffix. Returns the number of bytes of its elements.

    `.npy` has no name for bfloat16 and float8. They are written as float32, which holds all their values, as msprobe
    does. Raises OSError, and TensorError if the tensor cannot be read or the format cannot hold it.
    """
    write = _WRITERS.get(path.suffix)
    if write is None:
        raise TensorError(f"{path.name} is not the name of a tensor file; it must end in {' or '.join(_WRITERS)}")
    return write(reference, path)


# ---- .npy -------------------------------------------------------------------------------------------------


def _write_npy(reference: TensorReference, path: Path) -> int:
    dtype = numpy_dtype(reference.dtype)
    if reference.dtype in SMALL_FLOATS:
        dtype = np.dtype(np.float32)
    header = {"descr": dtype.str, "fortran_order": False, "shape": reference.shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in _blocks(reference, dtype):
            file.write(block)
    return element_count(reference) * dtype.itemsize


# ---- .pt --------------------------------------------------------------------------------------------------


def _write_pt(reference: TensorReference, path: Path) -> int:
    if not is_torch_dtype(reference.dtype):
        raise TensorError(f"torch has no dtype {reference.dtype}, so {path.name} cannot hold the tensor")
    dtype = numpy_dtype(reference.dtype).newbyteorder("<")
    length = element_count(reference) * dtype.itemsize
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{_ROOT}/data.pkl", _tensor_pickle(dtype, reference.shape))
        archive.writestr(f"{_ROOT}/byteorder", b"little")
        with archive.open(f"{_ROOT}/data/0", "w", force_zip64=length >= 1 << 31) as member:
            for block in _blocks(reference, dtype):
                member.write(block)
        archive.writestr(f"{_ROOT}/version", b"3\n")
    return length


def _tensor_pickle(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the pickle that rebuilds a tensor in C order from the storage "0", by torch's own functions.

    It is assembled from opcodes, because the standard library cannot pickle a name that it cannot import.
    """
    strides = contiguous_strides(shape, 1)
    count = int(np.prod(shape, dtype=np.int64))
    hooks = _called(_name("collections", "OrderedDict"), ())
    if dtype.name in _STORAGES:
        rebuild = "_rebuild_tensor_v2"
        storage = _storage(_STORAGES[dtype.name], count)
        kind: tuple[bytes, ...] = ()
    else:
        rebuild = "_rebuild_tensor_v3"
        storage = _storage("UntypedStorage", count * dtype.itemsize)
        kind = (_name("torch", dtype.name),)
    arguments = (storage, _plain(0), _plain(shape), _plain(strides), _plain(False), hooks, *kind)
    return pickle.PROTO + b"\x02" + _called(_name("torch._utils", rebuild), arguments) + pickle.STOP


def _storage(kind: str, count: int) -> bytes:
    """Return what torch.load requests from its file: a storage of `count` elements of the class `kind`."""
    module = "torch.storage" if kind == "UntypedStorage" else "torch"
    parts = (_plain("storage"), _name(module, kind), _plain("0"), _plain("cpu"), _plain(count))
    return _tuple(parts) + pickle.BINPERSID


def _plain(value: Any) -> bytes:
    """Return the opcodes of a number, text or tuple of numbers."""
    return pickle.dumps(value, 2)[2:-1]


def _name(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


def _tuple(parts: Iterable[bytes]) -> bytes:
    return pickle.MARK + b"".join(parts) + pickle.TUPLE


def _called(function: bytes, arguments: Iterable[bytes]) -> bytes:
    return function + _tuple(arguments) + pickle.REDUCE


# ---- elements ---------------------------------------------------------------------------------------------


def _blocks(reference: TensorReference, dtype: np.dtype[Any]) -> Iterator[memoryview]:
    """Yield the elements in C order, as bytes of `dtype`."""
    stored = numpy_dtype(reference.dtype)
    raw: NDArray[np.uint8] = np.empty(max(_BLOCK_BYTES, stored.itemsize), np.uint8)
    size = raw.size // stored.itemsize
    flat = flatten(reference)
    with opened(reference) as descriptor:
        for piece in [flat] if is_contiguous(flat) else split(flat, piece_elements(flat)):
            for block in read_blocks(descriptor, piece, size, raw):
                yield block.astype(dtype, copy=False).view(np.uint8).data


_WRITERS: dict[str, Callable[[TensorReference, Path], int]] = {".npy": _write_npy, ".pt": _write_pt}
