"""A part of an open file, read as if it were a file."""

from __future__ import annotations

import io
from typing import Any

from lakeprobe.system.files import read_at


class PartOfFile(io.RawIOBase):
    """A part of an open file as a file of its own. Its place is its own too, so processes may share the descriptor."""

    def __init__(self, descriptor: int, offset: int, length: int, name: str) -> None:
        self._descriptor, self._offset, self._length, self.name = descriptor, offset, length, name
        self._position = 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As that of a file."""
        position = offset + (0, self._position, self._length)[whence]
        if position < 0:
            raise ValueError(f"negative seek position {position}")
        self._position = position
        return position

    def tell(self) -> int:
        """As that of a file."""
        return self._position

    def readinto(self, buffer: Any) -> int:
        """As that of a file, up to the end of the part."""
        view = memoryview(buffer).cast("B")[: max(0, self._length - self._position)]
        got = read_at(self._descriptor, view, self._offset + self._position) if view else 0
        self._position += got
        return got

    def readall(self) -> bytes:
        """The rest of the part."""
        data = bytearray(max(0, self._length - self._position))
        filled = 0
        while got := self.readinto(memoryview(data)[filled:]):
            filled += got
        return bytes(data[:filled])
