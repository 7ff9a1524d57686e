"""Collects from a script that says nothing of it: what `lakeprobe run` has started in the script's own process.

`inject/sitecustomize.py` is what Python imports there first. It waits for torch, then calls `begin`.
"""

from __future__ import annotations

import atexit
import functools
import os
from typing import Any

CONFIG = "LAKEPROBE_RUN_CONFIG"
"""The environment variable with the config.json of the run."""


def begin() -> None:
    """Collect from the first call of a module on, whose module is the model.

    A step is over when a module is called, or the program ends, after an optimizer has stepped. Raises UsageError and
    LakeError for a config.json that is wrong, or that asks for steps that the lake has already.
    """
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from lakeprobe.collect.debugger import PrecisionDebugger

    debugger = PrecisionDebugger(os.environ[CONFIG])
    call = torch.nn.Module.__call__
    started = stepped = False

    def has_stepped(*_: Any) -> None:  # here the step may not be over: several optimizers may step one after another
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
