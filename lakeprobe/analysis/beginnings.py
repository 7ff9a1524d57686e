"""Finds what differed before the first op of two runs: in their preflights, and in the weights they began with.

The preflight of the run R is the run R.preflight of the lake, its first checkpoint the run R.weights.
"""

from __future__ import annotations

from msgspec import Struct

from lakeprobe.analysis.summary import ParameterFinding, summarise
from lakeprobe.lake import comparison as comparisons
from lakeprobe.lake import layout
from lakeprobe.lake.comparison import StoredComparison
from lakeprobe.lake.log import Snapshot


class Beginning(Struct, frozen=True):
    """The comparison of what two runs began with, and what was found, the worst first; nothing if they are equal."""

    comparison: str
    findings: tuple[ParameterFinding, ...]


def beginnings(lake: Snapshot, comparison: StoredComparison) -> tuple[Beginning, ...]:
    """Return what differed before the first op, for each kind of beginning that was compared. Raises LakeError."""
    names = [f"{comparison.target}{end}_vs_{comparison.golden}{end}" for end in layout.BEGINNINGS]
    known = set(layout.comparisons(lake))
    found = (comparisons.load(lake, name) for name in names if name in known)
    return tuple(Beginning(stored.name, summarise(stored).parameters) for stored in found if stored.is_unordered)
