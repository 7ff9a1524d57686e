"""Opens a lake: checks its format version, and creates a lake if there is none."""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path

from lakeprobe.bounds import LARGEST_RECORD
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import layout, log
from lakeprobe.schema import FORMAT_VERSION, READABLE_VERSIONS
from lakeprobe.system import files, owner, storage
from lakeprobe.system.files import absolute
from lakeprobe.system.storage import RemotePath

ENVIRONMENT_VARIABLE = "LAKEPROBE_LAKE"
DEFAULT = "lake"
FILE = "lake.yaml"
_DESCRIPTION = f"format: {FORMAT_VERSION}\n".encode()
"""What this release writes into it."""


def choose(path: str | os.PathLike[str] | None) -> Path:
    """Return the absolute path of the lake: `path`, else $LAKEPROBE_LAKE, else ./lake."""
    return absolute(path or os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT)


def exists(path: Path) -> bool:
    """Return whether there is a lake at `path`, of any format."""
    return (path / FILE).is_file()


def is_writable(path: Path) -> bool:
    """Return whether the lake at `path` can be written to. True if it does not exist yet."""
    if isinstance(path, RemotePath):
        return True
    return not exists(path) or os.access(path, os.W_OK)


def shadow(lake: Path) -> Path:
    """Create a temporary lake with links to the units, tables and noises of `lake`, and return its path.

    Each unit is a link of its own, so that a unit whose dump has changed can be read again here.
    """
    path = create(Path(tempfile.mkdtemp(prefix="lakeprobe-")))
    places = {name: place for name, place in log.read(lake).places.items() if not name.startswith("comparisons/")}
    put = {}
    for name, place in places.items():
        put[name] = place if log.has_publication(place.path) else log.Place(f"{name}/linked", place.files)
        here, original = path / put[name].path, lake / place.path
        if original.is_file():  # a table of an older release
            put[name] = place
            here = path / place.path
        here.parent.mkdir(parents=True, exist_ok=True)
        here.symlink_to(original, target_is_directory=original.is_dir())
    for note in lake.glob(f"run=*/{layout.NOTE_FILE}"):
        (path / note.relative_to(lake)).symlink_to(note)
    log.append(path, "a lake that cannot be written to", put)
    return path


_RECORDS = (".staging", ".collecting", ".shards", "log")
"""The folders in which a lake keeps what it knows of itself."""


def _refuse_links(path: Path) -> None:
    """Raise LakeError if records of a lake, which are written and removed all the time, would be elsewhere."""
    files.refuse_links(path, (f"{folder}/any" for folder in _RECORDS))


def check_place(path: Path) -> Path:
    """Return `path` if it is a lake or could become one. Raises LakeError."""
    _refuse_links(path)
    if exists(path):
        return check(path)
    if "\\" in str(path):
        raise LakeError(f"{path} cannot be a lake: DuckDB takes a backslash for a slash; choose another folder")
    try:
        is_other = path.exists() and not all(child.name in (".staging", "log", FILE) for child in path.iterdir())
        if is_other and not exists(path):  # otherwise another process has just made it
            raise LakeError(f"{path} is not a lake and not empty; choose another folder with --lake")
    except OSError as error:
        raise LakeError(f"{path} cannot be made a lake: {error.strerror}") from error
    return path


def must_be_local(lake: Path, what: str) -> None:
    """Raise UsageError for something that a lake on remote storage does not offer."""
    if isinstance(lake, RemotePath):
        raise UsageError(f"{lake} is on remote storage, where {what}; do it in a lake in a folder")


def create(path: Path) -> Path:
    """Return the lake at `path`, which is created if there is none. Raises LakeError."""
    if exists(check_place(path)):
        return path
    try:
        if isinstance(path, RemotePath):
            log.begin(path)
            storage.write(path / FILE, _DESCRIPTION)
            return path
        changed = files.make_folders(layout.staging_folder(path))
        log.begin(path)
        _describe(path)
        files.sync(*changed, path)
    except OSError as error:
        raise LakeError(f"{path} cannot be made a lake: {error.strerror}") from error
    return path


def _describe(path: Path) -> None:
    """Write lake.yaml. The draft's name contains the owner, so that it is removed if the process is killed."""
    draft = layout.staging_folder(path) / f"{FILE}.{uuid.uuid4().hex}.{owner.me()}"
    try:
        draft.write_bytes(_DESCRIPTION)
        files.sync(draft)
        draft.replace(path / FILE)
    finally:
        draft.unlink(missing_ok=True)


def adopt(path: Path) -> None:
    """Give a lake of an older release a log and the current format. Its units stay where they are."""
    log.adopt(path)
    if _version(path) != FORMAT_VERSION:
        layout.staging_folder(path).mkdir(exist_ok=True)
        _describe(path)
        files.sync(path)


def check(path: Path) -> Path:
    """Return the lake at `path`. Raises LakeError if there is none, or if another release of lakeprobe wrote it."""
    _refuse_links(path)
    version = _version(path)
    if version not in READABLE_VERSIONS:
        advice = "ingest the dumps into a new one" if version in range(FORMAT_VERSION) else "install a newer lakeprobe"
        raise LakeError(f"the lake {path} has the format {version!s:.40}, this lakeprobe {FORMAT_VERSION}; {advice}")
    return path


def _version(path: Path) -> object:
    try:
        if files.read_bounded(path / FILE, LARGEST_RECORD) == _DESCRIPTION:  # as nearly always
            return FORMAT_VERSION
        from lakeprobe import strict_yaml

        return strict_yaml.read_record(path / FILE)["format"]
    except FileNotFoundError:
        raise LakeError(
            f"{path} is not a lake; name one with --lake or ${ENVIRONMENT_VARIABLE}, or ingest a dump first"
        ) from None
    except OSError as error:
        raise LakeError(f"{path / FILE} cannot be read: {error.strerror}") from error
    except (ValueError, LookupError, TypeError):
        raise LakeError(f"{path / FILE} is damaged; it should read 'format: {FORMAT_VERSION}'") from None
