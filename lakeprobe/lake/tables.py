"""The result tables of other tools in a lake: the file of each, its metadata, and its view.

Each table is one file. The file's own metadata says what it was read from, so no second file can disagree.

A table is queried by its name. If the lake's own tables, lakeprobe's bundled tables or a comparison use that name, the
table is queried as "tables.NAME".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from lakeprobe.errors import LakeError
from lakeprobe.lake import layout
from lakeprobe.lake.log import Snapshot
from lakeprobe.resources import file_pattern, quote_identifier, quote_text
from lakeprobe.system.files import readable, refuse_special

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_METADATA = b"lakeprobe"


class Origin(Struct, frozen=True):
    """What a table was read from: its kind, the files, and a hash of the files."""

    kind: str
    sources: tuple[str, ...]
    fingerprint: str


class StoredTable(Struct, frozen=True):
    """A table in the lake, with its number of rows and its bytes on disk."""

    name: str
    origin: Origin
    rows: int
    bytes: int


def file_of(lake: Path | Snapshot, name: str) -> Path:
    """Return the file of the table `name`. Raises LakeError if there is none."""
    path = layout.snapshot_of(lake).folder(layout.table_name(name))
    if path is None:
        raise LakeError(f"{layout.snapshot_of(lake).lake} has no table {name} any more")
    return path if path.suffix == ".parquet" else path / layout.TABLE_FILE


def load(lake: Path | Snapshot, name: str) -> StoredTable:
    """Return the metadata of the table `name`. Raises LakeError if it is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = file_of(lake, name)
    try:
        footer = pq.read_metadata(readable(path))
        origin = json.loads((footer.metadata or {})[_METADATA])
        origin = Origin(origin["kind"], tuple(origin["sources"]), origin["fingerprint"])
        return StoredTable(name, origin, footer.num_rows, path.stat().st_size)
    except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError) as error:
        raise LakeError(f"{path} is damaged; read the table again with --replace") from error


def stored(lake: Path | Snapshot) -> list[StoredTable]:
    """Return the tables, sorted by name. Raises LakeError."""
    return [load(lake, name) for name in layout.tables(lake)]


def write(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch], origin: Origin) -> int:
    """Write a table to `path`, which is a staged file. Returns the number of rows."""
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
        writer.is_open = False  # otherwise its destructor would write on, perhaps to a full disk
    return rows


def define(connection: duckdb.DuckDBPyConnection, lake: Snapshot, taken: Iterable[str]) -> None:
    """Define a view for each table under its name, or under "tables.NAME" if the name is one of `taken`."""
    reserved = {name.lower() for name in taken}
    for name in layout.tables(lake):
        view = f"tables.{name}" if name.lower() in reserved else name
        file = file_of(lake, name)
        refuse_special([file])
        source = f"read_parquet({quote_text(file_pattern(file))}, hive_partitioning = false)"
        connection.execute(f"CREATE OR REPLACE VIEW {quote_identifier(view)} AS FROM {source}")
