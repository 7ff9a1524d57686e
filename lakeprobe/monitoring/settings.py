"""What a monitor measures, where, and when."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate
from typing import Any

from msgspec import Struct

from lakeprobe.errors import UsageError

POINTS = (
    "parameter", "parameter_updated", "gradient_unreduced", "gradient", "moment1", "moment2", "agreement", "update",
    "input", "output", "input_gradient", "output_gradient", "sent", "received",
)  # fmt: skip
"""Where a training is measured. docs/monitor.md says when each point is reached."""

NUMBERS = ("norm", "mean", "min", "max", "zeros", "nans")
TEXTS = ("shape", "dtype", "digest", "md5")
METRICS = (*NUMBERS, *TEXTS, "signs", "shares")

FEATURES = ("attention", "linear", "router_weight", "router_logit")
"""What a module is, for the metrics that only such a module has (lakeprobe.monitoring.features)."""

LAYOUTS = ("s,b,h,d", "b,s,h,d")
"""The order of the dimensions of queries and keys: sequence, batch, head, and width of a head."""


ANY = "any optimizer"
"""In place of an optimizer: each step of any of them ends a step."""


class Settings(Struct, frozen=True):
    """The options of `lakeprobe.monitor`, checked."""

    points: tuple[str, ...] = ("gradient", "parameter")
    metrics: tuple[str, ...] = ("norm",)
    parameters: tuple[str, ...] = ("*",)
    """Patterns of the whole names of the parameters that are measured."""
    modules: tuple[str, ...] = ("*",)
    """The same for modules."""
    features: Mapping[str, tuple[str, ...]] | None = None
    """The patterns of the modules that have each of FEATURES."""
    layout: str = LAYOUTS[0]
    every: int = 1
    start: int = 0
    times: int | None = None
    """The number of measured steps after which the monitor stops."""
    ranks: tuple[int, ...] = ()
    """The ranks that are measured, all if there are none."""
    switch: str | None = None
    """A file: steps that begin while it exists are measured."""
    lines: tuple[str, ...] = ()
    """Regular expressions: collectives are measured whose call stack has one of them."""
    eps: float = 1e-8
    exact: bool = True
    """Whether norms are accumulated in float64 throughout."""
    bounds: tuple[float, ...] = (-1.0, 0.0, 1.0)
    """The ends of the intervals of the metric shares, ascending."""
    steps: tuple[int, ...] = ()
    """The steps that are measured, all if there are none."""
    seconds: float = 10.0

    def wants_step(self, step: int) -> bool:
        """Whether the step `step` is measured."""
        return step >= self.start and (step - self.start) % self.every == 0 and (not self.steps or step in self.steps)

    def wants_rank(self, rank: int) -> bool:
        """Whether the rank `rank` is measured."""
        return not self.ranks or rank in self.ranks


def fits(name: str, patterns: Sequence[str]) -> bool:
    """Whether the name of a parameter or module is wanted: all of it fits one of the patterns, with * and ?."""
    return any(re.match(translate(pattern), name) for pattern in patterns)


def check(options: Mapping[str, Any]) -> Settings:
    """Return the settings that the options of `lakeprobe.monitor` describe.

    `targets` are parts of names, of parameters and of modules. Raises UsageError for an option that means nothing.
    """
    given = dict(options)
    given["points"] = _some_of("points", given["points"], POINTS)
    given["metrics"] = _some_of("metrics", given["metrics"], METRICS)
    for what in ("targets", "ranks", "lines", "bounds"):
        if isinstance(given[what], str):
            raise UsageError(f"monitor: {what} should be a list, not {given[what]!r}")
        given[what] = tuple(given[what])
    for what, least in (("every", 1), ("start", 0), ("times", 1)):
        _check_number(what, given[what], least, may_lack=what == "times")
    if not given["seconds"] > 0:
        raise UsageError(f"monitor: seconds should be a number above 0, not {given['seconds']!r}")
    if given["layout"] not in LAYOUTS:
        raise UsageError(f"monitor: layout should be {' or '.join(LAYOUTS)}, not {given['layout']!r}")
    if list(given["bounds"]) != sorted(set(given["bounds"])):
        raise UsageError(f"monitor: bounds should be numbers that ascend, not {given['bounds']!r}")
    asked = given.pop("features") or {}
    features = {kind: _inside(asked[kind]) for kind in _some_of("features", list(asked), FEATURES)}
    if not given["points"] and not features:
        raise UsageError(f"monitor: points should be a list of some of {', '.join(POINTS)}, not {options['points']!r}")
    targets = _inside(given.pop("targets"))
    return Settings(parameters=targets, modules=targets, features=features, **given)


def _some_of(what: str, asked: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    if isinstance(asked, str) or not set(asked) <= set(known):
        raise UsageError(f"monitor: {what} should be a list of some of {', '.join(known)}, not {asked!r}")
    return tuple(asked)


def _check_number(what: str, number: Any, least: int, *, may_lack: bool) -> None:
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if not (is_whole and number >= least) and not (number is None and may_lack):
        raise UsageError(f"monitor: {what} should be a whole number from {least}, not {number!r}")


def _inside(parts: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of names that have one of `parts` in them: all names if there are no parts."""
    return tuple(f"*{part}*" for part in parts) or ("*",)
