"""msprobe's grad_probe: a monitor of gradients, ahead of each update."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, Any

from lakeprobe.monitoring.session import Monitor
from lakeprobe.monitoring.settings import ANY, Settings

if TYPE_CHECKING:
    from lakeprobe.collect.config import Configuration

_METRICS = {
    "L0": ("md5", "max", "min", "norm", "shape"),
    "L1": ("max", "min", "norm", "shape", "signs"),
    "L2": ("shares", "max", "min", "norm", "shape", "signs"),
}


def begin(
    configuration: Configuration, model: Any, *, run: str, lake: str | os.PathLike[str] | None, replace: bool
) -> Monitor:
    """Measure the gradients of `model` as task grad_probe of a config.json says. Raises UsageError and LakeError."""
    probe = configuration.probe
    if probe is None:
        raise AssertionError("the configuration has no grad_probe")
    settings = Settings(
        points=("gradient",),
        metrics=_METRICS[probe.grad_level],
        parameters=tuple(map(glob.escape, probe.param_list)) or ("*",),
        bounds=probe.bounds,
        ranks=configuration.settings.rank,
        steps=configuration.settings.step,
    )
    return Monitor(model, ANY, settings, run=run, lake=lake, rank=None, on_failure="warn", replace=replace)
