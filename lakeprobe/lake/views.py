"""The views of a lake on a DuckDB connection: dumps, ops, tensors, stacks, contents, values, results, other tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe import resources
from lakeprobe.lake import layout, tables
from lakeprobe.lake.connection import set_variable
from lakeprobe.resources import quote_identifier, quote_text
from lakeprobe.schema import UNIT_TABLES, table

if TYPE_CHECKING:
    import duckdb

RESULTS = "results"
_PARTITIONS = {RESULTS: "comparison"}
_BUNDLED = {
    "api_table": ("apis", ("target_api", "golden_api")),
    "slot_table": ("slots", ("target_api", "golden_api", "direction", "target_slot", "golden_slot")),
    "class_table": ("classes", ("target_class", "golden_class")),
}
"""Views of the tables that we ship: what APIs, arguments and cells of MindSpore are in PyTorch."""


def define(connection: duckdb.DuckDBPyConnection, lake: Path) -> None:
    """Define the views of `lake`, and one per comparison and table. To be repeated when files came or went."""
    set_variable(connection, "lake", str(lake))
    for name in (*UNIT_TABLES, RESULTS):
        query = resources.sql(f"catalog/{name}") if _has_files(lake, name) else _empty(name)
        connection.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")
    for name, (file, columns) in _BUNDLED.items():
        types = ", ".join(f"{quote_text(column)}: 'VARCHAR'" for column in columns)
        source = f"read_csv({quote_text(str(resources.data(file)))}, header = true, columns = {{{types}}})"
        connection.execute(f"CREATE OR REPLACE VIEW {name} AS FROM {source}")
    own = (*UNIT_TABLES, *_BUNDLED, RESULTS)
    comparisons = layout.comparisons(lake)
    tables.define(connection, lake, taken=(*own, *comparisons))
    for name in comparisons:
        if name.lower() not in own:
            connection.execute(
                f"CREATE OR REPLACE VIEW {quote_identifier(name)} AS "
                f"SELECT * EXCLUDE (comparison) FROM results WHERE comparison = {quote_text(name)}"
            )


def _has_files(lake: Path, name: str) -> bool:
    pattern = {
        RESULTS: "comparisons/comparison=*/step=*/rank=*/results.parquet",
        "values": "run=*/step=*/rank=*/values-*.parquet",
    }.get(name, f"run=*/step=*/rank=*/{name}.parquet")
    return next(lake.glob(pattern), None) is not None


def _empty(name: str) -> str:
    """A query with the columns of the table `name` and no rows."""
    key = _PARTITIONS.get(name, "run")
    types = {key: "VARCHAR", "step": "INTEGER", "rank": "INTEGER"} | {
        column.name: column.type for column in table(name).columns
    }
    columns = ", ".join(f"NULL::{type} AS {quote_identifier(column)}" for column, type in types.items())
    return f"SELECT {columns} WHERE false"
