"""Searches a mapping as a stage of a comparison: its tables, what is kept of it, and when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe import resources
from lakeprobe.compare import rule as rules
from lakeprobe.compare.rule import Rule
from lakeprobe.compare.stages import SEARCHED
from lakeprobe.lake.comparison import PAIRS_FILE, ROW_GROUP
from lakeprobe.lake.connection import parsed, write_parquet
from lakeprobe.lake.layout import UnitPlace

if TYPE_CHECKING:
    import duckdb


class Counts(Struct, frozen=True):
    """How a comparison with a searched mapping ended, in rows (sql/compare/search_counts.sql)."""

    golden_rows: int
    target_rows: int
    paired: int
    mapped: int
    sure: int
    likely: int
    golden_inside: int
    golden_structure: int
    golden_left: int
    target_inside: int
    target_structure: int
    target_left: int


def is_used(rule: Rule) -> bool:
    """Return whether `rule` uses the result of a search."""
    return rules.mentions(rule, SEARCHED)


def have_same_calls(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether both sides make the same calls (sql/match/same_calls.sql)."""
    return _asked(connection, "match/same_calls")


def is_needed(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether names say little although the framework is the same (sql/match/other_program.sql)."""
    return _asked(connection, "match/other_program")


def _asked(connection: duckdb.DuckDBPyConnection, statement: str) -> bool:
    query = f"WITH match_exact AS ({resources.sql('match/exact')}) FROM ({resources.sql(statement)})"
    return bool(connection.execute(parsed(connection, query)).fetchall()[0][0])


def create(connection: duckdb.DuckDBPyConnection, units: tuple[UnitPlace, UnitPlace] | None) -> bool:
    """Create the tables search_rows and search_left from a search in `units`; empty if `units` is None.

    Returns whether the search found a row.
    """
    connection.execute(resources.sql("match/search_rows"))
    connection.execute(resources.sql("match/search_left"))
    if units is None:
        return False
    from lakeprobe.mapping.search import search

    found = search(connection, *units)
    _insert(
        connection,
        "search_rows",
        [
            [row.target.row for row in found.rows],
            [row.golden.row for row in found.rows],
            [row.confidence for row in found.rows],
            [", ".join(row.evidence) for row in found.rows],
        ],
    )
    for side, left in (("target", found.target_left), ("golden", found.golden_left)):
        _insert(connection, "search_left", [[side] * len(left.seqs), left.seqs, left.rows, left.outcomes, left.reasons])
    _arrange(connection)
    return bool(found.rows)


def _arrange(connection: duckdb.DuckDBPyConnection) -> None:
    """Find the memory layout of pairs with contents. Unreadable contents are left to the metrics, which report them."""
    pairs = connection.execute(resources.sql("match/search_contents")).fetchall()
    if not pairs:
        return
    from lakeprobe.errors import TensorError
    from lakeprobe.tensors.arrangement import arrange
    from lakeprobe.tensors.reference import TensorReference, byte_strides

    found = []
    for target, golden, reference, other_reference, are_alike in pairs:
        try:
            way = arrange(TensorReference.of(reference), TensorReference.of(other_reference), are_alike)
        except TensorError:
            continue
        if way is not None:
            strides = [list(byte_strides(side)) for side in (way.target, way.golden)]
            found.append((target, golden, list(way.target.shape), *strides, way.note))
    if found:
        _insert(connection, "search_layouts", list(zip(*found, strict=True)))


def write(writer: duckdb.DuckDBPyConnection, connection: duckdb.DuckDBPyConnection, folder: Path) -> Counts | None:
    """Write how the search ended for each row into `folder`, and count. Returns None if nothing was searched."""
    if not connection.execute("SELECT count(*) FROM search_rows").fetchall()[0][0]:
        return None
    write_parquet(writer, connection, resources.sql("compare/search_pairs"), folder / PAIRS_FILE, ROW_GROUP)
    return Counts(*connection.execute(resources.sql("compare/search_counts")).fetchall()[0])


def _insert(connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[Sequence[object]]) -> None:
    """Insert rows, given as columns. Arrow carries them, because DuckDB is slow to bind each value of a list."""
    import pyarrow

    if not columns[0]:
        return
    names = [name for name, *_ in connection.execute(f"DESCRIBE {table}").fetchall()]
    connection.register("found", pyarrow.table(dict(zip(names, map(pyarrow.array, columns), strict=True))))
    connection.execute(f"INSERT INTO {table} FROM found")
    connection.unregister("found")
