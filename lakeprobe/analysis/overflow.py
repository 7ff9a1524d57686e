"""Overflow: where NaN and inf are born in a run, how they spread over its ranks, and how bad each op is.

Told from the recorded statistics, so every kind of dump that has them will do. Values that the program asked for (the
-inf of an attention mask), and values that golden has at the same place, are no findings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeprobe import resources
from lakeprobe.analysis.query import answer, apart, keep, set_thresholds
from lakeprobe.analysis.transfers import keep_transfers
from lakeprobe.errors import UsageError

if TYPE_CHECKING:
    import duckdb

LEVELS = ("critical", "high", "medium")
"""From the worst: inputs finite and outputs not; both not, or a norm 100 times as large; inputs not, outputs finite."""

_ALL = 2**62


@dataclass(frozen=True, slots=True)
class Overflow:
    """What there is of NaN and inf in a run. sql/analysis/overflow tells the columns of each relation."""

    run: str
    golden: str | None
    births: duckdb.DuckDBPyRelation
    """The ops where NaN or inf is born, the first of all first, with what came in and out and what to look at."""
    spread: duckdb.DuckDBPyRelation
    """The first op of each rank that has them, and the ranks that it received them from."""
    counts: duckdb.DuckDBPyRelation
    """How many ops of each rank have which level."""
    ops: duckdb.DuckDBPyRelation
    """The ops with a level, in order."""

    def count(self, level: str) -> int:
        """How many ops of the run have `level` or a worse one."""
        worst = LEVELS[: LEVELS.index(level) + 1]
        (totals,) = self.counts.aggregate(", ".join(f"coalesce(sum({name}), 0)::BIGINT" for name in worst)).fetchall()
        return sum(totals)


def overflow(
    connection: duckdb.DuckDBPyConnection,
    run: str,
    *,
    golden: str | None = None,
    comparison: str | None = None,
    step: int | None = None,
    level: str = "medium",
    most: int | None = None,
    thresholds: Mapping[str, float] | None = None,
) -> Overflow:
    """Find NaN and inf in `run`, a run of the lake whose views `connection` has.

    What is not finite in the run `golden` under the same names, or in what `comparison` (of which `run` is the target)
    holds against it, is expected. `level` is the mildest that `ops` lists; `most` bounds `births` and `ops`.
    `thresholds` are those that the comparison's rule changed.

    Raises UsageError for a run, golden run or step that the lake has not, a level of another name, or both a golden run
    and a comparison.
    """
    if level not in LEVELS:
        raise UsageError(f"there is no level {level} (there are: {', '.join(LEVELS)})")
    if golden is not None and comparison is not None:
        raise UsageError(f"the comparison {comparison} has its golden run; leave --golden {golden} out")
    with apart(connection) as stages:
        set_thresholds(stages, thresholds)
        _check_units(stages, run, step)
        if golden is not None:
            _check_units(stages, golden, step)
        _judge_leaves(stages, run, step, golden, comparison)
        units = {"run": run, "step": step}
        keep(stages, "overflow_jumps", "overflow/jumps", units)
        keep(stages, "overflow_levels", "overflow/levels")
        keep(stages, "overflow_handed_on", "overflow/handed_on")
        keep(stages, "overflow_holders", "overflow/holders", {"run": run})
        keep(stages, "overflow_origins", "overflow/origins", {"run": run})
        keep(stages, "overflow_advice", "overflow/advice")
        keep(stages, "overflow_blind", "overflow/blind", units)
        bound = _ALL if most is None else most
        keep(stages, "overflow_births", "overflow/births", {"run": run, "most": bound})
        return Overflow(
            run=run,
            golden=golden if golden is not None else comparison,
            births=answer(connection, stages, "overflow/first_births"),
            spread=answer(connection, stages, "overflow/spread", {"run": run}),
            counts=answer(connection, stages, "overflow/counts", units),
            ops=answer(connection, stages, "overflow/ops", {"run": run, "worst": level, "most": bound}),
        )


def _check_units(stages: duckdb.DuckDBPyConnection, run: str, step: int | None) -> None:
    query = "SELECT DISTINCT step FROM dumps WHERE run = $run ORDER BY step"
    found = stages.execute(query, {"run": run}).fetchall()
    if not found:
        runs = stages.execute("SELECT DISTINCT run FROM dumps ORDER BY run").fetchall()
        there = ", ".join(name for (name,) in runs) or "none"
        raise UsageError(f"there is no run {run} in the lake (there: {there})")
    steps = [number for (number,) in found]
    if step is not None and step not in steps:
        raise UsageError(f"run {run} has no step {step} (there: {', '.join(map(str, steps))})")


def _judge_leaves(
    stages: duckdb.DuckDBPyConnection, run: str, step: int | None, golden: str | None, comparison: str | None
) -> None:
    """Make overflow_judged: the leaves that are not finite, each with the reason why it is expected, if it is."""
    for macro in ("kinds", "leaf_words"):
        stages.execute(resources.sql(f"analysis/overflow/{macro}"))
    keep(stages, "overflow_ignored", "overflow/ignored")
    keep(stages, "overflow_fillers", "overflow/fillers")
    keep(stages, "overflow_leaves", "overflow/leaves", {"run": run, "step": step})
    # in a clean run nothing can have been handed on, so the most expensive stage has nothing to do: no run is NULL
    [(is_clean,)] = stages.execute("SELECT count(*) = 0 FROM overflow_leaves").fetchall()
    keep_transfers(stages, None if is_clean else run, "overflow_transfers")
    if comparison is not None:
        keep(stages, "overflow_golden", "overflow/golden_comparison", {"comparison": comparison})
    elif golden is not None:
        keep(stages, "overflow_golden", "overflow/golden_run", {"run": run, "golden": golden})
    else:
        keep(stages, "overflow_golden", "overflow/golden_none")
    keep(stages, "overflow_producers", "overflow/producers", {"run": run})
    for stage in ("settled", "deliberate", "judged"):
        keep(stages, f"overflow_{stage}", f"overflow/{stage}")
