"""The short answer to a comparison: the first op that differs, the worst ops, and how all rows ended."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from lakeprobe import resources
from lakeprobe.lake.comparison import RESULTS_FILE, STACKS_FILE, StoredComparison
from lakeprobe.lake.connection import connect, define_view

if TYPE_CHECKING:
    import duckdb

MOST_LEAVES = 6
"""How many leaves of an op a summary shows."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf of an op that differs: its name after the op, what differs, and both sides in short."""

    slot: str
    difference: str
    target: str
    golden: str


@dataclass(frozen=True, slots=True)
class OpFinding:
    """An op that differs. `finding`: different, noise, only in target, or only in golden."""

    step: int
    rank: int
    op: str
    finding: str
    module: str | None
    code: str | None
    errors: int
    warnings: int
    cosine: float | None
    norm_relative: float | None
    leaves: tuple[Leaf, ...]
    more_leaves: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many rows of one (step, rank) ended with this outcome and verdict, in all and per side."""

    step: int
    rank: int
    outcome: str
    verdict: str
    rows: int
    target_rows: int
    golden_rows: int
    equal_rows: int
    noise_rows: int
    different_rows: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The short answer. `first` has the first op of each (step, rank) that differs, `beyond_noise` likewise.

    A (step, rank) where nothing differs (or nothing beyond float noise) has none.
    """

    first: tuple[OpFinding, ...]
    beyond_noise: tuple[OpFinding, ...]
    worst: tuple[OpFinding, ...]
    outcomes: tuple[Outcome, ...]

    def count(self, *verdicts: str) -> int:
        """How many rows have one of `verdicts`."""
        return sum(outcome.rows for outcome in self.outcomes if outcome.verdict in verdicts)


def summarise(comparison: StoredComparison) -> Summary:
    """The summary of a comparison that is in the lake."""
    connection = connect()
    try:
        for name, file in (("results", RESULTS_FILE), ("stacks", STACKS_FILE)):
            define_view(connection, name, comparison.folder / "step=*" / "rank=*" / file)
        connection.execute(f"CREATE TABLE findings AS {resources.sql('analysis/findings_by_op')}")
        rows = connection.execute(resources.sql("analysis/outcomes")).fetchall()
        return Summary(
            first=_ops(connection, "analysis/first_findings"),
            beyond_noise=_ops(connection, "analysis/first_findings_beyond_noise"),
            worst=_ops(connection, "analysis/worst_findings"),
            outcomes=tuple(Outcome(*row) for row in rows),
        )
    finally:
        connection.close()


def _ops(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[OpFinding, ...]:
    found = connection.execute(resources.sql(query))
    columns = [column[0] for column in found.description]
    return tuple(_op(connection, dict(zip(columns, row, strict=True))) for row in found.fetchall())


def _op(connection: duckdb.DuckDBPyConnection, finding: dict[str, Any]) -> OpFinding:
    key = {"step": finding["step"], "rank": finding["rank"]}
    rows, stack = finding.pop("rows"), finding.pop("stack")
    shown = connection.execute(resources.sql("analysis/leaves"), key | {"rows": rows[:MOST_LEAVES]}).fetchall()
    code = connection.execute(resources.sql("analysis/line_of_code"), key | {"stack": stack}).fetchall()
    return OpFinding(
        **{field.name: finding[field.name] for field in fields(OpFinding) if field.name in finding},
        code=code[0][0] if code else None,
        leaves=tuple(Leaf(*leaf) for leaf in shown),
        more_leaves=len(rows) - len(shown),
    )
