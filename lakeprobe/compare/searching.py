"""The stage of a comparison that searches for a mapping: its tables, what is kept of it, and when it is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe import resources
from lakeprobe.compare import rule as rules
from lakeprobe.compare.rule import Rule
from lakeprobe.compare.stages import SEARCHED
from lakeprobe.lake.comparison import PAIRS_FILE, ROW_GROUP
from lakeprobe.lake.connection import write_parquet

if TYPE_CHECKING:
    import duckdb

_FEW = 0.6
"""Share of the smaller side's ops that pair by name below which two runs are two implementations."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How the rows of a comparison ended for which a mapping was searched (sql/compare/search_counts.sql)."""

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


def is_asked(rule: Rule) -> bool:
    """Whether `rule` builds on what a search found."""
    return not rules.names(rule).isdisjoint(SEARCHED)


def is_needed(connection: duckdb.DuckDBPyConnection, usual_rule: str) -> bool:
    """Whether names say little though the framework is one: few ops of the same name have the same tensors."""
    dumped = connection.execute("SELECT dumped FROM comparison_kind").fetchall()[0][0]
    if usual_rule != "same_framework" or dumped != "ops":
        return False
    query = f"WITH match_exact AS ({resources.sql('match/exact')}) FROM ({resources.sql('match/share')})"
    return float(connection.execute(query).fetchall()[0][0]) < _FEW


def create(connection: duckdb.DuckDBPyConnection, units: tuple[Path, Path] | None) -> bool:
    """Create the tables search_rows and search_left from a search in `units`, empty where there are none.

    Returns whether a row was found.
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
            [row.target_leaf.row for row in found.rows],
            [row.golden_leaf.row for row in found.rows],
            [row.confidence for row in found.rows],
            [", ".join(row.evidence) for row in found.rows],
        ],
    )
    for side, left in (("target", found.target_left), ("golden", found.golden_left)):
        _insert(connection, "search_left", [[side] * len(left), *zip(*left, strict=True)])
    _arrange(connection)
    return bool(found.rows)


def _arrange(connection: duckdb.DuckDBPyConnection) -> None:
    """Find how the pairs lie whose contents are there; what cannot be read is left to the metrics, which say so."""
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
    """Have `writer` write what the search made of each row into `folder`; count. None if nothing was searched."""
    if not connection.execute("SELECT count(*) FROM search_rows").fetchall()[0][0]:
        return None
    write_parquet(writer, connection, resources.sql("compare/search_pairs"), folder / PAIRS_FILE, ROW_GROUP)
    return Counts(*connection.execute(resources.sql("compare/search_counts")).fetchall()[0])


def _insert(connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[Sequence[object]]) -> None:
    """Insert rows, given as columns. Arrow carries them: DuckDB takes its own time with each value of a list."""
    import pyarrow

    if not columns[0]:
        return
    names = [name for name, *_ in connection.execute(f"DESCRIBE {table}").fetchall()]
    connection.register("found", pyarrow.table(dict(zip(names, map(pyarrow.array, columns), strict=True))))
    connection.execute(f"INSERT INTO {table} FROM found")
    connection.unregister("found")
