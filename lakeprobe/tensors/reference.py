"""Says where a tensor's bytes are in a file and how to read them, and maps them as an array.

Only references pass between modules, processes and SQL. Making one costs nothing, and the bytes stay in the file until
something is measured.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from lakeprobe.bounds import LARGEST_REPEATED, MIB, MOST_AXES
from lakeprobe.errors import TensorError
from lakeprobe.system.files import descriptor_of, open_regular
from lakeprobe.system.storage import descriptor_of_range, is_address
from lakeprobe.system.window import PathInFile

#: Element types that numpy lacks. Their dtype names are the ones torch and ml_dtypes share.
SMALL_FLOATS = (
    "bfloat16",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)

# Only dtypes with one plain value per element: no objects, raw bytes (void), structures or subarrays.
_DTYPE_NAME = re.compile(
    r"[<>=|]?[biufc?SUmM]\d*(\[\d*\w+\])?|bool|u?int\d+|float\d+|complex\d+|longdouble|"
    r"(datetime|timedelta)64(\[\d*\w+\])?"
)


@dataclass(frozen=True, slots=True)
class TensorReference:
    """A span of bytes in a file and how to read it.

    `offset` and `length` are in bytes. `dtype` is the name in numpy or ml_dtypes ('float32', 'bfloat16'), in numpy's
    prefix style for big-endian numbers ('>f4') and for text ('<U5'). `strides` are in bytes from `offset`, and never
    negative. None means C order.
    """

    file: str
    offset: int
    length: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    content: str | None = field(default=None, compare=False)
    """The content hash, if it was computed when the bytes were read for something else."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> TensorReference:
        """Return the reference of a row from SQL: a struct of these fields (sql/macros/unit_contents.sql)."""
        strides = row["strides"]
        return cls(
            row["file"], row["offset"], row["length"], row["dtype"], tuple(row["shape"]),
            None if strides is None else tuple(strides),
        )  # fmt: skip


def open_file(path: str | Path) -> IO[bytes]:
    """Return the file at `path`, opened for reading.

    A file inside another ends where its window ends. Raises OSError.
    """
    return open_regular(path)


def placed(reference: TensorReference, path: str | Path) -> TensorReference:
    """Convert a reference whose offset is relative to `path` into one relative to the file that contains `path`.

    Whoever makes a reference to a file that may be a member of an archive must call this. Raises OSError.
    """
    if not isinstance(path, PathInFile):
        return reference
    window = path.window()
    return replace(reference, file=window.file, offset=window.offset + reference.offset)


@lru_cache(maxsize=256)
def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the numpy dtype of a reference's dtype name. Raises TensorError for names that no tensor can have."""
    if name in SMALL_FLOATS:
        small: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return small
    try:
        dtype: np.dtype[Any] | None = np.dtype(name) if _DTYPE_NAME.fullmatch(name) else None
    except (TypeError, ValueError, OverflowError):
        dtype = None
    if dtype is None or dtype.itemsize == 0:
        raise TensorError(f"unknown element type {name[:80]!r}; save the tensor as float32")
    return dtype


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a numpy dtype in a reference. It is the inverse of `numpy_dtype`."""
    name: str = dtype.str if dtype.kind in "SU" or not dtype.isnative else dtype.name
    return name


def element_count(reference: TensorReference) -> int:
    """Return the number of elements of the tensor, which is 1 for a 0-d one."""
    return prod(reference.shape)


def contiguous_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides in bytes of a C-order array."""
    strides = [itemsize] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def span(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Return the number of bytes from the first to the last that an array touches, and 0 if it has no elements."""
    if 0 in shape:
        return 0
    return itemsize + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))


def byte_strides(reference: TensorReference) -> tuple[int, ...]:
    """Return the reference's strides in bytes, or those of C order if it has none."""
    if reference.strides is not None:
        return reference.strides
    return contiguous_strides(reference.shape, numpy_dtype(reference.dtype).itemsize)


def is_contiguous(reference: TensorReference) -> bool:
    """Return whether the elements are contiguous in C order (axes of extent 1 may have any stride)."""
    if reference.strides is None or 0 in reference.shape:
        return True
    plain = contiguous_strides(reference.shape, numpy_dtype(reference.dtype).itemsize)
    triples = zip(reference.shape, reference.strides, plain, strict=True)
    return all(extent == 1 or stride == expected for extent, stride, expected in triples)


def check_reference(reference: TensorReference, file_size: int) -> None:
    """Raise TensorError unless the reference touches only bytes of its span, and the span is within the file."""
    itemsize = numpy_dtype(reference.dtype).itemsize
    shape, strides = reference.shape, reference.strides
    if len(shape) > MOST_AXES or (strides is not None and len(strides) != len(shape)):
        raise TensorError(f"{len(shape)} dimensions do not fit {reference.file}; write it again")
    if min((reference.offset, reference.length, *shape, *(strides or ()))) < 0:
        raise TensorError(f"negative offset, length, shape or stride in {reference.file}; write it again")
    if prod(filter(None, shape)) * itemsize > 2**62:  # numpy's limit too: 0 × 2⁶⁴ elements cannot be an array
        raise TensorError(f"impossible shape {list(shape)!s:.80} in {reference.file}; write the file again")
    needed = span(shape, byte_strides(reference), itemsize)
    whole = element_count(reference) * itemsize
    if whole > max(needed, LARGEST_REPEATED):
        raise TensorError(
            f"the tensor in {reference.file} repeats {needed} bytes until they are {whole >> 20} MiB, more than "
            f"{LARGEST_REPEATED // MIB}; save it with .contiguous()"
        )
    if needed > reference.length or (needed and reference.offset + reference.length > file_size):
        raise TensorError(
            f"truncated tensor: {needed} bytes at {reference.offset} do not fit the {reference.length} given "
            f"or the {file_size} of {reference.file}; dump or copy it again"
        )


@contextmanager
def opened(reference: TensorReference) -> Iterator[int]:
    """Yield the open file descriptor of a checked reference. Raises TensorError if the file cannot be read."""
    try:
        if is_address(reference.file):
            needed = span(reference.shape, byte_strides(reference), numpy_dtype(reference.dtype).itemsize)
            descriptor = descriptor_of_range(reference.file, reference.offset, min(needed, reference.length))
        else:
            descriptor = descriptor_of(reference.file)
    except (OSError, ValueError) as error:
        raise TensorError(f"cannot open {reference.file}: {reason(error)}; dump it again") from error
    try:
        check_reference(reference, os.fstat(descriptor).st_size)
        yield descriptor
    finally:
        os.close(descriptor)


def reason(error: Exception) -> str:
    """Return the system's text of an error, without the file name, which our message already has."""
    return getattr(error, "strerror", None) or str(error)


def open_tensor(reference: TensorReference) -> NDArray[Any]:
    """Return the tensor as a read-only array mapped from its file, with the reference's dtype, shape and strides.

    Nothing is kept open or cached. The map lives as long as the array and its views, so the next call sees a replaced
    file. Touched pages count as this process's memory until then, which is why hashing and measuring read blocks
    instead. The array may be unaligned, which numpy supports.

    Raises TensorError if the file cannot be opened or the reference does not fit it.
    """
    dtype = numpy_dtype(reference.dtype)
    with opened(reference) as descriptor:
        strides = byte_strides(reference)
        needed = span(reference.shape, strides, dtype.itemsize)
        if needed == 0:
            empty: NDArray[Any] = np.empty(reference.shape, dtype)
            empty.flags.writeable = False
            return empty
        lead = reference.offset % mmap.ALLOCATIONGRANULARITY
        mapped = mmap.mmap(descriptor, lead + needed, access=mmap.ACCESS_READ, offset=reference.offset - lead)
        view: NDArray[Any] = np.ndarray(reference.shape, dtype, mapped, lead, strides)
        return view
