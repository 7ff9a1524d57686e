"""Reads everything under a path into the lake: all units of all runs, or nothing if one of them cannot be read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from lakeprobe.errors import DumpError, LakeError, UsageError
from lakeprobe.ingest.tables import TableReport, check_tables_free, read_tables
from lakeprobe.ingest.unit import Again, UnitReport, UnitTask, check_free, ingest_unit, known_fingerprint, source_of
from lakeprobe.lake import layout, shards, staging, store
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.log import Snapshot
from lakeprobe.lake.shards import Pending, Shard
from lakeprobe.lake.staging import Session
from lakeprobe.lake.unit import read_dump
from lakeprobe.readers import archive
from lakeprobe.readers.locate import Located, locate
from lakeprobe.readers.source import Source
from lakeprobe.system.files import absolute, expanded
from lakeprobe.system.storage import RemotePath
from lakeprobe.work import Progress, run_all

_Unit = tuple[UnitKey, tuple[Source, ...]]
"""A unit, and the sources to read into it."""

_SECONDS_TO_START = 0.3
_BYTES_TO_READ = 400 << 20
_JSON_PER_SECOND = 40e6
_TENSORS_PER_SECOND = {"copy": 1e9, "link": 5e9}
"""Bytes read per second, measured on two cores (benchmarks/README.md). They only decide when to share the work."""


class IngestReport(Struct, frozen=True):
    """What an ingest did: the runs, a report per unit and per table, and the wall time in seconds."""

    runs: tuple[str, ...]
    units: tuple[UnitReport, ...]
    seconds: float
    tables: tuple[TableReport, ...] = ()
    pending: Pending | None = None
    """If this was a shard: how far all shards of the run are. When they have finished, the run is in the lake."""
    remarks: tuple[str, ...] = ()

    @property
    def run(self) -> str:
        """The name of the run. Raises UsageError unless there is exactly one."""
        if len(self.runs) != 1:
            raise UsageError(f"{len(self.runs)} runs were read: {', '.join(self.runs) or 'none'}; use runs")
        return self.runs[0]

    @property
    def read(self) -> tuple[UnitReport, ...]:
        """The units that were read. The lake already has the others from the same dump."""
        return tuple(unit for unit in self.units if unit.read)

    @property
    def notes(self) -> list[str]:
        """What was left out or assumed, each with its unit or table."""
        notes = [f"{unit.key}: {note}" for unit in self.units for note in unit.notes]
        return [*self.remarks, *notes] + [
            f"table {table.name}: {note}" for table in self.tables for note in table.notes
        ]


def ingest(
    path: str | os.PathLike[str],
    *,
    lake: str | os.PathLike[str] | None = None,
    run: str | None = None,
    tensors: str = "copy",
    replace: bool = False,
    steps: Sequence[int] = (),
    ranks: Sequence[int] = (),
    shard: str | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> IngestReport:
    """Read everything under `path` (folder, file or archive) into `lake`: dumps into runs, result tables into tables.

    A run is named after its folder, or `run` if there is only one. `tensors` says where tensor contents go: `copy` into
    the lake, `link` to the dump's files, or `none`. If `steps` or `ranks` are given, only their dumps are read. What
    the lake already has is left alone, unless `replace` is set. `jobs` is the number of processes. In a script, more
    than one needs the usual `if __name__ == "__main__":`.

    With `shard`, such as "3/8", this process reads its share of the units of one run. They are in the lake once all
    shards have finished: the last one publishes them (`publish_run`).

    Raises DumpError, LakeError and UsageError. The lake is then as it was before.
    """
    layout.check_storage(tensors)
    part = Shard.of(shard) if shard else None
    started = time.monotonic()
    with opened(absolute(path), tensors) as top:
        found = locate(top, steps, ranks)
        runs = named(top, found.runs, run)
        if part and len(runs) != 1:
            raise UsageError(f"{path} holds {len(runs)} runs, and shards read one together; give the folder of one run")
        remarks = {} if run is not None else renamed(top, runs)
        into = store.create(store.choose(lake))
        _check_unmixed(into, {name: runs[name] for name in remarks})
        again = Again.ALWAYS if replace else Again.NEVER
        if part:
            told = (*remarks.values(), *_left_out(found.tables))
            return _ingest_shard(into, runs, tensors, again, part, jobs, progress, told, started)
        with _session(into) as session:
            tables = read_tables(session, found.tables, replace, None if found.runs else run)
            tasks, units = _read_units(session, _units_of(runs), tensors, again, jobs, progress)
            _publish(session, f"ingest {path}", tasks, units, tables)
        seconds = time.monotonic() - started
        return IngestReport(tuple(runs), tuple(units), seconds, tuple(tables), remarks=tuple(remarks.values()))


def _ingest_shard(
    lake: Path,
    runs: Mapping[str, Located],
    tensors: str,
    again: Again,
    shard: Shard,
    jobs: int,
    progress: Progress | None,
    remarks: tuple[str, ...],
    started: float,
) -> IngestReport:
    """Read one shard of the only run in `runs`, and publish the run if this shard is the last."""
    [run] = runs
    with _session(lake) as session:
        shards.begin(session, "run", run, shard)
        every = _units_of(runs)
        tasks, units = _read_units(session, shard.share(every), tensors, again, jobs, progress)
        put = {layout.unit_name(task.key): task.staged for task, unit in zip(tasks, units, strict=True) if unit.read}
        plan = shards.plan_of(run, [key for key, _ in every], tensors, again)
        pending = shards.keep(session, "run", run, shard, plan, put, {"again": again})
    if pending.is_whole:
        publish_run(lake, run)
    return IngestReport((run,), tuple(units), time.monotonic() - started, (), pending, remarks)


def _left_out(tables: Sequence[object]) -> tuple[str, ...]:
    many = f"{len(tables)} result tables were left out; ingest them without --shard"
    return (many,) if tables else ()


def publish_run(lake: Path, run: str) -> int:
    """Put everything that the shards of `run` have read in the lake at once. Returns the number of units.

    Raises LakeError unless all shards have finished, and UsageError if there are none.
    """
    with _session(lake) as session:
        made = shards.whole(lake, run)
        names = sorted(name for one in made.finished for name in one.put)
        with shards.understanding(made):
            is_new = Again(made.finished[0].described["again"]) is Again.NEVER

        def check(snapshot: Snapshot) -> None:
            taken = [name for name in names if is_new and name in snapshot.places]
            if taken:
                raise LakeError(
                    f"{lake}: {taken[0]} came into the lake from elsewhere; nothing is replaced: "
                    f"lakeprobe publish {run} --discard forgets the shards"
                )

        shards.publish(session, made, names, check)
        return len(names)


@contextmanager
def opened(path: Path, tensors: str) -> Iterator[Path]:
    """Yield the folder with the content of the archive `path`, or any other path as it is.

    Raises DumpError and UsageError.
    """
    if isinstance(path, RemotePath) and tensors == "link":
        raise UsageError(f"{path}: tensors on remote storage cannot be linked to; use --tensors copy or none")
    if _is_file(path) and archive.is_archive(path):
        if isinstance(path, RemotePath):
            raise UsageError(f"{path} is an archive on remote storage; copy it to this machine, or unpack it there")
        with archive.opened(path, tensors) as top:
            yield top
    else:
        yield path


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:  # of remote storage, which answers late or not at all
        raise DumpError(f"{path} cannot be read: {error.strerror}") from error


def named(path: Path, found: Sequence[Located], run: str | None = None) -> dict[str, Located]:
    """Return the runs found under `path` by name: the folder's name, or `run` if there is only one run.

    Several runs are named after the folders on the way to them: L1_stat.golden. Raises UsageError.
    """
    if len(found) == 1 and run is not None:
        return {layout.check_name(run, "run"): found[0]}
    if run is not None and len(found) > 1:
        raise UsageError(f"{path} holds {len(found)} runs, which cannot all be called {run}; leave --run out")
    runs: dict[str, Located] = {}
    for text, located in zip(_folder_texts(path, found), found, strict=True):
        name = layout.name_after(text)
        if name in runs:
            raise UsageError(
                f"{runs[name].root} and {located.root} would both be the run {name}; ingest them one by one, with --run"
            )
        runs[name] = located
    return runs


def run_name(located: Located) -> str:
    """Return the default name of a run, after its folder. Raises UsageError if that has no name."""
    return layout.name_after(_folder_text(located))


def renamed(path: Path, runs: Mapping[str, Located]) -> dict[str, str]:
    """Return a remark for each of the `runs` under `path` that cannot be called what its folder is called, by name."""
    texts = _folder_texts(path, list(runs.values()))
    return {
        name: f"{located.root} is the run {name}: a name has {layout.NAME_RULE}"
        for text, (name, located) in zip(texts, runs.items(), strict=True)
        if layout.name_after(text) != text
    }


def _check_unmixed(lake: Path, runs: Mapping[str, Located]) -> None:
    """Raise UsageError if the lake has one of these `runs`, whose names are not their folders', from another folder."""
    for name, located in runs.items():
        for key in layout.units(lake, name)[:1]:
            source = expanded(str(read_dump(layout.unit_place(lake, key))["source"]))
            if source.resolve() != source_of(located.sources).resolve():
                raise UsageError(
                    f"{located.root} would be the run {name}, which {lake} has from {source}; give it another --run"
                )


def _folder_texts(path: Path, found: Sequence[Located]) -> list[str]:
    """Return what each of the runs `found` under `path` is called by its folders."""
    if len(found) == 1:
        return [_folder_text(found[0])]
    top = absolute(path)
    return [
        ".".join(located.root.relative_to(top).parts)
        if located.root != top and located.root.is_relative_to(top)
        else _folder_text(located)
        for located in found
    ]


def _folder_text(located: Located) -> str:
    if not located.root.name:
        raise UsageError(f"{located.root} has no name to call the run by; give one with --run")
    return archive.stem(located.root.name)


def read_dumps(
    lake: Path,
    runs: Mapping[str, Located],
    tensors: str | None,
    again: Again,
    jobs: int,
    progress: Progress | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> list[UnitReport]:
    """Read the located dumps of each run, then put all units in the lake. If one fails, none is put there.

    If `tensors` is None, contents are stored as in the unit that the lake has, or copied if it has none. `meanwhile` is
    called while other processes read.
    """
    with _session(lake) as session:
        tasks, reports = _read_units(session, _units_of(runs), tensors, again, jobs, progress, meanwhile)
        _publish(session, f"ingest {', '.join(runs)}", tasks, reports, ())
    return reports


@contextmanager
def _session(lake: Path) -> Iterator[Session]:
    """Yield a session that writes into `lake`. The units in the lake stay readable until it ends."""
    with staging.unchanged(lake), staging.staged(lake, "ingest") as session, staging.reading(lake):
        yield session


def _read_units(
    session: Session,
    units: Sequence[_Unit],
    tensors: str | None,
    again: Again,
    jobs: int,
    progress: Progress | None,
    meanwhile: Callable[[], object] | None = None,
) -> tuple[list[UnitTask], list[UnitReport]]:
    """Read each unit into a folder of the session."""
    tasks = [
        UnitTask(
            session.lake, key, sources, session.folder / str(number), tensors or _storage(session.lake, key), again
        )
        for number, (key, sources) in enumerate(units)
    ]
    return tasks, run_all(
        ingest_unit, tasks, _worthwhile(jobs, tasks), staging.renewing(session, progress), meanwhile=meanwhile,
        memory=_memory,
    )  # fmt: skip


def _units_of(runs: Mapping[str, Located]) -> list[_Unit]:
    """Return the units that the located dumps of each run make, in order."""
    return [
        (UnitKey(run, step, rank), tuple(sources))
        for run, located in runs.items()
        for (step, rank), sources in groupby(located.sources, lambda source: (source.step, source.rank))
    ]


def _publish(
    session: Session, what: str, tasks: Sequence[UnitTask], units: Sequence[UnitReport], tables: Sequence[TableReport]
) -> None:
    """Put everything that was read in the lake at once. Raises LakeError if some of it has come there meanwhile."""
    read = [task for task, unit in zip(tasks, units, strict=True) if unit.read]

    def check(snapshot: Snapshot) -> None:
        check_free(read, snapshot)
        check_tables_free(tables, snapshot)

    put = {layout.unit_name(task.key): task.staged for task in read}
    put |= {layout.table_name(table.name): table.staged for table in tables if table.staged}
    staging.publish(session, what, put, before=check)


def _storage(lake: Path, key: UnitKey) -> str:
    known = known_fingerprint(lake, key)
    return known[1] if known else "copy"


def _worthwhile(jobs: int, tasks: Sequence[UnitTask]) -> int:
    """Return `jobs`, or 1 if everything is read before another process would have started."""
    return jobs if sum(_seconds(task) for task in tasks) > _SECONDS_TO_START else 1


def _memory(task: UnitTask) -> int:
    """Return the bytes of memory to ask a cluster for: reading keeps little of a dump (benchmarks/README.md)."""
    return _BYTES_TO_READ + sum(file.stat().st_size for source in task.sources for file in source.files) // 4


def _seconds(task: UnitTask) -> float:
    """Return an estimate of the seconds to read the sources of `task`."""
    described = sum(file.stat().st_size for source in task.sources for file in source.files)
    if task.tensors == "none":
        return described / _JSON_PER_SECOND
    tensors = sum(_size(source.tensors) for source in task.sources if source.tensors is not None)
    return described / _JSON_PER_SECOND + tensors / _TENSORS_PER_SECOND[task.tensors]


def _size(folder: Path) -> int:
    """Return the bytes of the files in `folder`, or 0 if it does not exist."""
    try:
        return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    except OSError:
        return 0
