"""Reads the result tables of other tools into the lake: all tables, or none if one cannot be read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import xxhash
from msgspec import Struct

from lakeprobe.errors import DumpError, LakeError
from lakeprobe.ingest.steady import steady
from lakeprobe.lake import layout, tables
from lakeprobe.lake.log import Snapshot
from lakeprobe.lake.staging import Session
from lakeprobe.lake.tables import Origin
from lakeprobe.readers import foreign_tables
from lakeprobe.readers.foreign_tables import ForeignTable, TableFile
from lakeprobe.system import files
from lakeprobe.system.files import blocks


class TableReport(Struct, frozen=True):
    """What became of one table. `staged` is the folder it was written to, or None if the lake already has it."""

    name: str
    kind: str
    files: tuple[Path, ...]
    rows: int
    bytes: int
    notes: tuple[str, ...] = ()
    staged: Path | None = None
    is_new: bool = False
    """Whether the lake had no table of that name."""

    @property
    def read(self) -> bool:
        """Whether the table was read. If not, the lake already has it."""
        return self.staged is not None


def read_tables(
    session: Session, found: Sequence[TableFile], replace: bool, run: str | None = None
) -> list[TableReport]:
    """Read the tables in the files `found` into folders of the session.

    Their names begin with `run` if it is given. A table that the lake has from the same files is left alone. Raises
    DumpError if a file cannot be read, and LakeError if the lake has another table of that name and `replace` is not
    set.
    """
    known = {name.lower(): name for name in layout.tables(session.lake)}
    reports = []
    for number, table in enumerate(foreign_tables.gather(found, run) if found else ()):
        with steady(file.path for file in table.files):
            staged = session.folder / f"table{number}"
            reports.append(_read(session, table, known.get(table.name.lower()), staged, replace))
    return reports


def check_tables_free(reports: Sequence[TableReport], snapshot: Snapshot) -> None:
    """Raise LakeError if another process has written a new table meanwhile."""
    for report in reports:
        if report.is_new and report.name in layout.tables(snapshot):
            raise LakeError(
                f"{snapshot.lake}: {report.name} was written by another process meanwhile; nothing is replaced"
            )


def _read(session: Session, table: ForeignTable, existing: str | None, staged: Path, replace: bool) -> TableReport:
    name = existing or layout.check_name(table.name, "table")
    paths = tuple(file.path for file in table.files)
    origin = Origin(table.kind.kind, tuple(map(str, paths)), _fingerprint(table))
    if existing and not replace:
        known = tables.load(session.lake, name)
        if known.origin.fingerprint != origin.fingerprint:
            raise LakeError(
                f"the table {name} is in {session.lake} already, from other files than {paths[0]}; "
                f"read it with --replace, or under another --run, which is put before its name"
            )
        return TableReport(name, origin.kind, paths, known.rows, known.bytes)
    schema, batches = foreign_tables.read(table)
    staged.mkdir()
    file = staged / layout.TABLE_FILE
    rows = tables.write(file, schema, batches, origin)
    files.sync_tree(staged)
    notes = tuple(f"{sheet} has other headers and was left out" for sheet in table.left_out)
    return TableReport(name, origin.kind, paths, rows, file.stat().st_size, notes, staged, existing is None)


def _fingerprint(table: ForeignTable) -> str:
    """Return the XXH3-128 hash of the name, step, rank, size and bytes of each file."""
    state = xxhash.xxh3_128()
    for file in table.files:
        try:
            state.update(os.fsencode(f"{file.path.name} {file.step} {file.rank} {file.path.stat().st_size}\n"))
            for block in blocks(file.path):
                state.update(block)
        except OSError as error:
            raise DumpError(f"{file.path} cannot be read: {error.strerror}") from error
    return state.hexdigest()
