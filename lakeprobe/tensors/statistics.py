"""Computes a tensor's max, min, mean and norm, for dumps that record none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakeprobe.tensors.content import BLOCK_BYTES, begun, hashing, tensor_blocks
from lakeprobe.tensors.reference import TensorReference, element_count, numpy_dtype


def measure(reference: TensorReference) -> dict[str, float | int | bool]:
    """Return Max, Min, Mean and Norm (L2) of the tensor, as dump.json would record them.

    Max and Min are exact, and NaN if an element is NaN. Those of integers are integers, those of bool are any and all.
    Mean and Norm are sums in float64 over blocks, and bool has none. Complex numbers count by absolute value. A tensor
    without elements, or of text or times, has none of the four.

    Raises TensorError if the file cannot be read or the reference does not fit it.
    """
    return measured(reference)[0]


def measured(reference: TensorReference) -> tuple[dict[str, float | int | bool], TensorReference]:
    """Return what `measure` returns, and the reference with its content hash, from one pass over the bytes."""
    kind = _kind(numpy_dtype(reference.dtype))
    if kind is None or element_count(reference) == 0:
        return {}, reference
    digest = begun(reference)
    numbers = _measured(hashing(digest, tensor_blocks(reference)), kind, element_count(reference))
    return numbers, replace(reference, content=digest.hexdigest())


def measure_array(array: NDArray[Any]) -> dict[str, float | int | bool]:
    """The same of an array in C order."""
    kind = _kind(array.dtype)
    if kind is None or array.size == 0:
        return {}
    flat, size = array.reshape(-1), BLOCK_BYTES // array.itemsize
    return _measured((flat[start : start + size] for start in range(0, flat.size, size)), kind, flat.size)


def _measured(blocks: Iterator[NDArray[Any]], kind: str, count: int) -> dict[str, float | int | bool]:
    highest, lowest, total, squares = [], [], 0.0, 0.0
    with np.errstate(all="ignore"):
        for block in blocks:
            values = _magnitudes(block) if kind == "c" else block
            highest.append(values.max())
            lowest.append(values.min())
            if kind != "b":
                wide = values.astype(np.float64)
                total += float(wide.sum())
                squares += float(np.dot(wide, wide))
        extremes = {"Max": _plain(np.max(np.array(highest)), kind), "Min": _plain(np.min(np.array(lowest)), kind)}
    if kind == "b":
        return extremes
    return extremes | {"Mean": total / count, "Norm": math.sqrt(squares)}


def _magnitudes(block: NDArray[Any]) -> NDArray[np.floating]:
    """The absolute values in float64 at least: float32 has none for large numbers, and few digits for tiny ones."""
    return np.asarray(np.abs(block.astype(np.result_type(block, np.complex128))))


def _kind(dtype: np.dtype[Any]) -> str | None:
    """Return the kind of the elements: b bool, i integer, f float, c complex. None if they are not numbers."""
    kind = dtype.kind
    return {"u": "i", "V": "f"}.get(kind, kind) if kind in "biufcV" else None


def _plain(value: Any, kind: str) -> float | int | bool:
    if kind == "b":
        return bool(value)
    return int(value) if kind == "i" else float(value)
