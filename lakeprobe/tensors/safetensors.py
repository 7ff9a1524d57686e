"""Finds the tensors in a `.safetensors` file: 8 bytes with the length of a JSON header, the header, then the bytes.

Source of the format: the README of huggingface/safetensors, whose checks these are: names once, spans in the file that
follow one another without gaps up to its end and are as long as dtype and shape say.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

from lakeprobe.bounds import LARGEST_CHECKPOINT_HEADER
from lakeprobe.errors import TensorError
from lakeprobe.tensors.reference import TensorReference, check_reference, numpy_dtype, open_file, placed, reason
from lakeprobe.tensors.saved import Saved, Unread

_LENGTH = 8
_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}
_BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
"""The sub-byte element types, whose values are not read."""

_METADATA = "__metadata__"


def read_safetensors(path: str | Path) -> Saved:
    """The tensors of the file, in the order of their bytes. Raises TensorError for a damaged or truncated file.

    A tensor of an element type that is not known, such as F4, is unread.
    """
    try:
        with open_file(path) as file:
            size = file.seek(0, 2)
            header, start = _header(file, size, str(path))
            saved = Saved()
            for entry in header:
                if entry.dtype in _DTYPES:
                    saved.tensors[entry.name] = placed(_reference(entry, start, size, str(path)), path)
                else:
                    saved.unread[entry.name] = _unread(entry, str(path))
            surplus = size - start - (header[-1].end if header else 0)
            if surplus:
                raise TensorError(f"{path}: its header names no tensor for the last {surplus} bytes; copy it again")
            return saved
    except (OSError, ValueError) as error:
        raise TensorError(f"cannot open checkpoint {path}: {reason(error)}; copy it again") from error


class _Entry(NamedTuple):
    """A tensor of the header; its bytes go from `first` to `end`."""

    name: str
    dtype: str
    shape: list[int]
    first: int
    end: int


def _header(file: IO[bytes], size: int, path: str) -> tuple[list[_Entry], int]:
    """The tensors by their place, and where the bytes begin."""
    decoded, start = _decoded(file, size, path)
    entries = []
    for name, entry in decoded.items():
        if name == _METADATA:
            continue
        match entry:
            case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(first), int(end)]} if all(
                type(extent) is int and extent >= 0 for extent in shape
            ):
                entries.append(_Entry(name, dtype, shape, first, end))
            case _:
                raise TensorError(f"{path}: the header's entry {name!s:.80} is not a tensor; copy the file again")
    entries.sort(key=lambda entry: (entry.first, entry.end))
    place = 0
    for name, _, _, first, end in entries:
        if first != place or end < first:
            raise TensorError(f"{path}: {name!s:.80} does not follow the tensor before it; copy the file again")
        place = end
    return entries, start


def _decoded(file: IO[bytes], size: int, path: str) -> tuple[dict[str, Any], int]:
    file.seek(0)
    length = int.from_bytes(file.read(_LENGTH), "little")
    if length > min(size - _LENGTH, LARGEST_CHECKPOINT_HEADER) or size < _LENGTH:
        raise TensorError(f"{path} has no sound header: {length} bytes of {size}; copy it again")
    try:
        decoded = json.loads(file.read(length), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise TensorError(f"the header of {path} is not valid JSON ({error!s:.80}); copy it again") from error
    if not isinstance(decoded, dict):
        raise TensorError(f"the header of {path} is not a JSON object; copy it again")
    return decoded, _LENGTH + length


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _reference(entry: _Entry, start: int, size: int, path: str) -> TensorReference:
    _, dtype, shape, first, end = entry
    name = _DTYPES[dtype]
    reference = TensorReference(path, start + first, end - first, name, tuple(shape), None)
    if len(shape) > 64 or prod(shape) * numpy_dtype(name).itemsize != end - first:
        raise TensorError(f"{path}: {end - first} bytes do not fit {dtype} {shape!s:.80}; copy it again")
    check_reference(reference, size)
    return reference


def _unread(entry: _Entry, path: str) -> Unread:
    _, dtype, shape, first, end = entry
    length, bits = end - first, _BITS.get(dtype)
    if len(shape) > 64 or (bits is not None and prod(shape) * bits != 8 * length):
        raise TensorError(
            f"{path}: {length} bytes do not fit {shape!s:.80} of the element type {dtype:.20}; copy it again"
        )
    return Unread(f"{dtype:.20}", tuple(shape))
