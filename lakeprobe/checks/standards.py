"""Judges what was measured, in SQL, by a precision standard: tables and limits are data (schemas/data)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeprobe import resources
from lakeprobe.errors import UsageError
from lakeprobe.lake.connection import define_macros
from lakeprobe.resources import file_pattern, quote_text

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

STANDARDS = (
    "rounding", "table", "benchmark", "pre_check", "absolute", "binary", "ulp", "thousandth", "accumulative",
)  # fmt: skip
"""What --standard takes. rounding is ours; the others are msprobe's, table and benchmark its two ways to choose one."""

_MACROS = ("ratio_status", "table_standard", "rounding_status")
_TABLES = (
    "precisions", "standards", "benchmark_levels", "level_limits", "rounding_classes", "rounding_limits", "quantised",
)  # fmt: skip


def check_standard(standard: str) -> None:
    """Raise UsageError if `standard` is none of STANDARDS."""
    if standard not in STANDARDS:
        raise UsageError(f"there is no standard {standard}; use one of {', '.join(STANDARDS)}")


def prepare(connection: duckdb.DuckDBPyConnection) -> None:
    """Give `connection` the macros and tables that the statements of sql/checks use."""
    define_macros(connection, _MACROS)
    for name in _TABLES:
        source = f"read_csv({quote_text(file_pattern(resources.data(name)))}, header = true)"
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM {source}")


def judge(connection: duckdb.DuckDBPyConnection, measured: pa.Table, standard: str) -> pa.Table:
    """`measured` with the columns standard and status, in the order of `place`; `connection` is prepared."""
    connection.register("measured", measured)
    try:
        return connection.sql(resources.sql("checks/judged"), params={"standard": standard}).to_arrow_table()
    finally:
        connection.unregister("measured")
