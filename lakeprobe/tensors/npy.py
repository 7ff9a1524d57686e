"""Finds the tensor in a `.npy` file (format versions 1 to 3) without reading its values.

The header is a Python literal. Only that is parsed, from a bounded number of bytes, so a forged file can neither run
code nor exhaust memory. Source of the format: numpy.lib.format's docstring.
"""

from __future__ import annotations

import ast
import warnings
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from lakeprobe.bounds import LARGEST_NPY_HEADER
from lakeprobe.errors import TensorError
from lakeprobe.tensors.reference import (
    SMALL_FLOATS,
    TensorReference,
    check_reference,
    contiguous_strides,
    dtype_name,
    numpy_dtype,
    open_file,
    placed,
    reason,
    span,
)

_MAGIC = b"\x93NUMPY"


def read_npy(path: str | Path) -> TensorReference:
    """Return the reference of the array in a `.npy` file, in C or Fortran order.

    Any dtype is supported except objects and structures. numpy writes bfloat16 and float8 arrays as nameless raw bytes
    ('<V2'), which loses their type. They are refused, unless a later writer recorded the name. Raises TensorError for
    these and for any invalid file.
    """
    try:
        with open_file(path) as file:
            header, offset = _read_header(file, path)
            size = file.seek(0, 2)
        return placed(_reference(str(path), header, offset, size), path)
    except (OSError, ValueError) as error:
        raise TensorError(f"cannot open tensor file {path}: {reason(error)}; dump it again") from error


def _read_header(file: IO[bytes], path: str | Path) -> tuple[dict[str, Any], int]:
    """Return the header's dictionary and the offset of the data after it."""
    start = file.read(8)
    if start[:6] != _MAGIC or len(start) < 8:
        raise TensorError(f"not a .npy file: {path}; save the array with numpy.save")
    if start[6] not in (1, 2, 3):
        raise TensorError(f"unknown .npy version {start[6]}: {path}; save it with numpy.save")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if length > LARGEST_NPY_HEADER:
        raise TensorError(f"header of {length} bytes in {path}; a plain array's is shorter, save it again")
    text = file.read(length)
    if len(text) < length:
        raise TensorError(f"truncated header in {path}; dump or copy it again")
    return _parse_header(text, path), 8 + width + length


@lru_cache(256)
def _literal(text: bytes) -> Any:
    """The value that `text` stands for. Tensors of one shape and dtype have the same text; to parse it takes 60 µs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a damaged header Python also tells the author of a program: "1if", "\d"
        # Latin-1 never fails; names beyond ASCII (version 3) only occur in structured dtypes.
        return ast.literal_eval(text.decode("latin1").strip(" \t\r\n"))


def _parse_header(text: bytes, path: str | Path) -> dict[str, Any]:
    try:
        header = _literal(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise TensorError(f"unreadable header in {path}; save the array with numpy.save") from error
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise TensorError(f"header without descr, fortran_order and shape in {path}; save it with numpy.save")
    return header


def _reference(file: str, header: dict[str, Any], offset: int, size: int) -> TensorReference:
    dtype = numpy_dtype(_dtype_name(header["descr"], file))
    shape, fortran_order = header["shape"], header["fortran_order"]
    if not isinstance(shape, tuple) or not all(type(extent) is int and extent >= 0 for extent in shape):
        raise TensorError(f"impossible shape in the header of {file}; save the array with numpy.save")
    if not isinstance(fortran_order, bool):
        raise TensorError(f"fortran_order is neither True nor False in {file}; save it with numpy.save")
    strides = None
    if fortran_order and len(shape) > 1:
        strides = contiguous_strides(shape[::-1], dtype.itemsize)[::-1]
    plain = contiguous_strides(shape, dtype.itemsize)
    length = span(shape, strides or plain, dtype.itemsize)
    reference = TensorReference(file, offset, length, dtype_name(dtype), shape, strides)
    check_reference(reference, size)
    return reference


def _dtype_name(descr: object, file: str) -> str:
    """Return the header's element type if it is a plain one. numpy marks objects 'O' and raw bytes 'V'."""
    if not isinstance(descr, str):
        raise TensorError(f"structured array in {file}; save its fields one by one")
    kind = descr.lstrip("<>=|")[:1]
    if kind == "O":
        raise TensorError(f"array of Python objects (pickled) in {file}; save it with a number type")
    if kind == "V" and descr not in SMALL_FLOATS:
        raise TensorError(f"raw bytes {descr[:80]!r} in {file} (bfloat16 saved by numpy?); save it as float32 or .pt")
    try:
        return dtype_name(numpy_dtype(descr))
    except TensorError as error:
        raise TensorError(f"{error}: {file}") from error
