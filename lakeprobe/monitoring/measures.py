"""The metrics of a tensor.

What is in the host's memory is measured there and then. On a device, numbers stay tensors without dimensions until the
step is over, so that the host waits for the device once a step.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
import torch
import xxhash

Numbers = dict[str, float | torch.Tensor]

_CHUNK = 8192
"""So many elements are widened at once: they stay in the core's cache, and are too few for BLAS to start threads."""


_ROW = 4096
"""So many squares are summed in float32 where a norm need not be exact."""

_SMALLEST = 1e-24
"""Below this a sum of squares may have lost what float32 cannot hold."""


def numbers(tensor: torch.Tensor, metrics: frozenset[str], eps: float | torch.Tensor, *, exact: bool = True) -> Numbers:
    """Return those of `metrics` that are numbers: floats in the host's memory, else tensors without dimensions.

    norm is the Euclidean norm and mean the arithmetic mean, both accumulated in float64, on devices without it in
    float32. If not `exact`, a norm without a mean may be off by a float32's rounding. zeros is the
    share of elements below `eps` in magnitude, nans their number. A complex tensor is measured by its magnitudes. An
    empty tensor has a norm and NaNs of 0 and nothing else.
    """
    if tensor.is_complex():
        tensor = tensor.abs()
    if not tensor.numel():
        metrics &= {"norm", "nans"}
    if tensor.device.type == "cpu":
        return {**_on_host(tensor, metrics, float(eps), exact)}
    return {metric: measure(tensor, eps) for metric, measure in _ON_DEVICE.items() if metric in metrics}


def texts(tensor: torch.Tensor, metrics: frozenset[str]) -> dict[str, str]:
    """Return those of `metrics` that are texts.

    digest is XXH3-64 of the bytes in their logical order, md5 that of the elements as float32.
    """
    of: dict[str, Callable[[], str]] = {
        "shape": lambda: str(list(tensor.shape)),
        "dtype": lambda: str(tensor.dtype),
        "digest": lambda: _digest(tensor),
        "md5": lambda: hashlib.md5(tensor.float().cpu().numpy().tobytes(), usedforsecurity=False).hexdigest(),
    }
    return {metric: measure() for metric, measure in of.items() if metric in metrics}


def signs(tensor: torch.Tensor) -> bytes:
    """Return a bit for each element, 1 if it is above 0."""
    return np.packbits((tensor > 0).reshape(-1).cpu().numpy()).tobytes()


def shares(tensor: torch.Tensor, bounds: Sequence[float], named: Sequence[float]) -> Numbers:
    """Return the share of elements in each interval that ends with a bound, and beyond the last, and of zeros.

    An interval has its upper end, not its lower one. It is called after the bounds `named`.
    """
    names = [f"({low}, {high}]" for low, high in pairwise(["-inf", *named])] + [f"({named[-1]}, inf)"]
    size = max(tensor.numel(), 1)
    places = torch.bucketize(tensor.float(), torch.tensor(bounds, dtype=torch.float32, device=tensor.device))
    counts = torch.bincount(places.reshape(-1), minlength=len(names)).tolist()
    found: Numbers = {name: count / size for name, count in zip(names, counts, strict=True)}
    return found | {"=0": int((tensor == 0).sum()) / size}


def agreement(gradient: torch.Tensor, moment: torch.Tensor) -> torch.Tensor:
    """Return the share of elements whose sign is the same in both. One that is zero in either counts half."""
    same: torch.Tensor = (gradient.sign() * moment.sign()).sum(dtype=_wide(gradient)) / moment.numel()
    return (same + 1) / 2


def _on_host(tensor: torch.Tensor, metrics: frozenset[str], eps: float, exact: bool) -> dict[str, float]:
    plain = tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.double()
    flat = plain.reshape(-1)
    array = flat.numpy()
    found: dict[str, float] = {}
    if not exact and plain.dtype is torch.float32 and "mean" not in metrics and "norm" in metrics:
        found["norm"] = _fast_norm(flat)
    elif metrics & {"norm", "mean"}:
        squares, total = _sums(array, wants_total="mean" in metrics)
        found["norm"] = math.sqrt(squares)
        if array.size:
            found["mean"] = total / array.size
    if metrics & {"min", "max"}:
        least, most = torch.aminmax(plain)
        found["min"], found["max"] = least.item(), most.item()
    if "zeros" in metrics:
        few = sum(int(np.count_nonzero(np.abs(chunk) < eps)) for chunk in _chunks(array))
        found["zeros"] = few / array.size
    if "nans" in metrics:
        has_none = "norm" in metrics and not math.isnan(found["norm"])
        found["nans"] = 0.0 if has_none else float(np.count_nonzero(np.isnan(array)))
    return {metric: value for metric, value in found.items() if metric in metrics}


def _fast_norm(flat: torch.Tensor) -> float:
    """Return the norm of rows in float32, of all rows in float64. What float32 cannot square is measured exactly."""
    whole = flat.numel() - flat.numel() % _ROW
    rows = torch.linalg.vector_norm(flat[:whole].view(-1, _ROW), dim=1).double() if whole else flat[:0].double()
    squares = float(rows.dot(rows)) + _sums(flat[whole:].numpy(), wants_total=False)[0]
    if _SMALLEST < squares < math.inf or not whole:
        return math.sqrt(squares)
    return math.sqrt(_sums(flat.numpy(), wants_total=False)[0])


def _sums(array: np.ndarray, *, wants_total: bool) -> tuple[float, float]:
    """Return the sum of the squares and the sum, accumulated in float64. Without `wants_total` the sum is 0."""
    squares = total = 0.0
    buffer = np.empty(min(array.size, _CHUNK))
    for chunk in _chunks(array):
        wide = buffer[: chunk.size]
        np.copyto(wide, chunk)
        squares += float(wide.dot(wide))
        if wants_total:
            total += float(wide.sum())
    return squares, total


def _chunks(array: np.ndarray) -> Iterable[np.ndarray]:
    return (array[begin : begin + _CHUNK] for begin in range(0, array.size, _CHUNK))


def _wide(tensor: torch.Tensor) -> torch.dtype:
    """Return the widest dtype in which the tensor's device computes by itself."""
    return torch.float32 if tensor.device.type in ("npu", "mps") else torch.float64


def _norm(tensor: torch.Tensor, _eps: float) -> torch.Tensor:
    wide = _wide(tensor)
    return torch.linalg.vector_norm(tensor if tensor.is_floating_point() else tensor.to(wide), dtype=wide)


_ON_DEVICE: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "norm": _norm,
    "mean": lambda tensor, _: tensor.mean(dtype=_wide(tensor)),
    "min": lambda tensor, _: tensor.min().to(_wide(tensor)),
    "max": lambda tensor, _: tensor.max().to(_wide(tensor)),
    "zeros": lambda tensor, eps: (tensor.abs() < eps).to(_wide(tensor)).mean(),
    "nans": lambda tensor, _: torch.isnan(tensor).sum().to(_wide(tensor)),
}


def _digest(tensor: torch.Tensor) -> str:
    plain = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
    return xxhash.xxh3_64_hexdigest(plain.reshape(-1).view(torch.uint8).numpy())
