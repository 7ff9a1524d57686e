"""The metrics of PyTorch's tensors.

What is in the host's memory is measured there and then. On a device, numbers stay tensors without dimensions until the
step is over, so that the host waits for the device once a step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from lakeprobe.monitoring import host
from lakeprobe.monitoring.meter import Measured, Numbers
from lakeprobe.monitoring.settings import Settings
from lakeprobe.tensors import summary

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_OF_PLAIN = host.OF_SUMMARIES | {"shape", "dtype"}


def measured(
    tensor: torch.Tensor, metrics: frozenset[str], settings: Settings, scale: float | torch.Tensor
) -> Measured:  # fmt: skip
    """Return `metrics` of a tensor. It is `scale` times too large, and `eps` and `bounds` are held against that.

    On devices without float64, norm and mean are accumulated in float32. A complex tensor is measured by its
    magnitudes.
    """
    found: Numbers
    if metrics <= _OF_PLAIN and _is_plain(tensor):
        size = tensor.numel()
        found = host.of_summary(summary.at(tensor.data_ptr(), size), size, metrics)
        return Measured(found, _plain_texts(tensor.shape, metrics), None, size)
    plain = _plain(tensor)
    texts = {metric: text(plain) for metric, text in _TEXTS.items() if metric in metrics}
    real = plain.abs() if plain.is_complex() else plain
    if real.is_cpu:
        array = _array(real)
        found = {**host.numbers(array, metrics, settings.eps * float(scale), exact=settings.exact)}
    else:
        array = _array(real) if metrics & host.OF_ARRAYS else None
        found = _on_device(real, metrics, settings.eps * scale)
    if array is not None and "shares" in metrics and settings.bounds:
        found |= host.shares(array, [bound * float(scale) for bound in settings.bounds], settings.bounds)
    signs = host.signs(array) if array is not None and "signs" in metrics else None
    return Measured(found, texts, signs, plain.numel())


def _is_plain(tensor: torch.Tensor) -> bool:
    """Return whether the tensor is float32 numbers that lie in the host's memory in their logical order, as most do."""
    return (
        summary.is_native
        and type(tensor) in _PLAIN
        and tensor.dtype is torch.float32
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and not tensor.is_neg()
        and tensor.is_contiguous()
        and tensor.data_ptr() != 0
    )


def number(value: float | torch.Tensor) -> float | torch.Tensor:
    """Return what is kept of a number until the step is over."""
    return value.detach().double().reshape(()) if isinstance(value, torch.Tensor) else float(value)


def fetched(numbers: Sequence[torch.Tensor]) -> list[float]:
    """Return the values of numbers that are tensors, with one wait for each device."""
    values: dict[int, float] = {}
    by_device: dict[torch.device, list[int]] = {}
    for place, tensor in enumerate(numbers):
        by_device.setdefault(tensor.device, []).append(place)
    for places in by_device.values():
        values |= zip(places, torch.stack([numbers[place] for place in places]).tolist(), strict=True)
    return [values[place] for place in range(len(numbers))]


def agreement(gradient: torch.Tensor, moment: torch.Tensor) -> torch.Tensor:
    """Return the share of elements whose sign is the same in both. One that is zero in either counts half."""
    same: torch.Tensor = (gradient.detach().sign() * moment.sign()).sum(dtype=_wide(gradient)) / moment.numel()
    return (same + 1) / 2


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor without its graph, so that nothing is recorded; of a distributed one the part of this rank."""
    local = getattr(tensor, "to_local", None)
    tensor = tensor.detach() if local is None else local().detach()
    return tensor.to_dense() if tensor.layout is not torch.strided else tensor


def _array(plain: torch.Tensor) -> Any:
    """Return the elements in the host's memory, in their logical order, as float32 or float64."""
    kept = plain if plain.dtype in (torch.float32, torch.float64) else plain.double()
    return kept.numpy(force=True).reshape(-1)  # from a device, and zeros without memory and views with another sign


def _wide(tensor: torch.Tensor) -> torch.dtype:
    """Return the widest dtype in which the tensor's device computes by itself."""
    return torch.float32 if tensor.device.type in ("npu", "mps") else torch.float64


def _norm(tensor: torch.Tensor, _eps: float) -> torch.Tensor:
    wide = _wide(tensor)
    return torch.linalg.vector_norm(tensor if tensor.is_floating_point() else tensor.to(wide), dtype=wide)


def _on_device(tensor: torch.Tensor, metrics: frozenset[str], eps: float | torch.Tensor) -> Numbers:
    asked = metrics if tensor.numel() else metrics & {"norm", "nans"}
    return {metric: measure(tensor, eps) for metric, measure in _ON_DEVICE.items() if metric in asked}


_ON_DEVICE: dict[str, Callable[[torch.Tensor, Any], torch.Tensor]] = {
    "norm": _norm,
    "mean": lambda tensor, _: tensor.mean(dtype=_wide(tensor)),
    "min": lambda tensor, _: tensor.min().to(_wide(tensor)),
    "max": lambda tensor, _: tensor.max().to(_wide(tensor)),
    "zeros": lambda tensor, eps: (tensor.abs() < eps).to(_wide(tensor)).mean(),
    "nans": lambda tensor, _: torch.isnan(tensor).sum().to(_wide(tensor)),
}


def _digest(tensor: torch.Tensor) -> str:
    plain = tensor.cpu().clone(memory_format=torch.contiguous_format)
    return host.digest(plain.reshape(-1).view(torch.uint8).numpy())


@functools.lru_cache(maxsize=4096)  # a series has the same in every step
def _text_of_shape(shape: torch.Size) -> str:
    return str(list(shape))


_text_of_dtype = functools.cache(str)


@functools.lru_cache(maxsize=4096)
def _plain_texts(shape: torch.Size, metrics: frozenset[str]) -> dict[str, str]:
    texts = {"shape": _text_of_shape(shape), "dtype": _text_of_dtype(torch.float32)}
    return {metric: text for metric, text in texts.items() if metric in metrics}


_TEXTS: dict[str, Callable[[torch.Tensor], str]] = {
    "shape": lambda tensor: _text_of_shape(tensor.shape),
    "dtype": lambda tensor: _text_of_dtype(tensor.dtype),
    "digest": _digest,
    "md5": lambda tensor: host.md5(tensor.float().cpu().numpy()),
}
