"""Walks the entries of a tar file, plain or as it is unpacked, without holding any of it in memory.

The standard library's tarfile takes a damaged header for the end, and reads headers of any length. Source of the
format: POSIX.1-2017 pax, "ustar Interchange Format" and "pax Interchange Format"; GNU tar manual, "Basic Tar Format".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from lakeprobe.errors import DumpError
from lakeprobe.readers.archive_index import DAMAGED, UNPACK

BLOCK = 512
_LONGEST_HEADER = 1 << 20
"""Bytes of a header that precedes another (pax, GNU's long names). They hold a name or two, and a few numbers."""
_TIME = re.compile(r"(\d{1,10})(?:\.(\d{0,9})\d*)?")


class Stream(Protocol):
    """A binary file that is read forwards only."""

    def read(self, size: int, /) -> bytes:
        """The next `size` bytes, fewer only at the end."""

    def tell(self) -> int:
        """How many bytes came before."""

    def seek(self, position: int, /) -> object:
        """Go on to `position`."""


class Entry(NamedTuple):
    """An entry: its type as tar writes it, `size` bytes of data from where the stream stands, modified in ns."""

    name: str
    type: bytes
    size: int
    modified: int
    target: str


FILE, HARD_LINK, SYMBOLIC_LINK, FOLDER = b"0", b"1", b"2", b"5"
_SAME = {b"\0": FILE, b"7": FILE, b"D": FOLDER}
"""Old and GNU's letters for files and folders."""
_NEITHER = (b"3", b"4", b"6", b"V")
"""Devices, pipes, volume labels."""
_LONG_NAME, _LONG_TARGET, _PAX, _PAX_OF_ALL = b"L", b"K", b"x", b"g"


def is_header(block: bytes) -> bool:
    """Whether a file that begins with `block` is a tar file, sound or not."""
    return len(block) == BLOCK and (block[257:262] == b"ustar" or _checksum_fits(block))


def entries(stream: Stream, archive: Path) -> Iterator[Entry]:
    """The entries of a tar file. While one is at hand, its data can be read from the stream.

    Raises DumpError where the file is damaged, ends too early, or has entries of a kind that is not read.
    """
    while (entry := _entry(stream, archive)) is not None:
        position = stream.tell()
        yield entry
        stream.seek(position + _padded(entry.size))
    while block := stream.read(1 << 20):
        if block.count(0) < len(block):
            raise DumpError(f"{archive} goes on after its end mark; give the archives in it one by one")


def _entry(stream: Stream, archive: Path) -> Entry | None:
    """The next entry, with what the headers before it say of it; None at the end mark."""
    said: dict[str, str] = {}
    while (block := _exactly(stream, BLOCK, archive)).count(0) < BLOCK:
        if not _checksum_fits(block):
            raise DumpError(f"{archive}: no sound header at byte {stream.tell() - BLOCK}; {DAMAGED}")
        type, size = block[156:157], _number(block[124:136], archive)
        if type in (_LONG_NAME, _LONG_TARGET, _PAX):
            said |= _said(type, _header_data(stream, size, archive), archive)
        elif type == _PAX_OF_ALL:
            _header_data(stream, size, archive)
        else:
            return _described(block, size, said, archive)
    if said:
        raise DumpError(f"{archive} ends after the header of an entry; {DAMAGED}")
    return None


def _described(block: bytes, size: int, said: dict[str, str], archive: Path) -> Entry:
    type = _SAME.get(block[156:157], block[156:157])
    name = said.get("path") or _name(block, archive)
    if type == b"S" or any(key.startswith("GNU.sparse") for key in said):
        raise DumpError(f"{archive}: {name[:80]!r} is a sparse file; pack it again without --sparse")
    if type not in (FILE, HARD_LINK, SYMBOLIC_LINK, FOLDER, *_NEITHER):
        raise DumpError(f"{archive}: {name[:80]!r} is an entry of an unknown type {type!r}; pack it again as plain tar")
    if type == FILE and name.endswith("/"):
        type = FOLDER
    if "size" in said:
        size = _decimal(said["size"], archive)
    has_data = type == FILE or block[156:157] == b"D"
    target = said.get("linkpath") or _text(_until_zero(block[157:257]), archive)
    modified = _time(said["mtime"]) if "mtime" in said else _seconds(block[136:148], archive)
    return Entry(name, type, size if has_data else 0, modified, target)


def _said(type: bytes, data: bytes, archive: Path) -> dict[str, str]:
    """What a header that precedes another says, under pax's keys."""
    if type == _PAX:
        return dict(_pax(data, archive))
    return {"path" if type == _LONG_NAME else "linkpath": _text(_until_zero(data), archive)}


def _pax(data: bytes, archive: Path) -> Iterator[tuple[str, str]]:
    """Records of the form "LENGTH KEY=VALUE\\n", LENGTH being that of the whole record in decimal."""
    start = 0
    while start < len(data):
        blank = data.find(b" ", start, start + 8)
        length = data[start : max(blank, start)]
        end = start + int(length) if length.isdigit() else 0
        key, equals, value = data[blank + 1 : end - 1].partition(b"=")
        if not blank < end <= len(data) or data[end - 1 : end] != b"\n" or not equals:
            raise DumpError(f"{archive} has a damaged pax header; {DAMAGED}")
        if key in (b"path", b"linkpath", b"size", b"mtime") or key.startswith(b"GNU.sparse"):
            yield _text(key, archive), _text(value, archive)
        start = end


def _header_data(stream: Stream, size: int, archive: Path) -> bytes:
    if size > _LONGEST_HEADER:
        raise DumpError(f"{archive} has a header of {size} bytes, more than {_LONGEST_HEADER}; {DAMAGED}")
    return _exactly(stream, _padded(size), archive)[:size]


def _exactly(stream: Stream, size: int, archive: Path) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise DumpError(f"{archive} ends before its end mark; {DAMAGED}")
    return data


def _checksum_fits(block: bytes) -> bool:
    """The checksum is the sum of the header's bytes, its own eight taken as blanks."""
    digits = _until_zero(block[148:156]).strip()
    return _is_octal(digits) and int(digits, 8) == sum(block) - sum(block[148:156]) + 8 * ord(" ")


def _number(field: bytes, archive: Path) -> int:
    """A number in octal digits, or, after a byte 0x80, in binary (GNU, for what has too many digits)."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = _until_zero(field).strip()
    if digits and not _is_octal(digits):
        raise DumpError(f"{archive} has a header with a size that is no number; {DAMAGED}")
    return int(digits or b"0", 8)


def _is_octal(digits: bytes) -> bool:
    return digits.isdigit() and b"8" not in digits and b"9" not in digits


def _decimal(text: str, archive: Path) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise DumpError(f"{archive} has a pax header with a size that is no number; {DAMAGED}")
    return int(text)


def _seconds(field: bytes, archive: Path) -> int:
    """A time in ns; 0 for one before 1970."""
    return 0 if field[0] == 0xFF else _time(str(_number(field, archive)))


def _time(text: str) -> int:
    """Decimal seconds since 1970 in ns; 0 for one that is none."""
    match = _TIME.fullmatch(text)
    return int(match[1]) * 10**9 + int((match[2] or "").ljust(9, "0")) if match else 0


def _name(block: bytes, archive: Path) -> str:
    name = _text(_until_zero(block[:100]), archive)
    prefix = _text(_until_zero(block[345:500]), archive) if block[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _text(data: bytes, archive: Path) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DumpError(f"{archive} has a name that is not UTF-8 text: {data[:80]!r}; {UNPACK}") from None


def _until_zero(data: bytes) -> bytes:
    return data.partition(b"\0")[0]


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
