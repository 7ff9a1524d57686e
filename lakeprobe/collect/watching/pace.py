"""Decides which steps to collect: every n-th, while a switch is on, within the cost limit."""

import time

from lakeprobe.collect.settings import Settings
from lakeprobe.collect.watching import switch


class Pace:
    """Decides once per step. The decision holds until the step ends."""

    def __init__(self, settings: Settings) -> None:
        self._every = settings.every
        self._is_on = switch.of(settings.switch)
        self._most = settings.most
        self._decided: tuple[int, bool] | None = None
        self._began: float | None = None
        self._seconds = {True: 0.0, False: 0.0}
        self._steps = {True: 0, False: 0}

    def wants(self, step: int) -> bool:
        """Return whether to collect a step."""
        if self._decided is None or self._decided[0] != step:
            self._decided = step, self._wants(step)
        return self._decided[1]

    def _wants(self, step: int) -> bool:
        if self._began is None:
            self._began = time.perf_counter()
        if step % self._every or not self._is_on():
            return False
        return not self._most or self._affords()

    def _affords(self) -> bool:
        """Return whether one more collected step stays within the cost limit, if steps take as long as before.

        Two steps run uncollected first: the very first one, which includes set-up work, and one that gives the time of
        a step.
        """
        seconds, steps = self._seconds, self._steps
        if steps[False] < 2:
            return False
        bare = seconds[False] / (steps[False] - 1)
        collected = steps[True] + 1
        extra = max(seconds[True] / steps[True] - bare, 0.0) if steps[True] else 0.0
        return extra * collected <= self._most * bare * (collected + steps[False])

    def ended(self) -> None:
        """Record that a step has ended."""
        now = time.perf_counter()
        if self._began is not None and self._decided is not None:
            collected = self._decided[1]
            if collected or self._steps[False]:  # not the very first step
                self._seconds[collected] += now - self._began
            self._steps[collected] += 1
        self._began = now
