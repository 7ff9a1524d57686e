"""Compares the result of a collective with its inputs, element by element, in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from lakeprobe.errors import TensorError
from lakeprobe.tensors.kernel import subtract_integers
from lakeprobe.tensors.reference import TensorReference, element_count, open_tensor

BLOCK = 1 << 18
"""Elements of the result, and of each layer, that are held in memory at a time."""

_REDUCTIONS = {"sum": np.add, "avg": np.add, "max": np.maximum, "min": np.minimum, "product": np.multiply}


class Piece(Struct, frozen=True):
    """`elements` of a tensor from `first` on, in C order."""

    reference: TensorReference
    first: int
    elements: int

    @classmethod
    def of(cls, reference: TensorReference, first: int | None = None, elements: int | None = None) -> Piece:
        """Return the piece that SQL names, by default the whole tensor. Raises TensorError if it exceeds the tensor."""
        count = element_count(reference)
        piece = cls(reference, first or 0, count if elements is None else elements)
        if piece.first + piece.elements > count:
            raise TensorError(f"{reference.file} has {count} elements, too few for its part; dump it again")
        return piece


class Agreement(Struct, frozen=True):
    """How well a result agrees with the expected one.

    `error` is the largest |found - expected|, relative to the largest sum of the inputs' magnitudes at an element. It
    is inf if only one side is NaN or infinite at an element, or if the sizes differ. `expected` and `found` show the
    worst element.
    """

    error: float
    is_broken: bool
    expected: str | None
    found: str | None


class _Worst(Struct):
    """The element that exceeds its tolerance most so far, and the largest difference and magnitude seen."""

    difference: float = 0.0
    scale: float = 0.0
    excess: float = 0.0
    expected: str | None = None
    found: str | None = None


def agreement(
    result: Sequence[TensorReference], layers: Sequence[Sequence[Piece]], reduction: str | None, epsilon: float
) -> Agreement:
    """Compare the tensors of `result`, concatenated, with the reduction of `layers`, each a row of pieces.

    A copy (`reduction` None) must be equal, and NaN equals NaN. The sum of n numbers, in any order and in a dtype with
    spacing e (`epsilon`) at 1, errs by at most (n - 1)·e·Σ|x| to first order (Higham, Accuracy and Stability of
    Numerical Algorithms, 4.2). One more rounding is allowed for the average. Raises TensorError if a file cannot be
    read or the reduction is unknown.
    """
    if reduction is not None and reduction not in _REDUCTIONS:
        raise TensorError(f"the reduction {reduction} is not held against its inputs")
    if reduction is None and len(layers) != 1:
        raise TensorError(f"{len(layers)} tensors without a reduction; one is expected")
    found = [Piece.of(reference) for reference in result]
    size = sum(piece.elements for piece in found)
    sizes = {sum(piece.elements for piece in layer) for layer in layers}
    if sizes != {size}:
        return Agreement(inf, True, f"{max(sizes)} elements", f"{size} elements")
    worst = _Worst()
    streams = [_blocks(layer, size) for layer in layers]
    for place, block in zip(range(0, size, BLOCK), _blocks(found, size), strict=True):
        _compare(worst, place, block, [next(stream) for stream in streams], reduction, epsilon)
    error = worst.difference / worst.scale if worst.difference and worst.scale else worst.difference
    return Agreement(error, worst.excess > 0, worst.expected, worst.found)


def _blocks(pieces: Sequence[Piece], size: int) -> Iterator[NDArray[Any]]:
    """Yield the elements of `pieces`, concatenated, in blocks of BLOCK elements."""
    flat = [open_tensor(piece.reference).reshape(-1)[piece.first : piece.first + piece.elements] for piece in pieces]
    ends = np.cumsum([len(values) for values in flat])
    for start in range(0, size, BLOCK):
        stop = min(start + BLOCK, size)
        parts = [
            values[max(start - (end - len(values)), 0) : stop - (end - len(values))]
            for values, end in zip(flat, ends, strict=True)
            if end > start and end - len(values) < stop
        ]
        yield parts[0] if len(parts) == 1 else np.concatenate(parts)


def _compare(
    worst: _Worst,
    place: int,
    found: NDArray[Any],
    layers: list[NDArray[Any]],
    reduction: str | None,
    epsilon: float,
) -> None:
    """Compare one block with its layers, and update `worst`."""
    with np.errstate(all="ignore"):
        if all(values.dtype.kind in "biu" for values in (found, *layers)) and reduction != "avg":
            expected = _reduce([values.astype(found.dtype) for values in layers], reduction)  # wraps as the device does
            difference = np.abs(subtract_integers(found, expected))
            sizes = _sizes(layers)
        else:
            wide: Any = np.complex128 if any(values.dtype.kind == "c" for values in (found, *layers)) else np.float64
            inputs = [values.astype(wide) for values in layers]
            expected = _reduce(inputs, reduction)
            sizes = np.abs(expected) if reduction == "product" else _sizes(inputs)
            result = found.astype(wide)
            difference = np.abs(result - expected)
            difference[_agree(result, expected, inputs, sizes, reduction, _largest(found.dtype))] = 0.0
            difference[np.isnan(difference)] = inf
        rounds = reduction in ("sum", "avg", "product")
        tolerance = np.where(np.isfinite(sizes), sizes, 0.0) * (epsilon * len(layers) if rounds else 0.0)
        excess = difference - tolerance
    worst.scale = max(worst.scale, float(np.max(sizes, initial=0.0, where=np.isfinite(sizes))))
    worst.difference = max(worst.difference, float(difference.max(initial=0.0)))
    if excess.size and float(excess.max()) > worst.excess:
        at = int(excess.argmax())
        worst.excess = float(excess[at])
        worst.expected = f"element {place + at}: {expected[at].item()}"
        worst.found = f"element {place + at}: {found[at].item()}"


def _agree(
    result: NDArray[Any],
    expected: NDArray[Any],
    inputs: list[NDArray[Any]],
    sizes: NDArray[Any],
    reduction: str | None,
    largest: float,
) -> NDArray[np.bool_]:
    """Return where the two are equal, where the sum overflows, or where a NaN leaves a maximum to the device."""
    same: NDArray[np.bool_] = (result == expected) | (np.isnan(result) & np.isnan(expected))
    if reduction in ("sum", "avg", "product"):
        same |= ~np.isfinite(result) & (sizes > largest)
    if reduction in ("max", "min"):
        same |= np.isnan(inputs).any(axis=0)
    return same


def _sizes(inputs: list[NDArray[Any]]) -> NDArray[np.float64]:
    """Return the sum of magnitudes of each element over all inputs."""
    wide = [values if values.dtype.kind in "fc" else values.astype(np.float64) for values in inputs]
    total: NDArray[np.float64] = np.sum([np.abs(values) for values in wide], axis=0)
    return total


def _largest(dtype: np.dtype[Any]) -> float:
    """Return the largest finite number of a dtype."""
    import ml_dtypes

    return inf if dtype.kind in "biu" else float(ml_dtypes.finfo(dtype).max)


def _reduce(inputs: list[NDArray[Any]], reduction: str | None) -> NDArray[Any]:
    if reduction is None:
        return inputs[0]
    reduced = inputs[0]
    for values in inputs[1:]:
        reduced = _REDUCTIONS[reduction](reduced, values)
    averaged: NDArray[Any] = reduced / len(inputs) if reduction == "avg" else reduced
    return averaged
