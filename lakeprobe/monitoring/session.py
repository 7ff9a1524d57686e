"""Monitoring as users meet it: an object, which is a context manager too, that measures every step of a training."""

from __future__ import annotations

import atexit
import functools
import importlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from lakeprobe import diagnostics
from lakeprobe.collect import frameworks
from lakeprobe.errors import UsageError
from lakeprobe.lake import store
from lakeprobe.monitoring import configuration
from lakeprobe.monitoring import settings as options
from lakeprobe.monitoring.alarm import Alarm, OnAnomaly
from lakeprobe.monitoring.writing import SeriesWriter


def monitor(
    model: Any,
    optimizer: Any = None,
    *,
    run: str | None = None,
    lake: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    points: Sequence[str] = ("gradient", "parameter"),
    metrics: Sequence[str] = ("norm",),
    targets: Sequence[str] = (),
    features: Mapping[str, Sequence[str]] | None = None,
    layout: str = "s,b,h,d",
    every: int = 1,
    start: int = 0,
    times: int | None = None,
    ranks: Sequence[int] = (),
    switch: str | None = None,
    lines: Sequence[str] = (),
    eps: float = 1e-8,
    exact: bool = False,
    bounds: Sequence[float] = (-1, 0, 1),
    seconds: float = 10.0,
    rank: int | None = None,
    on_anomaly: OnAnomaly | None = None,
    rules: Sequence[str] = (),
    on_failure: str = "warn",
    replace: bool = False,
) -> Monitor:
    """Measure every step of a training into the series of `run` in `lake` ($LAKEPROBE_LAKE or ./lake).

    `model` is a module of PyTorch or a cell of MindSpore, or a list of them, `optimizer` one or a list, as of a GAN:
    then the last of the list ends the step. A step ends when `optimizer` has updated the parameters; without one, call
    `before_step` ahead of each update and `step` after it. `points` and `metrics` say what is measured
    (lakeprobe.monitoring.settings lists them), `targets` of which parameters and modules: parts of their names, with *
    and ?. `features` names modules in the same way that are attention, linear, router_weight or router_logit, whose own
    metrics are measured too (lakeprobe.monitoring.features); `layout` is the order of dimensions of queries and keys.

    Every `every`-th step is measured, from step `start` on, `times` of them at most, on `ranks` only, and, with
    `switch`, only steps that begin while that file exists. Collectives are measured whose call stack has a line that
    fits one of the regular expressions `lines`. The metric zeros counts elements below `eps`, shares those between two
    of the `bounds`. With `exact` norms of float32 are accumulated in float64 even where lakeprobe has no functions in
    C, and not in rows of 4 096 in float32. What was measured comes into the lake every `seconds`. `rank` takes the
    place of torch.distributed's. `replace` a series that the lake has.

    `config` is msprobe's monitor_config.json, which takes the place of all of these but `run`, `lake`, `seconds`,
    `rank` and `replace`. A `run` without a name is then called after $MONITOR_OUTPUT_DIR, or monitor_output.

    `on_anomaly` is called after a step with what `rules` (all bundled ones) found in the last 500 steps,
    a list of `lakeprobe.analysis.watch.Anomaly`, and with the number of the step that begins. That happens once. What
    it returns, if anything, is called after that step. `lakeprobe.monitoring.alarm.dump` makes one that dumps it.

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
    if config is not None:
        asked = configuration.load(config, seconds)
        lake_of_config, run_of_config = configuration.places()
        lake, run = lake or lake_of_config, run or run_of_config
    else:
        asked = options.check({
            "points": points, "metrics": metrics, "targets": targets, "features": features, "layout": layout,
            "every": every, "start": start, "times": times, "ranks": ranks, "switch": switch, "lines": lines,
            "eps": eps, "exact": exact, "bounds": bounds, "seconds": seconds,
        })  # fmt: skip
    if run is None:
        raise UsageError("monitor: give the run a name: run=")
    if isinstance(optimizer, (list, tuple)) and not optimizer:
        raise UsageError("monitor: the list of optimizers is empty; give one, or None and call step()")
    made = Monitor(
        model, optimizer, asked, run=run, lake=lake, rank=rank, on_failure=on_failure, replace=replace,
        alarm=(on_anomaly, rules),
    )  # fmt: skip
    if config is not None:
        made.follow(configuration.Dynamic.of(config, seconds))
    return made


class Monitor:
    """Measures a training in this process until it is closed."""

    def __init__(
        self, model: Any, optimizer: Any, settings: options.Settings, *, run: str, lake: str | os.PathLike[str] | None,
        rank: int | None, on_failure: str, replace: bool, alarm: tuple[OnAnomaly | None, Sequence[str]] = (None, ()),
    ) -> None:  # fmt: skip
        """Begin to measure. Raises UsageError and LakeError."""
        self.run = run
        self._model, self._optimizer = model, optimizer
        self._on_failure = on_failure
        self._process = os.getpid()
        self._dynamic: configuration.Dynamic | None = None
        self._alarm: Alarm | None = None
        self._left_out: set[str] = set()
        """Names of what was logged that is no number."""
        self._framework = importlib.import_module(f"lakeprobe.monitoring.{frameworks.name_of(model)}.hooks")
        number = self._framework.rank() if rank is None else rank
        self._ended = not settings.wants_rank(number)
        self._hooks = self._hook(settings if not self._ended else options.Settings(points=()))
        if self._ended:
            self._hooks.remove()
            return
        if not self._hooks.has_targets:
            diagnostics.note(
                "lakeprobe: the targets of monitor fit no parameter and no module here; give parts of their names"
            )
        self._writer = SeriesWriter(store.choose(lake), run, number, settings.seconds, replace=replace)
        self.lake = self._writer.lake
        on_anomaly, rules = alarm
        if on_anomaly is not None:
            self._alarm = Alarm(self.lake, run, on_anomaly, rules)
            self._writer.published = self._alarm.look
        atexit.register(self.close)

    @property
    def current_step(self) -> int:
        """The number of the running step, from 0. Set it to go on from an earlier run."""
        return int(self._hooks.meter.step)

    @current_step.setter
    def current_step(self, step: int) -> None:
        self._hooks.meter.step = step

    def log(self, name: str, value: Any) -> None:
        """Add a number of the script to the running step, such as the loss: a number, or a tensor of one element.

        Anything else is left out, and told the first time. Once the optimizer has updated the parameters, the next step
        runs.
        """
        name = str(name)
        if hasattr(value, "__float__") and math.prod(getattr(value, "shape", ())) == 1:
            self._guard(self._hooks.log)(name, value)
        elif name not in self._left_out and not self._ended:
            self._left_out.add(name)
            what = f"{name} is a {type(value).__name__}, not a number or a tensor of one element"
            diagnostics.note(f"lakeprobe: {what}; the series of run {self.run} leaves it out")

    def before_step(self, gradients: Any = None) -> None:
        """Measure gradients and parameters ahead of an update. An optimizer that is monitored does this by itself.

        MindSpore's parameters have no gradients: give them in the order of the model's trainable parameters.
        """
        self._guard(self._hooks.before_update)(None, *([] if gradients is None else [gradients]))

    def step(self) -> None:
        """End the step. An optimizer that is monitored does this by itself, after each update."""
        self._guard(self._end_step)()

    def follow(self, dynamic: configuration.Dynamic | None) -> None:
        """Measure as a configuration file says that may change while the training runs."""
        self._dynamic = dynamic
        if dynamic is not None and not self._ended:
            self._rehook(dynamic.settings)

    def close(self) -> None:
        """Stop, and wait until everything is in the lake. Safe to call twice."""
        atexit.unregister(self.close)
        if self._ended or os.getpid() != self._process:
            return
        self._hooks.remove()
        self._guard(self._close)()
        self._ended = True

    def _end_step(self) -> None:
        self._writer.put(self._hooks.take())
        if self._alarm is not None:
            self._alarm.step_ended(self.current_step)
        if self._dynamic is not None:
            changed = self._dynamic.changed(self._hooks.meter)
            if changed is not None:
                self._rehook(changed)

    def _hook(self, settings: options.Settings, step: int = 0) -> Any:
        return self._framework.Hooks(self._model, self._optimizer, settings, self._guard, self.step, step)

    def _rehook(self, settings: options.Settings) -> None:
        self._hooks.remove()
        self._hooks = self._hook(settings, self._hooks.meter.step)

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

    def _guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap what runs within the training: a failure in it ends the monitoring and not the training."""

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            if self._ended:
                return None
            try:
                return function(*arguments, **options)
            except UsageError:
                raise
            except Exception as error:  # the training goes on
                self._give_up()
                if self._on_failure == "raise":
                    raise
                reason = diagnostics.in_one_line(error)
                diagnostics.note(f"lakeprobe: {reason}; monitoring of run {self.run} ends here, the training goes on")
                return None

        return call

    def _give_up(self) -> None:
        """Measure no more, and keep what was measured: watch says then that the monitoring has ended."""
        self._ended = True
        for end in (self._hooks.remove, self._writer.close):
            with suppress(Exception):
                end()
