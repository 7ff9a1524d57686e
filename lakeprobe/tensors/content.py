"""Identifies a tensor by its contents, so that equal contents are stored and measured once.

A content hash has 32 hex digits. Two tensors share it if dtype, shape and every element's bytes are the same. It is the
XXH3-128 (seed 0) of the concatenation of: the dtype's name without byte order ('float32', 'bfloat16'; text keeps its
little-endian form '<U5'), a zero byte, the shape's extents in decimal joined by commas, a zero byte, and the elements
in C order, little-endian. So strides, byte order, file kind and alignment do not matter, but -0.0 and 0.0 differ, and
so do NaNs of different bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from lakeprobe.tensors.blocks import flatten, piece_elements, read_blocks, split
from lakeprobe.tensors.reference import (
    TensorReference,
    dtype_name,
    is_contiguous,
    numpy_dtype,
    opened,
)

if TYPE_CHECKING:
    import numpy.typing as npt

BLOCK_BYTES = 1 << 20

_dtype_name = lru_cache(dtype_name)  # numpy computes a name on each call, which takes longer than a small hash


def content_hash(reference: TensorReference) -> str:
    """Return the content hash of a tensor in a file, which is read once in blocks unless the hash is known.

    Raises TensorError if it cannot be read or the reference does not fit the file.
    """
    if reference.content is not None:
        return reference.content
    digest = begun(reference)
    for _ in hashing(digest, tensor_blocks(reference)):
        pass
    return digest.hexdigest()


def begun(reference: TensorReference) -> xxhash.xxh3_128:
    """Return the content hash of a tensor before its elements."""
    return _begun(_little_endian(numpy_dtype(reference.dtype)), reference.shape)


def hashing(digest: xxhash.xxh3_128, blocks: Iterator[npt.NDArray[Any]]) -> Iterator[npt.NDArray[Any]]:
    """Yield the blocks of a tensor, and add each to the `digest`."""
    for block in blocks:
        digest.update(block.astype(_little_endian(block.dtype), copy=False).view(np.uint8).data)
        yield block


def tensor_blocks(reference: TensorReference) -> Iterator[npt.NDArray[Any]]:
    """Yield the elements of a tensor in C order, in arrays that the next one overwrites. Raises TensorError."""
    dtype = numpy_dtype(reference.dtype)
    raw = np.empty(max(BLOCK_BYTES, dtype.itemsize), np.uint8)
    flat = flatten(reference)
    with opened(reference) as descriptor:
        for piece in [flat] if is_contiguous(flat) else split(flat, piece_elements(flat)):
            yield from read_blocks(descriptor, piece, raw.size // dtype.itemsize, raw)


def plain(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return `array` in C order and little-endian. It is the same array if it already is."""
    return np.asarray(array, _little_endian(array.dtype), order="C")


def array_bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return the bytes of a `plain` array, in its memory."""
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


def array_hash(array: npt.NDArray[Any]) -> str:
    """Return the content hash of a `plain` array. Releases the GIL unless the array is small."""
    digest = _begun(array.dtype, array.shape)
    digest.update(array_bytes(array).data)
    return digest.hexdigest()


def _little_endian(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("<") if dtype.byteorder == ">" else dtype


def _begun(dtype: np.dtype[Any], shape: Sequence[int]) -> xxhash.xxh3_128:
    """Return the hash of everything before the elements."""
    return xxhash.xxh3_128(f"{_dtype_name(dtype)}\0{','.join(map(str, shape))}\0".encode())
