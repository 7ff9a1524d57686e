"""Lists the members of a zip file with the standard library's zipfile, and where the data of each lies.

zipfile goes by the directory at the file's end. It takes the last thing that looks like one, and does not say where
data begins. So the end record must be the file's last bytes, the first member its first ones, and the header before
each member must say what the directory says. Source: PKWARE's APPNOTE.TXT 6.3.10, section 4.3.16.
"""

from __future__ import annotations

import calendar
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from lakeprobe.errors import DumpError
from lakeprobe.readers.archive_index import DAMAGED, MOST_ENTRIES, UNPACK
from lakeprobe.system.zip_member import data_offset, raw_name

MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
"""How a zip begins: with a member, or, if it has none, with its end record."""
LARGEST_DIRECTORY = 1 << 29
"""Bytes. zipfile reads the directory at once, and makes objects of about 600 bytes of `MOST_ENTRIES` at most."""
_ENTRY_MAGIC = b"PK\x01\x02"
_END = struct.Struct("<4s4H8xH")
_ENCRYPTED = 1 | 1 << 6 | 1 << 13
_UNIX = 3
_STEP = 1 << 20


class Entry(NamedTuple):
    """A member: its name, what zipfile knows of it, and where its data begins in the file."""

    name: str
    info: zipfile.ZipInfo
    offset: int


class _Archive(io.BufferedReader):
    """A zip file that refuses to be read where zipfile would make too many objects of it."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > LARGEST_DIRECTORY:
            raise DumpError(f"{self.name} has a directory of {size} bytes, more than {LARGEST_DIRECTORY}; {UNPACK}")
        data = super().read(size)
        count = data.count(_ENTRY_MAGIC)
        if count > MOST_ENTRIES:
            raise DumpError(f"{self.name} has {count} entries, more than {MOST_ENTRIES}; {UNPACK}")
        return data


@contextmanager
def opened(archive: Path) -> Iterator[zipfile.ZipFile]:
    """The zip file, with a sound directory. Raises DumpError if it has none."""
    with _Archive(archive.open("rb", buffering=0)) as file:
        try:
            packed = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            raise DumpError(f"{archive} has no sound directory at its end ({error}); {DAMAGED}") from error
        _check_end(packed, file, archive)
        yield packed


def entries(packed: zipfile.ZipFile, archive: Path) -> Iterator[Entry]:
    """Yield the members in the order of their places.

    Raises DumpError if one overlaps another, contradicts the directory, or has an unsupported kind.
    """
    assert packed.fp is not None
    infos = sorted(packed.infolist(), key=lambda info: info.header_offset)
    starts = [info.header_offset for info in infos] + [packed.start_dir]
    if starts[0] != 0:
        raise DumpError(f"{archive} begins with bytes that its directory does not name; {DAMAGED}")
    for info, end in zip(infos, starts[1:], strict=True):
        name = _name(info, archive)
        _check(info, f"{archive}: the entry {name[:80]!r}")
        try:
            offset = data_offset(packed.fp, info)
        except zipfile.BadZipFile:
            raise DumpError(f"{archive}: the directory and the entry {name[:80]!r} disagree; {DAMAGED}") from None
        if offset + info.compress_size > end:
            raise DumpError(f"{archive}: the entry {name[:80]!r} overlaps another or the directory; {DAMAGED}")
        yield Entry(name, info, offset)


def unpacked(packed: zipfile.ZipFile, entry: Entry, archive: Path) -> Iterator[bytes]:
    """The bytes of a member, held against its length and checksum. Raises DumpError."""
    size = 0
    try:
        with packed.open(entry.info) as file:
            while block := file.read(_STEP):
                size += len(block)
                yield block
        if size < entry.info.file_size:
            raise zipfile.BadZipFile(f"{size} bytes, not {entry.info.file_size}")
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error) as error:
        raise DumpError(
            f"{archive}: the entry {entry.name[:80]!r} is not what the directory says ({error}); {DAMAGED}"
        ) from error


def modified(info: zipfile.ZipInfo) -> int:
    """Return the time of change in ns since 1970, as if it were UTC. 0 for an invalid date."""
    _, month, day, *_ = info.date_time
    return calendar.timegm(info.date_time) * 10**9 if 1 <= month <= 12 and day else 0


def is_link(info: zipfile.ZipInfo) -> bool:
    """Whether a member is a symbolic link of Unix."""
    return info.create_system == _UNIX and info.external_attr >> 28 == 0xA


def _check_end(packed: zipfile.ZipFile, file: IO[bytes], archive: Path) -> None:
    """Hold zipfile's directory against the end record: it must be the last one, and of as many entries."""
    file.seek(-_END.size - len(packed.comment), io.SEEK_END)
    magic, disk, first_disk, here, count, comment_length = _END.unpack(file.read(_END.size))
    if magic != MAGIC[1] or comment_length != len(packed.comment):
        raise DumpError(f"{archive} has no directory at its end; {DAMAGED}")
    if {disk, first_disk} - {0, 0xFFFF} or here != count:
        raise DumpError(f"{archive} is split into several files; join them with zip -s 0")
    if count not in (len(packed.infolist()), 0xFFFF):  # the latter where the record of zip64 counts
        raise DumpError(f"{archive} has a directory that is longer or shorter than it says; {DAMAGED}")


def _check(info: zipfile.ZipInfo, name: str) -> None:
    if info.flag_bits & _ENCRYPTED:
        raise DumpError(f"{name} is encrypted; pack it again without a password")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DumpError(f"{name} is compressed with method {info.compress_type}; pack it again with deflate")
    if info.compress_type == zipfile.ZIP_STORED and info.compress_size != info.file_size:
        raise DumpError(f"{name} has two lengths; {DAMAGED}")


def _name(info: zipfile.ZipInfo, archive: Path) -> str:
    """Many tools write UTF-8 without the flag."""
    try:
        return raw_name(info).decode()
    except UnicodeDecodeError:
        return info.orig_filename
