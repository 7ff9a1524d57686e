"""Reads how a pair of units ended, op by op and as a whole, for the reports that programs and CI read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe import output, resources
from lakeprobe.analysis.summary import MACROS, Outcome
from lakeprobe.analysis.verdict import Coverage, coverage
from lakeprobe.lake.comparison import ComparedUnit, StoredComparison
from lakeprobe.lake.connection import define_macros
from lakeprobe.lake.layout import UnitKey
from lakeprobe.reports.verdict_text import NOT_COMPARED

if TYPE_CHECKING:
    import duckdb


class OpVerdict(Struct, frozen=True):
    """How an op ended, as sql/reports/op_verdicts.sql says."""

    op: str
    module: str | None
    verdict: str
    rows: int
    different: int
    error: float | None
    findings: list[str] | None
    not_compared: Mapping[str, int]
    target_seq: int | None
    only_golden_seq: int | None

    @property
    def is_compared(self) -> bool:
        """Whether one of its rows was compared."""
        return sum(self.not_compared.values()) < self.rows

    @property
    def left_out(self) -> str:
        """What became of the rows that were not compared, in words."""
        return ", ".join(
            f"{output.counted(count, 'row')} {NOT_COMPARED.get(kind, kind)}"
            for kind, count in sorted(self.not_compared.items())
        )


def op_verdicts(connection: duckdb.DuckDBPyConnection) -> list[OpVerdict]:
    """Return how each op ended, in the order of the target; `connection` has the view results."""
    return [OpVerdict(*row) for row in connection.execute(resources.sql("reports/op_verdicts")).fetchall()]


def unpaired_of(comparison: StoredComparison, unit: ComparedUnit) -> tuple[UnitKey, ...]:
    """Return the units without counterpart, which have no file of their own, for the first pair; none for others."""
    return comparison.unpaired if unit == comparison.units[0] else ()


def incomplete_of(comparison: StoredComparison, unit: ComparedUnit) -> list[UnitKey]:
    """Return those of the two units whose collecting ended in the middle of the step."""
    pair = (
        UnitKey(comparison.target, unit.step, unit.rank),
        UnitKey(comparison.golden, unit.golden_step, unit.golden_rank),
    )
    return [key for key in comparison.incomplete if key in pair]


def pair_coverage(connection: duckdb.DuckDBPyConnection, comparison: StoredComparison, unit: ComparedUnit) -> Coverage:
    """Return how much of one pair was compared; for the only pair of a comparison, that is what its summary says."""
    define_macros(connection, MACROS)
    outcomes = [Outcome(*row) for row in connection.execute(resources.sql("analysis/outcomes")).fetchall()]
    return coverage([unit], outcomes, unpaired=len(unpaired_of(comparison, unit)))
