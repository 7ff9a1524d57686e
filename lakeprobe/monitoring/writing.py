"""Puts the series of a training process into the lake, in parts, by a thread of its own.

A part is published every few seconds, so that others can watch. A process that is killed loses what came after its last
part. When the training ends, the parts become one, with the number 0, which says that the series has ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lakeprobe.errors import LakeError, LakeprobeError
from lakeprobe.lake import layout, log, staging, store
from lakeprobe.schema import arrow_schema
from lakeprobe.system import files

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_ROWS = 200_000
"""The number of rows that are published at once, however few seconds they took."""


class Key(NamedTuple):
    """What a row is of: the name of a tensor or number, the point, and the metric."""

    name: str
    point: str
    metric: str


Row = tuple[int, int | None, Key, float | None, str | None, bytes | None]
"""One measured value: step, micro step and key, then a number or a text, or as a number of elements and their signs.

A step makes hundreds of them, and a plain tuple takes a tenth of the time of one with names.
"""


class SeriesWriter:
    """Writes the series of one rank of a run. `put` never waits for the disk."""

    def __init__(self, lake: Path, run: str, rank: int, seconds: float, *, replace: bool) -> None:
        """Begin a series. A part is published every `seconds`.

        Raises UsageError for a name that no run may have, and LakeError if the lake has the series or cannot be
        written.
        """
        self.lake = store.create(lake)
        self.run = layout.check_name(run, "run")
        self.rank = rank
        self._seconds = seconds
        self._rows: list[Row] = []
        self._next_part = 1
        self.published: Callable[[], None] = lambda: None
        """Called in the thread that writes, when something new is in the lake."""
        self._error: Exception | None = None
        self._wake = threading.Condition()
        self._closing = False
        self._begin(replace)
        self._presence = staging.note_presence(self.lake, layout.series_label(run, rank))
        self._thread = threading.Thread(target=self._write, name="lakeprobe-series", daemon=True)
        self._thread.start()

    def _begin(self, replace: bool) -> None:
        old = layout.series_parts(self.lake, self.run).get(self.rank, [])
        if old and not replace:
            raise LakeError(
                f"{self.lake} has the series of run {self.run} rank {self.rank}; choose another name, or replace it"
            )
        if old:
            with staging.unchanged(self.lake), staging.staged(self.lake, "series") as session:
                staging.publish(session, f"replace the series of {self.run}", {}, self._names(old))

    def put(self, rows: Sequence[Row]) -> None:
        """Take the rows of a step. Raises the error with which writing failed."""
        with self._wake:
            if self._error is not None:
                raise self._error
            self._rows += rows
            if len(self._rows) >= _MOST_ROWS:
                self._wake.notify()

    def close(self) -> None:
        """Write what is left and make one part of all. Raises LakeError."""
        with self._wake:
            if self._closing:
                return
            self._closing = True
            self._wake.notify()
        self._thread.join()
        if self._error is not None:
            raise self._error
        self._merge()
        self._presence.unlink(missing_ok=True)

    def _write(self) -> None:
        """Publish what came, until the series is closed."""
        due = time.monotonic() + self._seconds
        while True:
            with self._wake:
                while not self._closing and len(self._rows) < _MOST_ROWS and (left := due - time.monotonic()) > 0:
                    self._wake.wait(left)
                rows, self._rows = self._rows, []
                closing = self._closing
            due = time.monotonic() + self._seconds
            try:
                self._presence.touch()
                if rows:
                    self._publish(_table(rows))
                    self.published()
            except (LakeprobeError, OSError) as error:
                self._error = error
                return
            if closing:
                return

    def _publish(self, table: pa.Table) -> None:
        with staging.unchanged(self.lake), staging.staged(self.lake, "series") as session:
            put = {layout.series_name(self.run, self.rank, self._next_part): _written(session.folder, table)}
            staging.publish(session, f"series of {self.run}", put)
        self._next_part += 1

    def _merge(self) -> None:
        """Publish all parts as one, in the order in which they were measured."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        snapshot = log.read(self.lake)
        parts = layout.series_parts(snapshot, self.run).get(self.rank, [])
        folders = (snapshot.folder(name) for name in self._names(parts))
        read = [folder / layout.SERIES_FILE for folder in folders if folder is not None]
        tables = [pq.read_table(files.readable(file), partitioning=None) for file in read]
        whole = pa.concat_tables(tables) if tables else _schema().empty_table()
        with staging.unchanged(self.lake), staging.staged(self.lake, "series") as session:
            put = {layout.series_name(self.run, self.rank, 0): _written(session.folder, whole)}
            staging.publish(session, f"end the series of {self.run}", put, self._names(parts))

    def _names(self, parts: Sequence[int]) -> list[str]:
        return [layout.series_name(self.run, self.rank, part) for part in parts]


def _schema() -> pa.Schema:
    """The columns of a file: run and rank stand in its path."""
    import pyarrow as pa

    return pa.schema([field for field in arrow_schema("series") if field.name not in ("run", "rank")])


def _table(rows: Sequence[Row]) -> pa.Table:
    """Return the rows as columns. Keys, of which each step has the same, become Arrow's once."""
    import pyarrow as pa

    steps, micro_steps, keys, *values = zip(*rows, strict=True)
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    of_rows = pa.array([places[key] for key in keys])
    parts = [pa.array(part, pa.string()).take(of_rows) for part in zip(*places, strict=True)]
    columns = [steps, micro_steps, *parts, *values]
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, _schema(), strict=True)], schema=_schema()
    )


def _written(folder: Path, table: pa.Table) -> Path:
    import pyarrow.parquet as pq

    place = folder / "series"
    place.mkdir()
    pq.write_table(table, place / layout.SERIES_FILE, compression="zstd", compression_level=1)
    files.sync_tree(place)
    return place
