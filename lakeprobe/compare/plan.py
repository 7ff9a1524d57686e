"""Decides which unit of the target run is held against which unit of the golden run, and what a side is called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakeprobe.errors import UsageError
from lakeprobe.lake.layout import UnitKey
from lakeprobe.output import ranges

Pair = tuple[UnitKey, UnitKey]

_UNITS = re.compile(r"(?P<name>.+?)(?:@step(?P<step>\d{1,9}))?(?:@rank(?P<rank>\d{1,9}))?", re.DOTALL)
_MOST_NUMBERS = 40
"""Letters that the numbers of steps or ranks may take in a name."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A side as it was asked for: a run or path, and its one step and rank if it was given as run@step1@rank0."""

    name: str
    step: int | None = None
    rank: int | None = None

    @classmethod
    def of(cls, text: str) -> Asked:
        """What `text` asks for."""
        match = _UNITS.fullmatch(text)
        assert match is not None, text
        step, rank = (None if match[part] is None else int(match[part]) for part in ("step", "rank"))
        return cls(match["name"], step, rank)

    def chosen(self, units: Sequence[UnitKey]) -> tuple[UnitKey, ...]:
        """Those of `units` that are asked for. Raises UsageError if there are none."""
        chosen = with_numbers(
            units, [self.step] if self.step is not None else [], [self.rank] if self.rank is not None else []
        )
        if not chosen:
            raise UsageError(f"{self.name} has no such unit; it has {numbers_text(units)}")
        return tuple(chosen)


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: a run, those of its units that take part, and all that it has."""

    run: str
    units: tuple[UnitKey, ...]
    there: tuple[UnitKey, ...]

    @property
    def label(self) -> str:
        """The run's name, with the steps and ranks where only some of its units take part: npu, npu_step1_rank0."""
        return self.run + "".join(
            f"_{what}{_short(chosen)}"
            for what in ("step", "rank")
            if (chosen := {getattr(key, what) for key in self.units}) != {getattr(key, what) for key in self.there}
        )


def with_numbers(units: Iterable[UnitKey], steps: Sequence[int], ranks: Sequence[int]) -> list[UnitKey]:
    """Those of `units` of one of `steps` and `ranks`; an empty list of numbers takes all."""
    return [unit for unit in units if (not steps or unit.step in steps) and (not ranks or unit.rank in ranks)]


def numbers_text(units: Iterable[UnitKey]) -> str:
    """The steps and ranks of `units`, in words."""
    units = list(units)
    steps, ranks = ({getattr(key, what) for key in units} for what in ("step", "rank"))
    return f"step {ranges(steps, '-')} and rank {ranges(ranks, '-')}" if units else "none"


def pair_units(target: Sequence[UnitKey], golden: Sequence[UnitKey]) -> tuple[list[Pair], list[UnitKey]]:
    """Pairs of units, and the units that have no counterpart.

    Steps pair with steps, and in them ranks with ranks: by number where the two sides have numbers in common, else
    by place (a job that was dumped with ranks 8–15 against one with ranks 0–7).
    """
    pairs: list[Pair] = []
    for target_step, golden_step in _match({key.step for key in target}, {key.step for key in golden}):
        ours = {key.rank: key for key in target if key.step == target_step}
        theirs = {key.rank: key for key in golden if key.step == golden_step}
        pairs += [(ours[left], theirs[right]) for left, right in _match(set(ours), set(theirs))]
    paired = {key for pair in pairs for key in pair}
    return pairs, [key for key in dict.fromkeys((*target, *golden)) if key not in paired]


def _match(ours: set[int], theirs: set[int]) -> list[tuple[int, int]]:
    common = sorted(ours & theirs)
    if common or len(ours) != len(theirs):
        return [(number, number) for number in common]
    return list(zip(sorted(ours), sorted(theirs), strict=True))


def _short(numbers: set[int]) -> str:
    """Numbers as a name can hold them: 0+2-5; how many there are where that is long."""
    text = ranges(numbers, "-", "+")
    return text if len(text) <= _MOST_NUMBERS else f"s{len(numbers)}"
