"""Collects from a script that does not mention lakeprobe. `lakeprobe run` starts this in the script's own process.

Python imports `inject/sitecustomize.py` there first. It waits for torch, then calls `begin`.
"""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe import diagnostics
from lakeprobe.collect.preflight import FOLDER, gather, generators, write
from lakeprobe.errors import OverflowFoundError, UsageError

if TYPE_CHECKING:
    from lakeprobe.collect.config import Configuration
    from lakeprobe.collect.session import Collector

CONFIG = "LAKEPROBE_RUN_CONFIG"
"""The environment variable with the path of the run's config.json."""
FIRST = "LAKEPROBE_RUN_FIRST"
"""The environment variable with the process id of the first process that imported torch."""


def launched(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run `command` with `variables`, so that Python processes in it call `begin`. Returns its exit code.

    Raises UsageError for what cannot be run.
    """
    inject = str(Path(__file__).parent / "inject")
    path = os.pathsep.join(filter(None, (inject, os.environ.get("PYTHONPATH"))))
    try:
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path, **variables}, check=False)  # noqa: S603 what the user asks for
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be run: {error.strerror}") from error
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def begin() -> None:
    """Do what `lakeprobe run` or `preflight pack` was asked for, in the process of a script that imports torch."""
    trains = _training()
    if os.environ.get(CONFIG):
        with _told():
            _collect(trains)
    if os.environ.get(FOLDER):
        _pack(trains)


def _training() -> Callable[[], bool]:
    """Return what says whether this process trains. Others start the one that does, or prepare its data.

    The first process that imports torch trains, and any other once it has made an optimizer or called
    init_process_group. Only what a process does itself counts: a worker inherits the rank in the environment, and if it
    is forked, also the optimizers and the group of processes.
    """
    import torch
    from torch.optim import Optimizer

    def group() -> Any:
        return torch.distributed.group.WORLD if torch.distributed.is_available() else None

    process = str(os.getpid())
    is_first, has_optimizer, inherited = os.environ.setdefault(FIRST, process) == process, False, None
    make = Optimizer.__init__

    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal has_optimizer
        make(self, *args, **kwargs)
        has_optimizer = True

    def forget() -> None:
        nonlocal is_first, has_optimizer, inherited
        is_first, has_optimizer, inherited = False, False, group()

    def trains() -> bool:
        if has_optimizer or (is_first and multiprocessing.parent_process() is None):
            return True
        joined = group()
        return joined is not None and joined is not inherited

    Optimizer.__init__ = made
    _in_forks(forget)
    return trains


def _in_forks(function: Callable[[], None]) -> None:
    """Call `function` in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


@contextmanager
def _told(
    give_up: Callable[[], None] = lambda: None, what: str = "lakeprobe run collects nothing from here on"
) -> Iterator[None]:
    """Tell in one line what goes wrong and what follows, and give up.

    Only an overflow ends the training, if config.json asks for it.
    """
    try:
        yield
    except OverflowFoundError:
        raise
    except Exception as error:  # noqa: BLE001 the training must go on
        reason = diagnostics.in_one_line(error)
        diagnostics.note(f"lakeprobe: {reason}; {what}, the training goes on")
        give_up()


def _pack(trains: Callable[[], bool]) -> None:
    """Pack a preflight just before the first call of a module, which is the model; its arguments are the data."""
    import torch

    from lakeprobe.collect.running.draws import Draws

    call, unseeded, counted = torch.nn.Module.__call__, generators(), Draws()

    @functools.wraps(call)
    def watched(module: Any, *args: Any, **kwargs: Any) -> Any:
        if not trains():
            return call(module, *args, **kwargs)
        torch.nn.Module.__call__ = call
        draws = counted.stop()
        folder = Path(os.environ.pop(FOLDER))
        with _told(what="no preflight is packed"):
            found = gather(module, batches=[{"arguments": list(args), **kwargs}], unseeded=unseeded)
            found["random"] |= {f"calls.{name}": lines for name, lines in draws.items()}
            write(found, folder)
        return call(module, *args, **kwargs)

    torch.nn.Module.__call__ = watched


def _collect(trains: Callable[[], bool]) -> None:
    """Collect from the first call of a module on, whose module is the model.

    A step ends when a module is called or the program exits, after an optimizer has stepped. Raises UsageError if
    config.json is wrong.
    """
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from lakeprobe.collect import config, frameworks

    configuration = config.load(os.environ[CONFIG])
    if configuration.seed is not None:  # now, and not with the first step: the script may choose another seed
        frameworks.seed(configuration.seed, deterministic=configuration.deterministic)
    call = torch.nn.Module.__call__
    steps = _Steps(configuration)

    @functools.wraps(call)
    def watched(module: Any, *args: Any, **kwargs: Any) -> Any:
        if not (steps.has_stepped if steps.is_started else trains()):
            return call(module, *args, **kwargs)
        steps.end()
        if not steps.is_started:
            steps.start(module)
        return torch.nn.Module.__call__(module, *args, **kwargs)

    torch.nn.Module.__call__ = watched
    register_optimizer_step_post_hook(steps.stepped)
    atexit.register(steps.report)
    _in_forks(steps.forget)


class _Steps:
    """The steps of this process. What goes wrong is told, and the training goes on."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self.forget()

    def forget(self) -> None:
        """Begin anew. A forked process leaves to its parent what that collects."""
        self.is_started = self.has_stepped = False
        self._collector: Collector | None = None

    def start(self, model: Any) -> None:
        """Begin the first step, of `model`."""
        self.is_started = True
        with _told():
            self._collector = _started(self._configuration, model)
            atexit.register(self.end)  # runs before the collector closes, which would cut the last step off

    def stepped(self, *_: Any) -> None:
        """Note that an optimizer has stepped. This does not end the step: several may step in a row."""
        self.has_stepped = True

    def end(self) -> None:
        """End the step if an optimizer has stepped."""
        has_stepped, self.has_stepped = self.has_stepped, False
        if has_stepped and self._collector is not None:
            with _told(self._collector.give_up):
                self._collector.step()

    def report(self) -> None:
        """Say at exit why a training was not collected."""
        if self.has_stepped and not self.is_started:
            diagnostics.note("lakeprobe: nothing was collected: an optimizer stepped, but no module was called")


def _started(configuration: Configuration, model: Any) -> Collector | None:
    """Start to collect `model`. Returns the collector, or None for a monitor, which ends its steps itself.

    Raises UsageError and LakeError.
    """
    from lakeprobe.collect.session import Collector, lake_and_run_of

    if configuration.dump_path is None:
        raise UsageError("config.json needs a dump_path, whose last folder names the run")
    lake, run = lake_and_run_of(configuration.dump_path)
    if configuration.probe is not None:
        from lakeprobe.monitoring import probing

        probing.begin(configuration, model, run=run, lake=lake, replace=False)
        return None
    collector = Collector(model, configuration.settings, run=run, lake=lake)
    with _told(collector.give_up):  # such as a run that the lake already has
        collector.start()
    return collector
