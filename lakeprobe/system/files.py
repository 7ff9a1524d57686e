"""Locks, drafts, the exchange of two folders and reading at an offset, with a substitute where a system lacks one.

Linux supports all of them. macOS cannot exchange folders; callers rename twice instead. Windows has neither POSIX locks
nor reads at an offset; `lock` raises a LakeError there.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lakeprobe.errors import LakeError

if TYPE_CHECKING or sys.platform != "win32":
    import fcntl
else:
    fcntl = None

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NO_EXCHANGE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTTY, errno.EPERM})
"""Errors of file systems and sandboxes that cannot exchange folders. A forbidden rename fails later."""

_BLOCK = 1 << 20


def lock(file: IO[Any], *, wait: bool = False) -> bool:
    """Lock the open `file` until this process ends. Return False if another process holds it and `wait` is false.

    Raises OSError, and LakeError on a system without such locks.
    """
    if fcntl is None:
        raise LakeError("Windows has no file locks as a lake needs them; run lakeprobe in WSL, on Linux or on macOS")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def unlock(file: IO[Any]) -> None:
    """Release a lock, also for child processes that have the file open."""
    fcntl.flock(file, fcntl.LOCK_UN)


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


def read_at(descriptor: int, buffer: memoryview, offset: int) -> int:
    """Read once into `buffer` from `offset` on. Return how many bytes, 0 at the end. Threads may share the file."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], offset)
    data = os.pread(descriptor, len(buffer), offset)
    buffer[: len(data)] = data
    return len(data)


def blocks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, a block at a time, so that it can be hashed without being held in memory."""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


@contextmanager
def draft(path: Path) -> Iterator[Path]:
    """Yield a hidden path to write to. It becomes `path` when the block ends, and is removed if that fails."""
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield hidden
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)
