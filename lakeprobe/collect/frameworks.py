"""The framework whose training is watched: chosen here alone, and imported only then."""

from __future__ import annotations

from typing import Any

from lakeprobe.collect.capture import Capture
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.sink import Sink
from lakeprobe.errors import UsageError


def capture(model: Any, settings: Settings, sink: Sink) -> Capture:
    """A capture of `model` (a module, a list of them, or None), not started yet. Raises UsageError without torch."""
    try:
        from lakeprobe.collect.pytorch.watcher import Watcher
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UsageError("collecting needs torch, which is not installed: pip install torch") from None
    return Capture(model, settings, sink, Watcher(settings, sink))


def seed(number: int, *, deterministic: bool) -> None:
    """Seed the framework, and have it use deterministic algorithms or not."""
    from lakeprobe.collect.pytorch import seeding

    seeding.seed(number, deterministic=deterministic)
