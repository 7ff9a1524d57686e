"""Finds the tensors in a MindSpore `.ckpt`, which is a protobuf message, without MindSpore and without protobuf.

    Checkpoint: repeated Value value = 1;
    Value:      string tag = 1; TensorProto tensor = 2;                (3 is a MapParameter, which is not read)
    TensorProto: repeated int64 dims = 1; string tensor_type = 2; bytes tensor_content = 3;

A parameter of more than 512 MiB is several values of one tag, one after the other. The shape (0,) stands for a scalar.
Source: mindspore/train/checkpoint.proto and mindspore/train/serialization.py (MindSpore 2.8); the wire format is that
of https://protobuf.dev/programming-guides/encoding. Only the heads of messages are read, never a tensor's bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import IO

from lakeprobe.bounds import LONGEST_OP, MOST_AXES, MOST_PARAMETERS
from lakeprobe.errors import TensorError
from lakeprobe.tensors.reference import TensorReference, check_reference, numpy_dtype, open_file, placed, reason
from lakeprobe.tensors.saved import Piece, Saved, Whole

_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5
_LONGEST_VARINT = 10
_DTYPES = {
    "Int8": "int8", "Int16": "int16", "Int32": "int32", "Int64": "int64",
    "UInt8": "uint8", "UInt16": "uint16", "UInt32": "uint32", "UInt64": "uint64",
    "Float16": "float16", "BFloat16": "bfloat16", "Float32": "float32", "Float64": "float64",
    "Bool": "bool", "Complex64": "complex64", "Complex128": "complex128",
}  # fmt: skip


class _DamagedError(ValueError):
    """The bytes are no such message."""


def is_ckpt(path: str | Path) -> bool:
    """Whether the file begins as a checkpoint of MindSpore does: a value, which begins with its tag."""
    try:
        with open_file(path) as file:
            size = file.seek(0, 2)
            field, wire, start, end = next(_fields(file, 0, size))
            return (field, wire) == (1, _BYTES) and next(_fields(file, start, end))[:2] == (1, _BYTES)
    except (OSError, ValueError, StopIteration):
        return False


def read_ckpt(path: str | Path) -> Saved:
    """The tensors of the file, in their order. Raises TensorError for a damaged, encrypted or truncated file."""
    parts: dict[str, list[TensorReference]] = {}
    left_out: dict[str, str] = {}
    texts: dict[str, bool | int | float | str | None] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    try:
        with open_file(path) as file:
            size = file.seek(0, 2)
            for field, wire, start, end in _fields(file, 0, size):
                if (field, wire) != (1, _BYTES):
                    raise _DamagedError
                tag, tensor = _value(file, start, end)
                if tensor is None:
                    left_out[tag] = "MapParameter"
                    continue
                shape, dtype, span = _tensor(file, *tensor)
                if dtype == "str":
                    texts[tag] = _text(file, *span).rstrip("\0")
                    continue
                if dtype not in _DTYPES:
                    left_out[tag] = dtype
                    continue
                reference = _reference(str(path), dtype, span, size)
                shape = () if shape == (0,) and reference.shape == (1,) else shape
                shapes.setdefault(tag, shape)
                parts.setdefault(tag, []).append(placed(reference, path))
                if shapes[tag] != shape or len(parts) > MOST_PARAMETERS:
                    raise TensorError(f"{path}: {tag!s:.80} has two shapes; save it again")
    except _DamagedError as error:
        raise TensorError(
            f"{path} is not a sound checkpoint of MindSpore: damaged, cut short or encrypted; save it again"
        ) from error
    except (OSError, ValueError) as error:
        raise TensorError(f"cannot open checkpoint {path}: {reason(error)}; copy it again") from error
    saved = Saved({tag: _joined(str(path), tag, shapes[tag], found) for tag, found in parts.items()}, texts)
    saved.left_out = left_out
    return saved


def _joined(path: str, tag: str, shape: tuple[int, ...], parts: list[TensorReference]) -> TensorReference | Whole:
    """One tensor of the parts of one tag, which are its bytes one after the other."""
    dtype, count = parts[0].dtype, prod(shape)
    itemsize = numpy_dtype(dtype).itemsize
    if sum(part.length for part in parts) != count * itemsize or any(part.dtype != dtype for part in parts):
        raise TensorError(f"{path}: the bytes of {tag!s:.80} do not fit {dtype} {list(shape)!s:.80}; save it again")
    if len(parts) == 1:
        return TensorReference(parts[0].file, parts[0].offset, parts[0].length, dtype, shape, None)
    starts = [sum(part.length for part in parts[:number]) // itemsize for number in range(len(parts))]
    return Whole(dtype, shape, tuple(Piece(part, (start,)) for part, start in zip(parts, starts, strict=True)))


def _value(file: IO[bytes], start: int, end: int) -> tuple[str, tuple[int, int] | None]:
    """The tag of a value and the span of its tensor, None for a map."""
    tag, tensor, is_map = None, None, False
    for field, wire, first, last in _fields(file, start, end):
        if (field, wire) == (1, _BYTES):
            tag = _text(file, first, last)
        elif (field, wire) == (2, _BYTES):
            tensor = (first, last)
        elif field == 3:
            is_map = True
    if tag is None or (tensor is None and not is_map):
        raise _DamagedError
    return tag, tensor


def _tensor(file: IO[bytes], start: int, end: int) -> tuple[tuple[int, ...], str, tuple[int, int]]:
    """The shape of a whole tensor, its element type, and the span of its bytes or of a part of them."""
    shape: list[int] = []
    dtype, span = "", (start, start)
    for field, wire, first, last in _fields(file, start, end):
        if (field, wire) == (1, _VARINT):
            shape.append(first)
        elif (field, wire) == (1, _BYTES):  # packed
            shape += _varints(file, first, last)
        elif (field, wire) == (2, _BYTES):
            dtype = _text(file, first, last)
        elif (field, wire) == (3, _BYTES):
            span = (first, last)
        if len(shape) > MOST_AXES:
            raise _DamagedError
    return tuple(shape), dtype, span


def _reference(path: str, dtype: str, span: tuple[int, int], size: int) -> TensorReference:
    """The elements in a span of bytes, as a row."""
    itemsize = numpy_dtype(_DTYPES[dtype]).itemsize
    length = span[1] - span[0]
    if length % itemsize:
        raise _DamagedError
    reference = TensorReference(path, span[0], length, _DTYPES[dtype], (length // itemsize,), None)
    check_reference(reference, size)
    return reference


def _text(file: IO[bytes], start: int, end: int) -> str:
    if end - start > LONGEST_OP:
        raise _DamagedError
    file.seek(start)
    try:
        return file.read(end - start).decode("utf-8")
    except UnicodeDecodeError as error:
        raise _DamagedError from error


def _fields(file: IO[bytes], start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of the message from `start` to `end`: number, wire type, and the span of its bytes; or its number."""
    while start < end:
        key, start = _varint(file, start, end)
        field, wire = key >> 3, key & 7
        if wire == _VARINT:
            number, start = _varint(file, start, end)
            yield field, wire, number, start
            continue
        if wire == _BYTES:
            length, start = _varint(file, start, end)
        elif wire in (_DOUBLE, _FLOAT):
            length = 8 if wire == _DOUBLE else 4
        else:
            raise _DamagedError
        if field == 0 or length > end - start:
            raise _DamagedError
        yield field, wire, start, start + length
        start += length


def _varints(file: IO[bytes], start: int, end: int) -> list[int]:
    if end - start > MOST_AXES * _LONGEST_VARINT:
        raise _DamagedError
    numbers = []
    while start < end:
        number, start = _varint(file, start, end)
        numbers.append(number)
    return numbers


def _varint(file: IO[bytes], start: int, end: int) -> tuple[int, int]:
    """The variable-length integer at `start`, and where it ends."""
    file.seek(start)
    raw = file.read(min(_LONGEST_VARINT, end - start))
    number = 0
    for place, byte in enumerate(raw):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, start + place + 1
    raise _DamagedError
