"""The views of a lake on a DuckDB connection: the tables of units, of comparisons and of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe import resources
from lakeprobe.lake import layout, tables
from lakeprobe.lake.connection import set_variable
from lakeprobe.resources import file_pattern, quote_identifier, quote_text
from lakeprobe.schema import UNIT_TABLES, table

if TYPE_CHECKING:
    import duckdb

RESULTS, SUSPECTS, PAIRS, NOISE = "results", "suspects", "pairs", "noise"
REFERENCES = "tensor_references"
_PARTITIONS = {RESULTS: "comparison", SUSPECTS: "comparison", PAIRS: "comparison", NOISE: "noise"}
_BUNDLED = {
    "api_table": ("apis", ("target_api", "golden_api")),
    "slot_table": ("slots", ("target_api", "golden_api", "direction", "target_slot", "golden_slot")),
    "class_table": ("classes", ("target_class", "golden_class")),
}
"""Views of the tables that we ship: what APIs, arguments and cells of MindSpore are in PyTorch."""

NAMES = frozenset((*UNIT_TABLES, *_BUNDLED, *_PARTITIONS, REFERENCES))
"""The views that every lake has."""


def define(connection: duckdb.DuckDBPyConnection, lake: Path) -> None:
    """Define the views of `lake`, and one per comparison and table. To be repeated when files came or went."""
    set_variable(connection, "lake", str(lake))
    set_variable(connection, "lake_files", file_pattern(lake))
    for name in (*UNIT_TABLES, *_PARTITIONS):
        connection.execute(f"CREATE OR REPLACE VIEW {name} AS {_query(connection, lake, name)}")
    connection.execute(f"CREATE OR REPLACE VIEW {REFERENCES} AS {resources.sql(f'catalog/{REFERENCES}')}")
    for name, (file, columns) in _BUNDLED.items():
        types = ", ".join(f"{quote_text(column)}: 'VARCHAR'" for column in columns)
        source = f"read_csv({quote_text(file_pattern(resources.data(file)))}, header = true, columns = {{{types}}})"
        connection.execute(f"CREATE OR REPLACE VIEW {name} AS FROM {source}")
    comparisons = layout.comparisons(lake)
    tables.define(connection, lake, taken=(*NAMES, *comparisons))
    for name in comparisons:
        if name.lower() not in NAMES:
            connection.execute(
                f"CREATE OR REPLACE VIEW {quote_identifier(name)} AS "
                f"SELECT * EXCLUDE (comparison) FROM results WHERE comparison = {quote_text(name)}"
            )


def define_over(connection: duckdb.DuckDBPyConnection, name: str, folder: Path, files: str) -> None:
    """Define the view `name` over those Parquet files of one comparison that the pattern `files` names in `folder`."""
    pattern = quote_text(f"{file_pattern(folder)}/{files}")
    types = "{'comparison': VARCHAR, 'step': INTEGER, 'rank': INTEGER}"
    query = f"FROM read_parquet({pattern}, hive_partitioning = true, hive_types = {types}, union_by_name = true)"
    if name in _PARTITIONS:
        query = _with_all_columns(name, query, with_partitions=False)
    connection.execute(f"CREATE VIEW {name} AS {query}")


def _query(connection: duckdb.DuckDBPyConnection, lake: Path, name: str) -> str:
    """What the view `name` is of `lake`. A file that an older release wrote has NULL where a column came later."""
    if not _has_files(lake, name):
        return empty(name)
    query = resources.sql(f"catalog/{name}")
    if name in _PARTITIONS:
        return _with_all_columns(name, query)
    columns = ", ".join(
        f"{quote_text(column)}: {{name: {quote_text(column)}, type: {quote_text(type)}, default_value: NULL}}"
        for column, type in ((column.name, column.type) for column in table(name).columns)
    )
    connection.execute(f"CREATE OR REPLACE MACRO columns_of_{name}() AS MAP {{{columns}}}")
    return query


def _with_all_columns(name: str, query: str, *, with_partitions: bool = True) -> str:
    """`query` with all columns of the table `name` in their order, and behind them the metrics that only rules know."""
    return f"({empty(name, with_partitions=with_partitions)}) UNION ALL BY NAME ({query})"


def _has_files(lake: Path, name: str) -> bool:
    if name == NOISE:
        pattern = "noise/noise=*/noise.parquet"
    elif name in _PARTITIONS:
        pattern = f"comparisons/comparison=*/step=*/rank=*/{name}.parquet"
    else:
        pattern = f"run=*/step=*/rank=*/{'values-*' if name == 'values' else name}.parquet"
    return next(lake.glob(pattern), None) is not None


def empty(name: str, *, with_partitions: bool = True) -> str:
    """A query with the columns of the table `name` and no rows."""
    types = {column.name: column.type for column in table(name).columns}
    if with_partitions:
        types = {_PARTITIONS.get(name, "run"): "VARCHAR", "step": "INTEGER", "rank": "INTEGER"} | types
    columns = ", ".join(f"NULL::{type} AS {quote_identifier(column)}" for column, type in types.items())
    return f"SELECT {columns} WHERE false"
