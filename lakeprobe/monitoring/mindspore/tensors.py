"""The metrics of MindSpore's tensors. All are measured on the host: what is on a device comes here first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor
from mindspore.common.api import _no_grad

from lakeprobe.collect.mindspore.arrays import to_array
from lakeprobe.monitoring import host
from lakeprobe.monitoring.meter import Measured, Numbers
from lakeprobe.monitoring.settings import Settings


def measured(tensor: Tensor, metrics: frozenset[str], settings: Settings, scale: float) -> Measured:
    """Return `metrics` of a tensor. It is `scale` times too large, and `eps` and `bounds` are held against that.

    A complex tensor is measured by its magnitudes.
    """
    texts = {metric: text(tensor) for metric, text in _TEXTS.items() if metric in metrics}
    array = _array(tensor)
    found: Numbers = {**host.numbers(array, metrics, settings.eps * scale, exact=settings.exact)}
    if "shares" in metrics and settings.bounds:
        found |= host.shares(array, [bound * scale for bound in settings.bounds], settings.bounds)
    return Measured(found, texts, host.signs(array) if "signs" in metrics else None, array.size)


def number(value: Any) -> float:
    """Return the value of a number, which may be a tensor of one element."""
    return float(value.asnumpy().reshape(())) if isinstance(value, Tensor) else float(value)


def fetched(_numbers: Sequence[Any]) -> list[float]:
    """Return no value: `number` leaves none on a device."""
    return []


def agreement(gradient: Tensor, moment: Tensor) -> float:
    """Return the share of elements whose sign is the same in both. One that is zero in either counts half."""
    same = float((np.sign(_array(gradient)) * np.sign(_array(moment))).mean(dtype=np.float64))
    return (same + 1) / 2


def direction(first: Any, second: Any, eps: float, corrections: tuple[float, float]) -> Tensor:
    """Return m̂ / (√v̂ + ε) of Adam's two moments, each divided by its correction for its bias.

    Formula: Kingma and Ba, Adam, arXiv 1412.6980, algorithm 1.
    """
    first, second = (
        array / correction for array, correction in zip(map(to_array, (first, second)), corrections, strict=True)
    )
    return Tensor(first / (np.sqrt(second) + eps))


def _array(tensor: Tensor) -> Any:
    """Return the elements, which the tensor may share, in one dimension, as float32 or float64."""
    if tensor.dtype == mindspore.bfloat16:
        with _no_grad():
            tensor = tensor.astype(mindspore.float32)
    array = tensor.asnumpy()
    if np.iscomplexobj(array):
        array = np.abs(array)
    return array.reshape(-1) if array.dtype in (np.float32, np.float64) else array.reshape(-1).astype(np.float64)


_TEXTS: dict[str, Callable[[Tensor], str]] = {
    "shape": lambda tensor: str(list(tensor.shape)),
    "dtype": lambda tensor: str(tensor.dtype),
    "digest": lambda tensor: host.digest(to_array(tensor)),
    "md5": lambda tensor: host.md5(to_array(tensor)),
}
