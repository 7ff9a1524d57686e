"""Sees what torch.amp.GradScaler does: by how much gradients are scaled, and which steps it skips.

Its methods are replaced on the class, because a training script makes the scaler itself and tells nobody.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from lakeprobe.monitoring.meter import Guard, Meter

SCALER = "grad_scaler"
"""The name of the series of point scaler: skipped, and scale where it is known."""


def watch(
    meter: Meter, guard: Guard, updates: Callable[[], int], skipped: Callable[[Any, float], None]
) -> Callable[[], None]:
    """Watch every scaler of this process. Returns what takes this back.

    `updates` counts the updates of optimizers that are monitored. `skipped` is called with an optimizer that a scaler
    did not let update, and the scale.
    """
    note_scale, note_skipped = guard(functools.partial(_note_scale, meter)), guard(skipped)

    def scale(inner: Callable[..., Any], scaler: Any, *arguments: Any, **options: Any) -> Any:
        note_scale(scaler)
        return inner(scaler, *arguments, **options)

    def step(inner: Callable[..., Any], scaler: Any, optimizer: Any, *arguments: Any, **options: Any) -> Any:
        before = updates()
        result = inner(scaler, optimizer, *arguments, **options)
        if updates() == before:
            note_skipped(optimizer, float(scaler.get_scale()))
        return result

    originals = [
        (kind, made, vars(kind)[made.__name__])
        for kind in _kinds()
        for made in (scale, step)
        if made.__name__ in vars(kind)
    ]
    for kind, made, inner in originals:
        setattr(kind, made.__name__, _wrapped(inner, made))

    def remove() -> None:
        for kind, made, inner in originals:
            setattr(kind, made.__name__, inner)

    return remove


def _wrapped(inner: Callable[..., Any], made: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def method(*arguments: Any, **options: Any) -> Any:
        return made(inner, *arguments, **options)

    return method


def fused(optimizer: Any) -> tuple[Any, Any]:
    """Return the scale that a fused optimizer divides its gradients by, and whether it skips the update: both or None.

    It does both in its own kernel, so that its gradients are still scaled ahead of the update.
    """
    return getattr(optimizer, "grad_scale", None), getattr(optimizer, "found_inf", None)


def _note_scale(meter: Meter, scaler: Any) -> None:
    """Keep the scale of the backward pass that comes."""
    if meter.on and meter.wants_scaled:
        meter.scale = float(scaler.get_scale())


def _kinds() -> Iterator[type]:
    """Yield torch's scaler, and the classes made from it, such as FSDP's."""
    waiting: list[type] = [getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler]
    while waiting:
        kind = waiting.pop()
        yield kind
        waiting += kind.__subclasses__()
