"""Reads the result tables of other tools into the lake: every table, or none if one cannot be read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import xxhash

from lakeprobe.errors import DumpError, LakeError
from lakeprobe.lake import layout, staging, tables
from lakeprobe.lake.tables import Origin
from lakeprobe.readers import foreign_tables
from lakeprobe.readers.foreign_tables import ForeignTable, TableFile
from lakeprobe.system.files import blocks


@dataclass(frozen=True, slots=True)
class TableReport:
    """What became of one table. `staged` is where it was written, None where the lake has it from the same files."""

    name: str
    kind: str
    files: tuple[Path, ...]
    rows: int
    bytes: int
    notes: tuple[str, ...] = ()
    staged: Path | None = None

    @property
    def read(self) -> bool:
        """Whether the table was read; else it is in the lake already."""
        return self.staged is not None


@contextmanager
def staged_tables(
    lake: Path, files: Sequence[TableFile], replace: bool, run: str | None = None
) -> Iterator[list[TableReport]]:
    """Read the tables that `files` are, and put them into `lake` when the context ends without an error.

    Their names begin with `run` if it is given. A table that is there from the same files is left alone. Raises
    DumpError for a file that cannot be read, and LakeError where the lake has another table of that name and not
    `replace`; the lake is then as it was before.
    """
    if not files:
        yield []
        return
    with staging.unchanged(lake), staging.staged(lake, "tables") as folder:
        reports = read_tables(lake, foreign_tables.gather(files, run), folder, replace)
        yield reports
        put_in_place(lake, reports, replace)


def read_tables(lake: Path, found: Sequence[ForeignTable], folder: Path, replace: bool) -> list[TableReport]:
    """Read the tables `found` into files in the staged `folder`. Raises DumpError and LakeError."""
    there = {name.lower(): name for name in tables.names(lake)}
    return [
        _read(lake, table, there.get(table.name.lower()), folder / f"{number}.table", replace)
        for number, table in enumerate(found)
    ]


def put_in_place(lake: Path, reports: Sequence[TableReport], replace: bool) -> None:
    """Put the staged tables of `reports` in their places; none, and a LakeError, if one has come there meanwhile."""
    with staging.unchanged(lake), staging.locked(lake, "tables"):
        for report in reports:
            if report.staged and not replace and tables.file_of(lake, report.name).exists():
                raise LakeError(f"{lake}: {report.name} was written by another process meanwhile; nothing is replaced")
        for report in reports:
            if report.staged:
                tables.put_in_place(lake, report.staged, report.name)


def _read(lake: Path, table: ForeignTable, there: str | None, staged: Path, replace: bool) -> TableReport:
    name = there or layout.check_name(table.name, "table")
    files = tuple(file.path for file in table.files)
    origin = Origin(table.kind.kind, tuple(map(str, files)), _fingerprint(table))
    if there and not replace:
        known = tables.load(lake, name)
        if known.origin.fingerprint != origin.fingerprint:
            raise LakeError(
                f"the table {name} is in {lake} already, from other files than {files[0]}; "
                f"read it with --replace, or under another --run, which is put before its name"
            )
        return TableReport(name, origin.kind, files, known.rows, known.bytes)
    schema, batches = foreign_tables.read(table)
    rows = tables.write(staged, schema, batches, origin)
    notes = tuple(f"{sheet} has other headers and was left out" for sheet in table.left_out)
    return TableReport(name, origin.kind, files, rows, staged.stat().st_size, notes, staged)


def _fingerprint(table: ForeignTable) -> str:
    """XXH3-128 over the name, step, rank, size and bytes of each file."""
    state = xxhash.xxh3_128()
    for file in table.files:
        try:
            state.update(os.fsencode(f"{file.path.name} {file.step} {file.rank} {file.path.stat().st_size}\n"))
            for block in blocks(file.path):
                state.update(block)
        except OSError as error:
            raise DumpError(f"{file.path} cannot be read: {error.strerror}") from error
    return state.hexdigest()
