"""Measures tensors into the rows of the step that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from lakeprobe.monitoring import measures
from lakeprobe.monitoring.settings import TEXTS, Settings
from lakeprobe.monitoring.writing import Key, Row

Guard = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes a function of ours end the monitoring, not the training, if it fails (session.py)."""

_SCALED_POINTS = frozenset(("gradient_unreduced", "input_gradient", "output_gradient"))
"""What backward makes of a loss that a GradScaler has scaled, before it is unscaled for the optimizer."""

_SCALED_METRICS = frozenset(("norm", "mean", "min", "max"))
"""The metrics that grow with their tensor."""


class Meter:
    """What was measured in the step that runs, and whether it is measured at all."""

    def __init__(self, settings: Settings, step: int = 0) -> None:
        """Begin with the step `step`."""
        self.settings = settings
        self._metrics = frozenset(settings.metrics)
        self._has_texts = bool(self._metrics.intersection(TEXTS))
        self._measured = 0
        self._rows: list[Row] = []
        self._waiting: list[tuple[int | None, Key, torch.Tensor]] = []
        self._passes: dict[tuple[str, str], int] = {}
        self.scale = 1.0
        """By how much the loss of this step was scaled before backward."""
        self.step = step

    @property
    def step(self) -> int:
        """The number of the step that runs."""
        return self._step

    @step.setter
    def step(self, step: int) -> None:
        settings = self.settings
        self._step = step
        self.on = (
            settings.wants_step(step)
            and not self.is_used_up
            and (settings.switch is None or Path(settings.switch).exists())
        )

    @property
    def is_used_up(self) -> bool:
        """Whether all steps that were asked for have been measured."""
        return self.settings.times is not None and self._measured >= self.settings.times

    def wants(self, point: str) -> bool:
        """Whether `point` is measured in any step."""
        return point in self.settings.points

    @property
    def wants_scaled(self) -> bool:
        """Whether something is measured that a GradScaler has scaled."""
        return not _SCALED_POINTS.isdisjoint(self.settings.points)

    def measure(
        self, name: str, point: str, tensor: torch.Tensor, micro_step: int | None = None,
        scale: float | torch.Tensor = 1.0,
    ) -> None:  # fmt: skip
        """Measure `tensor` / `scale`, if this step is measured and has this point. Digests are those of `tensor`."""
        if not self.on or point not in self.settings.points:
            return
        settings, metrics = self.settings, self._metrics
        if point in _SCALED_POINTS:
            scale = self.scale
        with torch.no_grad():
            plain = _plain(tensor)
            if plain.device.type == "cpu":
                scale = float(scale)
            found = measures.numbers(plain, metrics, settings.eps * scale, exact=settings.exact)
            if not (isinstance(scale, float) and scale == 1):
                found |= {metric: found[metric] / scale for metric in _SCALED_METRICS & found.keys()}
            if "shares" in metrics and settings.bounds:
                found |= measures.shares(plain, [bound * float(scale) for bound in settings.bounds], settings.bounds)
            found_texts = measures.texts(plain, metrics) if self._has_texts else {}
            if "signs" in metrics:
                key, size = Key(name, point, "signs"), float(plain.numel())
                self._rows.append(Row(self._step, micro_step, key, size, None, measures.signs(plain)))
        self.numbers(name, point, found, micro_step)
        for metric, text in found_texts.items():
            self.text(Key(name, point, metric), text, micro_step)

    def numbers(self, name: str, point: str, found: Mapping[str, float | torch.Tensor], micro_step: int | None) -> None:
        """Keep numbers by the names of their metrics. Those on a device are fetched when the step is over."""
        for metric, number in found.items():
            key = Key(name, point, metric)
            if isinstance(number, torch.Tensor):
                self._waiting.append((micro_step, key, number.detach().double().reshape(())))
            else:
                self._rows.append(Row(self._step, micro_step, key, number, None))

    def text(self, key: Key, text: str, micro_step: int | None) -> None:
        """Keep a text."""
        self._rows.append(Row(self._step, micro_step, key, None, text))

    def count(self, name: str, point: str) -> int:
        """Return how often this point of `name` was reached before in this step."""
        number = self._passes.get((name, point), 0)
        self._passes[name, point] = number + 1
        return number

    def take(self) -> list[Row]:
        """Return what was measured since the last call. The step is over."""
        rows, self._rows = self._rows, []
        waiting, self._waiting = self._waiting, []
        self._passes.clear()
        self.scale = 1.0
        by_device: dict[torch.device, list[tuple[int | None, Key, torch.Tensor]]] = {}
        for item in waiting:
            by_device.setdefault(item[2].device, []).append(item)
        for items in by_device.values():
            values = torch.stack([value for _, _, value in items]).tolist()
            rows += (
                Row(self._step, micro_step, key, value, None)
                for (micro_step, key, _), value in zip(items, values, strict=True)
            )
        self._measured += self.on
        self.step += 1
        return rows


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor without its graph; of a distributed tensor the part of this rank."""
    local = getattr(tensor, "to_local", None)
    tensor = tensor.detach() if local is None else local().detach()
    return tensor.to_dense() if tensor.layout is not torch.strided else tensor
