"""Files as each system offers them: locks, exclusive creation, sync, the exchange of two folders, reading at an offset.

Linux has all. macOS has no exchange: two renames stand in, which the caller makes. Windows has neither POSIX locks nor
reading at an offset; there `lock` says so in a LakeError. File systems without locks or links are told by their answer.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lakeprobe.errors import LakeError

if TYPE_CHECKING or sys.platform != "win32":
    import fcntl
else:
    fcntl = None

NO_SYNC = "LAKEPROBE_NO_SYNC"
"""The environment variable that leaves it to the system when files reach the disk: for scratch, and for tests."""

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NO_EXCHANGE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTTY, errno.EPERM})
"""What file systems and sandboxes answer that have no exchange; a rename that is truly forbidden fails by itself."""
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
"""What file systems answer that have no locks."""
_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV, errno.EINVAL})
"""What file systems answer that have no hard links, or no more of them."""
_NO_SYNC = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF})
"""What file systems answer that cannot sync a folder."""


def lock(file: IO[Any], *, wait: bool = False) -> bool:
    """Lock the open `file` for this process, however that ends; False if another holds it and we do not `wait`.

    Where the file system has no locks, True. Raises LakeError where the operating system has none, and OSError.
    """
    if fcntl is None:
        raise LakeError("Windows has no file locks as a lake needs them; run lakeprobe in WSL, on Linux or on macOS")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def unlock(file: IO[Any]) -> None:
    """Let go of a lock, also for child processes that have the file open."""
    try:
        fcntl.flock(file, fcntl.LOCK_UN)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def is_still(path: Path, file: IO[Any]) -> bool:
    """Whether `path` is the file that is open, and not gone or another one meanwhile."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def syncs() -> bool:
    """Whether files are to be on the disk before it is said that they are."""
    return not os.environ.get(NO_SYNC)


def leave_sync_to_the_system() -> None:
    """Let this process, and those that it starts, return before files are on the disk."""
    os.environ[NO_SYNC] = "1"


def sync(*paths: Path) -> None:
    """Have files and folders on the disk when this returns: a file its bytes, a folder its names. Raises OSError."""
    if not syncs():
        return
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            os.close(descriptor)


def sync_tree(top: Path) -> None:
    """`sync` every file and folder below `top`, and `top`: what is in a folder before the folder."""
    if syncs():
        for folder, _, names in os.walk(top, topdown=False):
            sync(*(Path(folder, name) for name in sorted(names)), Path(folder))


def create_whole(draft: Path, path: Path) -> bool:
    """Give the finished file `draft` the name `path`, which is then whole for whoever sees it.

    False if there is a `path` already, which stays as it is. Where the file system has no links, `path` is created
    and written: a process that dies meanwhile leaves a part of it. `draft` stays. Raises OSError.
    """
    try:
        os.link(draft, path)
    except FileExistsError:
        return draft.samefile(path)  # NFS may have lost its first answer
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _create(draft, path)
    return True


def _create(draft: Path, path: Path) -> bool:
    try:
        with path.open("xb") as file:
            file.write(draft.read_bytes())
    except FileExistsError:
        return False
    sync(path)
    return True


def link_or_copy(source: Path, target: Path) -> None:
    """The file `source` under another name as well: as a hard link where there are such, else as a copy."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copyfile(source, target)


def make_folders(folder: Path) -> list[Path]:
    """Make `folder` and its parents. Returns the folders that have a new name in them."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
    return [path.parent for path in missing]


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove those of `folders` that are empty, in their order."""
    for folder in folders:
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return


def exchange(first: Path, second: Path) -> bool:
    """Swap two folders in one system call. False where the system or the file system cannot. Raises OSError."""
    if not sys.platform.startswith("linux"):
        return False
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    if ctypes.get_errno() in _NO_EXCHANGE:
        return False
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(second))


def put_in_place(draft: Path, target: Path) -> None:
    """Rename the folder `draft` to `target`. What stands there is replaced: at once where the system can, else by two
    renames, and is removed. Raises OSError.
    """
    if not target.exists():
        draft.rename(target)
    elif not exchange(draft, target):
        old = draft.with_name(draft.name + ".old")
        target.rename(old)
        draft.rename(target)
        shutil.rmtree(old)


def read_at(descriptor: int, buffer: memoryview, offset: int) -> int:
    """Read into `buffer` from `offset` on, as many bytes as come at once; 0 at the end. Threads may share the file."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], offset)
    data = os.pread(descriptor, len(buffer), offset)
    buffer[: len(data)] = data
    return len(data)
