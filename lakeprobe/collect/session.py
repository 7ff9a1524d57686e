"""The public interface of collecting: a Collector, also a context manager, that watches a model and fills a lake."""

from __future__ import annotations

import atexit
import functools
import os
import sys
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace as replaced

from lakeprobe import diagnostics
from lakeprobe.changes import USUAL_MODES
from lakeprobe.collect import config, frameworks
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.writing.unit_sink import UnitSink
from lakeprobe.errors import OverflowFoundError, UsageError
from lakeprobe.lake import store

ON_FAILURE = ("warn", "raise")
Method = TypeVar("Method", bound=Callable[..., Any])


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
    pert_mode: str | Sequence[str] = USUAL_MODES,
    fuzz_stage: str | Sequence[str] = "forward",
    handler_type: str = "check",
    if_preheat: bool = False,
    preheat_step: int = 15,
    max_sample: int = 20,
    precision: str = "low",
    compiled: str = "eager",
    every: int = 1,
    switch: str | os.PathLike[str] | None = None,
    most: float = 0.0,
    perturb: float = 0.0,
    perturb_seed: int | None = None,
    on_failure: str = "warn",
    replace: bool = False,
    preflight: bool = False,
    weights: str = "none",
) -> Collector:
    """Collect training steps of `model` into the run `run` of `lake`, by default $LAKEPROBE_LAKE or ./lake.

    `model` is a module, a list of modules, or None at level L1. Most options are those of msprobe's config.json:

    - `level`: L0 (modules), L1 (functions), mix (both) or debug (only what is saved by name).
    - `task`: statistics, tensor (contents too), structure (neither), overflow_check or perturb. overflow_check keeps
      only the ops in which NaN or inf is born, with contents. perturb runs each function again with changed inputs, and
      fills the view perturbations with how far its results are then apart.
    - `overflow_nums`: how many such ops end the collecting. The last one completes its step and raises
      OverflowFoundError out of the training. -1 means no limit.
    - `pert_mode`: how perturb changes inputs: some of improve_precision, add_noise, bit_noise, change_value, no_change
      and to_cpu. `fuzz_stage`: forward, backward or both. With `handler_type` "fix" the training goes on with the
      results of improve_precision or to_cpu. With `if_preheat` the first `preheat_step` steps find out how far results
      of an API may be apart, from at most `max_sample` of its calls in each step.
    - `summary_mode`: statistics, md5 or xor.
    - `scope`: the full names of the first and the last op.
    - `list`: parts of names of the ops to record.
    - `tensor_list`: parts of names of the ops whose contents are kept.
    - `precision`: "high" gives every float32 tensor a wide_mean and wide_norm, which are accumulated in float64.
    - `rank` and `step`: numbers or ranges such as "4-6". Empty means all.

    The other options are lakeprobe's own:

    - `compiled`: what torch.compile compiled runs eagerly while it is collected. With "boundary" compiled modules run
      as compiled, and each call of one is an op.
    - `every`: collect every n-th step.
    - `switch`: collect the steps that begin while a switch is on. It is a file that exists, or a signal such as
      "SIGUSR1", which turns collecting on when it is sent and off when it is sent again.
    - `most`: leave out steps so that training takes at most this share of its time longer, such as 0.2. 0 means no
      limit.
    - `perturb`: make the run a repeat of golden whose parameters differ by a rounding error. At the first start each
      floating-point parameter x of `model` becomes x·(1 + perturb·n), with n standard normal, stochastically rounded to
      its dtype. If the dtype is less precise than `perturb`, such as 1e-7, half of its eps is used instead. The
      framework's random numbers are not used.
    - `perturb_seed`: the seed of n. By default it is derived from the name of the run.
    - `on_failure`: with "warn" a failure while steps run, such as a full disk, ends the collecting with one line on
      stderr, and the training goes on undisturbed. With "raise" the failure is raised.
    - `replace`: replace units that the lake already has.
    - `preflight`: at the first start, put what the run begins with into the run RUN.preflight: environment, packages,
      switches, random generators (`lakeprobe.preflight`).
    - `weights`: "digest" puts each parameter's digest and statistics there too. `compare` and `blame` name what differs
      there first.

    >>> with lakeprobe.collect(model, run="npu", level="mix") as collector:
    ...     for batch in batches:
    ...         train(batch)
    ...         collector.step()

    Without `with`, call `start`, `stop`, `step` and finally `close`. Raises UsageError for a wrong option, and
    LakeError, also at the first `start`, if the lake already has a unit that would be collected.
    """
    options: dict[str, Any] = {"scope": scope, "list": list, "data_mode": data_mode}
    if task == "overflow_check":
        options["overflow_nums"] = overflow_nums
    elif task == "perturb":
        del options["data_mode"]
        options |= {"pert_mode": pert_mode, "fuzz_stage": fuzz_stage, "handler_type": handler_type,
                    "if_preheat": if_preheat, "preheat_step": preheat_step, "max_sample": max_sample}  # fmt: skip
    elif task != "structure":
        options["summary_mode"] = summary_mode
    if tensor_list:
        options["tensor_list"] = tensor_list
    asked = {"level": level, "task": task, "rank": rank, "step": step, "extra_info": extra_info,
             "risk_level": risk_level, "precision": precision, task: options}  # fmt: skip
    settings = replaced(config.parse(asked, "collect").settings, compiled=config.compiled(compiled, "collect"))
    settings = _paced(settings, every, switch, most)
    if perturb or perturb_seed is not None:
        settings = _perturbed(settings, perturb, zlib.crc32(run.encode()) if perturb_seed is None else perturb_seed)
    if weights not in ("none", "digest"):
        raise UsageError(f'collect: weights should be "digest" or "none", not {weights!r}')
    beginning = _Beginning(preflight or weights == "digest", weights == "digest")
    return Collector(model, settings, run=run, lake=lake, on_failure=on_failure, replace=replace, beginning=beginning)


class _Beginning(NamedTuple):
    """Whether to write down what the run begins with, and whether its weights."""

    is_wanted: bool = False
    with_weights: bool = False


def _paced(settings: Settings, every: int, switch: str | os.PathLike[str] | None, most: float) -> Settings:
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise UsageError(f"collect: every should be a whole number from 1, not {every!r}")
    if not isinstance(most, (int, float)) or not most >= 0:
        raise UsageError(f"collect: most should be a number from 0, such as 0.2, not {most!r}")
    return replaced(settings, every=every, switch=None if switch is None else os.fspath(switch), most=float(most))


def _perturbed(settings: Settings, perturb: float, seed: int) -> Settings:
    if not 0 < perturb < 1:
        raise UsageError(f"collect: perturb should be a number above 0 and below 1, such as 1e-7, not {perturb!r}")
    if not isinstance(seed, int) or seed < 0:
        raise UsageError(f"collect: perturb_seed should be a whole number from 0, not {seed!r}")
    return replaced(settings, perturb=perturb, perturb_seed=seed)


def contained(method: Method) -> Method:
    """Decorate a method of the Collector so that a failure in it ends the collecting, but not the training.

    With on_failure="raise" the failure is raised. UsageError, which is the caller's mistake, and OverflowFoundError are
    always raised.
    """

    @functools.wraps(method)
    def call(self: Collector, *args: Any, **kwargs: Any) -> Any:
        if self._given_up:
            return None
        try:
            return method(self, *args, **kwargs)
        except (UsageError, OverflowFoundError):
            raise
        except Exception as error:  # the training must go on
            self.give_up()
            if self._on_failure == "raise":
                raise
            reason = diagnostics.in_one_line(error)
            diagnostics.note(f"lakeprobe: {reason}; collecting of run {self.run} ends here, the training goes on")
            return None

    return call  # type: ignore[return-value]


class Collector:
    """Watches a model in this process, and puts each finished step into the lake as a unit."""

    def __init__(
        self,
        model: Any,
        settings: Settings,
        *,
        run: str,
        lake: str | os.PathLike[str] | None = None,
        on_failure: str = "warn",
        replace: bool = False,
        beginning: _Beginning | None = None,
    ) -> None:
        """Prepare to collect `model` with `settings` into the run `run` of `lake`. Nothing is watched yet.

        Raises UsageError and LakeError.
        """
        if on_failure not in ON_FAILURE:
            raise UsageError(f"on_failure should be one of {', '.join(ON_FAILURE)}, not {on_failure!r}")
        self.run = run
        self._on_failure = on_failure
        self._model, self._beginning = model, beginning or _Beginning()
        self._claimed = self._given_up = False
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
        """Start watching. `model` and `rank` override the model given before and the rank of torch.distributed.

        The first call raises UsageError, and LakeError if the lake already has what would be collected.
        """
        self._claim(rank)
        if self._beginning.is_wanted:
            self._write_beginning(self._model if model is None else model)
        self._start(model, rank)

    @contained
    def _write_beginning(self, model: Any) -> None:
        """Write down, once, what the run begins with, before anything of ours changes it."""
        from lakeprobe.collect.preflight import preflight

        with_weights, self._beginning = self._beginning.with_weights, _Beginning()
        preflight(model if with_weights else None, run=self.run, lake=self.lake)

    def _claim(self, rank: int | None = None) -> None:
        """Raise LakeError before the first step of training if the lake already has what would be collected."""
        if not self._claimed:
            self._capture.claim(rank)
            self._claimed = True

    @contained
    def _start(self, model: Any, rank: int | None) -> None:
        self._capture.start(model, rank)

    @contained
    def stop(self) -> None:
        """Stop watching. What ran so far is safe. `start` continues in the same step."""
        self._capture.stop()

    @contained
    def step(self) -> None:
        """End the step, whose unit goes into the lake. If watching was on, it continues in the next step."""
        self._capture.step()
        self._sink.finish()

    def save(self, name: str, value: Any, backward: bool = True) -> None:
        """Record a tensor, number, text, or lists and dicts of them as `name`. `backward` also records the gradients.

        Before the first `start`, raises LakeError under the same conditions.
        """
        self._claim()
        self._save(name, value, backward)

    @contained
    def _save(self, name: str, value: Any, backward: bool) -> None:
        self._capture.save(name, value, backward)

    def close(self) -> None:
        """Stop, end the step, and wait until everything is in the lake. Safe to call twice."""
        atexit.unregister(self._close_at_exit)
        self._close()
        if self._given_up:
            with suppress(Exception):
                self._sink.close()  # waits until the earlier steps are in the lake

    @contained
    def _close(self) -> None:
        self._capture.close()

    def __enter__(self) -> Collector:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._cut_off()
        self.close()

    @contained
    def _cut_off(self) -> None:
        """Leave the running step unfinished. Its unit is marked incomplete."""
        self._capture.stop()
        self._sink.close()

    def give_up(self) -> None:
        """Stop collecting for good, and restore framework and model. The next command picks up what is on the disk.

        A part that failed before may fail again, so each part is tried.
        """
        self._given_up = True
        for end in (self._capture.give_up, self._sink.give_up):
            with suppress(Exception):
                end()

    def _close_at_exit(self) -> None:
        if os.getpid() != self._process:  # a forked child process
            return
        # sys.exit, a signal or an uncaught exception in the middle of a step leaves the step incomplete.
        if self._capture.running or hasattr(sys, "last_value"):
            self._cut_off()
        self.close()


def lake_and_run_of(dump_path: str) -> tuple[Path, str]:
    """Return the lake and the run that replace msprobe's folder `dump_path`.

    The run has the name of the folder. The lake is $LAKEPROBE_LAKE, or else the folder `lake` next to it: the dumps
    /data/gpu and /data/npu become two runs of the lake /data/lake. Raises UsageError for a path without a name.
    """
    folder = Path(dump_path).expanduser().absolute()
    if not folder.name:
        raise UsageError(f"dump_path {dump_path} has no name to call the run by")
    return Path(os.environ.get(store.ENVIRONMENT_VARIABLE) or folder.parent / store.DEFAULT), folder.name
