"""Judges the series of a monitored run by rules: queries that return what is wrong, a row each.

A rule reads the table watched, the series of one run (schemas/series.yaml), and returns the columns of `COLUMNS`. The
bundled rules are in sql/watch. A rule is run where it can reach nothing but this table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe import resources
from lakeprobe.bounds import LONGEST_RULE
from lakeprobe.errors import RuleError, UsageError, unknown
from lakeprobe.lake import layout, log, staging
from lakeprobe.lake.connection import connect, lock, reason
from lakeprobe.system.files import read_bounded

if TYPE_CHECKING:
    import duckdb

RULES = (
    "nan", "turbulence", "jump", "dead", "vanishing", "exploding", "drifting", "rising", "between", "replicas", "laws",
    "silent",
)  # fmt: skip
"""The bundled rules, in the order in which they are asked."""

COLUMNS = ("rank", "step", "name", "point", "metric", "value", "reason")
"""What a rule returns. It may return more, which is not kept."""

_CREATE = """
    CREATE TEMP TABLE anomalies (
        rule VARCHAR, rank INTEGER, step INTEGER, name VARCHAR, point VARCHAR, metric VARCHAR, value DOUBLE,
        reason VARCHAR
    )
"""


class WatchRule(Struct, frozen=True):
    """A rule: its name, and its SQL."""

    name: str
    sql: str


class Anomaly(Struct, frozen=True):
    """What a rule found: in which rank and step, and in which metric of what."""

    rule: str
    rank: int | None
    step: int | None
    name: str | None
    point: str | None
    metric: str | None
    value: float | None
    reason: str


def load(name: str) -> WatchRule:
    """Return a bundled rule, or the one in the file `name`. Raises UsageError."""
    if name in RULES:
        return WatchRule(name, resources.sql(f"watch/{name}"))
    path = Path(name)
    if path.suffix != ".sql":
        raise UsageError(f"{name} is not a rule; use one of {', '.join(RULES)}, or the path of a .sql file")
    try:
        return WatchRule(path.stem, read_bounded(path, LONGEST_RULE).decode())
    except (OSError, ValueError) as error:
        raise UsageError(f"the rule {path} cannot be read: {error}") from error


def check_monitored(connection: duckdb.DuckDBPyConnection, *runs: str) -> None:
    """Raise UsageError for a run of which the lake has no series."""
    monitored = [name for (name,) in connection.execute("SELECT DISTINCT run FROM series ORDER BY run").fetchall()]
    for run in runs:
        if run not in monitored:
            raise unknown("the lake", "monitored run", run, monitored, "lakeprobe.monitor in the training makes them")


def watch(
    connection: duckdb.DuckDBPyConnection, run: str, rules: Sequence[WatchRule], last: int | None = None
) -> list[Anomaly]:
    """Return what `rules` find in the series of `run`, the earliest step first.

    With `last` they see only that many of the last steps. `connection` has the views of the lake. Raises UsageError if
    no run of that name was monitored, and RuleError for a rule that DuckDB refuses or that lacks a column.
    """
    import duckdb

    check_monitored(connection, run)
    series = connection.sql(resources.sql("analysis/watch/watched"), params={"run": run, "last": last}).to_arrow_table()
    judging = connect()
    try:
        judging.register("passed", series)
        judging.execute("CREATE TEMP TABLE watched AS FROM passed")
        judging.unregister("passed")
        judging.execute(_CREATE)
        lock(judging)
        for rule in rules:
            try:
                _ask(judging, rule)
            except duckdb.Error as error:
                raise RuleError(f"the rule {rule.name}: {reason(error)}") from error
        found = judging.sql(resources.sql("analysis/watch/anomalies")).fetchall()
    finally:
        judging.close()
    return [Anomaly(*row) for row in found]


def _ask(judging: duckdb.DuckDBPyConnection, rule: WatchRule) -> None:
    """Add to anomalies what `rule` returns. Raises RuleError and duckdb.Error."""
    found = judging.sql(rule.sql)
    missing = [column for column in COLUMNS if found is None or column not in found.columns]
    if missing or found is None:
        raise RuleError(f"the rule {rule.name} returns no column {', '.join(missing)}; it needs {', '.join(COLUMNS)}")
    judging.register("found", found.select(*COLUMNS).to_arrow_table())
    judging.execute("INSERT INTO anomalies BY NAME SELECT $rule AS rule, * FROM found", {"rule": rule.name})
    judging.unregister("found")


class Ranks(Struct, frozen=True):
    """The ranks of a monitored run: those that run, those that ended, and those whose process died before that."""

    running: tuple[int, ...]
    ended: tuple[int, ...]
    dead: tuple[int, ...]


def ranks(lake: Path, run: str) -> Ranks:
    """Return how the ranks of a monitored run are. One that has published nothing yet is in none of the three."""
    parts = layout.series_parts(log.read(lake), run)
    ended = tuple(rank for rank, numbers in parts.items() if numbers == [0])
    running = tuple(
        rank for rank in parts if rank not in ended and staging.is_present(lake, layout.series_label(run, rank))
    )
    return Ranks(running, ended, tuple(rank for rank in parts if rank not in ended and rank not in running))
