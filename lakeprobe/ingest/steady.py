"""Files that must not change while they are read: half of an old dump and half of a new one are no dump."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lakeprobe.errors import DumpError


class Steady:
    """The files of a dump as they were before they were read. Costs two calls of stat per file."""

    def __init__(self) -> None:
        """Know no file yet."""
        self._states: dict[Path, tuple[int, int, int] | None] = {}

    def see(self, file: Path) -> None:
        """Remember what `file` is like, before it is read for the first time."""
        if file not in self._states:
            self._states[file] = _state(file)

    def check(self) -> None:
        """Raise DumpError if a file is no longer what it was."""
        for file, state in self._states.items():
            if _state(file) != state:
                raise DumpError(f"{file} changed while it was read; wait until it is written, and read it again")


@contextmanager
def steady(files: Iterable[Path]) -> Iterator[None]:
    """Raise DumpError if one of `files` has changed when the block ends.

    If the block fails with a DumpError, the change is its cause: half a file cannot be read.
    """
    seen = Steady()
    for file in files:
        seen.see(file)
    try:
        yield
    except DumpError:
        seen.check()
        raise
    seen.check()


def _state(file: Path) -> tuple[int, int, int] | None:
    """Return what differs after a write: the size, the time of change, and the inode. None if there is no file."""
    try:
        state = file.stat()
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns, state.st_ino
