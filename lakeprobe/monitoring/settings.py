"""What a monitor measures, where, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from lakeprobe.errors import UsageError

POINTS = (
    "parameter", "parameter_updated", "gradient_unreduced", "gradient", "moment1", "moment2", "update",
    "activation", "activation_gradient",
)  # fmt: skip
"""Where a training is measured. docs/monitor.md says when each point is reached."""

NUMBERS = ("norm", "mean", "min", "max", "zeros", "nans")
TEXTS = ("shape", "dtype", "digest")
METRICS = (*NUMBERS, *TEXTS)


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of `lakeprobe.monitor`, checked."""

    points: tuple[str, ...]
    metrics: tuple[str, ...]
    targets: tuple[str, ...]
    every: int
    start: int
    eps: float
    seconds: float

    def wants_step(self, step: int) -> bool:
        """Whether the step `step` is measured."""
        return step >= self.start and (step - self.start) % self.every == 0

    def wants_name(self, name: str) -> bool:
        """Whether a parameter or module is measured: its name, or a part of it, fits one of the targets."""
        return not self.targets or any(fnmatchcase(name, f"*{target}*") for target in self.targets)


def check(
    points: Sequence[str], metrics: Sequence[str], targets: Sequence[str], every: int, start: int, eps: float,
    seconds: float,
) -> Settings:  # fmt: skip
    """Return the settings. Raises UsageError for an option that means nothing."""
    for what, asked, known in (("points", points, POINTS), ("metrics", metrics, METRICS)):
        if isinstance(asked, str) or not asked or not set(asked) <= set(known):
            raise UsageError(f"monitor: {what} should be a list of some of {', '.join(known)}, not {asked!r}")
    if isinstance(targets, str):
        raise UsageError(f"monitor: targets should be a list of parts of names, not {targets!r}")
    for what, number, least in (("every", every, 1), ("start", start, 0)):
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise UsageError(f"monitor: {what} should be a whole number from {least}, not {number!r}")
    if not seconds > 0:
        raise UsageError(f"monitor: seconds should be a number above 0, not {seconds!r}")
    return Settings(tuple(points), tuple(metrics), tuple(targets), every, start, float(eps), float(seconds))
