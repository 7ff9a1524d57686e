"""The result tables of other tools that are in a lake: where each lies, what it says of itself, and its view.

One file a table. What it was read from is in the file's own metadata, so there is nothing beside it that could
disagree.

Views: a table is asked for by its name. The lake's own tables, what lakeprobe ships and comparisons go before it: a
table of such a name is asked for as "tables.NAME".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe.errors import LakeError
from lakeprobe.lake import layout
from lakeprobe.lake.log import Snapshot
from lakeprobe.resources import file_pattern, quote_identifier, quote_text

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_METADATA = b"lakeprobe"


@dataclass(frozen=True, slots=True)
class Origin:
    """What a table was read from: its kind, the files, and a hash of them."""

    kind: str
    sources: tuple[str, ...]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table in the lake, with its rows, and its bytes on disk."""

    name: str
    origin: Origin
    rows: int
    bytes: int


def file_of(lake: Path | Snapshot, name: str) -> Path:
    """Where the table `name` lies. Raises LakeError if there is none."""
    path = layout.snapshot_of(lake).folder(layout.table_name(name))
    if path is None:
        raise LakeError(f"{layout.snapshot_of(lake).lake} has no table {name} any more")
    return path if path.suffix == ".parquet" else path / layout.TABLE_FILE


def load(lake: Path | Snapshot, name: str) -> StoredTable:
    """What the file of the table `name` says. Raises LakeError for one that is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = file_of(lake, name)
    try:
        footer = pq.read_metadata(path)
        origin = json.loads((footer.metadata or {})[_METADATA])
        origin = Origin(origin["kind"], tuple(origin["sources"]), origin["fingerprint"])
        return StoredTable(name, origin, footer.num_rows, path.stat().st_size)
    except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError) as error:
        raise LakeError(f"{path} is damaged; read the table again with --replace") from error


def stored(lake: Path | Snapshot) -> list[StoredTable]:
    """The tables, by name. Raises LakeError."""
    return [load(lake, name) for name in layout.tables(lake)]


def write(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch], origin: Origin) -> int:
    """Write a table to `path`, which is not yet in its place, and say how many rows it has."""
    import pyarrow.parquet as pq

    described = schema.with_metadata({_METADATA: json.dumps(asdict(origin))})
    rows = 0
    writer = pq.ParquetWriter(path, described, compression="zstd", compression_level=1)
    try:
        for batch in batches:
            writer.write_batch(batch)
            rows += len(batch)
        writer.close()
    finally:
        writer.is_open = False  # else its deletion would write on, to a full disk perhaps
    return rows


def define(connection: duckdb.DuckDBPyConnection, lake: Snapshot, taken: Iterable[str]) -> None:
    """Define a view for each table, under its name, or "tables.NAME" where that is one of `taken`."""
    reserved = {name.lower() for name in taken}
    for name in layout.tables(lake):
        view = f"tables.{name}" if name.lower() in reserved else name
        source = f"read_parquet({quote_text(file_pattern(file_of(lake, name)))}, hive_partitioning = false)"
        connection.execute(f"CREATE OR REPLACE VIEW {quote_identifier(view)} AS FROM {source}")
