"""Measures tensors of any framework into the rows of the step that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from lakeprobe.monitoring.settings import Settings
from lakeprobe.monitoring.writing import Key, Row

Guard = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes a function of ours end the monitoring, not the training, if it fails (session.py)."""

Numbers = dict[str, Any]
"""Numbers by the names of their metrics: floats, or tensors without dimensions that wait on a device."""

_SCALED_POINTS = frozenset(("gradient_unreduced", "input_gradient", "output_gradient"))
"""What backward makes of a loss that a GradScaler has scaled, before it is unscaled for the optimizer."""

_SCALED_METRICS = frozenset(("norm", "mean", "min", "max"))
"""The metrics that grow with their tensor."""


_key = lru_cache(maxsize=1 << 16)(Key)
"""Each step has the same keys."""


class Measured(NamedTuple):
    """The metrics of a tensor, by their names. `signs` are of `size` elements."""

    numbers: Numbers
    texts: Mapping[str, str]
    signs: bytes | None
    size: int


class Tensors(Protocol):
    """What measures the tensors of a framework: `tensors.py` in the framework's folder."""

    def measured(self, tensor: Any, metrics: frozenset[str], settings: Settings, scale: Any, /) -> Measured:
        """Return `metrics` of a tensor. It is `scale` times too large."""

    def number(self, value: Any, /) -> Any:
        """Return what is kept of a number until the step is over: a float, or what `fetched` takes."""

    def fetched(self, numbers: Sequence[Any], /) -> list[float]:
        """Return the values of numbers that are not floats."""


class Meter:
    """What was measured in the step that runs, and whether it is measured at all."""

    def __init__(self, tensors: Tensors, settings: Settings, step: int = 0) -> None:
        """Begin with the step `step`. `tensors` is the module that measures those of the framework."""
        self.settings = settings
        self._tensors = tensors
        self._metrics = frozenset(settings.metrics)
        self._measured = 0
        self._rows: list[Row] = []
        self._waiting: list[tuple[int | None, Key, Any]] = []
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
        self, name: str, point: str, tensor: Any, micro_step: int | None = None, scale: Any = 1.0
    ) -> None:  # fmt: skip
        """Measure `tensor` / `scale`, if this step is measured and has this point. Digests are those of `tensor`."""
        if not self.on or point not in self.settings.points:
            return
        if point in _SCALED_POINTS:
            scale = self.scale
        found, texts, signs, size = self._tensors.measured(tensor, self._metrics, self.settings, scale)
        if not (isinstance(scale, float) and scale == 1):
            found |= {metric: found[metric] / scale for metric in _SCALED_METRICS & found.keys()}
        if signs is not None:
            self._rows.append((self._step, micro_step, Key(name, point, "signs"), float(size), None, signs))
        self.numbers(name, point, found, micro_step)
        step = self._step
        self._rows += [
            (step, micro_step, _key(name, point, metric), None, text, None) for metric, text in texts.items()
        ]

    def numbers(self, name: str, point: str, found: Mapping[str, Any], micro_step: int | None) -> None:
        """Keep numbers by the names of their metrics. Those on a device are fetched when the step is over."""
        for metric, number in found.items():
            key = _key(name, point, metric)
            kept = number if isinstance(number, float) else self._tensors.number(number)
            if isinstance(kept, float):
                self._rows.append((self._step, micro_step, key, kept, None, None))
            else:
                self._waiting.append((micro_step, key, kept))

    def text(self, key: Key, text: str, micro_step: int | None) -> None:
        """Keep a text."""
        self._rows.append((self._step, micro_step, key, None, text, None))

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
        values = self._tensors.fetched([number for _, _, number in waiting]) if waiting else []
        rows += (
            (self._step, micro_step, key, value, None, None)
            for (micro_step, key, _), value in zip(waiting, values, strict=True)
        )
        self._measured += self.on
        self.step += 1
        return rows
