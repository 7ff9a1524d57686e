"""Defines the relations that all reports of a comparison read, so that no two formats can disagree."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakeprobe import metrics, resources
from lakeprobe.lake import views
from lakeprobe.lake.comparison import RESULTS_FILE, ROW_GROUP, STACKS_FILE, ComparedUnit
from lakeprobe.lake.connection import CELL_MACROS, columns_of, connect, define_macros
from lakeprobe.work import default_jobs

if TYPE_CHECKING:
    import duckdb


_MACROS = ("compared_step_of", "compared_rank_of", "is_device")


@contextmanager
def opened(unit: ComparedUnit) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection with the views results and stacks of one pair of units, on which `cells` can be queried."""
    connection = connect(max(1, min(unit.rows // ROW_GROUP, default_jobs())), _MACROS)
    try:
        _define_digest(connection, unit.kind)
        define_macros(connection, CELL_MACROS)
        for name, file in (("results", RESULTS_FILE), ("stacks", STACKS_FILE)):
            views.define_over(connection, name, [unit.file(file)], f"step = {unit.step} AND rank = {unit.rank}")
        yield connection
    finally:
        connection.close()


def cells(connection: duckdb.DuckDBPyConnection, unit: ComparedUnit) -> str:
    """Return the query for all rows as texts, under msprobe's headers.

    It is no view, and what it reads is in its WITH: DuckDB binds a view when it is created, and again for each use.
    """
    own = metrics.own_of_results(columns_of(connection, "results"))
    read = {"cell_texts": resources.sql("reports/cell_texts"), "metric_cells": metrics.cells(unit.kind, own)}
    named = ", ".join(f"{name} AS NOT MATERIALIZED (\n{query}\n)" for name, query in read.items())
    return f"WITH {named} FROM (\n{resources.sql('reports/cells')}\n)"


def msprobe_table(connection: duckdb.DuckDBPyConnection, unit: ComparedUnit) -> str:
    """Return the query for msprobe's table, in its columns and their order."""
    has_stacks = connection.execute("SELECT count(*) > 0 FROM stacks").fetchall() == [(True,)]
    has_parts = connection.execute("SELECT coalesce(bool_or(part <> ''), false) FROM results").fetchall() == [(True,)]
    absent = [column for column, is_there in (("NPU_Stack_Info", has_stacks), ("Part", has_parts)) if not is_there]
    chosen = f"* EXCLUDE ({', '.join(absent)})" if absent else "*"
    columns = resources.sql(f"reports/{unit.kind}")
    return f"WITH cells AS NOT MATERIALIZED (\n{cells(connection, unit)}\n) SELECT {chosen} FROM (\n{columns}\n)"


def _define_digest(connection: duckdb.DuckDBPyConnection, kind: str) -> None:
    """Define digest_of_text(text): CRC-32 of a text, which msprobe shows for scalars in its md5 layout only."""
    if kind != "digest":
        connection.execute("CREATE MACRO digest_of_text(text) AS NULL::VARCHAR")
        return

    connection.create_function("digest_of_text", digest_of_text, ["VARCHAR"], "VARCHAR")


def digest_of_text(text: str) -> str:
    """Return the CRC-32 of `text` in UTF-8, as eight hex digits."""
    return f"{zlib.crc32(text.encode()):08x}"
