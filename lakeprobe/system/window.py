"""Says what a file is that is a part of another one: what readers make of archives, and tensors are found in.

It stands apart from both, and imports nothing heavy, so that looking for dumps does not load numpy.
"""

from __future__ import annotations

from typing import NamedTuple


class Window(NamedTuple):
    """The bytes of a file that is a part of another: `length` bytes of `file` from `offset` on."""

    file: str
    offset: int
    length: int


class PathInFile:
    """What a path class is besides, if its files are parts of bigger ones, as the members of an archive are."""

    __slots__ = ()

    def window(self) -> Window:
        """Where the bytes of the file lie. Raises OSError if there is no such file."""
        raise NotImplementedError
