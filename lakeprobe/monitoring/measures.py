"""The metrics of a tensor, as PyTorch computes them on the tensor's own device.

Numbers stay on the device, as tensors without dimensions, until the step is over, so that the host does not wait for
each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import xxhash

Numbers = dict[str, Any]


def numbers(tensor: torch.Tensor, metrics: tuple[str, ...], eps: float) -> dict[str, torch.Tensor]:
    """Return those of `metrics` that are numbers: tensors without dimensions.

    norm is the Euclidean norm and mean the arithmetic mean, both accumulated in float64, on devices without it in
    float32. zeros is the share of elements
    below `eps` in magnitude, nans their number. A complex tensor is measured by its magnitudes. An empty tensor has a
    norm and NaNs of 0 and nothing else.
    """
    if tensor.is_complex():
        tensor = tensor.abs()
    wanted = metrics if tensor.numel() else tuple(metric for metric in metrics if metric in ("norm", "nans"))
    return {metric: _OF[metric](tensor, eps) for metric in wanted if metric in _OF}


def texts(tensor: torch.Tensor, metrics: tuple[str, ...]) -> dict[str, str]:
    """Return those of `metrics` that are texts. digest is XXH3-64 of the bytes in their logical order."""
    of: dict[str, Callable[[], str]] = {
        "shape": lambda: str(list(tensor.shape)),
        "dtype": lambda: str(tensor.dtype),
        "digest": lambda: _digest(tensor),
    }
    return {metric: of[metric]() for metric in metrics if metric in of}


def _wide(tensor: torch.Tensor) -> torch.dtype:
    """Return the widest dtype in which the tensor's device computes by itself."""
    return torch.float32 if tensor.device.type in ("npu", "mps") else torch.float64


def _norm(tensor: torch.Tensor, eps: float) -> torch.Tensor:
    wide = _wide(tensor)
    return torch.linalg.vector_norm(tensor if tensor.is_floating_point() else tensor.to(wide), dtype=wide)


_OF: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "norm": _norm,
    "mean": lambda tensor, eps: tensor.mean(dtype=_wide(tensor)),
    "min": lambda tensor, eps: tensor.min().to(_wide(tensor)),
    "max": lambda tensor, eps: tensor.max().to(_wide(tensor)),
    "zeros": lambda tensor, eps: (tensor.abs() < eps).to(_wide(tensor)).mean(),
    "nans": lambda tensor, eps: torch.isnan(tensor).sum().to(_wide(tensor)),
}


def _digest(tensor: torch.Tensor) -> str:
    plain = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
    return xxhash.xxh3_64_hexdigest(plain.reshape(-1).view(torch.uint8).numpy())
