"""Defines the relations that all reports of a comparison read, so that no two formats can disagree."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

from lakeprobe import metrics, resources
from lakeprobe.lake import views
from lakeprobe.lake.comparison import RESULTS_FILE, STACKS_FILE, ComparedUnit
from lakeprobe.lake.connection import CELL_MACROS, columns_of, connect, define_macros, useful_threads
from lakeprobe.work import default_jobs

if TYPE_CHECKING:
    import duckdb


_MACROS = ("compared_step_of", "compared_rank_of", "is_device")
_FILES = {"results": RESULTS_FILE, "stacks": STACKS_FILE}
_NUMBERED = {
    "results": "row + first_row AS row, stack + first_stack AS stack",
    "stacks": "stack + first_stack AS stack",
}


@contextmanager
def opened(unit: ComparedUnit) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection with the views results and stacks of one pair of units, on which `cells` can be queried."""
    with _connected(unit.rows, unit.kind) as connection:
        for name, file in _FILES.items():
            views.define_over(connection, name, [unit.file(file)], f"step = {unit.step} AND rank = {unit.rank}")
        yield connection


@contextmanager
def _connected(rows: int, kind: str) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = connect(useful_threads(rows, default_jobs()), _MACROS)
    try:
        _define_digest(connection, kind)
        define_macros(connection, CELL_MACROS)
        yield connection
    finally:
        connection.close()


def batches(units: Iterable[ComparedUnit]) -> list[tuple[ComparedUnit, ...]]:
    """Return pairs of units of one kind whose rows lie in one file together, and others by themselves."""
    return [tuple(batch) for _, batch in groupby(units, key=lambda unit: (unit.file(RESULTS_FILE), unit.kind))]


@contextmanager
def msprobe_tables(units: Sequence[ComparedUnit]) -> Iterator[tuple[duckdb.DuckDBPyConnection, list[str]]]:
    """Yield a connection and, for each of these pairs of units of a batch, the query for msprobe's table.

    The cells of all are made at once: planning their statement takes longer than running it on the rows of one.
    """
    ends = list(accumulate(unit.rows for unit in units))
    with _connected(ends[-1], units[0].kind) as connection:
        with_stacks = _number_through(connection, units)
        with_parts = set(connection.execute("SELECT DISTINCT step, rank FROM results WHERE part <> ''").fetchall())
        connection.execute(f"CREATE TEMP TABLE cells_of_all AS {cells(connection, units[0])}")
        tables = []
        for unit, end in zip(units, ends, strict=True):
            rows = f"FROM cells_of_all WHERE row >= {end - unit.rows} AND row < {end} ORDER BY row"
            place = (unit.step, unit.rank)
            tables.append(_laid_out(unit.kind, rows, place in with_stacks, place in with_parts))
        yield connection, tables


def _number_through(connection: duckdb.DuckDBPyConnection, units: Sequence[ComparedUnit]) -> set[tuple[int, int]]:
    """Create the views results and stacks of all `units`, with numbers that no two of them share, without gaps.

    Returns the steps and ranks that have stacks.
    """
    for name, file in _FILES.items():
        views.define_over(connection, name, [units[0].file(file)])
    found = connection.execute("SELECT step, rank, count(*) FROM stacks GROUP BY ALL").fetchall()
    counts = {(step, rank): count for step, rank, count in found}
    stacks = [counts.get((unit.step, unit.rank), 0) for unit in units]
    places = [
        {"step": unit.step, "rank": unit.rank, "first_row": row - unit.rows, "first_stack": stack - count}
        for unit, row, stack, count in zip(
            units, accumulate(unit.rows for unit in units), accumulate(stacks), stacks, strict=True
        )
    ]
    connection.execute("CREATE TEMP TABLE places AS SELECT unnest($places, max_depth := 2)", {"places": places})
    for name, numbers in _NUMBERED.items():
        rows = f"memory.main.{name} JOIN places USING (step, rank)"
        connection.execute(
            f"CREATE TEMP VIEW {name} AS SELECT * EXCLUDE (first_row, first_stack) REPLACE ({numbers}) FROM {rows}"
        )
    return set(counts)


def cells(connection: duckdb.DuckDBPyConnection, unit: ComparedUnit) -> str:
    """Return the query for all rows as texts, under msprobe's headers.

    It is not a view, and what it reads is in its WITH: DuckDB binds a view when it is created, and again for each use.
    """
    own = metrics.own_of_results(columns_of(connection, "results"))
    read = {"cell_texts": resources.sql("reports/cell_texts"), "metric_cells": metrics.cells(unit.kind, own)}
    named = ", ".join(f"{name} AS NOT MATERIALIZED (\n{query}\n)" for name, query in read.items())
    return f"WITH {named} FROM (\n{resources.sql('reports/cells')}\n)"


def msprobe_table(connection: duckdb.DuckDBPyConnection, unit: ComparedUnit) -> str:
    """Return the query for msprobe's table, in its columns and their order."""
    has_stacks = connection.execute("SELECT count(*) > 0 FROM stacks").fetchall() == [(True,)]
    has_parts = connection.execute("SELECT coalesce(bool_or(part <> ''), false) FROM results").fetchall() == [(True,)]
    return _laid_out(unit.kind, cells(connection, unit), has_stacks, has_parts)


def _laid_out(kind: str, cells: str, has_stacks: bool, has_parts: bool) -> str:
    absent = [column for column, is_there in (("NPU_Stack_Info", has_stacks), ("Part", has_parts)) if not is_there]
    chosen = f"* EXCLUDE ({', '.join(absent)})" if absent else "*"
    columns = resources.sql(f"reports/{kind}")
    return f"WITH cells AS NOT MATERIALIZED (\n{cells}\n) SELECT {chosen} FROM (\n{columns}\n)"


def _define_digest(connection: duckdb.DuckDBPyConnection, kind: str) -> None:
    """Define digest_of_text(text): CRC-32 of a text, which msprobe shows for scalars in its md5 layout only."""
    if kind != "digest":
        connection.execute("CREATE MACRO digest_of_text(text) AS NULL::VARCHAR")
        return

    connection.create_function("digest_of_text", digest_of_text, ["VARCHAR"], "VARCHAR")


def digest_of_text(text: str) -> str:
    """Return the CRC-32 of `text` in UTF-8, as eight hex digits."""
    return f"{zlib.crc32(text.encode()):08x}"
