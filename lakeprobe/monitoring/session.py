"""Monitoring as users meet it: an object, which is a context manager too, that measures every step of a training."""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from lakeprobe import diagnostics
from lakeprobe.errors import UsageError
from lakeprobe.lake import store
from lakeprobe.monitoring import settings as options
from lakeprobe.monitoring.writing import SeriesWriter


def monitor(
    model: Any,
    optimizer: Any = None,
    *,
    run: str,
    lake: str | os.PathLike[str] | None = None,
    points: Sequence[str] = ("gradient", "parameter"),
    metrics: Sequence[str] = ("norm",),
    targets: Sequence[str] = (),
    every: int = 1,
    start: int = 0,
    eps: float = 1e-8,
    seconds: float = 10.0,
    rank: int | None = None,
    on_failure: str = "warn",
    replace: bool = False,
) -> Monitor:
    """Measure every step of a PyTorch training into the series of `run` in `lake` ($LAKEPROBE_LAKE or ./lake).

    `model` is a module or a list of modules. A step ends when `optimizer` has updated the parameters; without one, call
    `before_step` ahead of each update and `step` after it. `points` and `metrics` say what is measured
    (lakeprobe.monitoring.settings lists them), `targets` of which parameters and modules: parts of their names, with *
    and ?. Every `every`-th step is measured, from step `start` on. The metric zeros counts elements below `eps`.
    What was measured comes into the lake every `seconds`. `rank` takes the place of torch.distributed's. `replace` a
    series that the lake has.

    A failure, such as a full disk, ends the monitoring with one line on stderr, and the training goes on; with
    `on_failure` "raise" it is raised.

    >>> with lakeprobe.monitor(model, optimizer, run="npu") as monitor:
    ...     for batch in batches:
    ...         loss = train(batch)
    ...         monitor.log("loss", loss)

    Raises UsageError for an option that means nothing, and LakeError if the lake has the series or cannot be written.
    """
    if on_failure not in ("warn", "raise"):
        raise UsageError(f"monitor: on_failure should be warn or raise, not {on_failure!r}")
    asked = options.check(points, metrics, targets, every, start, eps, seconds)
    return Monitor(model, optimizer, asked, run=run, lake=lake, rank=rank, on_failure=on_failure, replace=replace)


class Monitor:
    """Measures a training in this process until it is closed."""

    def __init__(
        self, model: Any, optimizer: Any, settings: options.Settings, *, run: str, lake: str | os.PathLike[str] | None,
        rank: int | None, on_failure: str, replace: bool,
    ) -> None:  # fmt: skip
        """Begin to measure. Raises UsageError and LakeError."""
        from lakeprobe.monitoring.pytorch import Hooks

        self.run = run
        self._on_failure = on_failure
        self._process = os.getpid()
        self._ended = False
        number = _rank() if rank is None else rank
        self._writer = SeriesWriter(store.choose(lake), run, number, settings.seconds, replace=replace)
        self.lake = self._writer.lake
        self._hooks = Hooks(model, optimizer, settings, self._guard, self.step)
        atexit.register(self.close)

    @property
    def current_step(self) -> int:
        """The number of the running step, from 0. Set it to go on from an earlier run."""
        return self._hooks.step

    @current_step.setter
    def current_step(self, step: int) -> None:
        self._hooks.step = step

    def log(self, name: str, value: Any) -> None:
        """Add a number of the script to the running step, such as the loss: a number, or a tensor of one element.

        Once the optimizer has updated the parameters, the next step runs.
        """
        self._guard(self._hooks.log)(name, value)

    def before_step(self) -> None:
        """Measure gradients and parameters ahead of an update. An optimizer that is monitored does this by itself."""
        self._guard(self._hooks.before_update)()

    def step(self) -> None:
        """End the step. An optimizer that is monitored does this by itself, after each update."""
        self._guard(self._end_step)()

    def _end_step(self) -> None:
        self._writer.put(self._hooks.take())

    def close(self) -> None:
        """Stop, and wait until everything is in the lake. Safe to call twice."""
        atexit.unregister(self.close)
        if self._ended or os.getpid() != self._process:
            return
        self._hooks.remove()
        self._guard(self._close)()
        self._ended = True

    def _close(self) -> None:
        rest = self._hooks.take()
        if rest:
            self._writer.put(rest)
        self._writer.close()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _guard(self, function: Callable[..., None]) -> Callable[..., None]:
        """Wrap what runs within the training: a failure in it ends the monitoring and not the training."""

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> None:
            if self._ended:
                return
            try:
                function(*arguments, **options)
            except UsageError:
                raise
            except Exception as error:  # the training goes on
                self._give_up()
                if self._on_failure == "raise":
                    raise
                reason = " ".join(str(error).split()) or type(error).__name__
                diagnostics.note(f"lakeprobe: {reason}; monitoring of run {self.run} ends here, the training goes on")

        return call

    def _give_up(self) -> None:
        self._ended = True
        with suppress(Exception):
            self._hooks.remove()


def _rank() -> int:
    """Return the rank of this process, 0 if the job is not distributed."""
    from torch import distributed

    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0
