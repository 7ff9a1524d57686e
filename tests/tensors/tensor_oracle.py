"""The metrics' formulas written naively over whole arrays: what the block-wise ones are held against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakeprobe.tensors import TensorMetrics, TensorReference
from lakeprobe.tensors.reference import dtype_name


def store(path: Path, array: NDArray[Any], lead: int = 0) -> TensorReference:
    """Writes an array's bytes, with its strides as they are, `lead` bytes into a file."""
    strides = array.strides if array.ndim and array.size and not array.flags.c_contiguous else None
    if strides is None:
        raw = array.tobytes()
    else:
        length = sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True)) + array.itemsize
        first = np.lib.stride_tricks.as_strided(array.view(f"V{array.itemsize}"), (1,), (array.itemsize,))
        raw = np.lib.stride_tricks.as_strided(first.view(np.uint8), (length,), (1,)).tobytes()
    path.write_bytes(b"\xee" * lead + raw)
    return TensorReference(str(path), lead, len(raw), dtype_name(array.dtype), array.shape, strides)


def naive_metrics(target: NDArray[Any], golden: NDArray[Any]) -> TensorMetrics:
    """One pair of equal squeezed shape and two elements or more, NaN and inf at the same places."""
    n, b = (_plain(array).reshape(-1) for array in (target, golden))
    n, b = np.where(np.isfinite(n), n, 0), np.where(np.isfinite(b), b, 0)
    wide = np.result_type(n, b, np.float64)
    n64, b64 = n.astype(wide), b.astype(wide)
    difference = n64 - b64
    norms = np.sqrt((abs(n64) ** 2).sum()), np.sqrt((abs(b64) ** 2).sum())
    relative = _relative(n, b)
    return TensorMetrics(
        "measured",
        _cosine(float((n64 * b64.conj()).sum().real), *norms),
        float(np.sqrt((abs(difference) ** 2).sum())),
        float(f"{abs(difference).max():.12f}"),
        float(f"{relative.max():.12f}"),
        float(f"{(relative < 0.001).mean():.12f}"),
        float(f"{(relative < 0.005).mean():.12f}"),
        bool((n64 == b64).all()),
        float(norms[1]),
        float(abs(b64).max()),
    )


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """numpy's own types: small floats as float32, the rest of the reals that are not floats as float64."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if array.dtype.kind == "f":
        return array.astype(array.dtype.newbyteorder("="))
    return array.astype(np.float64 if array.dtype.kind in "iub" else np.float32)


def _relative(n: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    precision = np.result_type(n, b, np.float32)
    n, b = n.astype(precision), b.astype(precision)
    zero = b == 0
    epsilon = np.finfo(precision).eps
    n[zero] += epsilon
    b[zero] += epsilon
    return abs(n - b) / abs(b)


def _cosine(product: float, target_norm: float, golden_norm: float) -> float | None:
    zeros = [norm <= 2.220446049250313e-16 for norm in (target_norm, golden_norm)]
    if any(zeros):
        return 1.0 if all(zeros) else None
    cosine = float(f"{product / (target_norm * golden_norm):.12f}")
    return round(cosine, 6) if cosine > 0.9999 else cosine
