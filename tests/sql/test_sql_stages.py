"""Single statements of sql/ on a few rows: the cases are in the YAML files beside this one.

A file names a `stage`, a file of sql/ without its ending, and has `cases`. A case gives rows to the tables that the
stage reads, and values to its `variables` and `parameters`. It lists the rows that come out, with the columns that it
asserts; their order counts if the case is `ordered`. Columns that a given row does not name have the value of
`defaults`, else NULL. The tables of two units and what is joined of them have the columns of schemas/; the columns of
others are in `tables`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
import yaml

from lakeprobe import resources, schema
from lakeprobe.lake.connection import connect, set_variable

HERE = Path(__file__).parent
SQL = HERE.parents[1] / "sql"
OF_UNITS = {
    "target_ops": "FROM unit_ops(getvariable('unit') || '/')",
    "golden_ops": "FROM unit_ops(getvariable('unit') || '/')",
    "target_leaves": "FROM unit_leaves(getvariable('unit') || '/')",
    "golden_leaves": "FROM unit_leaves(getvariable('unit') || '/')",
    "pairing": "SELECT 0 AS row, 0 AS target_row, 0 AS golden_row, '' AS matched_by WHERE false",
}
"""Tables without rows, made as a comparison makes them."""


def cases() -> list[Any]:
    found = []
    for path in sorted(HERE.glob("*.yaml")):
        text = yaml.safe_load(path.read_text(encoding="utf-8"))
        for case in text["cases"]:
            found.append(pytest.param(text, case, id=f"{text['stage']}-{case['name']}"))
    return found


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the macros of a comparison, and its tables without rows."""
    folder = tmp_path_factory.mktemp("unit")
    for name in ("ops", "tensors"):
        pq.write_table(schema.arrow_schema(name).empty_table(), folder / f"{name}.parquet")
    with connect(threads=1) as connection:
        define_all_macros(connection)
        set_variable(connection, "unit", str(folder))
        for name, query in OF_UNITS.items():
            connection.execute(f"CREATE TABLE {name} AS {query}")
        connection.execute(f"CREATE TABLE paired AS {resources.sql('compare/paired')}")
        connection.execute("CREATE TABLE comparison_kind AS SELECT 'statistics' AS kind, false AS cross_framework")
        connection.execute(f"CREATE TABLE thresholds AS {resources.sql('judge/thresholds')}")
        yield connection


@pytest.fixture
def connection(database: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """The same with the thresholds as they are within one framework; what a test makes of it is undone."""
    for name, value, _ in database.execute("FROM thresholds").fetchall():
        set_variable(database, name, value)
    database.begin()
    yield database
    database.rollback()


def define_all_macros(connection: duckdb.DuckDBPyConnection) -> None:
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


def fill(connection: duckdb.DuckDBPyConnection, name: str, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        columns = ", ".join(map(resources.quote_identifier, row))
        marks = ", ".join("?" for _ in row)
        connection.execute(f"INSERT INTO {name} ({columns}) VALUES ({marks})", list(row.values()))


def shown(row: dict[str, Any]) -> str:
    """The row as text in which NaN is like NaN, and 1 like 1.0."""
    return repr({
        name: float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
        for name, value in row.items()
    })  # fmt: skip


@pytest.mark.parametrize(("file", "case"), cases())
def test_stage(file: dict[str, Any], case: dict[str, Any], connection: duckdb.DuckDBPyConnection) -> None:
    for name, columns in file.get("tables", {}).items():
        types = ", ".join(f"{resources.quote_identifier(column)} {type_}" for column, type_ in columns.items())
        connection.execute(f"CREATE OR REPLACE TABLE {name} ({types})")
    for name, rows in case["given"].items():
        defaults = file.get("defaults", {}).get(name, {})
        fill(connection, name, [defaults | row for row in rows])
    for name, value in case.get("variables", {}).items():
        set_variable(connection, name, value)
    relation = connection.execute(resources.sql(file["stage"]), case.get("parameters"))
    names = [column for column, *_ in relation.description]
    found = [dict(zip(names, row, strict=True)) for row in relation.fetchall()]
    expected = case["expect"]
    asserted = list(expected[0]) if expected else []
    ours, theirs = [shown({name: row[name] for name in asserted}) for row in found], [shown(row) for row in expected]
    if case.get("ordered"):
        assert ours == theirs
    else:
        assert Counter(ours) == Counter(theirs)


def test_every_case_is_of_a_file_and_asserts_something() -> None:
    assert cases()
    for path in HERE.glob("*.yaml"):
        text = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert (SQL / f"{text['stage']}.sql").is_file(), path.name
        assert any(case["expect"] for case in text["cases"]), path.name
    assert shown({"a": math.nan}) == shown({"a": math.nan})
