"""One step of a run of several ranks, and the tables that its merge keeps in a connection of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lakeprobe import resources
from lakeprobe.lake.connection import records
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.log import Snapshot
from lakeprobe.layouts.layout_file import LayoutFile
from lakeprobe.resources import quote_identifier

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_NOTHING = UnitKey("", 0, 0)

Parameters = Mapping[str, Any]


class Cut(Struct, frozen=True):
    """The ranks of one step, golden's unit with the names and shapes of the whole, and what a layout file says."""

    connection: duckdb.DuckDBPyConnection
    snapshot: Snapshot
    run: str
    step: int
    ranks: tuple[int, ...]
    golden: UnitKey | None
    file: LayoutFile

    @property
    def run_and_step(self) -> dict[str, Any]:
        """The parameters of statements about all ranks."""
        return {"run": self.run, "step": self.step}

    @property
    def golden_unit(self) -> dict[str, Any]:
        """The parameters of statements about golden; without golden they have no rows."""
        key = self.golden or _NOTHING
        return {"golden": key.run, "golden_step": key.step, "golden_rank": key.rank}

    def rows(self, file: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement of sql/layouts."""
        return self.connection.execute(_sql(file), parameters).fetchall()

    def table(self, file: str, parameters: Parameters | None = None) -> pa.Table:
        """The rows of a statement of sql/layouts, as Arrow has them."""
        return self.connection.sql(_sql(file), params=parameters).to_arrow_table()

    def records(self, file: str) -> list[dict[str, Any]]:
        """The rows of a statement of sql/layouts that takes no parameters, by column."""
        return records(self.connection.sql(_sql(file)))

    def keep(self, table: str, file: str, parameters: Parameters | None = None) -> None:
        """Create a table of the rows of a statement of sql/layouts, in place of one of this name."""
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {_sql(file)}", parameters)

    def add(self, table: str, file: str, parameters: Parameters | None = None) -> None:
        """Add the rows of a statement of sql/layouts to a table."""
        self.connection.execute(f"INSERT INTO {table} BY NAME {_sql(file)}", parameters)

    def define(self, view: str) -> None:
        """Create the view that the statement of this name in sql/layouts is."""
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS {_sql(view)}")

    def register(self, table: str, rows: Sequence[Sequence[Any]], types: Mapping[str, str]) -> None:
        """Create a table of rows from Python, in place of one of this name. `types`: those of DuckDB, by column."""
        import pyarrow as pa

        columns = ", ".join(f"{quote_identifier(name)} {kind}" for name, kind in types.items())
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} ({columns})")
        if not rows:
            return
        arrays = [pa.array(column) for column in zip(*rows, strict=True)]
        self.connection.register("passed", pa.table(arrays, list(types)))
        self.connection.execute(f"INSERT INTO {table} FROM passed")
        self.connection.unregister("passed")


def _sql(file: str) -> str:
    return resources.sql(f"layouts/{file}")
