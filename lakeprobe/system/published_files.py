"""The Parquet files of a lake at an address, as DuckDB reads them: through a file system of fsspec.

They never change once they are published. DuckDB opens a file for each query and asks for its size each time, and a
request takes longer than its bytes. So facts are asked for once, and small files are fetched once.
"""

from __future__ import annotations

import io
from functools import cache
from typing import Any

from fsspec import AbstractFileSystem

from lakeprobe.system.storage import RemoteFile, RemotePath, fetched, persistently

_LARGEST_FETCHED = 64 << 20
"""Bytes of the largest file that is fetched as a whole. Larger ones are read in ranges."""
_BLOCK = 4 << 20


@cache
def published_files(system: Any) -> AbstractFileSystem:
    """Return a file system for the Parquet files of the lakes on `system`."""
    return _PublishedFiles(system)


class _PublishedFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    cachable = False

    def __init__(self, system: Any) -> None:
        super().__init__()
        self.protocol = system.protocol
        self._system = system
        self._known: dict[str, dict[str, Any]] = {}

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        if path not in self._known:
            self._known[path] = persistently(path, lambda: self._system.info(path))
        return self._known[path]

    def exists(self, path: str, **options: Any) -> bool:
        try:
            return bool(self.info(path))
        except FileNotFoundError:
            return False

    def modified(self, path: str) -> Any:
        return self.info(path).get("LastModified") or self._system.modified(path)

    def glob(self, path: str, **options: Any) -> list[str]:
        if not any(wildcard in path for wildcard in "*?["):
            return [path]
        return [self._system.unstrip_protocol(found) for found in self._system.glob(path, **options)]

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if int(self.info(path)["size"]) > _LARGEST_FETCHED:
            return io.BufferedReader(RemoteFile(RemotePath(path)), _BLOCK)
        return _Copy(fetched(path))


class _Copy(io.RawIOBase):
    """A file that DuckDB drops without closing it."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 as long as this lives

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()
