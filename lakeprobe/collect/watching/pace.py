"""Which of the steps that may be collected are: every n-th, while a switch is on, few enough for a limit on cost."""

import time

from lakeprobe.collect.settings import Settings
from lakeprobe.collect.watching import switch


class Pace:
    """Asked for each step once: what is decided holds until the step is over."""

    def __init__(self, settings: Settings) -> None:
        self._every = settings.every
        self._is_on = switch.of(settings.switch)
        self._most = settings.most
        self._decided: tuple[int, bool] | None = None
        self._began: float | None = None
        self._seconds = {True: 0.0, False: 0.0}
        self._steps = {True: 0, False: 0}

    def wants(self, step: int) -> bool:
        """Whether a step is collected."""
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
        """Whether one more collected step costs no more than the limit, as far as steps are like those before.

        Steps are first seen bare: the very first, in which much is set up, and one that tells what a step takes.
        """
        seconds, steps = self._seconds, self._steps
        if steps[False] < 2:
            return False
        bare = seconds[False] / (steps[False] - 1)
        collected = steps[True] + 1
        dearer = max(seconds[True] / steps[True] - bare, 0.0) if steps[True] else 0.0
        return dearer * collected <= self._most * bare * (collected + steps[False])

    def ended(self) -> None:
        """A step is over."""
        now = time.perf_counter()
        if self._began is not None and self._decided is not None:
            collected = self._decided[1]
            if collected or self._steps[False]:  # not the very first
                self._seconds[collected] += now - self._began
            self._steps[collected] += 1
        self._began = now
