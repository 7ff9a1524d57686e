"""Files on object storage and other remote file systems, by fsspec: s3://, gs://, abfs://, hdfs:// and more.

Every access to such files is here. A path is an address such as s3://bucket/dump/step0, and behaves as other paths do.
Bytes are read in ranges. What fails for a moment (a cut connection, a busy server) is asked for again from where it
ended. Credentials and endpoints come from where each library looks for them: environment, files, the machine's role.
"""

from __future__ import annotations

import errno
import io
import math
import os
import re
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from inspect import signature
from pathlib import Path, PosixPath
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NoReturn, Self, TypeVar, cast

from lakeprobe.errors import UsageError
from lakeprobe.system.window import PathInFile, Window

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    import duckdb

Result = TypeVar("Result")

_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):/+(?P<rest>.*)", re.DOTALL)
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs"}
"""The package that fsspec needs for a scheme, where it is not one of lakeprobe's own."""
_FAULTS = (
    ("botocore.exceptions", "BotoCoreError"),
    ("aiohttp", "ClientError"),
    ("gcsfs.retry", "HttpError"),
    ("google.auth.exceptions", "GoogleAuthError"),
    ("azure.core.exceptions", "AzureError"),
)
"""Errors of the libraries below fsspec that are not OSError."""
_FINAL = (FileNotFoundError, PermissionError, FileExistsError, IsADirectoryError, NotADirectoryError)
_ATTEMPTS = 5
_FIRST_PAUSE = 0.1
"""Seconds before the second attempt. Each pause is three times as long as the one before: 4 s in all."""
_BLOCK = 4 << 20
"""Bytes that are asked for at once."""
_MOST_FETCHED = 2 << 30
"""Bytes of files of lakes that are kept on this machine."""


def is_address(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` is an address and not a path of this machine."""
    return _ADDRESS.match(os.fspath(path)) is not None


class RemotePath(PosixPath, PathInFile):
    """An address. Whether something exists is asked anew each time; other facts may be as of the last listing."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return the address, of which pathlib drops the second slash, or what is left relative to one."""
        match = _ADDRESS.match(super().__str__())
        return f"{match['scheme']}://{match['rest']}" if match else super().__str__()

    def is_absolute(self) -> bool:
        """Every address is."""
        return True

    def absolute(self) -> Self:
        """Return the same."""
        return self

    def resolve(self, strict: bool = False) -> Self:
        """Return the same: there are no links."""
        return self

    def expanduser(self) -> Self:
        """Return the same."""
        return self

    def _info(self) -> dict[str, Any]:
        system, key = _system(str(self))
        return cast(dict[str, Any], persistently(str(self), lambda: system.info(key)))

    def names(self) -> dict[str, bool]:
        """Return the names in the folder, and whether each is a folder. Raises OSError."""
        system, key = _system(str(self))
        try:
            found = persistently(str(self), lambda: system.ls(key, detail=True, refresh=True))
        except TypeError:  # a file system without a cache has no `refresh`
            found = persistently(str(self), lambda: system.ls(key, detail=True))
        below = [entry for entry in found if entry["name"].strip("/") != key.strip("/")]
        names = {entry["name"].rstrip("/").rpartition("/")[2]: entry["type"] == "directory" for entry in below}
        return {name: names[name] for name in sorted(names)}

    def iterdir(self) -> Generator[Self, None, None]:
        """Yield the paths in the folder."""
        for name in self.names():
            yield self / name

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is a file or folder now."""
        system, key = _system(str(self))
        system.invalidate_cache(system._parent(key))
        return self._is(lambda kind: True)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is a file."""
        return self._is(lambda kind: kind == "file")

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is a folder: something lies in it."""
        return self._is(lambda kind: kind == "directory")

    def _is(self, kind: Callable[[str], bool]) -> bool:
        try:
            return kind(self._info()["type"])
        except FileNotFoundError:
            return False

    def is_symlink(self) -> bool:
        """There are no links."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return kind, length and time of change; all else is 0."""
        info = self._info()
        if info["type"] == "directory":
            return os.stat_result((stat.S_IFDIR | 0o500, 0, 0, 1, 0, 0, 0, 0, 0, 0))
        seconds = _modified(info)
        exact = {"st_mtime": seconds, "st_mtime_ns": round(seconds * 1e9)}
        return os.stat_result((stat.S_IFREG | 0o400, 0, 0, 1, 0, 0, int(info["size"]), 0, int(seconds), 0), exact)

    def glob(self, pattern: str, **options: Any) -> Generator[Self, None, None]:
        """Yield the paths below that match `pattern`, whose parts have the wildcards of fnmatch."""
        first, _, rest = pattern.partition("/")
        names = self.names() if self.is_dir() else {}
        for name, is_folder in names.items():
            if fnmatchcase(name, first) and (is_folder or not pattern.endswith("/")):
                yield from (self / name).glob(rest) if rest else (self / name,)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> NoReturn:
        """Raise OSError: nothing is written in place."""
        raise self._refusal()

    def touch(self, mode: int = 0o666, exist_ok: bool = True) -> NoReturn:
        """Raise OSError: nothing is written in place."""
        raise self._refusal()

    def _refusal(self) -> OSError:
        return OSError(errno.EROFS, "files on remote storage are not written in place", str(self))

    def lstat(self) -> os.stat_result:
        """Return the same as `stat`."""
        return self.stat()

    def open(  # type: ignore[override]  # pathlib has an overload for each kind of file
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Return the file, to read from."""
        if mode not in ("r", "rt", "rb"):
            raise self._refusal()
        if _copies.are_kept:
            return open(_copies.of(self), mode, buffering, encoding, errors, newline)
        raw = RemoteFile(self)
        if mode == "rb":
            return cast(BinaryIO, raw if buffering == 0 else io.BufferedReader(raw, _BLOCK))
        return io.TextIOWrapper(io.BufferedReader(raw, _BLOCK), encoding or "utf-8", errors, newline)

    def window(self) -> Window:
        """Return the place of a copy of the file on this machine, which lasts as long as `copying`. Raises OSError."""
        return Window(_copies.of(self), 0, self.stat().st_size)

    def __reduce__(self) -> tuple[Any, ...]:
        return RemotePath, (str(self),)


class RemoteFile(io.RawIOBase):
    """A remote file, read in ranges."""

    def __init__(self, path: RemotePath) -> None:
        info = path._info()
        if info["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        self.name, self._length, self._position = str(path), int(info["size"]), 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As that of a file."""
        self._position = offset + (0, self._position, self._length)[whence]
        return self._position

    def tell(self) -> int:
        """As that of a file."""
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read at most a block."""
        view = memoryview(buffer).cast("B")
        data = read_range(self.name, self._position, min(self._length, self._position + min(len(view), _BLOCK)))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)


def read_range(address: str, start: int, end: int) -> bytes:
    """Return the bytes of a file from `start` up to `end`, after as many attempts as it takes. Raises OSError."""
    system, key = _system(address)
    parts: list[bytes] = []

    def read_rest() -> None:
        have = start + sum(map(len, parts))
        if have < end:
            parts.append(system.cat_file(key, start=have, end=end))
        if start + sum(map(len, parts)) < end:
            raise OSError(errno.EIO, "the connection ended before the file did", address)

    persistently(address, read_rest)
    return b"".join(parts)


def descriptor_of_range(address: str, start: int, length: int) -> int:
    """Return a descriptor of a file of this machine that has these bytes of the remote one, at the same place.

    It has no name, so it goes when it is closed. Raises OSError.
    """
    from tempfile import TemporaryFile

    size = RemotePath(address).stat().st_size
    end = min(start + length, size)
    with TemporaryFile(prefix="lakeprobe-") as file:
        file.truncate(size)  # no room is taken by what is not written
        file.seek(start)
        for first in range(start, end, _BLOCK):
            file.write(read_range(address, first, min(first + _BLOCK, end)))
        file.flush()
        return os.dup(file.fileno())


def create(path: RemotePath, data: bytes) -> bool:
    """Write a file that does not exist yet, by a conditional put. Returns False if it exists. Raises OSError.

    The reply to a put that succeeded may be lost, so a file with these bytes counts as ours: they must be unique.
    Raises UsageError if the file system would replace a file that exists.
    """
    system, key = _system(str(path))
    if "mode" not in signature(getattr(system, "_pipe_file", system.pipe_file)).parameters:
        raise UsageError(
            f"{path}: {type(system).__name__} cannot create a file exclusively, so no lake is written there"
        )
    try:
        persistently(str(path), lambda: system.pipe_file(key, data, mode="create"))
    except FileExistsError:
        return path.read_bytes() == data
    return True


def write(path: RemotePath, data: bytes) -> None:
    """Write a file, in place of another if there is one. Raises OSError."""
    system, key = _system(str(path))
    persistently(str(path), lambda: system.pipe_file(key, data))


def upload(folder: Path, target: RemotePath) -> None:
    """Write the files of a folder of this machine below `target`. Raises OSError."""
    for top, _, names in os.walk(folder):
        for name in sorted(names):
            source = Path(top, name)
            system, key = _system(str(target / source.relative_to(folder)))
            persistently(key, partial(system.put_file, str(source), key))


def connect(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Let a connection read the files below `path`, which is in a lake, if that is an address."""
    if isinstance(path, RemotePath):
        system, _ = _system(str(path))
        from lakeprobe.system.published_files import published_files  # fsspec, which few lakes need

        protocols = (system.protocol,) if isinstance(system.protocol, str) else system.protocol
        if not any(map(connection.filesystem_is_registered, protocols)):
            connection.register_filesystem(published_files(system))


def fetched(address: str) -> str:
    """Return a copy on this machine of a small file that never changes. Raises OSError."""
    return _fetched.of(RemotePath(address))


# ---- copies on this machine -------------------------------------------------------------------------------


class _Copies:
    """Copies of the files that a unit is made of. Some are read twice, and tensors at an offset, by a descriptor."""

    def __init__(self, most: float = math.inf) -> None:
        """Keep `most` bytes, the newest ones, and the last file in any case."""
        self.are_kept = False
        self.folder: TemporaryDirectory[str] | None = None
        self._files: dict[str, str] = {}
        self._most, self._lock = most, threading.Lock()

    def of(self, path: RemotePath) -> str:
        """Return the copy of `path`, which is fetched if there is none. Raises OSError."""
        with self._lock:
            address = str(path)
            if address not in self._files:
                self._files[address] = self._fetch(path)
                while len(self._files) > 1 and sum(map(os.path.getsize, self._files.values())) > self._most:
                    Path(self._files.pop(next(iter(self._files)))).unlink()  # who has it open can read on
            return self._files[address]

    def _fetch(self, path: RemotePath) -> str:
        from tempfile import NamedTemporaryFile, TemporaryDirectory

        if self.folder is None:
            self.folder = TemporaryDirectory(prefix="lakeprobe-")
        with (
            NamedTemporaryFile(dir=self.folder.name, delete=False) as target,
            io.BufferedReader(RemoteFile(path), _BLOCK) as source,
        ):
            shutil.copyfileobj(source, target, _BLOCK)
            return target.name

    def clear(self) -> None:
        if self.folder is not None:
            self.folder.cleanup()
        self.folder, self._files, self.are_kept = None, {}, False

    def has(self, file: str) -> bool:
        return file in self._files.values()


_copies = _Copies()
_fetched = _Copies(most=_MOST_FETCHED)
"""Copies of the small files of lakes, until the process ends."""


@contextmanager
def copying() -> Iterator[None]:
    """Fetch every remote file that is opened once, and keep the copies until the block ends."""
    _copies.are_kept = True
    try:
        yield
    finally:
        _copies.clear()


def is_copy(file: str) -> bool:
    """Return whether `file` is a copy that goes when `copying` ends."""
    return _copies.has(file)


# ---- file systems -----------------------------------------------------------------------------------------


def _system(address: str) -> tuple[Any, str]:
    """Return fsspec's file system for an address, and what it calls the file. Raises UsageError."""
    match = _ADDRESS.match(address)
    assert match is not None, address
    scheme = match["scheme"]
    try:
        import fsspec

        return cast(tuple[Any, str], fsspec.core.url_to_fs(address))
    except ImportError as error:
        package = _PACKAGES.get(scheme, "fsspec")
        raise UsageError(f"{address} cannot be reached: {error}; install it with: pip install {package}") from None
    except ValueError as error:
        raise UsageError(f"{address}: {error}") from None


def persistently(address: str, action: Callable[[], Result]) -> Result:
    """Return what `action` returns, after some attempts if the network or the server fails. Raises OSError."""
    pause = _FIRST_PAUSE
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return action()
        except _FINAL as error:
            raise type(error)(error.errno or errno.ENOENT, _reason(error), address) from error
        except _faults() as error:
            if attempt == _ATTEMPTS:
                reason = f"{_reason(error)} ({_ATTEMPTS} attempts)"
                raise OSError(getattr(error, "errno", None) or errno.EIO, reason, address) from error
            time.sleep(pause)
            pause *= 3
    raise AssertionError("the last attempt returns or raises")


def _faults() -> tuple[type[BaseException], ...]:
    return (OSError, *(getattr(sys.modules[module], name) for module, name in _FAULTS if module in sys.modules))


def _reason(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        return os.strerror(errno.ENOENT)
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(said).splitlines()[0]


def _modified(info: dict[str, Any]) -> float:
    """Return the time of change, in seconds since 1970. Every file system has a name of its own for it."""
    from datetime import datetime

    for name in ("LastModified", "mtime", "updated", "last_modified", "modified", "created"):
        value = info.get(name)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, (int, float)):
            return float(value)
        if isinstance(value, str):
            return datetime.fromisoformat(value).timestamp()
    return 0.0
