"""Finds the first difference of a comparison on each rank, and the one that explains the others.

Between communication ops a rank computes alone; a difference travels only where one rank gives and another takes. So a
rank's first difference is explained if another rank differed before, and something that it gave later reached this rank
in time. A first difference without explanation is an origin.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe.analysis.noise import keep_noise_ends
from lakeprobe.analysis.query import answer, keep, keep_leaf_errors, keep_units, set_thresholds, stage_connection
from lakeprobe.analysis.summary import Outcome, outcomes_in_lake
from lakeprobe.analysis.transfers import keep_compared_transfers
from lakeprobe.analysis.verdict import Coverage, coverage, coverage_of, first_that_differs
from lakeprobe.errors import UsageError

if TYPE_CHECKING:
    import duckdb

    from lakeprobe.lake.comparison import StoredComparison


class FirstDifference(Struct, frozen=True):
    """The first differences, as relations that stay valid.

    `ranks` has a row per (step, rank), in each step the origins first (sql/analysis/first_difference/ranks.sql).
    `leaves` has the inputs and outputs of their ops (leaves.sql). `set_aside` counts the records that differ and were
    not trusted (doubtful.sql). `flips` lists earlier ops whose decision flipped because of rounding (flips.sql).
    `coverage` says how much of these steps and ranks was compared. `threshold` and `noise` are the user's.
    """

    ranks: duckdb.DuckDBPyRelation
    leaves: duckdb.DuckDBPyRelation
    set_aside: duckdb.DuckDBPyRelation
    flips: duckdb.DuckDBPyRelation
    coverage: Coverage
    threshold: float | None = None
    noise: str | None = None

    @property
    def origins(self) -> duckdb.DuckDBPyRelation:
        """The rows of `ranks` where a difference began, the earliest step first."""
        return self.ranks.filter("source IS NOT NULL")

    @property
    def is_equal(self) -> bool:
        """Whether both sides are the same: everything was compared, and nothing differs."""
        is_asked = self.threshold is not None or self.noise is not None
        return not self.differs and (self.coverage.is_whole if is_asked else self.coverage.is_equal)

    @property
    def differs(self) -> bool:
        """Whether an op differs or has no counterpart."""
        return bool(self.ranks.filter("finding IS NOT NULL").limit(1).fetchall())


def first_difference(
    connection: duckdb.DuckDBPyConnection,
    comparison: StoredComparison,
    *,
    steps: Sequence[int] = (),
    ranks: Sequence[int] = (),
    threshold: float | None = None,
    paired: bool = False,
    noise: str | None = None,
) -> FirstDifference:
    """Find the first difference of every rank of `comparison`, and where it began.

    `connection` has the views of the lake. A leaf differs if its difference is beyond rounding noise (docs/noise.md),
    or, with `threshold`, if its error is larger; an error of 1 is as large as the tensor
    (sql/analysis/leaf_errors.sql), and 0 as threshold finds all that is not equal. Differences between repeats of
    golden, measured as `noise`, are noise too. A leaf without counterpart always differs. `paired` skips ops without
    counterpart. `steps` and `ranks` limit what is shown; the explanation considers all ranks.

    Raises UsageError for an invalid threshold, and for a step, rank or noise that does not exist.
    """
    if threshold is not None and not threshold >= 0:
        raise UsageError(f"{threshold} is not a threshold; give a number that is 0 or more")
    _check_present("step", steps, {unit.step for unit in comparison.units})
    _check_present("rank", ranks, {unit.rank for unit in comparison.units})
    name = {"comparison": comparison.name}
    run = {"run": comparison.target}
    runs = {"target": comparison.target, "golden": comparison.golden}
    shown_steps, shown_ranks = {"steps": list(steps)}, {"ranks": list(ranks)}
    run_steps = {step for unit in comparison.units if unit.step in steps for step in (unit.step, unit.golden_step)}
    with stage_connection(connection, run_steps, steps, compared=comparison) as stages:
        set_thresholds(stages, comparison.thresholds)
        outcomes = outcomes_in_lake(connection if steps else stages, comparison.name)  # stages have these steps alone
        covered = _keep_verdicts(stages, comparison, outcomes, steps, ranks)
        keep_leaf_errors(stages, comparison.name)
        keep(stages, "op_pairs", "first_difference/op_pairs", name)
        keep_compared_transfers(stages, comparison.target, comparison.golden)
        keep(stages, "doubtful", "first_difference/doubtful")
        keep(stages, "early_gradients", "first_difference/early_gradients", run)
        keep(stages, "changed_ops", "first_difference/changed_ops", {"threshold": threshold})
        keep_noise_ends(stages, comparison, noise=noise, is_asked=threshold is None)
        keep(stages, "firsts", "first_difference/firsts", shown_steps | {"paired": paired})
        keep(stages, "first_rows", "first_difference/first_rows", name)
        keep_units(stages, comparison)
        keep(stages, "first_ops", "first_difference/first_ops", runs)
        explain(stages)
        keep(stages, "carried", "first_difference/carried")
        keep(stages, "sources", "first_difference/sources", name)
        return FirstDifference(
            ranks=answer(connection, stages, "first_difference/ranks", run),
            leaves=answer(connection, stages, "first_difference/leaves", shown_ranks),
            set_aside=answer(connection, stages, "first_difference/set_aside", shown_steps | shown_ranks),
            flips=answer(connection, stages, "first_difference/flips", name | shown_steps | shown_ranks),
            coverage=covered,
            threshold=threshold,
            noise=noise,
        )


def _check_present(what: str, asked: Sequence[int], present: set[int]) -> None:
    missing = sorted(set(asked) - present)
    if missing:
        raise UsageError(f"the comparison has no {what} {missing[0]}; it has {', '.join(map(str, sorted(present)))}")


def _keep_verdicts(
    stages: duckdb.DuckDBPyConnection,
    comparison: StoredComparison,
    outcomes: Sequence[Outcome],
    steps: Sequence[int],
    ranks: Sequence[int],
) -> Coverage:
    """Create unit_verdicts, the verdict on each (step, rank) asked for. Returns their coverage together."""
    of_unit: dict[tuple[int, int], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        of_unit[outcome.step, outcome.rank].append(outcome)
    first = first_that_differs(outcomes)
    verdicts = [
        {
            "step": unit.step,
            "rank": unit.rank,
            "verdict": coverage([unit], of_unit[unit.step, unit.rank], first_step=first).verdict,
        }
        for unit in comparison.units
        if (not steps or unit.step in steps) and (not ranks or unit.rank in ranks)
    ]
    keep(stages, "unit_verdicts", "first_difference/unit_verdicts", {"units": verdicts})
    return coverage_of(comparison, outcomes, steps, ranks)


def explain(stages: duckdb.DuckDBPyConnection) -> None:
    """Create the tables `affected` and `origins` from `firsts` and `transfers`.

    An asynchronous receive is recorded before its data arrives, so that ranks may seem to explain each other. Then the
    data of these receives is assumed to arrive later.
    """
    keep(stages, "gifts", "first_difference/gifts")
    keep(stages, "arrivals", "first_difference/arrivals")
    _spread(stages)
    if stages.table("stranded").limit(1).fetchall():
        keep(stages, "arrivals", "first_difference/late_arrivals")
        _spread(stages)


def _spread(stages: duckdb.DuckDBPyConnection) -> None:
    for table in ("affected", "origins", "stranded"):
        keep(stages, table, f"first_difference/{table}")
