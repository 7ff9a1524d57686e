"""Creates the tables of the mappings: the rows of the user's files, and the bundled names of MindSpore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakeprobe import resources
from lakeprobe.lake.connection import parsed
from lakeprobe.mapping.files import Mappings

if TYPE_CHECKING:
    import duckdb

_COLUMNS = {
    "api_mapping": ("target_api", "golden_api"),
    "slot_mapping": ("target_api", "golden_api", "direction", "target_slot", "golden_slot"),
    "cell_mapping": ("target_text", "golden_text"),
    "data_mapping": ("target_name", "golden_name"),
    "layer_mapping": ("class", "target_scope", "golden_scope"),
    "class_mapping": ("target_class", "golden_class"),
}
_BUNDLED = {"slot_mapping": "slots", "api_mapping": "apis", "class_mapping": "classes"}
"""The tables with bundled rows (schemas/data). The slots come first: they must see the user's rows of api_mapping only.
"""

_RULES = {"parameter_names": "parameter_names", "severities": "preflight_severities"}
"""Tables of rules about names (schemas/data), for checkpoints and preflights."""


def create(connection: duckdb.DuckDBPyConnection, mappings: Mappings, other_names: bool) -> None:
    """Create the tables with the user's rows and, if `other_names`, the bundled rows that they do not override."""
    given: dict[str, Sequence[Sequence[str | None]]] = {
        "api_mapping": mappings.apis,
        "slot_mapping": mappings.slots,
        "cell_mapping": mappings.cells,
        "data_mapping": mappings.data,
        "layer_mapping": mappings.layers,
    }
    for table, columns in _COLUMNS.items():
        texts = ", ".join(f"{name} VARCHAR" for name in columns)
        statement = f"CREATE TEMP TABLE {table} (place INTEGER, is_bundled BOOLEAN, {texts})"
        connection.execute(parsed(connection, statement))
        _insert(connection, table, given.get(table, ()))
    for table, file in _RULES.items():
        statement = f"CREATE TEMP TABLE {table} AS {resources.sql(f'match/{table}')}"
        connection.execute(parsed(connection, statement), [str(resources.data(file))])
    if other_names:
        for table, file in _BUNDLED.items():
            statement = f"INSERT INTO {table} {resources.sql(f'match/bundled_{file}')}"
            connection.execute(parsed(connection, statement), [str(resources.data(file))])


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[str | None]]) -> None:
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        values = ", ".join("unnest(?::VARCHAR[])" for _ in columns)
        connection.execute(f"INSERT INTO {table} SELECT unnest(range({len(rows)})), false, {values}", columns)
