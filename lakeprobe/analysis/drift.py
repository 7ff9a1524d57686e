"""Follows how runs drift from a golden run over steps and ranks: one metric of ops, modules or gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe import resources
from lakeprobe.analysis.noise import keep_repeat_rows
from lakeprobe.analysis.query import answer, keep, set_thresholds, stage_connection
from lakeprobe.analysis.watch import check_monitored
from lakeprobe.compare.plan import pair_units, with_numbers
from lakeprobe.errors import UsageError, unknown
from lakeprobe.lake.layout import UnitKey

if TYPE_CHECKING:
    import duckdb

_UnitRow = tuple[str, int | None, int | None, int | None, int | None]
"""Run, its step and rank, golden's step and rank."""

METRICS = ("norm", "mean", "max", "min", "error")
"""The metrics to follow: a recorded statistic, or the largest distance of any statistic from golden's."""

THRESHOLD = 0.001
"""A row leaves golden where its distance is larger than this share of golden's tensor."""

MOST_POINTS = 2000
"""The number of values of a long series that a picture shows."""


class Followed(Struct, frozen=True):
    """What runs were followed by over steps, as a picture shows it. The SQL files describe the relations.

    `rows`: where each row leaves golden. `steps`: every value.
    """

    golden: str
    runs: tuple[str, ...]
    metric: str
    threshold: float
    rows: duckdb.DuckDBPyRelation
    steps: duckdb.DuckDBPyRelation


class Drift(Followed, frozen=True):
    """How runs differ from golden over steps.

    `by_run`: where each run leaves golden (sql/analysis/drift/runs.sql). `modules`: which modules do first, and most.
    `missing`: units that one side lacks.
    """

    by_run: duckdb.DuckDBPyRelation
    modules: duckdb.DuckDBPyRelation
    missing: duckdb.DuckDBPyRelation

    def __repr__(self) -> str:
        return f"<drift of {', '.join(self.runs)} from {self.golden}: {self.metric}>"


def series_drift(
    connection: duckdb.DuckDBPyConnection, golden: str, run: str, threshold: float = THRESHOLD
) -> duckdb.DuckDBPyRelation:
    """Return where the series of the monitored run `run` leave those of `golden`, the earliest first.

    A series has left where it differs by more than `threshold`, relative to the larger magnitude, and by far more than
    its own differences before have grown to (sql/analysis/drift/series.sql).

    Raises UsageError for a run that was not monitored, a threshold that is not a share, and two runs without a common
    step.
    """
    with _series(connection, golden, run, threshold) as stages:
        return answer(connection, stages, "drift/series", {"threshold": threshold})


def followed_series(
    connection: duckdb.DuckDBPyConnection,
    golden: str,
    run: str,
    threshold: float = THRESHOLD,
    points: int = MOST_POINTS,
) -> Followed:
    """Return the series that leave those of `golden`, with their values. Errors as in `series_drift`.

    A longer series has about `points` values, those that differ most among their neighbours.
    """
    with _series(connection, golden, run, threshold) as stages:
        keep(stages, "drift_series", "drift/series", {"threshold": threshold})
        keep(stages, "drift_series_rows", "drift/series_rows")
        return Followed(
            golden=golden,
            runs=(run,),
            metric="value",
            threshold=threshold,
            rows=connection.from_arrow(stages.sql("FROM drift_series_rows").to_arrow_table()),
            steps=answer(connection, stages, "drift/series_steps", {"run": run, "points": points}),
        )


@contextmanager
def _series(
    connection: duckdb.DuckDBPyConnection, golden: str, run: str, threshold: float
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection with the table drift_series_values. Raises UsageError."""
    if not 0 < threshold < math.inf:
        raise UsageError(f"the threshold {threshold} should be a number above 0")
    check_monitored(connection, golden, run)
    shared = connection.execute(
        "SELECT count(*) FROM (SELECT rank, step FROM series WHERE run = $run INTERSECT "
        "SELECT rank, step FROM series WHERE run = $golden)",
        {"run": run, "golden": golden},
    ).fetchall()[0][0]
    if not shared:
        raise UsageError(f"the series of {run} and {golden} have no step of one rank in common")
    with stage_connection(connection) as stages:
        keep(stages, "drift_series_values", "drift/series_values", {"golden": golden, "run": run})
        yield stages


def drift(
    connection: duckdb.DuckDBPyConnection,
    golden: str,
    runs: Sequence[str],
    names: str | Sequence[str] = (),
    metric: str = "norm",
    steps: Sequence[int] = (),
    ranks: Sequence[int] = (),
    threshold: float = THRESHOLD,
    noise: str | None = None,
) -> Drift:
    """Follow `metric` of the rows that `names` select, in `runs` and in `golden`, over all steps and ranks.

    A name is an op, a row, a module's path (layers.1.mlp), or the beginning of one. Without names, drift follows the
    parameter gradients, their norm over all parameters, and the loss (sql/analysis/drift/usual.sql). `steps` and
    `ranks` are golden's; none means all. `threshold` is a share of golden's tensor: of its norm, of norm/√n for the
    mean, of its largest magnitude for max and min. Steps and ranks pair as in `compare`; rows pair by name. Up to three
    times the difference between repeats of golden, measured as `noise`, counts as noise.

    Raises UsageError for a run, name, metric, step, rank or noise that does not exist, and where nothing is left to
    follow.
    """
    _check(golden, runs, metric, threshold)
    everyone = [golden, *runs]
    units = _units(connection, everyone)
    rows = _paired(units, golden, runs, _chosen(units[golden], steps, ranks))
    of_steps, of_ranks = _numbers(rows)
    with stage_connection(connection, of_steps if steps else (), ranks=of_ranks if ranks else ()) as stages:
        set_thresholds(stages, across=_are_of_two_frameworks(stages, everyone))
        columns = ("runs", "steps", "ranks", "golden_steps", "golden_ranks")
        keep(stages, "drift_units", "drift/units", dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))
        keep(stages, "drift_ops", "drift/ops", {"runs": everyone})
        _choose(stages, golden, [names] if isinstance(names, str) else names)
        keep(stages, "drift_calls", "drift/calls", {"golden": golden, "runs": everyone})
        keep(stages, "drift_leaves", "drift/leaves", {"runs": everyone})
        keep(stages, "drift_incoming", "drift/incoming", {"golden": golden})
        keep_repeat_rows(stages, noise)
        limits = {"metric": metric, "threshold": threshold}
        keep(stages, "drift_points", "drift/points", {"golden": golden, **limits})
        if not stages.execute("SELECT count(*) FROM drift_points").fetchall()[0][0]:
            raise UsageError(
                f"none of the rows asked for has a {metric}; name other ops with --op, or another --metric"
            )
        order = {"runs": list(runs)}
        keep(stages, "drift_rows", "drift/rows", order)
        return Drift(
            golden=golden,
            runs=tuple(runs),
            metric=metric,
            threshold=threshold,
            by_run=answer(connection, stages, "drift/runs", order),
            rows=answer(connection, stages, "drift/rows", order),
            modules=answer(connection, stages, "drift/modules", order),
            steps=answer(connection, stages, "drift/steps", order),
            missing=answer(connection, stages, "drift/missing", order),
        )


def _check(golden: str, runs: Sequence[str], metric: str, threshold: float) -> None:
    if not runs:
        raise UsageError(f"give a run to compare with {golden}")
    for run in runs:
        if run == golden or list(runs).count(run) > 1:
            raise UsageError(f"run {run} is given twice; name golden first, then other runs, each once")
    if metric not in METRICS:
        raise UsageError(f"there is no metric {metric}; take one of {', '.join(METRICS)}")
    if not (threshold >= 0 and math.isfinite(threshold)):
        raise UsageError(f"the threshold {threshold} is not a share of a tensor; give 0 or more, such as {THRESHOLD}")


def _are_of_two_frameworks(stages: duckdb.DuckDBPyConnection, runs: Sequence[str]) -> bool:
    """Return whether the runs come from several frameworks; then noise is as wide as in a comparison between two."""
    query = "SELECT count(DISTINCT framework) > 1 FROM dumps WHERE list_contains($runs, run)"
    [(are,)] = stages.execute(query, {"runs": list(runs)}).fetchall()
    return bool(are)


def _units(connection: duckdb.DuckDBPyConnection, runs: Sequence[str]) -> dict[str, list[UnitKey]]:
    """Return the units of each run. Raises UsageError for a run that the lake lacks."""
    units: dict[str, list[UnitKey]] = {}
    for name, step, rank in connection.execute("SELECT DISTINCT run, step, rank FROM dumps").fetchall():
        units.setdefault(name, []).append(UnitKey(name, step, rank))
    for name in runs:
        if name not in units:
            raise unknown("the lake", "run", name, sorted(units))
    return units


def _chosen(units: Sequence[UnitKey], steps: Sequence[int], ranks: Sequence[int]) -> set[UnitKey]:
    """Return golden's units of `steps` and `ranks`, of all where none is named. Raises UsageError if one is absent."""
    for what, asked in (("step", steps), ("rank", ranks)):
        known = {getattr(unit, what) for unit in units}
        if absent := [number for number in asked if number not in known]:
            raise UsageError(f"{units[0].run} has no {what} {absent[0]}; it has {', '.join(map(str, sorted(known)))}")
    return set(with_numbers(units, steps, ranks))


def _paired(
    units: Mapping[str, Sequence[UnitKey]], golden: str, runs: Sequence[str], chosen: set[UnitKey]
) -> list[_UnitRow]:
    """Return each unit of each run with its unit of golden, if that is chosen, and those without counterpart.

    Raises UsageError for a run that shares no step and rank with golden.
    """
    rows: list[_UnitRow] = []
    for run in runs:
        pairs, alone = pair_units(units[run], units[golden])
        if not pairs:
            raise UsageError(f"{run} and {golden} share no step and rank")
        rows += [(run, one.step, one.rank, other.step, other.rank) for one, other in pairs if other in chosen]
        for unit in alone:
            if unit.run == golden and unit in chosen:
                rows.append((run, None, None, unit.step, unit.rank))
            elif unit.run == run:
                rows.append((run, unit.step, unit.rank, None, None))
    return rows


def _numbers(rows: Sequence[_UnitRow]) -> tuple[set[int], set[int]]:
    """Return the steps and the ranks that golden's units, and the units paired with them, have."""
    followed = [row for row in rows if row[3] is not None]
    steps = {step for row in followed for step in (row[1], row[3]) if step is not None}
    ranks = {rank for row in followed for rank in (row[2], row[4]) if rank is not None}
    return steps, ranks


def _choose(stages: duckdb.DuckDBPyConnection, golden: str, names: Sequence[str]) -> None:
    """Create drift_chosen: the ops and slots to follow."""
    if names:
        keep(stages, "drift_named", "drift/asked", {"names": list(names)})
        _check_names(stages, names)
    else:
        keep(stages, "drift_named", "drift/usual", {"golden": golden})
    keep(stages, "drift_chosen", "drift/chosen")
    if not stages.execute("SELECT count(*) FROM drift_chosen").fetchall()[0][0]:
        raise UsageError(f"{golden} has neither parameter gradients nor a loss; name ops or modules with --op")


def _check_names(stages: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
    found = {name for (name,) in stages.execute("SELECT DISTINCT name FROM drift_named").fetchall()}
    for name in names:
        if name not in found:
            close_names = stages.execute(resources.sql("analysis/drift/close_names"), {"name": name}).fetchall()
            close = [known for (known,) in close_names]
            raise UsageError(f"no op, row or module begins with {name}; similar names are {', '.join(close)}")
