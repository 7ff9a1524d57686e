"""Walks the directory of a zip file, held against the header before each member.

The standard library's zipfile makes a large object of every member before one can be refused. Source of the format:
PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 to 4.5.
"""

from __future__ import annotations

import calendar
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from lakeprobe.errors import DumpError
from lakeprobe.readers.archive_index import DAMAGED, MOST_ENTRIES, UNPACK

MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
"""How a zip begins: with a member, or, if it has none, with its end record."""
STORED, DEFLATED = 0, 8

_END = struct.Struct("<4s4H2LH")
_END_64_PLACE = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_HEADER = struct.Struct("<4s5H3L2H")
_LONGEST_COMMENT = 0xFFFF
_SEE_EXTRA = 0xFFFFFFFF
_UTF_8 = 1 << 11
_ENCRYPTED = 1 | 1 << 6 | 1 << 13
_UNIX = 3


class Entry(NamedTuple):
    """A member. `offset` is that of its header, until `located` has put that of its data there; modified in ns."""

    name: str
    raw_name: bytes
    method: int
    offset: int
    packed: int
    size: int
    checksum: int
    modified: int
    is_link: bool


def entries(file: IO[bytes], archive: Path) -> Iterator[Entry]:
    """The members of a zip file, in the order of its directory. Raises DumpError where that is not sound."""
    start, size, count = _directory(file, archive)
    if count > MOST_ENTRIES:
        raise DumpError(f"{archive} has {count} entries, more than {MOST_ENTRIES}; {UNPACK}")
    file.seek(start)
    for _ in range(count):
        yield _entry(file, archive)
    if file.tell() != start + size:
        raise DumpError(f"{archive} has a directory that is longer or shorter than it says; {DAMAGED}")


def located(found: list[Entry], file: IO[bytes], archive: Path) -> Iterator[Entry]:
    """The members by their place in the file, with the offsets of their data. Raises DumpError where two overlap."""
    end, (limit, _, _) = 0, _directory(file, archive)
    for entry in sorted(found, key=lambda entry: entry.offset):
        if not end <= entry.offset < limit:
            raise DumpError(f"{archive}: the entry {entry.name[:80]!r} overlaps another or the directory; {DAMAGED}")
        file.seek(entry.offset)
        header = file.read(_HEADER.size).ljust(_HEADER.size, b"\0")
        signature, *_, name_length, extra_length = _HEADER.unpack(header)
        if signature != MAGIC[0] or file.read(name_length) != entry.raw_name:
            raise DumpError(f"{archive}: the directory and the entry {entry.name[:80]!r} disagree; {DAMAGED}")
        start = entry.offset + _HEADER.size + name_length + extra_length
        end = start + entry.packed
        yield entry._replace(offset=start)
    if end > limit:
        raise DumpError(f"{archive} has an entry that overlaps its directory; {DAMAGED}")


def _directory(file: IO[bytes], archive: Path) -> tuple[int, int, int]:
    """Offset and length of the directory, and how many entries it has."""
    total = file.seek(0, 2)
    begin = max(0, total - _END.size - _LONGEST_COMMENT)
    file.seek(begin)
    tail = file.read(total - begin)
    place = tail.rfind(b"PK\x05\x06")
    while place >= 0 and not _is_end(tail, place):
        place = tail.rfind(b"PK\x05\x06", 0, place)
    if place < 0:
        raise DumpError(f"{archive} has no directory at its end; {DAMAGED}")
    _, disk, first_disk, here, count, size, start, _ = _END.unpack_from(tail, place)
    end = begin + place
    locator = tail[max(0, place - _END_64_PLACE.size) : place]
    if locator[:4] == b"PK\x06\x07" and len(locator) == _END_64_PLACE.size:
        end = _END_64_PLACE.unpack(locator)[2]
        disk, first_disk, here, count, size, start = _end_64(file, end, total, archive)
    if disk or first_disk or here != count:
        raise DumpError(f"{archive} is split into several files; join them with zip -s 0")
    if start + size > end:
        raise DumpError(f"{archive} has a directory that does not lie before its end; {DAMAGED}")
    return start, size, count


def _is_end(tail: bytes, place: int) -> bool:
    """Whether the end record at `place` goes with its comment to the file's end."""
    if place + _END.size > len(tail):
        return False
    return place + _END.size + int(_END.unpack_from(tail, place)[-1]) == len(tail)


def _end_64(file: IO[bytes], place: int, total: int, archive: Path) -> tuple[int, int, int, int, int, int]:
    """Disk numbers, numbers of entries, size and start as the larger end record of zip64 has them."""
    file.seek(min(place, total))
    record = file.read(_END_64.size)
    if len(record) < _END_64.size or record[:4] != b"PK\x06\x06":
        raise DumpError(f"{archive} has no sound zip64 end record; {DAMAGED}")
    _, _, _, _, disk, first_disk, here, count, size, start = _END_64.unpack(record)
    return disk, first_disk, here, count, size, start


def _entry(file: IO[bytes], archive: Path) -> Entry:
    record = file.read(_ENTRY.size)
    if len(record) < _ENTRY.size or record[:4] != b"PK\x01\x02":
        raise DumpError(f"{archive} has a damaged directory; {DAMAGED}")
    (_, by, _, flags, method, time, date, checksum, packed, size, name_length, extra_length, comment_length, _, _,
     attributes, offset) = _ENTRY.unpack(record)  # fmt: skip
    more = file.read(name_length + extra_length + comment_length)
    if len(more) < name_length + extra_length + comment_length:
        raise DumpError(f"{archive} has a damaged directory; {DAMAGED}")
    raw_name = more[:name_length]
    name = _text(raw_name, flags, archive)
    if flags & _ENCRYPTED:
        raise DumpError(f"{archive}: the entry {name[:80]!r} is encrypted; pack it again without a password")
    size, packed, offset = _in_64_bits(more[name_length : name_length + extra_length], size, packed, offset, archive)
    if method not in (STORED, DEFLATED):
        raise DumpError(
            f"{archive}: the entry {name[:80]!r} is compressed with method {method}; pack it again with deflate"
        )
    if method == STORED and packed != size:
        raise DumpError(f"{archive}: the entry {name[:80]!r} has two lengths; {DAMAGED}")
    is_link = by >> 8 == _UNIX and attributes >> 28 == 0xA
    return Entry(name, raw_name, method, offset, packed, size, checksum, _time(date, time), is_link)


def _in_64_bits(extra: bytes, size: int, packed: int, offset: int, archive: Path) -> tuple[int, int, int]:
    """Size, packed size and offset, from zip64's extra field those for which 32 bits are too few."""
    numbers = [size, packed, offset]
    wanted = [place for place, number in enumerate(numbers) if number == _SEE_EXTRA]
    start = 0
    while wanted and start + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, start)
        start += 4
        if kind == 1 and 8 * len(wanted) <= min(length, len(extra) - start):
            for number, place in enumerate(wanted):
                numbers[place] = int.from_bytes(extra[start + 8 * number : start + 8 * number + 8], "little")
            wanted = []
        start += length
    if wanted:
        raise DumpError(f"{archive} has an entry without its zip64 lengths; {DAMAGED}")
    return numbers[0], numbers[1], numbers[2]


def _text(name: bytes, flags: int, archive: Path) -> str:
    """Names are UTF-8, by a flag or, as many tools write them, without; else in the code page of the first PC."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        if flags & _UTF_8:
            raise DumpError(f"{archive} has a name that is not UTF-8 text: {name[:80]!r}; {UNPACK}") from None
        return name.decode("cp437")


def _time(date: int, time: int) -> int:
    """MS-DOS date and time in ns since 1970, as if they were UTC; 0 for what is no date."""
    month, day = date >> 5 & 15, date & 31
    if not 1 <= month <= 12 or day == 0:
        return 0
    moment = (1980 + (date >> 9), month, day, time >> 11, time >> 5 & 63, (time & 31) * 2)
    return calendar.timegm(moment) * 10**9
