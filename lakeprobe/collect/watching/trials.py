"""Reports what changed inputs did to the calls of a training: the part that all frameworks share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from lakeprobe.changes import Compared
from lakeprobe.collect.watching.preheat import Preheat
from lakeprobe.collect.watching.recorder import Recorder


class CannotTryError(Exception):
    """A call cannot be tried. The text says why."""


Found = TypeVar("Found")
FAILURES = (CannotTryError, RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)
"""What a trial may raise: an op raises these for inputs that it does not take."""
UNCHANGED = "it changes no input"
DRAWS = "it draws random numbers, others in another precision"
REFUSED = "the op refused the changed inputs"


class Reports:
    """What the settings ask to try, and where the results go."""

    def __init__(self, recorder: Recorder) -> None:
        settings = recorder.settings
        self.modes, self.stages, self.fixes = settings.pert_mode, settings.fuzz_stage, settings.handler_type == "fix"
        self._recorder = recorder
        self._preheat = Preheat(settings.preheat_step, settings.max_sample) if settings.if_preheat else None

    def wants(self, api: str) -> bool:
        """Return whether the next call of an API is to be tried. Call once per call."""
        return self._preheat is None or self._preheat.wants(api)

    def samples(self, mode: str) -> bool:
        """Return whether trials in this mode are samples, which are held against the CPU too."""
        return self._preheat is not None and not self._preheat.is_over and mode != "to_cpu"

    def limit(self, api: str, dtype: str) -> float | None:
        """Return how large the quotient of two results may be. None for the limit of the dtype."""
        return None if self._preheat is None else self._preheat.limit(api, dtype)

    def take(self, api: str, dtype: str, found: Compared, is_right: bool) -> None:
        """Learn from a sample. `is_right` tells whether the CPU gives the plain result."""
        if self._preheat is not None:
            self._preheat.take(api, dtype, found.max_relative + 1, is_right)

    def next_step(self) -> None:
        """Learn limits from the finished step."""
        if self._preheat is not None:
            self._preheat.next_step()

    def skip(self, op: str, problem: str, mode: str | None = None, direction: str = "forward") -> None:
        """Report a call that was not tried, `op` without its direction."""
        self._report(op, mode, direction, problem=problem)

    def trials(self, op: str, direction: str, trial: Callable[[str], Found]) -> Iterator[tuple[str, Found]]:
        """Yield each mode with what `trial` gives for it. A trial that fails is reported instead."""
        for mode in self.modes:
            try:
                found = trial(mode)
            except FAILURES as error:
                self._refused(op, error, mode, direction)
            else:
                yield mode, found

    def _refused(self, op: str, error: Exception, mode: str, direction: str) -> None:
        """Report a call that could not be tried because of `error`."""
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        self.skip(op, reason if isinstance(error, CannotTryError) else f"{REFUSED}: {reason}", mode, direction)

    def put(
        self, op: str, mode: str, direction: str, slot: str, dtype: str, shape: list[int], found: Compared,
        condition: float | None,
    ) -> None:  # fmt: skip
        """Report what a change of the inputs did to a result."""
        self._report(op, mode, direction, slot=slot, dtype=dtype, shape=shape, **found._asdict(), condition=condition)

    def _report(self, op: str, mode: str | None, direction: str, **found: Any) -> None:
        row = {"op": f"{op}.{direction}", "mode": mode, "direction": direction} | found
        self._recorder.entries.tried(row)
