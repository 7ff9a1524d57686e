"""Puts tensors together that are saved in pieces, in files that last as long as they are needed.

The pieces must fill the whole exactly once. One tensor at a time is put together, in a file that is mapped, so that the
system may write it out where memory is short.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from lakeprobe.errors import TensorError
from lakeprobe.tensors.reference import TensorReference, numpy_dtype, open_tensor
from lakeprobe.tensors.saved import Piece, Whole

_files: set[str] = set()
"""The files that are there at the moment."""


def is_merged(file: str) -> bool:
    """Whether `file`, as a reference names it, holds a tensor that was put together, and will go."""
    return file in _files


@contextmanager
def merged(whole: Whole) -> Iterator[TensorReference]:
    """The tensor as one, as long as the context lasts. Raises TensorError if the pieces do not fill it."""
    dtype = numpy_dtype(whole.dtype)
    _check(whole)
    with tempfile.NamedTemporaryFile(prefix="lakeprobe-merged-") as file:
        _files.add(file.name)
        try:
            size = prod(whole.shape) * dtype.itemsize
            if size:
                file.truncate(size)
                target: np.memmap[Any, Any] = np.memmap(file.name, dtype, "r+", shape=whole.shape)
                for piece in whole.pieces:
                    _place(target, piece)
                del target
            yield TensorReference(file.name, 0, size, whole.dtype, whole.shape, None)
        finally:
            _files.discard(file.name)


def _place(target: Any, piece: Piece) -> None:
    """Copy a piece to its place; one with fewer axes lies in the whole as in one row."""
    values = open_tensor(piece.reference)
    if len(piece.starts) == 1 and values.ndim == 1:
        target.reshape(-1)[piece.starts[0] : piece.starts[0] + values.size] = values
        return
    places = tuple(slice(start, start + extent) for start, extent in zip(piece.starts, values.shape, strict=True))
    target[places] = values


def _check(whole: Whole) -> None:
    """Raises TensorError unless the pieces lie in the whole, do not overlap, and have all of its elements."""
    shape, flat = whole.shape, (prod(whole.shape),)
    boxes = []
    for piece in whole.pieces:
        extents, starts = piece.reference.shape, piece.starts or (0,) * len(shape)
        within = flat if len(starts) == 1 and len(extents) == 1 else shape
        if piece.reference.dtype != whole.dtype or len(extents) != len(within) or len(starts) != len(within):
            raise TensorError(f"a piece in {piece.reference.file} is not of {whole.dtype} {list(shape)!s:.80}")
        if any(start + extent > most for start, extent, most in zip(starts, extents, within, strict=True)):
            raise TensorError(f"a piece in {piece.reference.file} does not lie in {list(shape)!s:.80}")
        boxes.append((starts, extents))
    if sum(prod(extents) for _, extents in boxes) != prod(shape) or _overlap(boxes):
        raise TensorError(
            f"the {len(boxes)} pieces do not fill a tensor of {list(shape)!s:.80}: one is missing or duplicated"
        )


def _overlap(boxes: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> bool:
    """Whether two boxes have an element in common. Sorted by their first axis, few need be held against another."""
    boxes = sorted(box for box in boxes if 0 not in box[1])
    for place, (starts, extents) in enumerate(boxes):
        for other_starts, other_extents in boxes[place + 1 :]:
            if starts and other_starts[0] >= starts[0] + extents[0]:
                break
            if all(
                start < other + other_extent and other < start + extent
                for start, extent, other, other_extent in zip(starts, extents, other_starts, other_extents, strict=True)
            ):
                return True
    return False


def whole_of(dtype: str, pieces: list[TensorReference], axis: int) -> Whole:
    """The tensor that pieces of one shape but for `axis` make, one after the other along it. Raises TensorError."""
    first = pieces[0].shape
    rest = first[:axis] + first[axis + 1 :]
    if axis >= len(first) or any(piece.shape[:axis] + piece.shape[axis + 1 :] != rest for piece in pieces):
        raise TensorError(f"pieces of {[list(piece.shape) for piece in pieces]!s:.80} do not join along axis {axis}")
    placed, start = [], 0
    for piece in pieces:
        placed.append(Piece(piece, tuple(start if number == axis else 0 for number in range(len(first)))))
        start += piece.shape[axis]
    return Whole(dtype, (*first[:axis], start, *first[axis + 1 :]), tuple(placed))
