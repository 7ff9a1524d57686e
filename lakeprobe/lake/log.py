"""The log of a lake: which units, comparisons, noises and tables it has, and in which folders they are.

LAKE/log/0000000001.json        a publication: what was added and removed at one moment
LAKE/log/0000000064.state.json  the state after the 64th publication, so that not every file has to be read

A publication is one file. It is written in full, and then a hard link gives it its name, the next number. The link
succeeds for only one process, and nobody sees a partial file. So all changes of an ingest, a comparison or a removal
appear at once, on any file system. A process that finds its number taken looks at what changed and takes the next
number. Files of the log never change, and neither does what they name: a replaced thing gets a new folder. So a
`Snapshot`, the state of the log at some moment, can be read as long as its folders exist (`lake.staging`).

A run that was compacted (`lakeprobe.lake.compaction`) has a thing for each step, run=R/step=S, which holds the units of
many ranks, or for each rank, run=R/rank=K, which holds those of many steps. A unit that is put or removed leaves the
thing that held it.

A lake without a log comes from an older release, and its folders say what it has. Its first publication records that.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from lakeprobe.bounds import LARGEST_NUMBER, LARGEST_RECORD
from lakeprobe.errors import LakeError
from lakeprobe.system import files, owner, storage
from lakeprobe.system.storage import RemotePath
from lakeprobe.version import __version__

_PUBLICATION = re.compile(r"([0-9]{10})\.json")
_STATE = re.compile(r"([0-9]{10})\.state\.json")
_LAST = 9_999_999_999
_STATE_EVERY = 64
"""The state is written after this many publications. Reading that many files takes less time than starting Python."""
DRAFT = ".draft-"
"""The prefix of a file that is to become one of the log. The name ends with the owner name of its process."""
OWN_NAME = r"(?!\.)[\w.+ -]*[\w+]"
"""A name that a user may give to a run, a comparison and the like. `lakeprobe.lake.layout.check_name` says so."""
_FILE_NAME = re.compile(r"[\w+,= -][\w.+,= -]*")
_NUMBER = "(?:0|1[0-9]{9}|[1-9][0-9]{0,8})"
"""A step or a rank. They are INTEGER columns, which have a little more than two billion."""
_COMPACTED = rf"run={OWN_NAME}/(?:step|rank)={_NUMBER}"
_THING = (
    rf"run={OWN_NAME}/step={_NUMBER}/rank={_NUMBER}|{_COMPACTED}"
    rf"|series/run={OWN_NAME}/rank={_NUMBER}/part={_NUMBER}"
    rf"|(?:comparisons/comparison|noise/noise|tables/table|verifications/verification)={OWN_NAME}"
    rf"|perturbations/perturbation={OWN_NAME}(?:,step={_NUMBER},rank={_NUMBER})?"
)
_NAME = re.compile(_THING)
_UNIT = re.compile(rf"(?P<run>run={OWN_NAME})/step=(?P<step>{_NUMBER})/rank=(?P<rank>{_NUMBER})")
_PLACE = re.compile(rf"(?P<name>{_THING})(/(?P<publication>[\w-]+))?|tables/(?P<table>{OWN_NAME})\.parquet")


class Place(Struct, frozen=True):
    """Where a thing is: the folder, relative to the lake, and its files, relative to the folder.

    A table of an older release is a file instead of a folder, and has no files. A compacted step holds the units of
    the ranks `held`, and a compacted rank those of the steps `held`. The files also have the rows of `stale` ranks or
    steps, whose units were replaced or removed since.
    """

    path: str
    files: tuple[str, ...]
    held: tuple[int, ...] = ()
    stale: tuple[int, ...] = ()


class Snapshot(Struct, frozen=True):
    """The content of the lake after the publication `number`: things by name, such as run=npu/step=0/rank=0."""

    lake: Path
    number: int
    places: Mapping[str, Place] = field(default_factory=dict)

    def folder(self, name: str) -> Path | None:
        """Return the folder of the thing `name`. None if there is none."""
        place = self.places.get(name)
        return None if place is None else self.lake / place.path

    def files(self, kind: str, is_wanted: Callable[[str], bool]) -> list[Path]:
        """Return the files of all things whose names begin with `kind`, filtered by `is_wanted` on the file's name."""
        return [
            self.lake / place.path / file
            for name, place in self.places.items() if name.startswith(kind)
            for file in place.files if is_wanted(file)
        ]  # fmt: skip


class _Known(Struct, frozen=True):
    """A snapshot that was read, the stamp of its last file, and the number that the next publication gets."""

    snapshot: Snapshot
    stamp: tuple[int, int, int]
    following: int


_known: dict[Path, _Known] = {}
"""The last snapshot of each lake that this process read."""


def folder_of(lake: Path) -> Path:
    """Return the folder of the log."""
    return lake / "log"


def read(lake: Path) -> Snapshot:
    """Return what is in the lake now. Raises LakeError if the log cannot be read."""
    return _read(lake).snapshot


def is_current(snapshot: Snapshot) -> bool:
    """Return whether nothing was published after the snapshot."""
    return not _file(snapshot.lake, snapshot.number + 1).exists()


def begin(lake: Path) -> None:
    """Begin the log of a new, empty lake. Raises OSError."""
    if not isinstance(lake, RemotePath):
        folder_of(lake).mkdir(parents=True, exist_ok=True)
    _create(lake, 1, "new lake", {}, ())


def append(
    lake: Path,
    what: str,
    put: Mapping[str, Place],
    removed: Iterable[str] = (),
    before: Callable[[Snapshot], None] = lambda _: None,
) -> Snapshot:
    """Publish that the things in `put` are at their places, and that those in `removed` no longer exist.

    `before` gets the snapshot that the publication follows, and may raise to refuse. Raises LakeError, and OSError if
    nothing was published.
    """
    if not (put or removed):
        return read(lake)
    adopt(lake)
    while True:
        known = _read(lake)
        if known.following > _LAST:
            raise LakeError(f"{folder_of(lake)} has no number left for a publication; nothing was changed")
        before(known.snapshot)
        if _create(lake, known.following, what, put, removed):
            if known.following % _STATE_EVERY == 0:
                with suppress(OSError):  # it only makes reading faster
                    _write_state(lake, known.following)
            return read(lake)


def adopt(lake: Path) -> None:
    """Give a lake of an older release a log that describes its folders."""
    if not _numbers(lake)[0]:
        folder_of(lake).mkdir(exist_ok=True)
        _create(lake, 1, "adopted from an older release", from_folders(lake), ())


def damaged(lake: Path) -> list[Path]:
    """Return the publications and states that cannot be read.

    On a file system without hard links, a process that dies while it writes leaves such a file.
    """
    numbers, states = _numbers(lake)
    paths = [*(_file(lake, number) for number in numbers), *(_state_file(lake, number) for number in states)]
    return [path for path in paths if _is_no_file(path) or _load(path) is None]


def _is_no_file(path: Path) -> bool:
    """Return whether something else is in the place of a file of the log, which no reader takes for one."""
    return not path.is_file()


def rebuild(lake: Path) -> list[str]:
    """Make the log fit the folders. Returns what was changed, one line each.

    Things that are gone are removed from the log. If a part of the log is damaged or missing, the newest folder of each
    thing counts.
    """
    broken = damaged(lake)
    known = {} if any(map(_is_no_file, broken)) else read(lake).places
    found = from_folders(lake) if broken or not _numbers(lake)[0] else known
    found = {name: place for name, place in found.items() if _is_whole(lake, place)}
    put = {name: place for name, place in found.items() if known.get(name) != place}
    removed = [name for name in known if name not in found]
    for path in broken:
        path.rename(path.with_suffix(".damaged"))
    if broken:  # a state written earlier may name what no longer exists
        for number in _numbers(lake)[1]:
            _state_file(lake, number).unlink()
    _known.pop(lake, None)
    if put or removed:
        append(lake, "repair", put, removed)
    return [f"found again: {name}" for name in put] + [f"no longer there: {name}" for name in removed]


def missing(snapshot: Snapshot) -> list[str]:
    """Return the names of the things that lack a file."""
    return [name for name, place in snapshot.places.items() if not _is_whole(snapshot.lake, place)]


def _is_whole(lake: Path, place: Place) -> bool:
    folder = lake / place.path
    return all((folder / file).is_file() for file in place.files) if place.files else folder.exists()


# ---- reading ----------------------------------------------------------------------------------------------


def _read(lake: Path) -> _Known:
    known = _known.get(lake)
    if known is not None and _is_last(lake, known):
        return known
    try:
        known = _read_files(lake)
    except FileNotFoundError:  # a newer state replaced this one meanwhile
        return _read(lake)
    except OSError as error:
        raise LakeError.from_system(error, lake, "the log of the lake cannot be read") from error
    if known.following > 1:
        _known[lake] = known
    return known


def _is_last(lake: Path, known: _Known) -> bool:
    """Return whether no publication follows the known one, and the lake was not replaced."""
    try:
        is_same = _stamp(_file(lake, known.following - 1)) == known.stamp
    except OSError:
        return False
    return is_same and not _file(lake, known.following).exists()


def _stamp(path: Path) -> tuple[int, int, int]:
    stat = path.lstat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _read_files(lake: Path) -> _Known:
    numbers, states = _numbers(lake)
    if not numbers:
        return _Known(Snapshot(lake, 0, from_folders(lake)), (0, 0, 0), 1)
    stamp = _stamp(_file(lake, numbers[-1]))
    places, first = _state(lake, states)
    for number in numbers:
        if number > first and (entry := _load(_file(lake, number))):
            _apply(entry, places)
    return _Known(Snapshot(lake, numbers[-1], places), stamp, numbers[-1] + 1)


def _state(lake: Path, states: list[int]) -> tuple[dict[str, Place], int]:
    """Return the last written state and its number."""
    entry = _load(_state_file(lake, states[-1])) if states else None
    return (dict(entry.put), states[-1]) if entry else ({}, 0)


def _numbers(lake: Path) -> tuple[list[int], list[int]]:
    """Return the numbers of the publications and of the states, each sorted."""
    try:
        names = [path.name for path in folder_of(lake).iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    publications, states = (
        sorted(int(found[1]) for name in names if (found := kind.fullmatch(name))) for kind in (_PUBLICATION, _STATE)
    )
    return publications, [number for number in states if publications and number <= publications[-1]]


class _Entry(Struct, frozen=True):
    """The content of a file of the log: the things that were added, and the names of those that were removed."""

    put: Mapping[str, Place]
    removed: tuple[str, ...]


def _load(path: Path) -> _Entry | None:
    """Return the content of a file of the log. None if it is damaged, or names what no release puts into a lake."""
    try:
        entry = json.loads(files.read_bounded(path, LARGEST_RECORD))
        put = {name: _place(*described) for name, described in entry["put"].items()}
        removed = tuple(map(str, entry.get("removed", ())))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError):
        return None
    return _Entry(put, removed) if all(_is_ours(name, place) for name, place in put.items()) else None


def _place(path: str, inside: list[str], held: Iterable[int] = (), stale: Iterable[int] = ()) -> Place:
    return Place(str(path), tuple(map(str, inside)), tuple(map(int, held)), tuple(map(int, stale)))


def _is_ours(name: str, place: Place) -> bool:
    """Return whether a thing can be at a place: in the folder of its own name, each file there once."""
    numbers = (*place.held, *place.stale)
    found = _PLACE.fullmatch(place.path)
    return (
        found is not None
        and name == (found["name"] or f"tables/table={found['table']}")
        and is_compacted(name) == bool(place.held)
        and (found["publication"] is not None or not place.held)
        and _is_short(place.path)
        and len({*place.files}) == len(place.files)
        and all(map(is_inside, place.files))
        and len({*numbers}) == len(numbers)
        and all(0 <= number <= LARGEST_NUMBER for number in numbers)
    )


def is_thing(name: str) -> bool:
    """Return whether a lake can have something of this `name`."""
    return _NAME.fullmatch(name) is not None and _is_short(name)


@lru_cache(4096)  # all units have the same names
def is_inside(file: str) -> bool:
    """Return whether `file`, relative to a folder of a lake, is a path in it that a lake can have."""
    return all(map(_FILE_NAME.fullmatch, file.split("/"))) and _is_short(file)


def _is_short(path: str) -> bool:
    """Return whether the names in `path` are no longer than those of files can be."""
    return len(path) * 4 <= files.LONGEST_NAME or all(
        len(part.encode()) <= files.LONGEST_NAME for part in path.split("/")
    )


def has_publication(path: str) -> bool:
    """Return whether a place has the folder of a publication. Everything newer than the log has one."""
    found = _PLACE.fullmatch(path)
    return found is not None and found["publication"] is not None


def _second_of(path: str) -> str:
    """Return when a place was published. Empty for a place of an older release."""
    found = _PLACE.fullmatch(path)
    return ((found and found["publication"]) or "").partition("-")[0]


def is_place(path: str) -> bool:
    """Return whether `path`, relative to the lake, is a valid place for a thing."""
    found = _PLACE.fullmatch(path)
    return found is not None and (found["publication"] is not None or not is_compacted(path))


def is_compacted(name: str) -> bool:
    """Return whether a thing is a compacted step or rank."""
    return re.fullmatch(_COMPACTED, name) is not None


def holder(places: Mapping[str, Place], name: str) -> str | None:
    """Return the compacted thing that holds the unit `name`. None if there is none, or if `name` is not a unit."""
    thing, _ = _holding(places, name)
    return thing


def _holding(places: Mapping[str, Place], name: str) -> tuple[str | None, int]:
    """Return what holds the unit `name`, and the number by which it does."""
    if unit := _UNIT.fullmatch(name):
        run, step, rank = unit["run"], int(unit["step"]), int(unit["rank"])
        for thing, number in ((f"{run}/step={step}", rank), (f"{run}/rank={rank}", step)):
            if thing in places and number in places[thing].held:
                return thing, number
    return None, 0


def _held_units(name: str, place: Place) -> tuple[str, ...]:
    """Return the names of the units that a thing holds. Empty if it is not compacted."""
    run, _, own = name.partition("/")
    form = f"{run}/step={{}}/{own}" if own.startswith("rank=") else f"{name}/rank={{}}"
    return tuple(form.format(number) for number in place.held)


def _apply(entry: _Entry, places: dict[str, Place]) -> None:
    leaving: dict[str, set[int]] = {}
    for name in (*entry.removed, *entry.put):
        thing, number = _holding(places, name)
        if thing:
            leaving.setdefault(thing, set()).add(number)
    for thing, numbers in leaving.items():
        place = places[thing]
        left = tuple(number for number in place.held if number not in numbers)
        places[thing] = replace(place, held=left, stale=tuple(sorted({*place.stale, *numbers})))
        if not left:
            del places[thing]
    for name in entry.removed:
        places.pop(name, None)
    places.update(entry.put)


# ---- writing ----------------------------------------------------------------------------------------------


def _create(lake: Path, number: int, what: str, put: Mapping[str, Place], removed: Iterable[str]) -> bool:
    """Write the publication `number`. Returns False if it exists."""
    entry = {"what": what, "put": _described(put), "removed": list(removed)}
    path = _file(lake, number)
    if isinstance(path, RemotePath):
        return storage.create(path, _text(entry | {"writer": uuid.uuid4().hex}).encode())
    with _draft(lake, entry) as draft:
        if not files.create_whole(draft, path):
            return False
    try:
        files.sync(folder_of(lake))
    except OSError as error:
        raise LakeError(
            f"{folder_of(lake)}: {error.strerror}; all of it is in the lake, but may not outlast a power cut: "
            "do it again with --replace"
        ) from error
    return True


def _described(places: Mapping[str, Place]) -> dict[str, tuple[Any, ...]]:
    return {
        name: (place.path, place.files, place.held, place.stale) if place.held else (place.path, place.files)
        for name, place in places.items()
    }


@contextmanager
def _draft(lake: Path, entry: dict[str, Any]) -> Iterator[Path]:
    """Yield a file with `entry` that is flushed to the disk. It is removed at the end if it still has this name."""
    path = folder_of(lake) / f"{DRAFT}{uuid.uuid4().hex}.{owner.me()}"
    try:
        path.write_text(_text(entry), encoding="utf-8")
        files.sync(path)
        yield path
    finally:
        with suppress(OSError):  # what it was for may be done, and the next session removes it
            path.unlink(missing_ok=True)


def _text(entry: dict[str, Any]) -> str:
    described = {"lakeprobe": __version__, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())} | entry
    return json.dumps(described, ensure_ascii=False, separators=(",", ":")) + "\n"


def _write_state(lake: Path, number: int) -> None:
    """Write the state after the publication `number`, unless an earlier publication is missing or damaged."""
    numbers, states = _numbers(lake)
    places, first = _state(lake, states)
    following = range(first + 1, number + 1)
    entries = [entry for each in following if each in numbers and (entry := _load(_file(lake, each)))]
    if len(entries) < len(following):
        return
    for entry in entries:
        _apply(entry, places)
    state = _state_file(lake, number)
    if isinstance(state, RemotePath):  # older states stay, for those who are reading them
        storage.write(state, _text({"put": _described(places)}).encode())
        return
    with _draft(lake, {"put": _described(places)}) as draft:
        draft.replace(_state_file(lake, number))
    for older in states:
        _state_file(lake, older).unlink(missing_ok=True)


def _file(lake: Path, number: int) -> Path:
    return folder_of(lake) / f"{number:010d}.json"


def _state_file(lake: Path, number: int) -> Path:
    return folder_of(lake) / f"{number:010d}.state.json"


# ---- folders ----------------------------------------------------------------------------------------------


HELD = "held.json"
"""The file of a compacted step or rank that says which units it holds."""


def place_of(lake: Path, path: str) -> Place:
    """Return the place `path` with the files in it."""
    folder = lake / path
    held = _held(folder / HELD)
    found = (str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else ()
    return Place(path, tuple(sorted(file for file in found if not file.startswith("."))), **held)


def write_held(folder: Path, place: Place) -> None:
    """Write into the folder of a compacted step or rank which units it holds: those of the place."""
    (folder / HELD).write_text(json.dumps({"held": place.held, "stale": place.stale}), encoding="utf-8")


def _held(path: Path) -> dict[str, tuple[int, ...]]:
    """Return what a compacted step or rank holds and what is stale in it. Empty for another or a damaged folder."""
    try:
        described = json.loads(files.read_bounded(path, LARGEST_RECORD))
        held = described["held"] if "held" in described else described["ranks"]  # which older releases wrote
        return {"held": tuple(map(int, held)), "stale": tuple(map(int, described["stale"]))}
    except (
        FileNotFoundError,
        NotADirectoryError,
        files.NoFileError,
        ValueError,
        TypeError,
        LookupError,
        RecursionError,
        OverflowError,
    ):
        return {}


_KINDS = (
    ("run=*/step=*/rank=*", "dumps.parquet"),
    ("run=*/step=*", HELD),
    ("run=*/rank=*", HELD),
    ("series/run=*/rank=*/part=*", "series.parquet"),
    ("comparisons/comparison=*", "comparison.yaml"),
    ("noise/noise=*", "noise.parquet"),
    ("verifications/verification=*", "verifications.parquet"),
    ("perturbations/perturbation=*", "perturbations.parquet"),
    ("tables/table=*", "table.parquet"),
)
"""The path pattern of each kind of thing, and a file that each thing of the kind has."""


def publications(lake: Path) -> list[str]:
    """Return the folders, relative to the lake, of everything that was published and still exists."""
    found = (str(folder.relative_to(lake)) for pattern, _ in _KINDS for folder in lake.glob(f"{pattern}/*/"))
    return [path for path in found if has_publication(path)]


def from_folders(lake: Path) -> dict[str, Place]:
    """Return what the folders of a lake contain.

    The newest folder of each thing counts, or the one that an older release made.
    """
    found: dict[str, Place] = {}
    for pattern, sign in _KINDS:
        for folder in lake.glob(pattern):
            name = str(folder.relative_to(lake))
            newest = max((path.parent for path in folder.glob(f"*/{sign}")), default=folder)
            path = str(newest.relative_to(lake))
            if files.link_above(lake, f"{path}/{sign}"):  # what is behind a link is not ours
                continue
            place = place_of(lake, path)
            if (newest / sign).exists() and _is_ours(name, place):
                found[name] = place
    for file in lake.glob("tables/*.parquet"):
        found.setdefault(f"tables/table={file.stem}", Place(f"tables/{file.name}", ()))
    return _each_unit_once(found)


def _each_unit_once(found: dict[str, Place]) -> dict[str, Place]:
    """Return what was found, with each unit either in a folder of its own or in a compacted thing: the newer counts.

    Publications of one second cannot be told apart. Then the unit's own folder counts: it is what replaced the unit, or
    what was compacted, which is the same.
    """
    places: dict[str, Place] = {}
    for name in sorted(found, key=lambda name: (_second_of(found[name].path), not is_compacted(name))):
        place = found[name]
        _apply(_Entry({name: place}, _held_units(name, place)), places)
    return places
