"""Puts the units of a step, or of a rank, into few files, so that thousands of units are read as fast as a few.

The number of files is what a query over many units costs. A compacted step has one file per table, sorted by rank and
row, with the columns step and rank: DuckDB reads only the row groups of a rank, and one file for a whole step. Copied
contents stay in a file per unit, because metrics map their bytes.

A compacted rank has one file per table for all its steps, sorted by step and row. It suits runs of many small steps,
whose files cost more than their rows. Units with copied contents stay as they are.

Compacting a run is one publication (`lakeprobe.lake.log`): the things run=R/step=S or run=R/rank=K come, and the units
that they hold go. The views and `layout.unit_place` read a unit in all forms, so no answer depends on the form.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe import resources
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import damage, layout, log, staging, views
from lakeprobe.lake.comparison import ROW_GROUP
from lakeprobe.lake.connection import connect, reason, set_spill_folder
from lakeprobe.lake.layout import UnitKey, UnitPlace
from lakeprobe.lake.log import Place, Snapshot
from lakeprobe.lake.unit import UnitWriter, opened, read_batches
from lakeprobe.resources import file_pattern, quote_text
from lakeprobe.schema import MERGED_TABLES, UNIT_TABLES, arrow_schema
from lakeprobe.system import files

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MANY_UNITS = 16
"""The number of units from which on a process compacts what it collected when it ends."""
SMALL_UNIT = 1 << 20
"""Bytes of the tables of a unit, on average, up to which its rank is compacted when collecting ends."""

_TABLES = tuple(table for table in UNIT_TABLES if table != "values")


class CompactReport(Struct, frozen=True):
    """A run after `compact` or `split`: its steps and units, and the number of their files before and now."""

    run: str
    steps: int
    units: int
    files_before: int
    files: int


class _Change(Struct, frozen=True):
    """New folders by the names of their things, and the names of the things that they replace."""

    put: dict[str, Path]
    removed: list[str]


def compact(lake: Path, run: str, by: str = "step") -> CompactReport:
    """Put the units of each step of `run`, or of each rank, into one file per table. What is compacted so stays.

    `by` is "step" or "rank". Raises UsageError for another `by` or if there is no such run, and LakeError, also if a
    unit of the run changes meanwhile; the lake is then as it was before.
    """
    if by not in ("step", "rank"):
        raise UsageError(f"--by {by} does not exist; use step or rank")
    return _change(lake, run, "compact", _compacted if by == "step" else _gathered, by)


def gather(lake: Path, run: str, rank: int) -> CompactReport | None:
    """Compact one rank of `run` if it has many small units, as a process does that has collected them.

    Returns None if it has not. Raises as `compact` does.
    """
    snapshot = log.read(lake)
    units = [key for key in layout.units(snapshot, run) if key.rank == rank]
    places = [snapshot.places[name] for name in map(layout.unit_name, units) if name in snapshot.places]
    if len(places) < MANY_UNITS:
        return None
    size = sum((lake / place.path / file).stat().st_size for place in places for file in place.files)
    if size > SMALL_UNIT * len(places):
        return None
    return _change(lake, run, "compact", _gathered, "rank", rank)


def write_rank(folder: Path, units: Mapping[UnitKey, Mapping[str, Sequence[pa.RecordBatch]]]) -> None:
    """Write a compacted rank of new units, each with the rows of its tables, into `folder`, which does not exist yet.

    None of them may have copied contents.
    """
    folder.mkdir()
    with UnitWriter(folder) as writer:
        for table in _TABLES:
            rows = {key: tables[table] for key, tables in units.items() if table in tables}
            if rows:
                writer.write_together(table, rows)
        writer.close()
    log.write_held(folder, Place("", (), tuple(sorted(key.step for key in units))))


def split(lake: Path, run: str) -> CompactReport:
    """Undo `compact`: give each unit of `run` files of its own again. Raises as `compact` does."""
    return _change(lake, run, "split", _split)


_Make = Callable[["duckdb.DuckDBPyConnection", Snapshot, list[UnitKey], Path], _Change]
"""Changes the units of a step or rank, given a connection, the lake, and a folder that does not exist yet."""


def _change(lake: Path, run: str, what: str, make: _Make, by: str = "step", rank: int | None = None) -> CompactReport:
    """Publish what `make` makes of each step or rank of `run`, or of one rank only."""
    if run not in layout.runs(lake):
        raise layout.unknown_run(lake, run)
    with staging.unchanged(lake), staging.staged(lake, what) as session, staging.reading(lake) as before:
        if any(before.files(f"run={run}/", lambda file: file.removesuffix(".parquet") in MERGED_TABLES)):
            raise UsageError(f"{run} was merged from the ranks of another run: a step of it is one unit already")
        units = [key for key in layout.units(before, run) if rank in (None, key.rank)]
        _check_files(before, units)
        groups = groupby(sorted(units, key=attrgetter(by)), key=attrgetter(by))
        with _file_errors(lake), closing(connect()) as connection:
            set_spill_folder(connection, session.folder / "spill")
            changes = [make(connection, before, list(group), session.folder / str(number)) for number, group in groups]
        put = {name: folder for change in changes for name, folder in change.put.items()}
        removed = [name for change in changes for name in change.removed]

        def check(now: Snapshot) -> None:
            if any(_thing(now, name) != _thing(before, name) for name in (*put, *removed)):
                raise LakeError(f"the run {run} changed meanwhile, and is as it was before; {what} it again")

        for folder in put.values():
            files.sync_tree(folder)
        staging.publish(session, f"{what} {run}", put, removed, check)
        after = log.read(lake)
        return CompactReport(
            run,
            len({key.step for key in units}),
            len(layout.units(after, run)),
            _files(before, run),
            _files(after, run),
        )


def _check_files(lake: Snapshot, units: Iterable[UnitKey]) -> None:
    """Raise LakeError if a file of `units` is missing. What is made of the others would not name it any more."""
    places = [place for key in units if (place := _thing(lake, layout.unit_name(key))) is not None]
    for place in dict.fromkeys(places):
        for file in place.files:
            path = lake.lake / place.path / file
            if not path.is_file():
                raise LakeError(f"{path} is missing, so the run stays as it is; read its dump again with --replace")


def _thing(snapshot: Snapshot, name: str) -> Place | None:
    """Return the place of a thing, or of what holds it if it is a unit."""
    return snapshot.places.get(log.holder(snapshot.places, name) or name)


@contextmanager
def _file_errors(lake: Path) -> Iterator[None]:
    """Turn an error of DuckDB, which reads and writes the files, into a LakeError."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        unchanged = LakeError(f"{reason(error)}; {lake} is as it was before")
        raise damage.of_query(error) or unchanged from error


def _files(snapshot: Snapshot, run: str) -> int:
    return sum(len(snapshot.places[name].files) for name in layout.unit_things(snapshot, run))


# ---- compact ----------------------------------------------------------------------------------------------


def _compacted(connection: duckdb.DuckDBPyConnection, lake: Snapshot, units: list[UnitKey], folder: Path) -> _Change:
    """Write a compacted step of its units into `folder`. Nothing if it is compacted already."""
    return _put_together(connection, lake, units, folder, layout.step_name(units[0].run, units[0].step), "rank")


def _gathered(connection: duckdb.DuckDBPyConnection, lake: Snapshot, units: list[UnitKey], folder: Path) -> _Change:
    """Write a compacted rank of its units into `folder`, but for those with copied contents."""
    small = [key for key in units if not any(layout.unit_place(lake, key).values.glob("values-*.parquet"))]
    if not small:
        return _Change({}, [])
    return _put_together(connection, lake, small, folder, layout.rank_name(small[0].run, small[0].rank), "step")


def _put_together(
    connection: duckdb.DuckDBPyConnection, lake: Snapshot, units: list[UnitKey], folder: Path, thing: str, number: str
) -> _Change:
    """Write the units into `folder`, which becomes `thing`. It holds them by their step or rank."""
    coming = [name for name in map(layout.unit_name, units) if log.holder(lake.places, name) != thing]
    if not coming and not lake.places[thing].stale:
        return _Change({}, [])
    folder.mkdir()
    places = {key: layout.unit_place(lake, key) for key in units}
    for table in _TABLES:
        _write_table(connection, folder / f"{table}.parquet", places)
    for key, place in places.items():
        _link_values(place.values, folder / layout.values_of(key.rank))
    log.write_held(folder, Place("", (), tuple(getattr(key, number) for key in units)))
    _date(folder, [place.folder for place in places.values()])
    return _Change({thing: folder}, coming)


def _write_table(connection: duckdb.DuckDBPyConnection, path: Path, places: dict[UnitKey, UnitPlace]) -> None:
    """Write the file `path` of a compacted thing from those of its name that its units have."""
    units = [
        (str(place.folder / path.name), place.held is not None, key.step, key.rank)
        for key, place in places.items() if (place.folder / path.name).exists()
    ]  # fmt: skip
    if not units:
        return
    views.define_columns(connection, "step", {"step": "INTEGER", "rank": "INTEGER"} | views.columns_of(path.stem))
    sources = dict.fromkeys(file_pattern(Path(file)) for file, *_ in units)
    connection.execute("SET VARIABLE step_files = $files", {"files": list(sources)})
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE step_units (filename VARCHAR, is_held BOOLEAN, step INTEGER, rank INTEGER)"
    )
    connection.execute(
        "INSERT INTO step_units SELECT unnest($files), unnest($are_held), unnest($steps), unnest($ranks)",
        dict(zip(("files", "are_held", "steps", "ranks"), map(list, zip(*units, strict=True)), strict=True)),
    )
    form = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP}"
    connection.execute(f"COPY ({resources.sql('catalog/step_rows')}) TO {quote_text(str(path))} ({form})")


# ---- split ------------------------------------------------------------------------------------------------


def _split(_: duckdb.DuckDBPyConnection, lake: Snapshot, units: list[UnitKey], folder: Path) -> _Change:
    """Write a folder for each compacted unit of a step into `folder`."""
    folder.mkdir()
    put = {}
    for key in units:
        thing = log.holder(lake.places, layout.unit_name(key))
        if thing is None:
            continue
        place, own = layout.unit_place(lake, key), folder / str(key.rank)
        own.mkdir()
        _write_unit(own, place, lake.places[thing].files)
        _date(own, [place.folder])
        put[layout.unit_name(key)] = own
    return _Change(put, [])


def _write_unit(folder: Path, unit: UnitPlace, names: Sequence[str]) -> None:
    """Write the tables of a unit, of which the files are `names`, as `ingest` does."""
    import pyarrow as pa

    with UnitWriter(folder) as writer:
        for table in _TABLES:
            if f"{table}.parquet" in names:
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
