"""Writes the tables of one unit, batch by batch, into a staged folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe.schema import arrow_schema, table

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_UNIQUE_TEXT = frozenset(("name", "content"))
"""Columns whose values hardly repeat: a dictionary would only cost time."""


class UnitWriter:
    """Appends batches to the Parquet files of a unit. As a context, lets go of files that a failure left open."""

    def __init__(self, folder: Path) -> None:
        """Write into `folder`, which exists."""
        self.folder = folder
        self._writers: dict[str, pq.ParquetWriter] = {}

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        """Append `batch` to the table `name`."""
        self._writer(name).write_batch(batch)

    def write_rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Append `rows` to the table `name`."""
        import pyarrow as pa

        self.write(name, pa.RecordBatch.from_pylist(rows, schema=arrow_schema(name)))

    def _writer(self, name: str) -> pq.ParquetWriter:
        import pyarrow.parquet as pq

        writer = self._writers.get(name)
        if writer is None:
            repeating = [column.name for column in table(name).columns if column.name not in _UNIQUE_TEXT]
            writer = self._writers[name] = pq.ParquetWriter(
                self.folder / f"{name}.parquet", arrow_schema(name), compression="zstd", compression_level=1,
                use_dictionary=repeating,
            )  # fmt: skip
        return writer

    def close(self) -> None:
        """Finish all files."""
        for writer in self._writers.values():
            writer.close()

    def __enter__(self) -> UnitWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            writer.is_open = False  # else its deletion would write on, to a full disk perhaps
