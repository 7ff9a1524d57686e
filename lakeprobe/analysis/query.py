"""The two ways in which an analysis uses SQL: a stage that later ones read, and an answer.

Stages are temporary tables on a connection of the analysis' own. They hide nothing of the asker's: neither a comparison
nor a table that has the name of a stage; and nothing of the asker's hides a table of the lake from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakeprobe import resources
from lakeprobe.lake import views
from lakeprobe.lake.connection import set_variable
from lakeprobe.resources import quote_identifier

if TYPE_CHECKING:
    import duckdb


@contextmanager
def apart(connection: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to the views of `connection` for the stages of an analysis, which go with it."""
    with connection.cursor() as stages:
        views.share(connection, stages)
        yield stages


def keep(stages: duckdb.DuckDBPyConnection, table: str, file: str, parameters: Mapping[str, Any] | None = None) -> None:
    """Make the temporary table `table` of what the SQL in sql/analysis/`file` gives."""
    query = resources.sql(f"analysis/{file}")
    stages.execute(f"CREATE OR REPLACE TEMP TABLE {quote_identifier(table)} AS {query}", parameters)


def set_thresholds(
    stages: duckdb.DuckDBPyConnection, changed: Mapping[str, float] | None = None, *, across: bool = False
) -> None:
    """Set a variable per threshold: its default (`across`: between two frameworks), or what a rule made of it."""
    query = f"WITH comparison_kind AS (SELECT $across AS cross_framework) FROM ({resources.sql('judge/thresholds')})"
    defaults = {name: value for name, value, _ in stages.execute(query, {"across": across}).fetchall()}
    for name, value in (defaults | dict(changed or {})).items():
        set_variable(stages, name, float(value))


def answer(
    connection: duckdb.DuckDBPyConnection,
    stages: duckdb.DuckDBPyConnection,
    file: str,
    parameters: Mapping[str, Any] | None = None,
) -> duckdb.DuckDBPyRelation:
    """The rows that the SQL in sql/analysis/`file` gives, as a relation of `connection` that needs no stage."""
    found = stages.sql(resources.sql(f"analysis/{file}"), params=parameters)
    return connection.from_arrow(found.to_arrow_table())
