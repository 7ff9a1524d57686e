"""Finds what can be read under a path: walks its folders and asks every format about each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from lakeprobe.bounds import DEEPEST_FOLDER, MOST_FOLDERS, MOST_LINKS
from lakeprobe.errors import DumpError
from lakeprobe.readers import checkpoint, debug, dump, foreign_tables, npy_folder
from lakeprobe.readers.archive import names_in, notes
from lakeprobe.readers.dump import DUMP_FILE, TENSOR_FOLDER, rest_of_dump
from lakeprobe.readers.foreign_tables import TableFile
from lakeprobe.readers.formats import ANY_TENSORS, NAMED
from lakeprobe.readers.source import Listing, Source, is_named_plainly, is_placed, place_of
from lakeprobe.system.files import absolute, kind_of

_SHOWN = 5
"""The maximum number of names in a message about what was left out."""


_IN_ONE_FOLDER = (dump.NAME, debug.NAME)
"""Formats whose files lie in one folder, and their tensors in one below it."""


class Located(Struct, frozen=True):
    """The sources of one run, by step, rank and part, and the run's folder."""

    root: Path
    sources: tuple[Source, ...]


class Found(Struct, frozen=True):
    """The content of a path: runs by their folders, and result tables of other tools."""

    runs: tuple[Located, ...]
    tables: tuple[TableFile, ...]


def locate(path: Path, steps: Sequence[int] = (), ranks: Sequence[int] = ()) -> Found:
    """Return the content of `path`: a folder, or a dump's own file. Raises DumpError if there is nothing.

    Of the sources only those of `steps` and `ranks` count, if any are named. Sources of a run are those with the same
    root. A folder that holds a source is not searched further.
    """
    with _readable(path):
        path = _existing(path)
        sources: list[Source] = []
        tables: list[TableFile] = []
        left_out: list[str] = []
        for listing, found in _search(path):
            sources += found
            left_out += _left_out(path, listing, found)
            given = replace(listing, files=[path.name]) if path.is_file() else listing
            tables += foreign_tables.find(given)
        if not sources and not tables:
            raise _nothing(path, left_out)
        return Found(_chosen(path, _runs(_noted(sources, left_out)), steps, ranks), tuple(tables))


def locate_run(path: Path, steps: Sequence[int] = (), ranks: Sequence[int] = ()) -> Located:
    """The one run under `path`, of `steps` and `ranks` if any are named. Raises DumpError unless there is just one."""
    with _readable(path):
        path = _existing(path)
        searched = list(_search(path))
        left_out = [line for listing, found in searched for line in _left_out(path, listing, found)]
        sources = [source for _, found in searched for source in found]
        runs = _chosen(path, _runs(_noted(sources, left_out)), steps, ranks)
        if not runs:
            raise _nothing(path, left_out)
        if len(runs) > 1:
            names = ", ".join(os.path.relpath(run.root, path) for run in runs[:5])
            more = ", …" if len(runs) > 5 else ""
            raise DumpError(f"{path} holds {len(runs)} runs ({names}{more}); give the path of one")
        return runs[0]


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DumpError(f"{error.filename or path} cannot be read: {error.strerror}") from error


def _existing(path: Path) -> Path:
    path = absolute(path)
    if not path.exists():
        raise DumpError(f"{path} does not exist; give a dump or a folder with dumps")
    if not path.is_file() and not path.is_dir():
        raise DumpError(f"{path} is {kind_of(path.stat().st_mode)}; give a dump or a folder with dumps")
    return path


def _left_out(path: Path, listing: Listing, found: Sequence[Source]) -> Iterator[str]:
    """What was left out of a folder below `path`, which sources were `found` in, each with the reason."""
    for name, why in sorted(listing.left_out.items()):
        yield f"left out: {listing.folder / name}; {why}"
    rest = [] if found or path.is_file() else rest_of_dump(listing)
    if rest:  # copied in part, or its process was killed before it wrote the dump
        yield f"left out: {listing.folder}; it has {', '.join(rest)}, but no {DUMP_FILE}; copy it again, or dump again"


def _noted(sources: list[Source], left_out: list[str]) -> list[Source]:
    """Return `sources`, the first with a note on what was left out."""
    if not sources or not left_out:
        return sources
    first, *others = sources
    return [replace(first, notes=(*first.notes, *_shown(left_out))), *others]


def _shown(left_out: list[str]) -> list[str]:
    more = len(left_out) - _SHOWN
    return left_out[:_SHOWN] + ([f"left out: {more} more links, special files and parts of dumps"] if more > 0 else [])


def _nothing(path: Path, left_out: list[str]) -> DumpError:
    if left_out:
        return DumpError(f"{path} holds no dump that can be read: {'; '.join(_shown(left_out))}")
    if path.is_file():
        return DumpError(f"{path} is not a file of a known format (docs/formats.md lists them); give one, or a folder")
    return DumpError(
        f"{path} holds no dump of a known format (docs/formats.md lists them); give the folder that the tool wrote"
    )


def _search(path: Path) -> Iterator[tuple[Listing, list[Source]]]:
    """The folders from `path` on and the sources in each; or the folder of the file `path`, and the file's sources.

    A folder that holds a source is not searched further, unless that is no more than a folder of single tensors.
    """
    if path.is_file():
        listing = _listing(path.parent, path.parent)
        yield _of_file(listing, path.name), _of(path, _find(listing))
        return
    waiting, visited, links = [(path, 0)], 0, 0
    while waiting:
        folder, depth = waiting.pop()
        visited += 1
        if visited > MOST_FOLDERS:
            raise DumpError(f"{path} has more than {MOST_FOLDERS} folders; give the folder with the dumps")
        listing = _listing(folder, path)
        sources = _find(listing)
        yield _with_inner(listing, sources), sources
        if all(map(_is_loose, sources)) and depth < DEEPEST_FOLDER:
            read = {file.parent for source in sources for file in source.files}
            below = (folder / name for name in reversed(listing.folders))
            waiting += [(path, depth + 1) for path in below if path not in read]
            links += len(listing.linked)
            if links > MOST_LINKS:
                raise DumpError(f"{path} has more than {MOST_LINKS} links to folders; give the folder with the dumps")


def _with_inner(listing: Listing, sources: Sequence[Source]) -> Listing:
    """Return `listing` with the dumps below the folder of an msprobe dump as left out."""
    if not any(source.format in _IN_ONE_FOLDER for source in sources):
        return listing
    why = "it is a dump in the folder of another; move it out, or name it alone"
    inner = {str(folder.relative_to(listing.folder)): why for folder in _inner_dumps(listing)}
    return replace(listing, left_out={**listing.left_out, **inner})


def _inner_dumps(listing: Listing) -> Iterator[Path]:
    """Yield the folders with dumps below the folder of a dump. What cannot be read there is none."""
    waiting, visited = _plain_folders(listing), 0
    while waiting and visited < MOST_FOLDERS:
        visited += 1
        with suppress(OSError):
            inner = _listing(waiting.pop(), listing.top)
            if all(map(_is_loose, _find(inner))):
                waiting += _plain_folders(inner)
            else:
                yield inner.folder


def _plain_folders(listing: Listing) -> list[Path]:
    """The folders in a folder, without links and the many files of tensors."""
    return [listing.folder / name for name in listing.folders if name not in (TENSOR_FOLDER, *listing.linked)]


def _listing(folder: Path, top: Path) -> Listing:
    """Return the content of `folder`, without links to a folder above it, which would be a cycle."""
    names = names_in(folder, place_of(top).root)
    around = {name for name in names.linked if _leads_around(folder / name)}
    left_out = names.left_out | dict.fromkeys(around, "it is a link to a folder that it lies in")
    folders = sorted(name for name in names.folders if name not in around)
    return Listing(folder, sorted(names.files), folders, top, frozenset(names.linked - around), left_out)


def _of_file(listing: Listing, name: str) -> Listing:
    """Return `listing` without notes on other files than `name`."""
    return replace(listing, left_out={other: why for other, why in listing.left_out.items() if other == name})


def _leads_around(link: Path) -> bool:
    target = os.path.realpath(link)
    return any(os.path.realpath(parent) == target for parent in link.parents)


def _find(listing: Listing) -> list[Source]:
    sources = [source for format in NAMED for source in format.find(listing)]
    return sources or ANY_TENSORS.find(listing)


def _runs(sources: list[Source]) -> tuple[Located, ...]:
    runs: dict[Path, list[Source]] = {}
    for source in _without_loose_files(sources):
        runs.setdefault(source.root, []).append(source)
    return tuple(_run(root, found) for root, found in sorted(_without_strays(runs).items()))


def _chosen(path: Path, runs: tuple[Located, ...], steps: Sequence[int], ranks: Sequence[int]) -> tuple[Located, ...]:
    """Return `runs` with sources of `steps` and `ranks` only, without empty runs. Raises DumpError if none is left."""
    if not runs or not (steps or ranks):
        return runs
    chosen = []
    for run in runs:
        sources = tuple(
            source for source in run.sources
            if (not steps or source.step in steps) and (not ranks or source.rank in ranks)
        )  # fmt: skip
        if sources:
            chosen.append(Located(run.root, sources))
    if not chosen:
        known = sorted({(source.step, source.rank) for run in runs for source in run.sources})
        raise DumpError(f"{path} has no such step and rank; it has (step, rank) {', '.join(map(str, known[:8]))}")
    return tuple(chosen)


def _run(root: Path, found: list[Source]) -> Located:
    """Return the run of the sources in `root`. The first gets a note on the members that their archive lacks."""
    first, *others = _in_order(root, found)
    told = [] if is_named_plainly(root.name) else [f"{root.name} is taken as a name, and not as a step or a rank"]
    return Located(root, (replace(first, notes=(*first.notes, *told, *notes(root))), *others))


def _of(path: Path, sources: Sequence[Source]) -> list[Source]:
    """Return the sources of a folder that the file `path` belongs to. A tensor or checkpoint in one file is a run."""
    found = [source for source in sources if path in source.files]
    if any(source.format == checkpoint.NAME and source.files == (path,) for source in found):
        return [checkpoint.alone(source, path) for source in found]
    tensor = None if any(source.format != npy_folder.NAME for source in found) else npy_folder.alone(path)
    return found if tensor is None else [tensor]


def _is_loose(source: Source) -> bool:
    return source.format in (ANY_TENSORS.NAME, checkpoint.NAME)


def _without_loose_files(sources: list[Source]) -> list[Source]:
    """Return `sources` without tensor files next to or above a dump, such as weights. The dump gets a note."""
    dumps = [source for source in sources if not _is_loose(source)]
    above = {folder for source in dumps for folder in (source.folder, *source.folder.parents)}
    left_out = dict.fromkeys(source for source in sources if _is_loose(source) and source.folder in above)
    kept = [source for source in sources if source not in left_out]
    for source in left_out:
        note = f"left out, because they are of no dump: tensor files in {source.folder}"
        kept[0] = replace(kept[0], notes=(*kept[0].notes, note))
    return kept


def _without_strays(runs: dict[Path, list[Source]]) -> dict[Path, list[Source]]:
    """Return `runs` without those in a step or rank folder of another run, such as backups. That run gets a note."""
    kept = dict(runs)
    for root in runs:
        owner = next((parent for parent in root.parents if parent in runs and _is_inside(root, parent)), None)
        if owner is not None and owner in kept:
            kept.pop(root)
            first, *others = kept[owner]
            note = f"left out, because it is named neither rank* nor proc*: {root.relative_to(owner)}"
            kept[owner] = [replace(first, notes=(*first.notes, note)), *others]
    return kept


def _is_inside(root: Path, owner: Path) -> bool:
    return any(is_placed(name) for name in root.relative_to(owner).parts)


def _in_order(root: Path, sources: list[Source]) -> tuple[Source, ...]:
    """Return the sources of a run by step, rank and part. Processes get free ranks. Raises DumpError for duplicates."""
    numbered = [source for source in sources if source.process is None]
    for step, part in sorted({(source.step, source.part) for source in sources}):
        group = [source for source in sources if (source.step, source.part) == (step, part)]
        taken = {source.rank for source in group if source.process is None}
        free = (rank for rank in range(len(group)) if rank not in taken)
        processes = sorted((source for source in group if source.process is not None), key=lambda it: it.process or 0)
        for rank, source in zip(free, processes, strict=False):
            note = f"the dump does not record its rank ({source.folder.name}); taken as rank {rank}"
            numbered.append(replace(source, rank=rank, notes=(*source.notes, note)))
    numbered.sort(key=lambda source: (source.step, source.rank, source.part))
    for one, other in pairwise(numbered):
        if (one.step, one.rank, one.part) == (other.step, other.rank, other.part):
            places = [one.folder, other.folder] if one.folder != other.folder else [one.files[0], other.files[0]]
            first, second = sorted(place.relative_to(root) for place in places)
            raise DumpError(f"{root}: {first} and {second} are both step {one.step} rank {one.rank}; move one away")
    return tuple(numbered)
