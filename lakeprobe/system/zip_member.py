"""Finds where the data of a zip member begins, which zipfile does not say. Archives and .pt files are zips.

Source of the format: PKWARE's APPNOTE.TXT 6.3.10, section 4.3.7.
"""

from __future__ import annotations

import struct
import zipfile
from typing import IO, Any

_HEADER = struct.Struct("<4s22x2H")
_UTF_8 = 1 << 11


class LimitedReads:
    """A binary file that limits single reads to `most` bytes. zipfile reads a zip's whole directory in one read."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        """Wrap `file`. A larger read raises BadZipFile."""
        self._file, self._most = file, most

    def read(self, size: int = -1) -> bytes:
        """Read like `file`."""
        if size > self._most:
            raise zipfile.BadZipFile(f"a directory of {size} bytes, more than {self._most}")
        return self._file.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def raw_name(info: zipfile.ZipInfo) -> bytes:
    """Return the name as stored in the file: UTF-8 if a flag says so, else in the code page that zipfile assumes."""
    return info.orig_filename.encode("utf-8" if info.flag_bits & _UTF_8 else "cp437")


def data_offset(file: IO[bytes], info: zipfile.ZipInfo) -> int:
    """Return where a member's data begins, after its local header. Raises BadZipFile if the directory disagrees."""
    file.seek(info.header_offset)
    signature, name_length, extra_length = _HEADER.unpack(file.read(_HEADER.size).ljust(_HEADER.size, b"\0"))
    if signature != b"PK\x03\x04" or file.read(name_length) != raw_name(info):
        raise zipfile.BadZipFile(f"the directory and the member {info.orig_filename[:80]!r} disagree")
    return info.header_offset + _HEADER.size + int(name_length) + int(extra_length)
