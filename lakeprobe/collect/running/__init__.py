"""Collects from a script that does not mention lakeprobe. `lakeprobe run` starts this in the script's own process.

Python imports `inject/sitecustomize.py` there first. It waits for torch, then calls `begin`.
"""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lakeprobe.collect.preflight import FOLDER, gather, generators, write
from lakeprobe.errors import UsageError

CONFIG = "LAKEPROBE_RUN_CONFIG"
"""The environment variable with the path of the run's config.json."""


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
    if os.environ.get(CONFIG):
        _collect()
    if os.environ.get(FOLDER):
        _pack()


def _pack() -> None:
    """Pack a preflight just before the first call of a module, which is the model; its arguments are the data."""
    import torch

    from lakeprobe.collect.running.draws import Draws

    call, unseeded, counted = torch.nn.Module.__call__, generators(), Draws()

    @functools.wraps(call)
    def watched(module: Any, *args: Any, **kwargs: Any) -> Any:
        torch.nn.Module.__call__ = call
        draws = counted.stop()
        folder = Path(os.environ.pop(FOLDER))
        found = gather(module, batches=[{"arguments": list(args), **kwargs}], unseeded=unseeded)
        found["random"] |= {f"calls.{name}": lines for name, lines in draws.items()}
        write(found, folder)
        return call(module, *args, **kwargs)

    torch.nn.Module.__call__ = watched


def _collect() -> None:
    """Collect from the first call of a module on, whose module is the model.

    A step ends when a module is called or the program exits, after an optimizer has stepped. Raises UsageError and
    LakeError if config.json is wrong or asks for steps that the lake already has.
    """
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from lakeprobe.collect.debugger import PrecisionDebugger

    debugger = PrecisionDebugger(os.environ[CONFIG])
    call = torch.nn.Module.__call__
    started = stepped = False

    def has_stepped(*_: Any) -> None:  # not the end of the step: several optimizers may step in a row
        nonlocal stepped
        stepped = started

    def end_step() -> None:
        nonlocal stepped
        if stepped:
            stepped = False
            debugger.step()

    @functools.wraps(call)
    def watched(module: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal started
        if started and not stepped:
            return call(module, *args, **kwargs)
        end_step()
        if not started:
            started = True
            debugger.start(module)
        return torch.nn.Module.__call__(module, *args, **kwargs)

    torch.nn.Module.__call__ = watched
    register_optimizer_step_post_hook(has_stepped)
    atexit.register(end_step)
