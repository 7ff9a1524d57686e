"""Names a tensor by what it holds, so that the same contents are stored and measured once."""

from __future__ import annotations

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

BLOCK_BYTES = 1 << 18


def content_hash(reference: TensorReference) -> str:
    """32 hex digits that two tensors share when dtype, shape and every element's bytes are the same.

    It is XXH3-128 (seed 0) of, one after the other: the dtype's name without byte order ('float32',
    'bfloat16'; text keeps its little-endian form '<U5'), a zero byte, the shape's extents in decimal joined
    by commas, a zero byte, and the elements in C order, little-endian. So strides, byte order, file kind and
    alignment do not matter, while -0.0 and 0.0 differ, and so do NaNs of different bits.

    Reads the file once in blocks. Raises TensorError when it cannot be read or the reference does not fit it.
    """
    dtype = numpy_dtype(reference.dtype)
    little = dtype.newbyteorder("<") if dtype.byteorder == ">" else dtype
    digest = xxhash.xxh3_128(f"{dtype_name(little)}\0{','.join(map(str, reference.shape))}\0".encode())
    raw = np.empty(max(BLOCK_BYTES, dtype.itemsize), np.uint8)
    size = raw.size // dtype.itemsize
    flat = flatten(reference)
    with opened(reference) as descriptor:
        for piece in [flat] if is_contiguous(flat) else split(flat, piece_elements(flat)):
            for block in read_blocks(descriptor, piece, size, raw):
                digest.update(block.astype(little, copy=False).view(np.uint8).data)
    return digest.hexdigest()
