"""Walks the entries of a tar file, plain or as it is unpacked, with the standard library's tarfile.

tarfile takes a damaged header for the end of the archive, and reads headers of any length. So it reads them through
`_Headers`, which limits what an entry may say of itself, and knows what stood where tarfile saw the end. The text of
a pax header has no checksum: before Python 3.11.10, 3.12.6 and 3.13, tarfile stops at a damaged record without a word,
so that a file may get a shortened name.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Protocol, cast

from lakeprobe.errors import DumpError
from lakeprobe.readers.archive_index import DAMAGED, UNPACK

BLOCK = tarfile.BLOCKSIZE
_LONGEST_HEADER = 1 << 16
"""Bytes that tell of one entry (its header, pax, GNU's long names): a name and a target of 4096 characters fit."""
_LARGEST = 1 << 43
"""The maximum length of a file in bytes. Few systems can seek much farther."""
_MOST_GLOBAL_KEYS = 100
"""The maximum number of global pax headers. tarfile applies them to each entry."""
_TOO_MANY_DIGITS = re.compile(rb"\d{256}")
"""More digits than any header has. Before Python 3.11.10 tarfile takes quadratic time for them (CVE-2024-6232)."""
_DUMPED_FOLDER, _VOLUME_LABEL = b"D", b"V"
"""Types of GNU tar's: a folder in an incremental backup, and the name of the archive."""
_BROKEN = (tarfile.TarError, ValueError, LookupError, OverflowError, RecursionError)
"""The errors of tarfile for damaged headers. The last four are for sparse files, forged sizes and long chains."""


class Stream(Protocol):
    """A binary file that is read forwards only."""

    def read(self, size: int, /) -> bytes:
        """The next `size` bytes, fewer only at the end."""

    def tell(self) -> int:
        """How many bytes came before."""

    def seek(self, position: int, /) -> object:
        """Go on to `position`."""


def is_header(block: bytes) -> bool:
    """Return whether a file that begins with `block` is a tar file, intact or damaged."""
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return len(block) == BLOCK and block[257:262] == b"ustar"
    return True


def entries(stream: Stream, archive: Path) -> Iterator[tarfile.TarInfo]:
    """The entries of a tar file. While one is at hand, the stream stands at its data, which may be read.

    Raises DumpError where the file is damaged, ends too early, or has entries of a kind that is not read.
    """
    headers = _Headers(stream, archive)
    try:
        with tarfile.open(fileobj=cast(IO[bytes], headers), mode="r:", encoding="utf-8") as tar:
            while entry := tar.next():
                tar.members.clear()  # type: ignore[attr-defined]  # typeshed lacks it; tarfile keeps every entry there
                _check_global(tar.pax_headers, archive)
                _check(entry, headers.last, archive)
                headers.left = _LONGEST_HEADER
                yield entry
    except _BROKEN as error:
        raise DumpError(f"{archive}: no sound header before byte {stream.tell()} ({error}); {DAMAGED}") from error
    _check_end(headers.last, stream, archive)


def modified(entry: tarfile.TarInfo) -> int:
    """Return the time of change in ns since 1970, exact to the microsecond. 0 for an invalid or earlier time."""
    return int(entry.mtime * 10**6) * 10**3 if 0 <= entry.mtime < 10**10 else 0


class _Headers:
    """The file that tarfile reads headers from. `left` bytes are allowed for this entry; `last` is the last read."""

    def __init__(self, stream: Stream, archive: Path) -> None:
        self._stream, self._archive = stream, archive
        self.left = _LONGEST_HEADER
        self.last = b""

    def read(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise DumpError(f"{self._archive} has an entry with more than {_LONGEST_HEADER} bytes of header; {DAMAGED}")
        self.last = self._stream.read(size)
        self.left -= size
        if _TOO_MANY_DIGITS.search(self.last):
            raise DumpError(f"{self._archive} has a header with a number of more than 255 digits; {DAMAGED}")
        return self.last

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, position: int) -> object:
        return self._stream.seek(position)


def _check_global(said: Mapping[str, str], archive: Path) -> None:
    """Refuse global fields that only one entry can have. tarfile ignores such a size when it seeks the next entry."""
    if len(said) > _MOST_GLOBAL_KEYS or said.keys() & {"path", "linkpath", "size"}:
        raise DumpError(f"{archive} has a pax header that gives all entries one name or size; pack it again")


def _check(entry: tarfile.TarInfo, header: bytes, archive: Path) -> None:
    """Refuse an entry that cannot be read as tarfile describes it; `header` is its own."""
    name = f"{archive}: {entry.name[:80]!r}"
    if not _is_text(entry.name + entry.linkname):
        raise DumpError(f"{name} has a name that is not UTF-8 text; {UNPACK}")
    if entry.issparse() or any(key.startswith("GNU.sparse") for key in entry.pax_headers):
        raise DumpError(f"{name} is a sparse file; pack it again without --sparse")
    # GNU's times of an incremental backup stand where POSIX has a folder, for which tarfile takes them.
    if entry.type == _DUMPED_FOLDER or (header[257:265] == b"ustar  \0" and header[345]):
        raise DumpError(f"{name} is of an incremental backup; pack it again without --incremental")
    if entry.type not in (*tarfile.SUPPORTED_TYPES, _VOLUME_LABEL):
        raise DumpError(f"{name} is an entry of an unknown type {entry.type!r}; pack it again as plain tar")
    if not 0 <= entry.size <= _LARGEST or not entry.pax_headers.get("size", "0").isdecimal():
        raise DumpError(f"{name} has a size that no file has; {DAMAGED}")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_end(mark: bytes, stream: Stream, archive: Path) -> None:
    """Refuse an archive that does not end with a block of zeros."""
    if len(mark) < BLOCK:
        raise DumpError(f"{archive} ends before its end mark; {DAMAGED}")
    if any(mark):
        raise DumpError(f"{archive}: no sound header at byte {stream.tell() - BLOCK}; {DAMAGED}")
    while block := stream.read(1 << 20):
        if block.count(0) < len(block):
            raise DumpError(f"{archive} goes on after its end mark; give the archives in it one by one")
