"""Decides which unit of the target run is held against which unit of the golden run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeprobe.lake.layout import UnitKey

Pair = tuple[UnitKey, UnitKey]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: a run, and those of its units that take part."""

    run: str
    units: tuple[UnitKey, ...]


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
    return pairs, [key for key in (*target, *golden) if key not in paired]


def _match(ours: set[int], theirs: set[int]) -> list[tuple[int, int]]:
    common = sorted(ours & theirs)
    if common or len(ours) != len(theirs):
        return [(number, number) for number in common]
    return list(zip(sorted(ours), sorted(theirs), strict=True))
