"""The files and folders that commands write where their user says: never in a lake, never in place of a device or pipe.

A file is written as a draft beside its place, and moved there whole. A link is followed, and stays.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakeprobe.errors import UsageError
from lakeprobe.lake import store
from lakeprobe.system import files


def refuse_lake(path: Path | None) -> None:
    """Raise UsageError if `path` is or leads into a lake, where it could take the place of a table. None does not."""
    if path is None:
        return
    place = Path(os.path.realpath(path))
    lake = next((folder for folder in (place, *place.parents) if os.path.exists(folder / store.FILE)), None)
    if lake is not None:
        raise UsageError(f"{path} is in the lake {lake}; write to another folder")


def file_at(path: Path, *, new: bool = False) -> Path:
    """Return where the file `path` is to be put: links are followed, and a link to nothing gets its file.

    Raises UsageError for a place in a lake, for what is no regular file, and with `new` for a file that exists.
    """
    refuse_lake(path)
    mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode):
        raise UsageError(f"{path} is {files.kind_of(mode)}; name a file")
    if new and mode is not None:
        raise _existing(path)
    return Path(os.path.realpath(path))


def _mode(path: Path) -> int | None:
    """Return the mode of what is at `path`. None for nothing, and where whoever writes meets the same error."""
    try:
        return os.stat(path).st_mode
    except OSError as error:
        return stat.S_IFLNK if error.errno == errno.ELOOP else None


def _existing(path: Path) -> UsageError:
    return UsageError(f"{path} exists already; name another file, or remove it first")


@contextmanager
def draft(path: Path, *, new: bool = False) -> Iterator[Path]:
    """Yield a hidden path to write to. It becomes the file `path` when the block ends, and is removed if that fails.

    Raises UsageError as `file_at` does, and OSError.
    """
    place = file_at(path, new=new)
    hidden = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        yield hidden
        if not new:
            hidden.replace(place)
        elif not files.create_whole(hidden, place):
            raise _existing(path)
    except OSError as error:
        if str(error.filename) == str(hidden):
            error.filename = str(path)  # the name that the user knows
        raise
    finally:
        hidden.unlink(missing_ok=True)


def check_folder(path: Path | None) -> None:
    """Raise UsageError, before work that takes long, if files cannot go into `path`: it is in a lake, or no folder."""
    refuse_lake(path)
    mode = None if path is None else _mode(path)
    if mode is not None and not stat.S_ISDIR(mode):
        raise UsageError(f"{path} is {files.kind_of(mode)}; name a folder")


def folder(path: Path) -> Path:
    """Return the folder `path`, which is created if there is none. Raises UsageError in a lake, and OSError."""
    refuse_lake(path)
    path.mkdir(parents=True, exist_ok=True)
    return path


def empty_folder(path: str | os.PathLike[str]) -> Path:
    """Return where the new or empty folder `path` is, with links followed. Raises UsageError for any other."""
    target = files.absolute(path)
    refuse_lake(target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target} is not an empty folder; choose another")
    return target.resolve()
