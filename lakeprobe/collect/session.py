"""Collecting as users meet it: an object, which is a context manager too, that watches a model and fills a lake."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from lakeprobe.collect import config, frameworks
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.writing.unit_sink import UnitSink
from lakeprobe.errors import UsageError
from lakeprobe.lake import store


def collect(
    model: Any = None,
    *,
    run: str,
    lake: str | os.PathLike[str] | None = None,
    level: str = "L1",
    task: str = "statistics",
    summary_mode: str = "statistics",
    scope: Sequence[str] = (),
    list: Sequence[str] = (),
    tensor_list: Sequence[str] = (),
    data_mode: Sequence[str] = ("all",),
    rank: Sequence[int | str] = (),
    step: Sequence[int | str] = (),
    extra_info: bool = True,
    risk_level: str = "FOCUS",
    overflow_nums: int = 1,
    precision: str = "low",
    replace: bool = False,
) -> Collector:
    """Collect training steps of `model` into the run `run` of `lake` ($LAKEPROBE_LAKE or ./lake where it is not given).

    `model` is a module, a list of them, or none at level L1. The options are those of msprobe's config.json:
    `level` L0 (modules), L1 (functions), mix (both) or debug (only what is saved by name), `task` statistics, tensor
    (contents too), structure (neither) or overflow_check, `summary_mode` statistics, md5 or xor. `scope` has the full
    names of the first and the last op, `list` parts of names, `tensor_list` parts of the names of ops whose contents
    are kept. With `precision` high wide_mean and wide_norm of float32 tensors are accumulated in float64, not float32.
    Task overflow_check keeps only the ops in which NaN or inf is born, with contents. The `overflow_nums`-th of them
    ends the collecting, with its step whole, and raises OverflowFoundError out of the training; -1 never does.
    `rank` and `step` are numbers or ranges such as "4-6"; empty for all. `replace` units that the lake has already.

    >>> with lakeprobe.collect(model, run="npu", level="mix") as collector:
    ...     for batch in batches:
    ...         train(batch)
    ...         collector.step()

    Without `with`, call `start`, `stop`, `step` and in the end `close`. Raises UsageError and LakeError.
    """
    options: dict[str, Any] = {"scope": scope, "list": list, "data_mode": data_mode}
    if task == "overflow_check":
        options["overflow_nums"] = overflow_nums
    elif task != "structure":
        options["summary_mode"] = summary_mode
    if tensor_list:
        options["tensor_list"] = tensor_list
    asked = {"level": level, "task": task, "rank": rank, "step": step, "extra_info": extra_info,
             "risk_level": risk_level, "precision": precision, task: options}  # fmt: skip
    return Collector(model, config.parse(asked, "collect").settings, run=run, lake=lake, replace=replace)


class Collector:
    """Watches a model in this process, and puts each step in the lake as a unit when it is over."""

    def __init__(
        self,
        model: Any,
        settings: Settings,
        *,
        run: str,
        lake: str | os.PathLike[str] | None = None,
        replace: bool = False,
    ) -> None:
        """Collect `settings` of `model` into the run `run` of `lake`. Nothing is watched yet.

        Raises UsageError and LakeError.
        """
        self.run = run
        self.lake = store.choose(lake)
        self._sink = UnitSink(self.lake, run, settings, framework=frameworks.name_of(model), replace=replace)
        self._capture = frameworks.capture(model, settings, self._sink)
        self._process = os.getpid()
        atexit.register(self._close_at_exit)

    @property
    def current_step(self) -> int:
        """The number of the running step, from 0. May be set before the first start."""
        return int(self._capture.current_step)

    @current_step.setter
    def current_step(self, step: int) -> None:
        self._capture.current_step = step

    def start(self, model: Any = None, rank: int | None = None) -> None:
        """Watch from here on. `model` and `rank` take the place of the model given before and torch.distributed's rank.

        Raises LakeError if the lake has this step already.
        """
        self._capture.start(model, rank)

    def stop(self) -> None:
        """Watch no more; what ran so far is safe. `start` goes on in the same step."""
        self._capture.stop()

    def step(self) -> None:
        """The step is over; its unit comes into the lake. Watching goes on in the next step, if it was on."""
        self._capture.step()
        self._sink.finish()

    def save(self, name: str, value: Any, backward: bool = True) -> None:
        """Record a tensor, number, text, or lists and dicts of them as `name`; with `backward` also the gradients."""
        self._capture.save(name, value, backward)

    def close(self) -> None:
        """Stop, end the step, and wait until all is in the lake. Safe to call twice."""
        self._capture.close()
        atexit.unregister(self._close_at_exit)

    def __enter__(self) -> Collector:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._cut_off()
        self.close()

    def _cut_off(self) -> None:
        """Leave the running step as it is: its unit is marked incomplete."""
        self._capture.stop()
        self._sink.close()

    def _close_at_exit(self) -> None:
        if os.getpid() != self._process:  # a child process that was forked off
            return
        if hasattr(sys, "last_value"):  # an exception that nobody caught ends the program
            self._cut_off()
        self.close()


def beside(dump_path: str) -> tuple[Path, str]:
    """The lake and the run for what msprobe would write to the folder `dump_path`.

    The run has the folder's name. The lake is $LAKEPROBE_LAKE, else the folder `lake` beside it: so the dumps /data/gpu
    and /data/npu become two runs of the lake /data/lake. Raises UsageError for a path without a name.
    """
    folder = Path(dump_path).expanduser().absolute()
    if not folder.name:
        raise UsageError(f"dump_path {dump_path} has no name to call the run by")
    return Path(os.environ.get(store.ENVIRONMENT_VARIABLE) or folder.parent / store.DEFAULT), folder.name
