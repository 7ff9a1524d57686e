"""Defines files that are part of another file: readers make them of archives, and tensors are read from them.

It is separate from both and imports nothing heavy, so that looking for dumps does not load numpy.
"""

from __future__ import annotations

from typing import NamedTuple


class Window(NamedTuple):
    """The bytes of a file inside another: `length` bytes of `file` from `offset` on."""

    file: str
    offset: int
    length: int


class PathInFile:
    """A mixin for paths whose files are part of other files, such as members of an archive."""

    __slots__ = ()

    def window(self) -> Window:
        """Return the place of the file's bytes. Raises OSError if there is no such file."""
        raise NotImplementedError
