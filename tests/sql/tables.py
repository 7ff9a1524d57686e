"""The tables that statements of sql/ read, without rows and with the columns that they have today.

tables.yaml names the statement that makes each temporary table. Its columns are those of that statement, run on tables
that are made the same way.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

import lakeprobe
from lakeprobe import resources, schema
from lakeprobe.analysis.transfers import keep_transfers
from lakeprobe.compare import mapping_tables, noise, unit
from lakeprobe.lake import staging, views
from lakeprobe.lake.connection import set_variable
from lakeprobe.mapping.files import Mappings

HERE = Path(__file__).parent
SQL = HERE.parents[1] / "sql"
ON_UNITS = ("compare", "judge", "match", "metrics", "noise", "rules")
"""The folders whose statements compare two units. All others read the lake."""
KIND = (
    "'statistics' AS kind, false AS cross_framework, false AS other_names, false AS are_collected, "
    "false AS is_structure, 'ops' AS dumped, true AS target_complete, true AS golden_complete"
)
"""How the two units of every case compare, unless it says otherwise."""
OF_ANALYSES = ("overflow/kinds", "overflow/leaf_words")
"""The macros that an analysis defines for itself."""


def world_of(stage: str) -> str:
    """'comparison' for a statement that reads two units, 'analysis' for one that reads the lake."""
    return "comparison" if stage.split("/")[0] in ON_UNITS else "analysis"


@cache
def makers(world: str) -> dict[str, str | dict[str, str]]:
    """What makes each temporary table, by its name: a statement, or the types of the columns where Python makes it."""
    found: dict[str, dict[str, str | dict[str, str]]] = resources.read_yaml(HERE / "tables.yaml")
    return found[world]


def prepare(connection: duckdb.DuckDBPyConnection, world: str, folder: Path) -> None:
    """Create what there is before the first stage: macros, thresholds, and the tables of two units or of the lake."""
    define_macros(connection)
    connection.execute(f"CREATE TABLE comparison_kind AS SELECT {KIND}")
    connection.execute(f"CREATE TABLE thresholds AS {resources.sql('judge/thresholds')}")
    for name, value, _ in connection.execute("FROM thresholds").fetchall():
        set_variable(connection, name, value)
    if world == "comparison":
        _create_units(connection, folder)
    else:
        _create_lake(connection, folder)


def _create_units(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    for name in ("ops", "tensors", "contents"):
        pq.write_table(schema.arrow_schema(name).empty_table(), folder / f"{name}.parquet")
    set_variable(connection, "unit_values", "")
    for side in ("target", "golden"):
        for name in ("ops", "leaves", "contents"):
            connection.execute(f"CREATE TABLE {side}_{name} AS FROM unit_{name}({resources.quote_text(str(folder))})")
        connection.execute(f"CREATE TABLE {side} AS {unit.both_tables(side)}")
        connection.execute(f"CREATE TABLE {side}_stacks (stack INTEGER, frames VARCHAR[])")
    unit.create_shared_tables(connection)
    unit.define_no_tensor_metrics(connection)
    mapping_tables.create(connection, Mappings(), False)
    noise.load_repeats(connection, None)
    connection.execute("CREATE TABLE pairing (row INTEGER, target_row INTEGER, golden_row INTEGER, matched_by VARCHAR)")
    connection.execute(f"CREATE TABLE paired AS {resources.sql('compare/paired')}")


def _create_lake(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    with lakeprobe.open(folder / "lake", create=True), staging.reading(folder / "lake") as snapshot:
        views.define(connection, snapshot)
    for name in sorted(views.NAMES):
        connection.execute(f"CREATE TEMP TABLE {name} AS FROM memory.main.{name}")
    for macro in OF_ANALYSES:
        connection.execute(resources.sql(f"analysis/{macro}"))
    set_variable(connection, "backward_scale", 1.0)
    keep_transfers(connection, "no run")


def define_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """Define the macros of sql/macros but those of reports. Some name others, which must be there first."""
    waiting = sorted(path for path in (SQL / "macros").glob("*.sql") if not path.name.startswith("cell_"))
    while waiting:
        failed = []
        for path in waiting:
            try:
                connection.execute(path.read_text(encoding="utf-8"))
            except duckdb.Error:
                failed.append(path)
        assert len(failed) < len(waiting), failed
        waiting = failed


def create(connection: duckdb.DuckDBPyConnection, world: str, statement: str) -> None:
    """Create the tables that `statement` reads and that are not there yet."""
    for name in sorted(_read(connection, statement)):
        maker = makers(world).get(name)
        if maker is None or name in _tables(connection):
            continue
        if isinstance(maker, dict):
            connection.execute(f"CREATE TABLE {name} ({columns(maker)})")
            continue
        query = resources.sql(maker)
        create(connection, world, query)
        connection.execute(f"CREATE TABLE {name} AS FROM ({query}\n) WHERE false", nothing(query))


def columns(types: dict[str, str]) -> str:
    """The columns of a CREATE TABLE."""
    return ", ".join(f"{resources.quote_identifier(name)} {type_}" for name, type_ in types.items())


def nothing(query: str) -> dict[str, Any] | None:
    """The parameters of a query, each NULL."""
    return dict.fromkeys(re.findall(r"\$(\w+)", re.sub(r"--.*", "", query))) or None


def _read(connection: duckdb.DuckDBPyConnection, query: str) -> set[str]:
    """The names of the tables that a query reads, as DuckDB's own parser sees them, without its common expressions."""
    (text,) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()[0]
    tables: set[str] = set()
    expressions: set[str] = set()
    waiting = [json.loads(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("type") == "BASE_TABLE":
                tables.add(node["table_name"])
            expressions |= {each["key"] for each in node.get("cte_map", {}).get("map", [])}
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return tables - expressions


def _tables(connection: duckdb.DuckDBPyConnection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT DISTINCT table_name FROM duckdb_tables()").fetchall()}
