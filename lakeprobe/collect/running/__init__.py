"""Collects from a script that does not mention lakeprobe. `lakeprobe run` starts this in the script's own process.

Python imports `inject/sitecustomize.py` there first. It waits for torch, then calls `begin`.
"""

from __future__ import annotations

import atexit
import functools
import os
from typing import Any

CONFIG = "LAKEPROBE_RUN_CONFIG"
"""The environment variable with the path of the run's config.json."""


def begin() -> None:
    """Start collecting at the first call of a module, which is taken as the model.

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
