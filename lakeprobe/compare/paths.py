"""Ingests the sides of a comparison that are given as paths.

A dump is identified by its folder and its fingerprint. A dump that has changed since the lake read it is read again, so
that no answer comes from an older one. A name that means both a run and a folder with another dump is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from shlex import quote

from msgspec import Struct
from msgspec.structs import replace as replaced

from lakeprobe import hints
from lakeprobe.compare.plan import Asked, Side
from lakeprobe.errors import DumpError, UsageError
from lakeprobe.ingest.run import IngestReport, opened, read_dumps, renamed, run_name
from lakeprobe.ingest.unit import Again, fingerprint_of, known_fingerprint, source_of
from lakeprobe.lake import layout, staging, store
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.unit import read_dump
from lakeprobe.readers.locate import Located, locate, locate_run
from lakeprobe.readers.source import Source
from lakeprobe.system.files import expanded
from lakeprobe.work import Progress


class Reading(Struct, frozen=True):
    """How to read dumps: where tensors go, whether to read again what the lake has, and with how many processes."""

    tensors: str | None
    replace: bool
    jobs: int
    progress: Progress | None


class Dump(Struct, frozen=True):
    """The sources of a dump that take part, the steps and ranks of the whole dump, and its run if it has one."""

    located: Located
    present: frozenset[tuple[int, int]]
    run: str | None = None

    @property
    def root(self) -> Path:
        """The folder of the dump."""
        return self.located.root

    @classmethod
    def whole(cls, located: Located) -> Dump:
        """Return a dump all of whose sources take part."""
        return cls(located, frozenset((source.step, source.rank) for source in located.sources))


def ingested(
    lake: Path,
    given: tuple[str | Path, str | Path],
    chosen: tuple[Sequence[int], Sequence[int]],
    reading: Reading,
) -> tuple[list[Side], tuple[IngestReport, ...], list[str]]:
    """Return both sides as units of the lake, the reports of what was read, and remarks for the user.

    Reads only the `chosen` steps and ranks of paths. Raises UsageError, DumpError and LakeError.
    """
    known = layout.runs(lake)
    notes: list[str] = []
    with ExitStack() as archives:

        def open_path(path: Path) -> Path:
            return archives.enter_context(opened(path, reading.tensors or "copy"))

        dumps = [_dump(lake, side, known, chosen, open_path, reading.replace, notes) for side in given]
        names = _names(lake, [dump for dump in dumps if isinstance(dump, Dump)], known)
        for dump in dumps:
            if isinstance(dump, Dump) and dump.run is None and names[dump.root] not in known:
                notes += renamed(dump.root, {names[dump.root]: dump.located}).values()
        runs = [dump if isinstance(dump, Asked) else Asked(dump.run or names[dump.root]) for dump in dumps]
        store.create(lake)
        started = time.monotonic()
        located: dict[str, list[Located]] = {}
        for dump, asked in zip(dumps, runs, strict=True):
            if isinstance(dump, Dump):
                located.setdefault(asked.name, []).append(dump.located)
        dumps_of = {name: _together(parts) for name, parts in located.items()}
        # to compare several pairs of units this process is forked, which is not possible once it has loaded DuckDB
        is_one_pair = all(len(dump.sources) == 1 for dump in dumps_of.values())
        again = Again.ALWAYS if reading.replace else Again.CHANGED
        units = read_dumps(
            lake, dumps_of, reading.tensors, again, reading.jobs, reading.progress,
            _import_duckdb if is_one_pair else None,
        )  # fmt: skip
    seconds = time.monotonic() - started
    reports = tuple(
        IngestReport((run,), tuple(unit for unit in units if unit.key.run == run), seconds) for run in dumps_of
    )
    sides = []
    for dump, asked in zip(dumps, runs, strict=True):
        present = tuple(layout.units(lake, asked.name))
        if isinstance(dump, Dump):
            keys = [UnitKey(asked.name, source.step, source.rank) for source in dump.located.sources]
            in_dump = (UnitKey(asked.name, step, rank) for step, rank in dump.present)
            sides.append(Side(asked.name, tuple(dict.fromkeys(keys)), tuple({*present, *in_dump})))
        else:
            sides.append(Side(asked.name, asked.chosen(present), present))
    return sides, reports, notes


def _import_duckdb() -> None:
    """Load DuckDB, which every comparison needs; it takes 0.1 s."""
    import duckdb  # noqa: F401


def _dump(
    lake: Path,
    side: str | Path,
    known: list[str],
    chosen: tuple[Sequence[int], Sequence[int]],
    open_path: Callable[[Path], Path],
    replace_it: bool,
    notes: list[str],
) -> Dump | Asked:
    """Resolve a side: a dump to read, or a run of the lake and the units asked for."""
    path, asked = expanded(side), Asked.of(str(side))
    is_run = asked.name in known and (isinstance(side, str) or not path.exists())
    if not is_run:
        if path.exists():
            return _located(open_path(_absolute(path)), *chosen)
        if isinstance(side, str) and expanded(asked.name).exists():
            whole = _located(open_path(_absolute(expanded(asked.name))), *chosen)
            return _only(whole, asked)
        raise layout.unknown_run(lake, str(side), "there is no such path either")
    here = _dump_here(asked.name, chosen, open_path)
    if here is not None and _was_read_from(lake, asked.name, here.located):
        return replaced(_only(here, asked), run=asked.name)
    if here is not None and not _is_unchanged(lake, asked.name, here.located):
        raise UsageError(
            f"{asked.name} is a run in {lake}, and the folder {here.root} holds another dump; "
            f"write ./{asked.name} for the folder, or rename the run"
        )
    if replace_it:
        source = _source(lake, asked.name)
        if source is not None:
            below = _below(open_path(source), _read_from(lake, asked.name), chosen)
            return replaced(_only(below, asked), run=asked.name)
        if not _is_of_the_lake(lake, asked.name):
            notes.append(f"{asked.name}: its dump no longer exists, so the run stays as it is")
    elif here is not None:
        notes.append(f"{asked.name}: in the lake since {_since(lake, asked.name)}, the same dump as {here.root}")
    return asked


def _absolute(path: Path) -> Path:
    """Return `path` without `..`, so that its folders can name a run."""
    return path.resolve() if ".." in path.parts else path


def _located(path: Path, steps: Sequence[int], ranks: Sequence[int]) -> Dump:
    """Return the dump at `path`. A path inside a dump gives the sources below it, ranked as in the whole dump."""
    inside = locate_run(path, steps, ranks)
    if inside.root == path.absolute() or not path.absolute().is_relative_to(inside.root):
        return Dump.whole(inside)
    whole = next(run for run in locate(inside.root).runs if run.root == inside.root)
    wanted = {(source.folder, source.files) for source in inside.sources}
    chosen = Located(whole.root, tuple(it for it in whole.sources if (it.folder, it.files) in wanted))
    return replaced(Dump.whole(whole), located=chosen)


def _only(dump: Dump, asked: Asked) -> Dump:
    """Return `dump` with only the sources of the step and rank asked for."""
    sources = dump.located.sources
    keys = [UnitKey(asked.name, source.step, source.rank) for source in sources]
    wanted = set(asked.chosen(keys))
    chosen = tuple(source for source, key in zip(sources, keys, strict=True) if key in wanted)
    return replaced(dump, located=Located(dump.root, chosen))


def _dump_here(
    name: str, chosen: tuple[Sequence[int], Sequence[int]], open_path: Callable[[Path], Path]
) -> Dump | None:
    """Return the dump in the working directory whose folder or file has the name of a run; None if there is none."""
    path = Path(name)
    if not path.exists():
        return None
    try:
        return _located(open_path(path), *chosen)
    except DumpError:  # a folder of something else
        return None


def _units(dump: Located) -> Iterator[tuple[tuple[int, int], tuple[Source, ...]]]:
    for place, sources in groupby(dump.sources, lambda source: (source.step, source.rank)):
        yield place, tuple(sources)


def _was_read_from(lake: Path, run: str, dump: Located) -> bool:
    """Return whether the run's units of these steps and ranks, or else its first unit, were read from this dump."""
    keys = [key for place, _ in _units(dump) if layout.has_unit(lake, key := UnitKey(run, *place))]
    return all(
        expanded(_described(lake, key, "source")).resolve() == source_of(dump.sources).resolve()
        for key in keys or layout.units(lake, run)[:1]
    )


def _is_unchanged(lake: Path, run: str, dump: Located) -> bool:
    """Return whether the run was read from files with the same fingerprint. Raises LakeError for one not readable."""
    with staging.unchanged(lake):
        for place, sources in _units(dump):
            known = known_fingerprint(lake, UnitKey(run, *place))
            if known is None or known[0] != fingerprint_of(sources, known[1]):
                return False
    return True


def _described(lake: Path, key: UnitKey, column: str) -> str:
    return str(read_dump(layout.unit_place(lake, key))[column])


def _read_from(lake: Path, run: str) -> Path:
    return expanded(_described(lake, layout.units(lake, run)[0], "source"))


def _source(lake: Path, run: str) -> Path | None:
    """Return the folder or archive that a run was read from; None if it no longer exists."""
    source = _read_from(lake, run)
    return source if source.is_dir() else next((path for path in (source, *source.parents) if path.is_file()), None)


def _is_of_the_lake(lake: Path, run: str) -> bool:
    """Return whether the run was collected or merged into the lake, so that there never was a dump."""
    return _described(lake, layout.units(lake, run)[0], "format").startswith("lakeprobe")


def _below(top: Path, root: Path, chosen: tuple[Sequence[int], Sequence[int]]) -> Dump:
    """Return the dump below `top` whose folder is `root`. Raises DumpError if there is none."""
    found = {run.root: run for run in locate(top, *chosen).runs}
    if root not in found:
        raise DumpError(f"{root} no longer holds a dump; give the path of the dump")
    return Dump.whole(found[root])


def _since(lake: Path, run: str) -> str:
    read = layout.unit_folder(lake, layout.units(lake, run)[0]).stat().st_mtime
    is_today = time.localtime(read)[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M", time.localtime(read))


def _names(lake: Path, dumps: Sequence[Dump], known: list[str]) -> dict[Path, str]:
    """Choose a run for each dump that has none yet, by root: the run that was read from there, or a new name.

    A run whose name is not that of its folder records what the folder held at that time, so it is chosen only if the
    files have not changed. A new name is that of the folder, preceded by as many of its parents as it takes to be new.
    """
    names: dict[Path, str] = {}
    new: dict[Path, list[str]] = {}
    for dump in dumps:
        parts = _parts(dump.located)
        usual = {"_".join(parts[-length:]) for length in range(1, len(parts) + 1)}
        own = [run for run in known if _was_read_from(lake, run, dump.located)]
        fitting = [run for run in own if _is_unchanged(lake, run, dump.located)] or [run for run in own if run in usual]
        if dump.run is None and fitting:
            names[dump.root] = fitting[0]
        elif dump.run is None:
            new[dump.root] = parts
    for root, parts in new.items():
        others = [other for path, other in new.items() if path != root]
        names[root] = _free_name(root, parts, others, known, lake)
    return names


def _free_name(root: Path, parts: list[str], others: list[list[str]], known: list[str], lake: Path) -> str:
    """Return the shortest name for `root`, with these `parts`, that no run has and none of the `others` would get."""
    for length in range(1, len(parts) + 1):
        name = "_".join(parts[-length:])
        if name not in known and all("_".join(other[-length:]) != name for other in others):
            return layout.check_name(name, "run")
    raise UsageError(
        f"every name for {root} is in use in {lake}, or would be that of the other side too; read it under a name of "
        f"your own: {hints.command('ingest', quote(str(root)), '--run', 'NAME')}"
    )


def _parts(dump: Located) -> list[str]:
    return [*(layout.name_after(part) for part in dump.root.parts[:-1] if part != dump.root.anchor), run_name(dump)]


def _together(dumps: Sequence[Located]) -> Located:
    """Return all sources of one run, each once."""
    sources = {(source.step, source.rank, source.part): source for dump in dumps for source in dump.sources}
    return Located(dumps[0].root, tuple(sources[place] for place in sorted(sources)))
