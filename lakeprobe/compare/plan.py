"""Decides which unit of the target run is compared with which unit of the golden run, and names the sides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from lakeprobe.errors import UsageError
from lakeprobe.lake.layout import UnitKey
from lakeprobe.output import few_ranges, ranges

Pair = tuple[UnitKey, UnitKey]

_UNITS = re.compile(r"(?P<name>.+?)(?:@step(?P<step>\d{1,9}))?(?:@rank(?P<rank>\d{1,9}))?", re.DOTALL)
_MOST_NUMBERS = 40
"""The most characters that steps or ranks may take in a name."""


class Asked(Struct, frozen=True):
    """A side as the user wrote it: a run or path, with one step and rank if it was given as run@step1@rank0."""

    name: str
    step: int | None = None
    rank: int | None = None

    @classmethod
    def of(cls, text: str) -> Asked:
        """Parse `text`. Raises UsageError if it is empty, as an unset variable of a script is."""
        match = _UNITS.fullmatch(text)
        if match is None:
            raise UsageError("a name is empty; give a run of the lake, or the path of a dump")
        step, rank = (None if match[part] is None else int(match[part]) for part in ("step", "rank"))
        return cls(match["name"], step, rank)

    @property
    def is_part(self) -> bool:
        """Whether the user named a step or a rank."""
        return self.step is not None or self.rank is not None

    def chosen(self, units: Sequence[UnitKey]) -> tuple[UnitKey, ...]:
        """Return the units asked for. Raises UsageError if there are none."""
        chosen = with_numbers(
            units, [self.step] if self.step is not None else [], [self.rank] if self.rank is not None else []
        )
        if not chosen:
            raise UsageError(f"{self.name} does not have the step or rank asked for; it has {numbers_text(units)}")
        return tuple(chosen)


class Side(Struct, frozen=True):
    """One side of a comparison: a run, its units that take part, and all of its units."""

    run: str
    units: tuple[UnitKey, ...]
    present: tuple[UnitKey, ...]

    @property
    def label(self) -> str:
        """The run's name. It includes the steps and ranks if only some units take part: npu, npu_step1_rank0."""
        return self.run + "".join(
            f"_{what}{_short(chosen)}"
            for what in ("step", "rank")
            if (chosen := {getattr(key, what) for key in self.units}) != {getattr(key, what) for key in self.present}
        )


def with_numbers(units: Iterable[UnitKey], steps: Sequence[int], ranks: Sequence[int]) -> list[UnitKey]:
    """Return the units of `steps` and `ranks`; an empty list selects all."""
    return [unit for unit in units if (not steps or unit.step in steps) and (not ranks or unit.rank in ranks)]


def numbers_text(units: Iterable[UnitKey]) -> str:
    """Describe the steps and ranks of `units` in words."""
    units = list(units)
    steps, ranks = ({getattr(key, what) for key in units} for what in ("step", "rank"))
    return f"step {ranges(steps, '-')} and rank {ranges(ranks, '-')}" if units else "none"


def pair_units(target: Sequence[UnitKey], golden: Sequence[UnitKey]) -> tuple[list[Pair], list[UnitKey]]:
    """Return the pairs of units, and the units without a counterpart.

    Steps pair with steps, and within them ranks with ranks: by number if the two sides share numbers, otherwise by
    position (a job dumped with ranks 8–15 against one with ranks 0–7).
    """
    pairs: list[Pair] = []
    for target_step, golden_step in _match({key.step for key in target}, {key.step for key in golden}):
        ours = {key.rank: key for key in target if key.step == target_step}
        theirs = {key.rank: key for key in golden if key.step == golden_step}
        pairs += [(ours[left], theirs[right]) for left, right in _match(set(ours), set(theirs))]
    paired = {key for pair in pairs for key in pair}
    return pairs, [key for key in dict.fromkeys((*target, *golden)) if key not in paired]


def by_position(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield in words which steps and ranks were paired although their numbers differ."""
    for what in ("step", "rank"):
        numbers = [(getattr(ours, what), getattr(theirs, what)) for ours, theirs in pairs]
        moved = [pair for pair in numbers if pair[0] != pair[1]]
        if not moved:
            continue
        named, how = (what, "is compared") if len(set(moved)) == 1 else (f"{what}s", "are compared in this order")
        ours, theirs = (f"{named} {few_ranges(side)}" for side in zip(*moved, strict=True))
        target, golden = pairs[0][0].run, pairs[0][1].run
        yield f"{ours} of {target} {how} with {theirs} of {golden}: the two sides have no {what} in common"


def _match(ours: set[int], theirs: set[int]) -> list[tuple[int, int]]:
    common = sorted(ours & theirs)
    if common or len(ours) != len(theirs):
        return [(number, number) for number in common]
    return list(zip(sorted(ours), sorted(theirs), strict=True))


def _short(numbers: set[int]) -> str:
    """Return numbers in a form that fits into a name: 0+2-5, or only how many if that would be long."""
    text = ranges(numbers, "-", "+")
    return text if len(text) <= _MOST_NUMBERS else f"s{len(numbers)}"
