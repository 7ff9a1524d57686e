"""Finds where NaN and inf arise in a run, how they spread over its ranks, and how severe each op is.

It reads the recorded statistics, so every kind of dump that has them will do. Values that the program asked for (the
-inf of an attention mask), and values that golden has at the same place, are not findings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe import resources
from lakeprobe.analysis.query import answer, check_steps, is_made, keep, set_thresholds, stage_connection
from lakeprobe.analysis.transfers import keep_transfers
from lakeprobe.errors import UsageError

if TYPE_CHECKING:
    import duckdb

LEVELS = ("critical", "high", "medium")
"""From the worst. Critical: the inputs are finite, the outputs are not. High: neither is finite, or a norm grows 100
times. Medium: the inputs are not finite, the outputs are."""

_ALL = 2**62


class Overflow(Struct, frozen=True):
    """The NaN and inf in a run. The files in sql/analysis/overflow describe the columns of each relation."""

    run: str
    golden: str | None
    comparison: str | None
    births: duckdb.DuckDBPyRelation
    """The ops where NaN or inf arises, the first of all first, with inputs, outputs and advice."""
    spread: duckdb.DuckDBPyRelation
    """The first op of each rank with NaN or inf, and the ranks that it received them from."""
    counts: duckdb.DuckDBPyRelation
    """The number of ops of each rank at each level."""
    ops: duckdb.DuckDBPyRelation
    """The ops with a level, in order."""

    def count(self, level: str) -> int:
        """Return how many ops of the run have `level` or a worse one."""
        worst = LEVELS[: LEVELS.index(level) + 1]
        (totals,) = self.counts.aggregate(", ".join(f"coalesce(sum({name}), 0)::BIGINT" for name in worst)).fetchall()
        return sum(totals)


def overflow(
    connection: duckdb.DuckDBPyConnection,
    run: str,
    *,
    golden: str | None = None,
    comparison: str | None = None,
    steps: Sequence[int] = (),
    level: str = "medium",
    most: int | None = None,
    thresholds: Mapping[str, float] | None = None,
) -> Overflow:
    """Find NaN and inf in `run`, a run of the lake whose views `connection` has.

    Values that are not finite in the run `golden` under the same names, or on the golden side of `comparison` (whose
    target is `run`), are expected. Without `steps` it looks at all. `level` is the mildest that `ops` lists; `most`
    limits `births` and `ops`. `thresholds` are those that the comparison's rule changed.

    Raises UsageError for a run, golden run, step or level that does not exist, and for both a golden run and a
    comparison.
    """
    if level not in LEVELS:
        raise UsageError(f"{level} is not a level; use {', '.join(LEVELS)}")
    if golden is not None and comparison is not None:
        raise UsageError(f"the comparison {comparison} has a golden run; leave out --golden {golden}")
    with stage_connection(connection, steps, steps) as stages:
        set_thresholds(stages, thresholds)
        check_steps(stages, run, steps)
        if golden is not None:
            check_steps(stages, golden, steps)
        bound = _ALL if most is None else most
        if keep_levels(stages, run, golden, comparison):
            keep(stages, "overflow_handed_on", "overflow/handed_on")
            keep(stages, "overflow_holders", "overflow/holders", {"run": run})
            keep(stages, "overflow_origins", "overflow/origins", {"run": run})
            keep(stages, "overflow_advice", "overflow/advice")
            keep(stages, "overflow_births", "overflow/births", {"run": run, "most": bound})
        else:
            keep(stages, "overflow_origins", "overflow/no_origins")
            keep(stages, "overflow_births", "overflow/no_births")
        keep(stages, "overflow_blind", "overflow/blind", {"run": run})
        return Overflow(
            run=run,
            golden=golden,
            comparison=comparison,
            births=answer(connection, stages, "overflow/first_births"),
            spread=answer(connection, stages, "overflow/spread", {"run": run}),
            counts=answer(connection, stages, "overflow/counts", {"run": run, "steps": list(steps)}),
            ops=answer(connection, stages, "overflow/ops", {"run": run, "worst": level, "most": bound}),
        )


def keep_levels(
    stages: duckdb.DuckDBPyConnection, run: str, golden: str | None = None, comparison: str | None = None
) -> bool:
    """Create overflow_levels, the ops of `run` with NaN or inf. Returns whether there is any NaN or inf.

    A norm that jumps has a level only where there are some, so a clean run, as most are, needs no other stage.
    """
    if not is_made(stages, "overflow_levels", (run, golden, comparison)):
        _keep_leaves(stages, run)
        if _has_leaves(stages):
            _judge_leaves(stages, run, golden, comparison)
            keep(stages, "overflow_jumps", "overflow/jumps", {"run": run})
            keep(stages, "overflow_levels", "overflow/levels")
        else:
            keep(stages, "overflow_levels", "overflow/no_levels")
    return _has_leaves(stages)


def _has_leaves(stages: duckdb.DuckDBPyConnection) -> bool:
    return bool(stages.execute("FROM overflow_leaves LIMIT 1").fetchall())


def _keep_leaves(stages: duckdb.DuckDBPyConnection, run: str) -> None:
    """Create overflow_leaves: the leaves of `run` that are not finite."""
    for macro in ("kinds", "leaf_words"):
        stages.execute(resources.sql(f"analysis/overflow/{macro}"))
    keep(stages, "overflow_leaves", "overflow/leaves", {"run": run})


def _judge_leaves(stages: duckdb.DuckDBPyConnection, run: str, golden: str | None, comparison: str | None) -> None:
    """Create overflow_judged: the leaves that are not finite, each with the reason if it is expected."""
    keep(stages, "overflow_ignored", "overflow/ignored")
    keep(stages, "overflow_fillers", "overflow/fillers")
    keep_transfers(stages, run)
    if comparison is not None:
        keep(stages, "overflow_golden", "overflow/golden_comparison", {"comparison": comparison})
    elif golden is not None:
        keep(stages, "overflow_golden", "overflow/golden_run", {"run": run, "golden": golden})
    else:
        keep(stages, "overflow_golden", "overflow/golden_none")
    keep(stages, "overflow_producers", "overflow/producers", {"run": run})
    for stage in ("settled", "deliberate", "judged"):
        keep(stages, f"overflow_{stage}", f"overflow/{stage}")
