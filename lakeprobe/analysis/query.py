"""The two ways in which an analysis uses SQL: a stage that later ones read, and an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakeprobe import resources
from lakeprobe.resources import quote_identifier

if TYPE_CHECKING:
    import duckdb


def keep(
    connection: duckdb.DuckDBPyConnection, table: str, file: str, parameters: Mapping[str, Any] | None = None
) -> None:
    """Make the temporary table `table` of what the SQL in sql/analysis/`file` gives."""
    query = resources.sql(f"analysis/{file}")
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {quote_identifier(table)} AS {query}", parameters)


def answer(
    connection: duckdb.DuckDBPyConnection, file: str, parameters: Mapping[str, Any] | None = None
) -> duckdb.DuckDBPyRelation:
    """The rows that the SQL in sql/analysis/`file` gives, as a relation that needs no table of ours any more."""
    found = connection.sql(resources.sql(f"analysis/{file}"), params=parameters)
    return connection.from_arrow(found.to_arrow_table())
