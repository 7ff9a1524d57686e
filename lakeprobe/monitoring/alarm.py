"""Asks the rules while a training runs, and tells the training what they found: "dump when it happens"."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lakeprobe.analysis import watch as watching
from lakeprobe.errors import LakeError

After = Callable[[], None]
OnAnomaly = Callable[[list[watching.Anomaly], int], After | None]

_LAST_STEPS = 500
"""The number of last steps that the rules see, so that a look costs the same however long the training."""


class Alarm:
    """Looks at the series of a run in the thread that writes them; the training's thread calls what was asked for."""

    def __init__(self, lake: Path, run: str, on_anomaly: OnAnomaly, rules: Sequence[str]) -> None:
        """Raises UsageError for a rule that cannot be read."""
        self._lake, self._run = lake, run
        self._on_anomaly = on_anomaly
        self._rules = list(rules) or list(watching.RULES)
        for rule in self._rules:
            watching.load(rule)
        self._found: list[watching.Anomaly] = []
        self._after: After | None = None
        self._rang = False
        self._lock = threading.Lock()

    def look(self) -> None:
        """Ask the rules. Called when something new is in the lake. Raises RuleError."""
        from lakeprobe.session import Lake

        if self._rang:
            return
        try:
            with Lake(self._lake) as lake:
                found = lake.watch(self._run, self._rules, last=_LAST_STEPS)
        except LakeError:  # another process changes the lake; the next look sees it
            return
        with self._lock:
            self._found = found

    def step_ended(self, step: int) -> None:
        """Call the training's function if something was found, and one step later what it returned.

        `step` is the number of the step that begins.
        """
        after, self._after = self._after, None
        if after is not None:
            after()
        with self._lock:
            found, self._found = self._found, []
        if found and not self._rang:
            self._rang = True
            self._after = self._on_anomaly(found, step)


def dump(model: Any, run: str, **options: Any) -> OnAnomaly:
    """Return an `on_anomaly` that dumps the next step of `model` into `run`, with the options of `lakeprobe.collect`.

    The step has its number in the training.
    """
    from lakeprobe.collect.session import collect

    def ring(_: list[watching.Anomaly], step: int) -> After:
        collector = collect(model, run=run, **options)
        collector.current_step = step
        collector.start()

        def end() -> None:
            collector.stop()
            collector.close()

        return end

    return ring
