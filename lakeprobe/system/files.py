"""Files as each system offers them: locks, exclusive creation, sync, the exchange of two folders, reading.

Linux supports all of them. macOS cannot exchange folders; callers rename twice instead. Windows has neither POSIX locks
nor reads at an offset; `lock` raises a LakeError there. A file system without locks or links shows that by its errors.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from lakeprobe.bounds import LARGEST_CONFIGURATION
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.shown import as_text
from lakeprobe.system.storage import RemotePath, is_address
from lakeprobe.system.window import PathInFile

if TYPE_CHECKING or sys.platform != "win32":
    import fcntl
else:
    fcntl = None

LONGEST_NAME = 255
"""The maximum length in bytes of a file or folder name on all common file systems."""

_FILE_ADDRESS = re.compile(r"^file:/+")

NO_SYNC = "LAKEPROBE_NO_SYNC"
"""The environment variable that lets the system decide when files reach the disk. It suits scratch data and tests."""

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NO_EXCHANGE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTTY, errno.EPERM})
"""Errors of file systems and sandboxes that cannot exchange folders. A forbidden rename fails later."""
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
"""Errors of file systems without locks."""
_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV, errno.EINVAL})
"""Errors of file systems without hard links, or with too many."""
_NO_SYNC = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF})
"""Errors of file systems that cannot sync a folder."""

_BLOCK = 1 << 20


class NoFileError(OSError):
    """Something else is in the place of a file: a pipe, a device, a link to nothing."""


def lock(file: IO[Any], *, wait: bool = False) -> bool:
    """Lock the open `file` until this process ends. Return False if another process holds it and `wait` is false.

    Returns True if the file system has no locks. Raises OSError, and LakeError on a system without such locks.
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
    """Release a lock, also for child processes that have the file open."""
    try:
        fcntl.flock(file, fcntl.LOCK_UN)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def is_still(path: Path, file: IO[Any]) -> bool:
    """Return whether `path` is still the open file. False if it was removed or replaced."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def syncs() -> bool:
    """Return whether files must be on the disk before success is reported."""
    return not os.environ.get(NO_SYNC)


def leave_sync_to_the_system() -> None:
    """Let this process and its child processes report success before files are on the disk."""
    os.environ[NO_SYNC] = "1"


def sync(*paths: Path) -> None:
    """Flush files and folders to the disk: the bytes of a file, the names in a folder. Raises OSError."""
    if not syncs():
        return
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # do not wait for a pipe's writer
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            os.close(descriptor)


def sync_tree(top: Path) -> None:
    """`sync` `top` and every file and folder below it. The content of a folder comes before the folder."""
    if syncs():
        for folder, _, names in os.walk(top, topdown=False):
            sync(*(Path(folder, name) for name in sorted(names)), Path(folder))


def create_whole(draft: Path, path: Path) -> bool:
    """Give the finished file `draft` the name `path`, so that nobody sees it incomplete.

    Returns False if `path` exists, which then stays as it is. On a file system without hard links, `path` is created
    and written, and a process that dies meanwhile leaves part of it. `draft` stays. Raises OSError.
    """
    try:
        os.link(draft, path)
    except FileExistsError:
        return draft.samefile(path)  # NFS may have lost the reply to a link that succeeded
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
    """Give the file `source` a second name: a hard link if the file system has them, else a copy."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copyfile(source, target)


def make_folders(folder: Path) -> list[Path]:
    """Create `folder` and its missing parents. Returns the folders that got a new entry."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
    return [path.parent for path in missing]


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove those of `folders` that are empty, in their order. Stops at the first that is not."""
    for folder in folders:
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Create `folder` and its missing parents. If the block fails, those of them that are empty are removed again."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        remove_empty(missing)
        raise


def exchange(first: Path, second: Path) -> bool:
    """Swap two folders in one system call. Return False if the system or file system cannot. Raises OSError."""
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
    """Rename the folder `draft` to `target`, and remove the folder that was there. Raises OSError.

    The replacement is atomic if the system can exchange folders. Otherwise it takes two renames.
    """
    if not target.exists():
        draft.rename(target)
    elif not exchange(draft, target):
        old = draft.with_name(draft.name + ".old")
        target.rename(old)
        draft.rename(target)
        shutil.rmtree(old)


def read_at(descriptor: int, buffer: memoryview, offset: int) -> int:
    """Read once into `buffer` from `offset`. Return the number of bytes, 0 at the end. Threads may share the file."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], offset)
    data = os.pread(descriptor, len(buffer), offset)
    buffer[: len(data)] = data
    return len(data)


def reserve(file: BinaryIO, size: int) -> None:
    """Have the system find room for `size` bytes that are to be written next, which costs less than block by block."""
    file.flush()
    if hasattr(os, "posix_fallocate"):
        with suppress(OSError):  # a file system that cannot; a full one says so when the bytes are written
            os.posix_fallocate(file.fileno(), file.tell(), size)


def blocks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in blocks, so that it can be hashed without being held in memory."""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def open_regular(path: str | Path, buffering: int = -1) -> BinaryIO:
    """Return the file at `path`, opened for reading. `buffering` is the same as in `open`.

    Raises OSError, also if it is not a regular file: opening a pipe may block, reading it may never end, and a device
    has no end.
    """
    if isinstance(path, PathInFile):
        assert isinstance(path, Path)
        return path.open("rb", buffering)
    return open(descriptor_of(path), "rb", buffering)


def descriptor_of(path: str | Path) -> int:
    """Return a descriptor of the regular file at `path`, opened for reading. Raises OSError and ValueError."""
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)  # do not wait for a pipe's writer
    descriptor = os.open(path, flags)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise NoFileError(errno.EINVAL, f"it is {kind_of(mode)}, not a regular file", str(path))


def kind_of(mode: int) -> str:
    """Return what this mode, with links followed, describes. A link that can be followed for ever remains one."""
    kinds = {
        stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
        stat.S_IFDIR: "a folder", stat.S_IFREG: "a file", stat.S_IFLNK: "a link to itself",
    }  # fmt: skip
    return kinds.get(stat.S_IFMT(mode), "a special file")


def open_own(path: Path, flags: int) -> int:
    """Return a descriptor of the regular file at `path`, opened with `flags`, for a file that we write or lock.

    Raises OSError for a link, which may lead anywhere, and for a pipe, which would be waited for.
    """
    also = (getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOFOLLOW"))
    descriptor = os.open(path, flags | sum(also), 0o666)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise NoFileError(errno.EINVAL, f"it is {kind_of(mode)}, not a regular file", str(path))


def read_bounded(path: Path, most: int) -> bytes:
    """Return the bytes of a file of records. Raises OSError, and ValueError for a file of more than `most` bytes."""
    try:
        with open_regular(path) as file:
            data = _read_at_most(file, most + 1)
    except FileNotFoundError as error:
        if path.is_symlink():
            raise NoFileError(errno.ELOOP, "it is a link to nothing", str(path)) from error
        raise
    if len(data) > most:
        raise ValueError(f"{path}: it has more than {most} bytes")
    return data


def _read_at_most(file: IO[bytes], most: int) -> bytes:
    """Return the bytes of `file` from where it is, at most `most`. It takes no more memory than the file has bytes."""
    data = bytearray()
    while block := file.read(min(_BLOCK, most - len(data))):
        data += block
    return bytes(data)


def read_json(path: str | os.PathLike[str], where: str = "") -> Any:
    """Return what a configuration in JSON says. Raises UsageError, whose message begins with `where`."""
    try:
        return json.loads(read_bounded(Path(path), LARGEST_CONFIGURATION).decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{where}{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # of JSON or UTF-8
        raise UsageError(f"{where}{path} is not JSON: {error}") from error


def readable(path: Path) -> Path | BinaryIO:
    """Return what pyarrow reads the file `path` of a lake from. Raises LakeError as `refuse_special` does."""
    refuse_special([path])
    return cast(BinaryIO, path.open("rb")) if isinstance(path, RemotePath) else path


def refuse_special(paths: Iterable[str | Path]) -> None:
    """Raise LakeError if one of `paths` is not a file but a pipe or a device, for which a library would wait.

    What is missing, or at an address, is left to whoever opens it. Each path takes 3 µs.
    """
    for path in paths:
        try:
            mode = os.stat(path).st_mode
        except OSError:
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise LakeError(f"{path} is {kind_of(mode)}, not a regular file; take it out: lakeprobe check --repair")


def refuse_links(top: Path, paths: Iterable[str]) -> None:
    """Raise LakeError if a folder above one of `paths`, which are relative to `top`, is a link.

    What is written, moved or removed behind a link is elsewhere. The last part of a path may be a link: only the link
    is then moved or removed.
    """
    if link := next((link for path in paths if (link := link_above(top, path))), None):
        raise LakeError(
            f"{link} is a link, and nothing is written or removed behind it; put the folder itself in its place, or "
            "remove the link"
        )


def link_above(top: Path, path: str) -> Path | None:
    """Return the first folder above `path`, which is relative to `top`, that is a link. None if there is none."""
    folders = (top / folder for folder in reversed(Path(path).parents[:-1]))
    return next((folder for folder in folders if folder.is_symlink()), None)


def leads_out(path: str | Path, root: str | Path) -> bool:
    """Return whether `path`, with links resolved, is outside the folder `root`."""
    real, top = os.path.realpath(path), os.path.realpath(root)
    return os.path.commonpath((real, top)) != top


def has_working_directory() -> bool:
    """Return whether the folder that this process is in still exists. Without it, no relative path means anything."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def absolute(path: str | os.PathLike[str]) -> Path:
    """Return `path` as an absolute path with ~ expanded. Raises UsageError if ~ names no user, or for no text."""
    place = expanded(path).absolute()
    check_text(str(place))
    return place


def check_text(given: str) -> None:
    """Raise UsageError for a path or word that is not UTF-8: no table and no query can hold it."""
    if as_text(given) != given:
        raise UsageError(f"{as_text(given):.200} is not UTF-8 text; rename it, or write it in UTF-8")


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return `path` with ~ expanded. Raises UsageError if ~ names no user, or if a name is too long.

    The address file:///data/lake, of which pathlib keeps one slash, is the path /data/lake of this machine.
    """
    if isinstance(path, PathInFile):
        assert isinstance(path, Path)
        return path  # keeps its class, and is absolute
    path = _FILE_ADDRESS.sub("/", os.fspath(path))
    if is_address(path):
        return RemotePath(path)
    longest = max((len(os.fsencode(part)) for part in Path(path).parts), default=0)
    if longest > LONGEST_NAME:
        raise UsageError(f"{os.fspath(path)!s:.80}… has a name of {longest} bytes; a file's has {LONGEST_NAME} at most")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{os.fspath(path)}: {error}; write the folder itself") from error
