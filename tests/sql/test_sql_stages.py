"""Single statements of sql/ on a few rows. The cases of sql/FOLDER/STAGE.sql are in FOLDER/STAGE.yaml beside this file.

A case gives rows to the tables that the stage reads, and values to its `variables` and `parameters`. It lists the rows
that come out, with the columns that it asserts; their order counts if the case is `ordered`. Columns that a given row
does not name have the value of `defaults`, else NULL; many rows that follow a rule are given as a query. The columns of
a table are today's (tables.py), unless the file lists them under `tables`. A statement that changes a table names it as
the file's `changes`, and the rows that come out are those of that table. A file's `before` lists tables that are made
of the rows of each case first, in order, by their own statements.

macros.yaml has the calls of each macro of sql/macros that decides something, and what they give.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
import tables

from lakeprobe import resources
from lakeprobe.lake.connection import CELL_MACROS, connect, define_macros, set_variable

HERE = Path(__file__).parent
NOT_LISTED = ("macros", "reports", "catalog", "rules")
"""Folders without files of cases: macros.yaml has calls of the macros; tests of reports and rules run the others."""


def files() -> dict[str, dict[str, Any]]:
    """The files of cases, by stage."""
    return {
        path.relative_to(HERE).with_suffix("").as_posix(): resources.read_yaml(path)
        for path in sorted(HERE.glob("*/**/*.yaml"))
    }


FILES = files()
OF_THE_LAKE = "memory.main."
"""What stands before a view of the lake that no table of the user's may hide; here it is one of the case's tables."""


def cases() -> list[Any]:
    return [
        pytest.param(stage, file, case, id=f"{stage}-{case['name']}")
        for stage, file in FILES.items() for case in file["cases"]
    ]  # fmt: skip


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, duckdb.DuckDBPyConnection]]:
    """A connection to the tables of a comparison, and one to those of a lake, each without rows."""
    with connect(threads=1) as comparison, connect(threads=1) as analysis:
        found = {"comparison": comparison, "analysis": analysis}
        for world, connection in found.items():
            tables.prepare(connection, world, tmp_path_factory.mktemp(world))
        yield found


@pytest.fixture
def connection(
    databases: dict[str, duckdb.DuckDBPyConnection], request: pytest.FixtureRequest
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the tables that the stage reads, and with default thresholds; what a test does is undone."""
    stage = request.getfixturevalue("stage")
    world = tables.world_of(stage)
    found = databases[world]
    for name, value, _ in found.execute("FROM thresholds").fetchall():
        set_variable(found, name, value)
    tables.create(found, world, resources.sql(stage))
    found.begin()
    yield found
    found.rollback()


def fill(
    connection: duckdb.DuckDBPyConnection, name: str, rows: list[dict[str, Any]] | str, defaults: dict[str, Any]
) -> None:
    if isinstance(rows, str):
        rest = {column: value for column, value in defaults.items() if column not in connection.sql(rows).columns}
        added = "".join(f", ? AS {resources.quote_identifier(column)}" for column in rest)
        connection.execute(f"INSERT INTO {name} BY NAME SELECT *{added} FROM ({rows})", list(rest.values()))
        return
    for row in (defaults | row for row in rows):
        columns = ", ".join(map(resources.quote_identifier, row))
        marks = ", ".join("?" for _ in row)
        connection.execute(f"INSERT INTO {name} ({columns}) VALUES ({marks})", list(row.values()))


def shown(row: dict[str, Any]) -> str:
    """The row as text in which NaN is like NaN, and 1 like 1.0."""
    return repr({
        name: float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else value
        for name, value in row.items()
    })  # fmt: skip


@pytest.mark.parametrize(("stage", "file", "case"), cases())
def test_stage(stage: str, file: dict[str, Any], case: dict[str, Any], connection: duckdb.DuckDBPyConnection) -> None:
    for name, columns in file.get("tables", {}).items():
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({tables.columns(columns)})")
    for name, rows in case["given"].items():
        fill(connection, name, rows, file.get("defaults", {}).get(name, {}))
    for name, value in case.get("variables", {}).items():
        set_variable(connection, name, value)
    makers = tables.makers(tables.world_of(stage))
    for name in file.get("before", []):
        connection.execute(f"INSERT INTO {name} BY NAME {resources.sql(str(makers[name]))}")
    relation = connection.execute(resources.sql(stage).replace(OF_THE_LAKE, ""), case.get("parameters"))
    if "changes" in file:
        relation = connection.execute(f"FROM {file['changes']}")
    names = [column for column, *_ in relation.description]
    found = [dict(zip(names, row, strict=True)) for row in relation.fetchall()]
    expected = case["expect"]
    asserted = list(expected[0]) if expected else []
    ours, theirs = [shown({name: row[name] for name in asserted}) for row in found], [shown(row) for row in expected]
    if case.get("ordered"):
        assert ours == theirs
    else:
        assert Counter(ours) == Counter(theirs)


MACROS: dict[str, list[dict[str, Any]]] = resources.read_yaml(HERE / "macros.yaml")


@pytest.fixture(scope="module")
def macros() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with all macros."""
    with connect(threads=1) as connection:
        tables.define_macros(connection)
        connection.execute("CREATE TEMP MACRO digest_of_text(text) AS text")
        define_macros(connection, CELL_MACROS)
        yield connection


@pytest.mark.parametrize("case", [
    pytest.param(case, id=case["call"]) for listed in MACROS.values() for case in listed
])  # fmt: skip
def test_macro(case: dict[str, Any], macros: duckdb.DuckDBPyConnection) -> None:
    for name, value in case.get("variables", {}).items():
        set_variable(macros, name, value)
    [(found,)] = macros.execute(f"SELECT {case['call']}").fetchall()
    assert shown({"gives": found}) == shown({"gives": case["gives"]})


def test_every_list_of_calls_is_of_a_macro() -> None:
    assert {name for name in MACROS if not (tables.SQL / f"macros/{name}.sql").is_file()} == set()


def test_every_case_is_of_a_file_and_asserts_something() -> None:
    assert FILES
    for stage, file in FILES.items():
        assert (tables.SQL / f"{stage}.sql").is_file(), stage
        assert any(case["expect"] for case in file["cases"]), stage
    assert shown({"a": math.nan}) == shown({"a": math.nan})


def test_every_statement_has_cases_or_a_reason_why_not() -> None:
    stages = {path.relative_to(tables.SQL).with_suffix("").as_posix() for path in tables.SQL.glob("**/*.sql")}
    listed = {stage for stage in stages if stage.split("/")[0] not in NOT_LISTED}
    untested = resources.read_yaml(HERE / "untested.yaml")
    assert sorted(listed - FILES.keys()) == list(untested)
    assert all(untested.values())


def test_every_table_that_is_made_has_a_statement() -> None:
    for world in ("comparison", "analysis"):
        for name, maker in tables.makers(world).items():
            assert isinstance(maker, dict) or (tables.SQL / f"{maker}.sql").is_file(), name
