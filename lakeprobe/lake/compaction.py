"""Puts the units of a step into few files, so that a lake of thousands of units is read as fast as a small one.

The number of files is what a query over many units costs. A compacted step has one file per table, sorted by rank and
row, with the columns step and rank: DuckDB reads only the row groups of a rank, and one file for a whole step. Copied
contents stay in a file per unit, because metrics map their bytes.

Compacting a run is one publication (`lakeprobe.lake.log`): the things run=R/step=S come, and the units that they hold
go. The views and `layout.unit_place` read a unit in both forms, so no answer depends on the form.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe import resources
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import layout, log, staging, views
from lakeprobe.lake.comparison import ROW_GROUP
from lakeprobe.lake.connection import connect, set_spill_folder
from lakeprobe.lake.layout import UnitKey, UnitPlace
from lakeprobe.lake.log import Place, Snapshot
from lakeprobe.lake.unit import UnitWriter, opened, read_batches
from lakeprobe.resources import file_pattern, quote_text
from lakeprobe.schema import MERGED_TABLES, UNIT_TABLES, arrow_schema
from lakeprobe.system import files

if TYPE_CHECKING:
    import duckdb

_TABLES = tuple(table for table in UNIT_TABLES if table != "values")


@dataclass(frozen=True, slots=True)
class CompactReport:
    """A run after `compact` or `split`: its steps and units, and the number of their files before and now."""

    run: str
    steps: int
    units: int
    files_before: int
    files: int


@dataclass(frozen=True, slots=True)
class _Change:
    """New folders by the names of their things, and the names of the things that they replace."""

    put: dict[str, Path]
    removed: list[str]


def compact(lake: Path, run: str) -> CompactReport:
    """Put the units of each step of `run` into one file per table. Steps that are compacted stay as they are.

    Raises UsageError if there is no such run, and LakeError, also if a unit of the run changes meanwhile; the lake is
    then as it was before.
    """
    return _change(lake, run, "compact", _compacted)


def split(lake: Path, run: str) -> CompactReport:
    """Undo `compact`: give each unit of `run` files of its own again. Raises as `compact` does."""
    return _change(lake, run, "split", _split)


_Make = Callable[["duckdb.DuckDBPyConnection", Snapshot, list[UnitKey], Path], _Change]
"""Changes the units of a step, given a connection, the lake, and a folder that does not exist yet."""


def _change(lake: Path, run: str, what: str, make: _Make) -> CompactReport:
    """Publish what `make` makes of each step of `run`."""
    if run not in (runs := layout.runs(lake)):
        raise UsageError(f"{run} is not a run in {lake} (there: {', '.join(runs) or 'none'})")
    with staging.unchanged(lake), staging.staged(lake, what) as session, staging.reading(lake) as before:
        if any(before.files(f"run={run}/", lambda file: file.removesuffix(".parquet") in MERGED_TABLES)):
            raise UsageError(f"{run} was merged from the ranks of another run: a step of it is one unit already")
        steps = groupby(layout.units(before, run), key=attrgetter("step"))
        with _file_errors(lake), closing(connect()) as connection:
            set_spill_folder(connection, session.folder / "spill")
            changes = [make(connection, before, list(units), session.folder / str(step)) for step, units in steps]
        put = {name: folder for change in changes for name, folder in change.put.items()}
        removed = [name for change in changes for name in change.removed]

        def check(now: Snapshot) -> None:
            if any(now.places.get(name) != before.places.get(name) for name in (*put, *removed)):
                raise LakeError(f"the run {run} changed meanwhile, and is as it was before; {what} it again")

        for folder in put.values():
            files.sync_tree(folder)
        staging.publish(session, f"{what} {run}", put, removed, check)
        after = log.read(lake)
        return CompactReport(run, len(changes), len(layout.units(after, run)), _files(before, run), _files(after, run))


@contextmanager
def _file_errors(lake: Path) -> Iterator[None]:
    """Turn an error of DuckDB, which reads and writes the files, into a LakeError."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise LakeError(f"{str(error).strip().splitlines()[0]}; {lake} is as it was before") from error


def _files(snapshot: Snapshot, run: str) -> int:
    return sum(len(snapshot.places[name].files) for name in layout.unit_things(snapshot, run))


# ---- compact ----------------------------------------------------------------------------------------------


def _compacted(connection: duckdb.DuckDBPyConnection, lake: Snapshot, units: list[UnitKey], folder: Path) -> _Change:
    """Write a compacted step of its units into `folder`. Nothing if it is compacted already."""
    step = layout.step_name(units[0].run, units[0].step)
    own = [name for name in map(layout.unit_name, units) if name in lake.places]
    if not own and not lake.places[step].stale:
        return _Change({}, [])
    folder.mkdir()
    places = {key: layout.unit_place(lake, key) for key in units}
    for table in _TABLES:
        _write_table(connection, folder / f"{table}.parquet", places)
    for key, place in places.items():
        _link_values(place.values, folder / layout.values_of(key.rank))
    log.write_held(folder, Place("", (), tuple(key.rank for key in units)))
    _date(folder, [place.folder for place in places.values()])
    return _Change({step: folder}, own)


def _write_table(connection: duckdb.DuckDBPyConnection, path: Path, places: dict[UnitKey, UnitPlace]) -> None:
    """Write the file `path` of a compacted step from those of its name that its units have."""
    units = [
        (str(place.folder / path.name), place.rank, key.step, key.rank)
        for key, place in places.items() if (place.folder / path.name).exists()
    ]  # fmt: skip
    if not units:
        return
    views.define_columns(connection, "step", {"rank": "INTEGER"} | views.columns_of(path.stem))
    sources = dict.fromkeys(file_pattern(Path(file)) for file, *_ in units)
    connection.execute("SET VARIABLE step_files = $files", {"files": list(sources)})
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE step_units (filename VARCHAR, of_rank INTEGER, step INTEGER, rank INTEGER)"
    )
    connection.execute(
        "INSERT INTO step_units SELECT unnest($files), unnest($of_ranks), unnest($steps), unnest($ranks)",
        dict(zip(("files", "of_ranks", "steps", "ranks"), map(list, zip(*units, strict=True)), strict=True)),
    )
    form = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP}"
    connection.execute(f"COPY ({resources.sql('catalog/step_rows')}) TO {quote_text(str(path))} ({form})")


# ---- split ------------------------------------------------------------------------------------------------


def _split(_: duckdb.DuckDBPyConnection, lake: Snapshot, units: list[UnitKey], folder: Path) -> _Change:
    """Write a folder for each unit of a compacted step into `folder`. Nothing if the step is not compacted."""
    step = layout.step_name(units[0].run, units[0].step)
    if step not in lake.places:
        return _Change({}, [])
    folder.mkdir()
    put = {}
    for key in layout.units_of(step, lake.places[step].ranks):
        place, own = layout.unit_place(lake, key), folder / str(key.rank)
        own.mkdir()
        _write_unit(own, place, lake.places[step].files)
        _date(own, [place.folder])
        put[layout.unit_name(key)] = own
    return _Change(put, [step])


def _write_unit(folder: Path, unit: UnitPlace, there: Sequence[str]) -> None:
    """Write the tables of a unit, of which the files are `there`, as `ingest` does."""
    import pyarrow as pa

    with UnitWriter(folder) as writer:
        for table in _TABLES:
            if f"{table}.parquet" in there:
                schema = arrow_schema(table)
                with opened(unit, table) as file:
                    writer.write(table, pa.RecordBatch.from_pylist([], schema=schema))
                    for batch in read_batches(unit, file, schema.names):
                        writer.write(table, batch.cast(schema))
        writer.close()
    _link_values(unit.values, folder)


# ---- both -------------------------------------------------------------------------------------------------


def _link_values(source: Path, folder: Path) -> None:
    """Link the files with the copied contents of a unit into `folder`, if there are any."""
    for file in sorted(source.glob("values-*.parquet")):
        folder.mkdir(exist_ok=True)
        files.link_or_copy(file, folder / file.name)


def _date(folder: Path, originals: Iterable[Path]) -> None:
    """Give `folder` the time of the newest original: it is shown as the time when a run was read."""
    newest = max(original.stat().st_mtime for original in originals)
    os.utime(folder, (newest, newest))
