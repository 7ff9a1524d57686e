"""Runs the SQL of an analysis: stages, which later stages read, and answers.

Stages are temporary tables on a separate connection. They hide no comparison or table of the user's connection that has
the same name, and no table of the user's hides a view of the lake from them. A command of several analyses runs them on
one such connection, where what more than one of them needs is made once (`is_made`).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lakeprobe import resources
from lakeprobe.errors import UsageError, unknown
from lakeprobe.lake import views
from lakeprobe.lake.connection import keep_footers, parsed, quiet, set_variable
from lakeprobe.lake.interrupting import interruptible
from lakeprobe.resources import quote_identifier

if TYPE_CHECKING:
    import duckdb

    from lakeprobe.lake.comparison import StoredComparison

_FEW_ROWS = 20_000
"""Rows of tensors of two runs that are held in memory. To plan a statement over files takes 3 ms for each view."""
_HELD = ("ops", "tensors", "stacks", views.RESULTS)

_made: WeakKeyDictionary[duckdb.DuckDBPyConnection, dict[str, Hashable]] = WeakKeyDictionary()
"""The connections with stages, each with the tables that analyses share there, and what these are of."""


@contextmanager
def stage_connection(
    connection: duckdb.DuckDBPyConnection,
    run_steps: Collection[int] = (),
    steps: Collection[int] = (),
    ranks: Collection[int] = (),
    compared: StoredComparison | None = None,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a separate connection with the views of `connection`. The stages of the analysis end with it.

    A `connection` with stages is yielded as it is, if nothing is limited: then analyses share them.

    If `steps` of a comparison are given, its views have only these, and views of runs only `run_steps`. With `ranks`
    views of both have only these. So no stage reads the files of another step or rank. An analysis that reads no rows
    but those of a comparison, and of its two runs, says so with `compared`.
    """
    if connection in _made and not (run_steps or steps or ranks):
        yield connection
        return
    with interruptible(quiet(connection.cursor())) as stages:
        _made[stages] = {}
        keep_footers(stages)
        views.share(connection, stages)
        _limit(stages, views.OF_UNITS, {"step": run_steps, "rank": ranks})
        _limit(stages, views.OF_COMPARISONS, {"step": steps, "rank": ranks})
        if compared is not None and _is_small(stages, compared):
            _hold(stages, compared)
        yield stages


def _limit(stages: duckdb.DuckDBPyConnection, names: Iterable[str], chosen: Mapping[str, Collection[int]]) -> None:
    """Hide views behind temporary ones of the same name, which have only the numbers chosen of each column, if any."""
    conditions = [
        f"{column} IN ({', '.join(str(int(number)) for number in sorted(numbers))})"
        for column, numbers in chosen.items()
        if numbers
    ]
    for name in names if conditions else ():
        stages.execute(f"CREATE TEMP VIEW {name} AS FROM memory.main.{name} WHERE {' AND '.join(conditions)}")


def _is_small(stages: duckdb.DuckDBPyConnection, compared: StoredComparison) -> bool:
    """Return whether it takes less time to read the two runs once than to plan every stage over their files."""
    query = "SELECT coalesce(sum(tensor_rows), 0) <= $few FROM dumps WHERE run IN ($target, $golden)"
    runs = {"target": compared.target, "golden": compared.golden}
    [(is_small,)] = stages.execute(query, runs | {"few": _FEW_ROWS}).fetchall()
    return bool(is_small)


def _hold(stages: duckdb.DuckDBPyConnection, compared: StoredComparison) -> None:
    """Hide views behind tables with the rows of the two runs, and of the comparison."""
    runs = [compared.target, compared.golden]
    for view in _HELD:
        of, names = ("comparison", [compared.name]) if view == views.RESULTS else ("run", runs)
        _hide(stages, view, f"FROM {view} WHERE {of} IN (FROM unnest($names))", {"names": names})


def hold_few_results(connection: duckdb.DuckDBPyConnection, rows: int) -> None:
    """Hide the view results behind a table if its `rows` are few. Over files, planning takes 3 ms more each time."""
    if rows <= _FEW_ROWS:
        _hide(connection, views.RESULTS, f"FROM {views.RESULTS}")


def _hide(
    connection: duckdb.DuckDBPyConnection, view: str, rows: str, parameters: Mapping[str, Any] | None = None
) -> None:
    """Hide one of our views behind a temporary table with what the query `rows` gives."""
    connection.execute(f"CREATE TEMP TABLE held AS {rows}", parameters)
    connection.execute(f"DROP VIEW IF EXISTS temp.{view}")
    connection.execute(f"ALTER TABLE held RENAME TO {view}")


def check_steps(stages: duckdb.DuckDBPyConnection, run: str, steps: Collection[int]) -> None:
    """Raise UsageError unless the lake has `run`, and the run has all of `steps`."""
    found = stages.execute("SELECT DISTINCT step FROM dumps WHERE run = $run ORDER BY step", {"run": run}).fetchall()
    if not found:
        runs = stages.execute("SELECT DISTINCT run FROM dumps ORDER BY run").fetchall()
        raise unknown("the lake", "run", run, [name for (name,) in runs])
    known = [number for (number,) in found]
    if absent := [step for step in steps if step not in known]:
        raise UsageError(f"the run {run} has no step {absent[0]}; it has {', '.join(map(str, known))}")


def keep(stages: duckdb.DuckDBPyConnection, table: str, file: str, parameters: Mapping[str, Any] | None = None) -> None:
    """Create the temporary table `table` from the SQL in sql/analysis/`file`."""
    query = resources.sql(f"analysis/{file}")
    statement = f"CREATE OR REPLACE TEMP TABLE {quote_identifier(table)} AS {query}"
    stages.execute(parsed(stages, statement), parameters)


def define_view(stages: duckdb.DuckDBPyConnection, view: str, file: str) -> None:
    """Create the temporary view `view` from the SQL in sql/analysis/`file`, for a stage that alone reads it."""
    query = resources.sql(f"analysis/{file}")
    stages.execute(parsed(stages, f"CREATE OR REPLACE TEMP VIEW {quote_identifier(view)} AS {query}"))


def add_rows(stages: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Add `rows`, at least one, to the table. `executemany` would plan a statement for each, in half a millisecond."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    lists = ", ".join("unnest(?)" for _ in columns)
    stages.execute(f"INSERT INTO {quote_identifier(table)} SELECT {lists}", columns)


def is_made(stages: duckdb.DuckDBPyConnection, table: str, of: Hashable) -> bool:
    """Return whether an earlier analysis made the stage `table` `of` the same. If not, the caller makes it now."""
    made = _made.get(stages, {})
    is_there = made.get(table) == of
    made[table] = of
    return is_there


def keep_leaf_errors(stages: duckdb.DuckDBPyConnection, comparison: str) -> None:
    """Create leaf_errors, the errors of the leaves of a comparison, once for all analyses on the connection."""
    if not is_made(stages, "leaf_errors", comparison):
        keep(stages, "leaf_errors", "leaf_errors", {"comparison": comparison})


def keep_units(stages: duckdb.DuckDBPyConnection, comparison: StoredComparison, step: int | None = None) -> None:
    """Create compared_units: the step and rank of golden for each step and rank of the target."""
    units = [
        (unit.step, unit.rank, unit.golden_step, unit.golden_rank)
        for unit in comparison.units
        if step is None or unit.step == step
    ]
    stages.execute(
        "CREATE OR REPLACE TEMP TABLE compared_units "
        "(step INTEGER, rank INTEGER, golden_step INTEGER, golden_rank INTEGER)"
    )
    add_rows(stages, "compared_units", units)


def set_thresholds(
    stages: duckdb.DuckDBPyConnection, changed: Mapping[str, float] | None = None, *, across: bool = False
) -> None:
    """Set a variable per threshold: its default (`across`: between two frameworks), or the value in `changed`."""
    if is_made(stages, "thresholds", (across, *sorted((changed or {}).items()))):
        return
    query = f"WITH comparison_kind AS (SELECT $across AS cross_framework) FROM ({resources.sql('judge/thresholds')})"
    defaults = {name: value for name, value, _ in stages.execute(parsed(stages, query), {"across": across}).fetchall()}
    for name, value in (defaults | dict(changed or {})).items():
        set_variable(stages, name, float(value))


def answer(
    connection: duckdb.DuckDBPyConnection,
    stages: duckdb.DuckDBPyConnection,
    file: str,
    parameters: Mapping[str, Any] | None = None,
) -> duckdb.DuckDBPyRelation:
    """Return the rows of the SQL in sql/analysis/`file`, as a relation of `connection` that needs no stage."""
    keep(stages, "answered", file, parameters)  # a relation of the query would be planned once more when it is read
    return connection.from_arrow(stages.table("answered").to_arrow_table())
