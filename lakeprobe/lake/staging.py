"""Puts finished folders into the lake atomically, and removes what nobody needs any more.

A writer has a session: a folder under LAKE/.staging with the writer's owner name (`lakeprobe.system.owner`). Everything
is written there in full. The session then records which folders it adds and replaces, moves its folders to their final
places, which nobody reads yet, and appends one entry to the log (`lakeprobe.lake.log`). With that entry all of them are
in the lake, and what they replace is out of it. So even after a kill, later processes can tell what is left over: the
folders that an ended session recorded and that the log does not name.

A reader leaves a file in LAKE/.staging that names the last publication when it began to read. What is replaced later is
removed after the reader has ended. A reader without write permission reads anyway, but nothing waits for it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from lakeprobe.bounds import LARGEST_RECORD
from lakeprobe.errors import LakeError
from lakeprobe.lake import damage, inspection, layout, log, store
from lakeprobe.lake.log import Snapshot
from lakeprobe.system import files, owner, storage
from lakeprobe.system.storage import RemotePath
from lakeprobe.work import Progress

_MOST_ATTEMPTS = 10
_PLACES = "places.json"
"""The file of a session that lists the folders that it puts in place, and those that they replace."""
_NOTES = (f"run=*/{layout.NOTE_FILE}", f"comparisons/comparison=*/{layout.NOTE_FILE}")
_NOTE = re.compile(rf"(run|comparisons/comparison)={log.OWN_NAME}/{re.escape(layout.NOTE_FILE)}")
_READER, _ENDED, _PRESENT, _LOCK = "reader", "ended", "present", ".lock"
_READ_SINCE = re.compile(rf"{_READER}-(\d+)\.")


class Session(Struct, frozen=True):
    """A writer to `lake`, which works in `folder`. What it publishes is in folders named `publication`."""

    lake: Path
    folder: Path
    publication: str


@contextmanager
def unchanged(lake: Path) -> Iterator[None]:
    """Turn an error of the file system (full disk, no permission) into a LakeError.

    It says that nothing has changed.
    """
    try:
        yield
    except OSError as error:
        raise LakeError.from_system(error, lake, f"{lake} is as it was before") from error


# ---- writing ----------------------------------------------------------------------------------------------


@contextmanager
def staged(lake: Path, label: str) -> Iterator[Session]:
    """Yield a session with a new folder under LAKE/.staging. At the end, what the session left over is removed.

    What sessions of ended processes left over is removed first. For a lake on remote storage, the folder is on this
    machine.
    """
    publication = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:8]}"
    if isinstance(lake, RemotePath):
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="lakeprobe-") as folder:
            yield Session(lake, Path(folder), publication)
        return
    files.make_folders(layout.staging_folder(lake))
    if store.exists(lake):
        store.adopt(lake)
    sweep(lake)
    session = Session(lake, layout.staging_folder(lake) / f"{label}.{publication}.{owner.me()}", publication)
    session.folder.mkdir()
    try:
        yield session
    finally:
        with suppress(OSError, LakeError):  # the next session removes it
            _clear(lake, session.folder)


def renewing(session: Session, progress: Progress | None) -> Progress:
    """Return a `progress` that also renews the session's lease, for processes that cannot look this one up."""

    def renew(done: int, total: int) -> None:
        with suppress(OSError):  # only a day without a sign counts
            os.utime(session.folder)
        if progress:
            progress(done, total)

    return renew


def publish(
    session: Session,
    what: str,
    put: Mapping[str, Path],
    removed: Iterable[str] = (),
    before: Callable[[Snapshot], None] = lambda _: None,
    notes: Mapping[Path, Path | None] = MappingProxyType({}),
) -> None:
    """Put the session's folders in `put`, keyed by name, into the lake and remove those in `removed`, in one step.

    `before` gets the snapshot that the publication follows, and may raise to refuse. `notes` maps each note to the file
    it is made from, or to None if it exists. Notes on runs and comparisons that are not in the lake afterwards are
    removed. The folders must have been synced (`files.sync_tree`). When this returns, they are in the lake durably.
    Raises LakeError, and OSError if nothing changed.
    """
    removed = tuple(removed)
    lake = session.lake
    places = {name: log.place_of(session.folder, str(path.relative_to(session.folder))) for name, path in put.items()}
    places = {name: replace(place, path=f"{name}/{session.publication}") for name, place in places.items()}
    for name in places:
        if not log.is_thing(name):
            raise LakeError(f"{name!r} cannot be the name of a thing in a lake; nothing was changed")

    def note_down(snapshot: Snapshot) -> None:
        before(snapshot)
        names = {held for name in (*put, *removed) for held in (name, log.holder(snapshot.places, name)) if held}
        old = sorted(snapshot.places[name].path for name in names if name in snapshot.places)
        kept = (str(note.relative_to(lake)) for note in notes)
        changed = [*(place.path for place in places.values()), *old, *kept]
        files.refuse_links(lake, changed)
        _note(session.folder, changed)

    note_down(log.read(lake))
    if isinstance(lake, RemotePath):
        for name, folder in put.items():
            storage.upload(folder, lake / places[name].path)
        log.append(lake, what, places, removed, note_down)
        return
    for name, folder in put.items():
        _move(folder, lake / places[name].path)
    for note, original in notes.items():
        if original is not None and original.is_file():
            note.parent.mkdir(parents=True, exist_ok=True)
            note.unlink(missing_ok=True)
            files.link_or_copy(original, note)
    # Sync all parent folders, also existing ones: whoever made them may not have synced the folders that contain them.
    above = {lake / parent for place in places.values() for parent in Path(place.path).parents}
    files.sync(*sorted(above))
    log.append(lake, what, places, removed, note_down)


def _move(folder: Path, target: Path) -> None:
    """Rename `folder` to `target`, whose parents are created."""
    for _ in range(_MOST_ATTEMPTS):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.rename(target)
        except FileNotFoundError:  # an empty parent folder was removed meanwhile
            if not folder.exists():
                if target.exists():  # NFS may have lost the reply to a rename that succeeded
                    return
                raise
        else:
            return
    raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), str(target))


def _note(folder: Path, paths: list[str]) -> None:
    draft = folder / f".{_PLACES}"
    draft.write_text(json.dumps(paths), encoding="utf-8")
    files.sync(draft)
    draft.replace(folder / _PLACES)
    files.sync(folder)


@contextmanager
def locked(lake: Path, label: str) -> Iterator[None]:
    """Hold the lock `label` of the lake. Raises LakeError at once if another process holds it.

    The lock ends with its process, for whatever reason. It only saves duplicate work. The log prevents conflicting
    publications, also on file systems without locks.
    """
    if isinstance(lake, RemotePath):
        yield
        return
    path = layout.staging_folder(lake) / f"{label}{_LOCK}"
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with os.fdopen(files.open_own(path, os.O_RDWR | os.O_CREAT), "rb") as file:
            if not files.lock(file):
                raise LakeError(f"{lake}: another process is writing {label}; wait for it to end")
            if files.is_still(path, file):  # false if the previous holder has removed it
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return


# ---- reading ----------------------------------------------------------------------------------------------


class Reader:
    """Reads a lake as it was when reading began. What is replaced later stays until `close`."""

    def __init__(self, lake: Path) -> None:
        """Begin to read. Raises LakeError if the log cannot be read."""
        self.lake = lake
        self._note: Path | None = None
        self.snapshot = log.read(lake)
        self.renew()

    def renew(self) -> Snapshot:
        """Read the lake as it is now, from here on."""
        if self._note is not None and log.read(self.lake).number == self.snapshot.number:
            return self.snapshot
        while True:
            self.snapshot = log.read(self.lake)
            former, self._note = self._note, _note_reader(self.snapshot)
            _remove(former)
            if log.read(self.lake).number == self.snapshot.number:  # nothing was published before the note existed
                return self.snapshot

    def close(self) -> None:
        """Stop reading."""
        note, self._note = self._note, None
        _remove(note)


@contextmanager
def reading(lake: Path) -> Iterator[Snapshot]:
    """Yield what is in the lake now. Its folders stay until the block ends, whatever replaces them."""
    reader = Reader(lake)
    try:
        yield reader.snapshot
    finally:
        reader.close()


def _note_reader(snapshot: Snapshot) -> Path | None:
    """Leave a note that somebody reads. Returns None if it cannot be written, or if there is nothing to read."""
    if not snapshot.places:
        return None
    folder = layout.staging_folder(snapshot.lake)
    path = folder / f"{_READER}-{snapshot.number}.{uuid.uuid4().hex[:8]}.{owner.me()}"
    try:
        folder.mkdir(exist_ok=True)
        path.touch(exist_ok=False)
    except OSError:
        return None
    return path


def _remove(note: Path | None) -> None:
    if note is not None:
        with suppress(OSError):
            note.unlink()


# ---- presence ---------------------------------------------------------------------------------------------


def note_presence(lake: Path, label: str) -> Path:
    """Note that this process works on `label`. Returns the file: touch it as a sign of life, remove it at the end."""
    path = layout.staging_folder(lake) / f"{_PRESENT}-{label}.{owner.me()}"
    files.make_folders(path.parent)
    path.touch()
    return path


def is_present(lake: Path, label: str) -> bool:
    """Whether a process that noted its presence at `label` is still alive."""
    return any(
        path.name.rpartition(".")[0] == f"{_PRESENT}-{label}" and _is_in_use(lake, path)
        for path in _children(layout.staging_folder(lake))
    )


# ---- what is left over ------------------------------------------------------------------------------------


def sessions(lake: Path) -> Iterator[tuple[Path, float]]:
    """Yield the folders of the sessions of living processes, with the seconds since their last sign of life."""
    for path in _children(layout.staging_folder(lake)):
        if path.is_dir() and not _is_kept_for_readers(path) and _is_in_use(lake, path):
            with suppress(OSError):
                yield path, max(0.0, time.time() - path.stat().st_mtime)


def hidden(lake: Path, label: str) -> Path:
    """Return a path in .staging that is removed when this process has ended, at the latest."""
    return layout.staging_folder(lake) / f"{label}.{uuid.uuid4().hex}.{owner.me()}"


def sweep(lake: Path) -> None:
    """Remove what ended sessions, readers and locks left over, and what no reader needs any more.

    What cannot be removed stays for the next sweep.
    """
    if isinstance(lake, RemotePath):
        return
    with suppress(OSError):
        for path in left_over(lake):
            with suppress(OSError, LakeError):
                if path.is_dir() and not path.is_symlink():
                    _clear(lake, path)
                else:
                    path.unlink()


def left_over(lake: Path) -> list[Path]:
    """Return what ended processes left over: entries of .staging, and drafts in the log."""
    found = [path for path in _children(layout.staging_folder(lake)) if not _is_in_use(lake, path)]
    drafts = (path for path in _children(log.folder_of(lake)) if path.name.startswith(log.DRAFT))
    return sorted([*found, *(path for path in drafts if not _is_in_use(lake, path))])


def orphans(lake: Path) -> list[str]:
    """Return the folders, relative to the lake, that neither the log nor a session names."""
    known = _wanted(lake)
    for session in _children(layout.staging_folder(lake)):
        known.update(_noted(session))
    notes = (str(note.relative_to(lake)) for pattern in _NOTES for note in lake.glob(pattern))
    return sorted(
        path
        for path in (*log.publications(lake), *notes)
        if path not in known and files.link_above(lake, path) is None  # what is behind a link is not ours
    )


def _wanted(lake: Path) -> set[str]:
    """Return the places of everything in the lake, and of the notes on it."""
    snapshot = log.read(lake)
    runs, comparisons = {*layout.runs(snapshot), *layout.monitored(snapshot)}, layout.comparisons(snapshot)
    tops = [*(f"run={run}" for run in runs), *map(layout.comparison_name, comparisons)]
    return {place.path for place in snapshot.places.values()} | {f"{top}/{layout.NOTE_FILE}" for top in tops}


def unfit(lake: Path) -> list[str]:
    """Return where the folders of `lake` do not match its log, and which files are damaged, a line for each."""
    snapshot = log.read(lake)
    gone = log.missing(snapshot)
    found = [f"a file is gone: {name}" for name in gone]
    found += [f"cannot be read: {path}" for path in log.damaged(lake)]
    found += [f"damaged: {path}; {damage.remedy(path)}" for _, path in inspection.damaged_files(snapshot, gone)]
    if isinstance(lake, RemotePath):  # where nobody can tell what is left over from what is being written
        return found
    found += [f"left over: {path}" for path in left_over(lake) if not _is_kept_for_readers(path)]
    return found + [f"left over: {lake / path}" for path in orphans(lake)]


def repair(lake: Path) -> list[str]:
    """Make the log fit the folders, and remove what is damaged or left over. Returns what was done, one line each."""
    store.must_be_local(lake, "nothing is repaired")
    store.adopt(lake)
    sweep(lake)
    done = log.rebuild(lake)
    damaged = dict(inspection.damaged_files(log.read(lake)))
    log.append(lake, "repair", {}, damaged)
    done += [f"taken out, since {path} is damaged: {name}" for name, path in damaged.items()]
    for path in orphans(lake):
        _remove_place(lake, path)
        done.append(f"removed, since nothing names it: {path}")
    return done


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _is_in_use(lake: Path, path: Path) -> bool:
    if path.name.endswith(_LOCK):
        return _is_held(path)
    if _is_kept_for_readers(path):
        return _has_older_reader(lake)
    return owner.is_alive(path.name.rpartition(".")[2], path)


def _is_kept_for_readers(path: Path) -> bool:
    """Return whether `path` lists what readers needed when it was replaced: the next writer removes it, all is well."""
    return path.name.startswith(f"{_ENDED}.")


def _is_held(path: Path) -> bool:
    try:
        with os.fdopen(files.open_own(path, os.O_RDWR), "rb") as file:
            return not files.lock(file)
    except OSError:
        return not _is_no_lock(path)


def _is_no_lock(path: Path) -> bool:
    """Return whether `path` is a link or a pipe, which nobody can hold as a lock."""
    try:
        return not stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _clear(lake: Path, folder: Path) -> None:
    """Remove the folder of an ended session, and what it listed that is not in the lake.

    What readers still use stays until they have ended.
    """
    wanted = _wanted(lake)
    paths = [path for path in _noted(folder) if path not in wanted]
    if not _has_older_reader(lake):
        for path in paths:
            with suppress(OSError):
                _remove_place(lake, path)
    if any(_is_left(lake, path) for path in paths):
        folder.rename(folder.with_name(f"{_ENDED}.{uuid.uuid4().hex}"))
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _noted(folder: Path) -> list[str]:
    """Return the paths that a session listed. Paths that are not valid places in a lake are left out."""
    try:
        noted = json.loads(files.read_bounded(folder / _PLACES, LARGEST_RECORD))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, files.NoFileError, ValueError, RecursionError):
        return []
    paths = noted if isinstance(noted, list) else []
    return [path for path in paths if isinstance(path, str) and (log.is_place(path) or _NOTE.fullmatch(path))]


def _is_left(lake: Path, path: str) -> bool:
    """Return whether something of an abandoned folder is left."""
    place = lake / path
    return os.path.lexists(place) if log.has_publication(path) else bool(_files_in(place))


def _files_in(place: Path) -> list[Path]:
    """Return what an older release put into a folder. Notes and the folders of publications may be there too."""
    if place.is_symlink() or not place.is_dir():
        return [place] if os.path.lexists(place) else []
    return [
        child
        for child in _children(place)
        if (child.name != layout.NOTE_FILE if child.is_file() else "=" in child.name)
    ]


def _remove_place(lake: Path, path: str) -> None:
    files.refuse_links(lake, [path])
    place = lake / path
    for left in [place] if log.has_publication(path) else _files_in(place):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)
    files.remove_empty([place, *(lake / parent for parent in Path(path).parents if str(parent) != ".")])


def _has_older_reader(lake: Path) -> bool:
    """Return whether somebody reads the lake in a state before the last publication."""
    number = log.read(lake).number
    for path in _children(layout.staging_folder(lake)):
        found = _READ_SINCE.match(path.name)
        if found and int(found[1]) < number and owner.is_alive(path.name.rpartition(".")[2], path):
            return True
    return False
