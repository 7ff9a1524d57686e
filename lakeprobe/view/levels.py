"""Judges the rows of a comparison or a run for a view of it: tables on the connection of its analyses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lakeprobe import resources
from lakeprobe.analysis import overflow as overflowing
from lakeprobe.analysis.query import keep, keep_leaf_errors, set_thresholds
from lakeprobe.errors import UsageError
from lakeprobe.lake import comparison as comparisons
from lakeprobe.lake import layout
from lakeprobe.lake.comparison import StoredComparison

if TYPE_CHECKING:
    import duckdb

LEVELS = ("not compared", "equal", "noise", "different", "unmatched", "warning", "unreadable", "error")
"""The levels of sql/view/levels.sql, from the mildest."""
RUN_LEVELS = ("not recorded", "finite", "meant to be inf", "", "", "", "unreadable", "NaN or inf")
"""The levels of sql/view/run_levels.sql."""
Record = dict[str, Any]


class Subject(Struct, frozen=True):
    """What is shown: a run, or a comparison of it with a golden run.

    `units` are its (step, rank), each with golden's step and rank.
    """

    name: str
    target: str
    comparison: StoredComparison | None
    units: tuple[tuple[int, int, int, int], ...]

    @property
    def golden(self) -> str | None:
        """The golden run; None for a run alone."""
        return self.comparison.golden if self.comparison else None


def subject(lake: Path, name: str, steps: Sequence[int] = (), ranks: Sequence[int] = ()) -> Subject:
    """Return what `name` is in `lake`, limited to `steps` and `ranks` if they are given.

    Raises UsageError for a name that is neither a run nor a comparison, and if no unit is left.
    """
    if name in layout.comparisons(lake):
        comparison = comparisons.load(lake, name)
        target = comparison.target
        units = [(unit.step, unit.rank, unit.golden_step, unit.golden_rank) for unit in comparison.units]
    elif name in layout.runs(lake):
        comparison, target = None, name
        units = [(key.step, key.rank, key.step, key.rank) for key in layout.units(lake, name)]
    else:
        raise layout.unknown_run(lake, name, kind="comparison or run")
    chosen = [unit for unit in units if (not steps or unit[0] in steps) and (not ranks or unit[1] in ranks)]
    if not chosen:
        existing = ", ".join(f"step {step} rank {rank}" for step, rank, *_ in units[:8]) or "none"
        raise UsageError(f"{name} has no such step and rank; it has {existing}{', …' if len(units) > 8 else ''}")
    return Subject(name, target, comparison, tuple(sorted(chosen)))


def judge(stages: duckdb.DuckDBPyConnection, subject: Subject) -> None:
    """Create the tables view_levels and view_ops of `subject` (sql/view/levels.sql, op_levels.sql)."""
    if subject.comparison is None:
        set_thresholds(stages)
        overflowing.keep_levels(stages, subject.name)
        keep(stages, "view_levels", "../view/run_levels", {"run": subject.name})
    else:
        set_thresholds(stages, subject.comparison.thresholds)
        keep_leaf_errors(stages, subject.name)
        keep(stages, "view_levels", "../view/levels", {"comparison": subject.name})
    keep(stages, "view_ops", "../view/op_levels")


def records(connection: duckdb.DuckDBPyConnection, file: str, parameters: Record | None = None) -> list[Record]:
    """Return the rows of the statement in sql/view/`file`."""
    found = connection.execute(resources.sql(f"view/{file}"), parameters)
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
