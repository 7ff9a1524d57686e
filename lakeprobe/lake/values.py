"""Stores tensor contents as a Parquet file whose bytes can be read in place.

The file is ordinary Parquet (columns content and data, see schemas/values.yaml), uncompressed and plainly encoded, so
that any tool can read it. A page of such a column is a header and its values, each as a length of four bytes and the
bytes. So a value is written block by block, while it is read and hashed, and its offset is known at once. A library
would want all of it in memory, and copy it twice.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from lakeprobe.lake import thrift
from lakeprobe.schema import table
from lakeprobe.system.files import reserve
from lakeprobe.version import __version__

VALUES_FILE = "values-0.parquet"
"""The file of a unit's own values."""

LARGEST_VALUE = 1 << 30
"""Bytes of the largest tensor that is copied, because Parquet pages end at 2 GiB. Larger ones stay in the dump's
files."""

_GROUP = 1 << 23
_MAGIC = b"PAR1"
_LENGTH = struct.Struct("<I")

# The numbers by which Parquet's format calls what is used here (parquet.thrift in github.com/apache/parquet-format).
_DATA_PAGE, _PLAIN, _RLE, _UNCOMPRESSED, _BYTE_ARRAY, _REQUIRED, _UTF8, _VERSION = 0, 0, 3, 0, 6, 0, 0, 1


class _Chunk(NamedTuple):
    """A column of a row group: where it begins, its bytes and its values."""

    offset: int
    size: int
    values: int


class ValuesWriter:
    """Writes one values-*.parquet. Small contents share a row group, and each large one has its own."""

    def __init__(self, path: Path) -> None:
        """Begin the file `path`."""
        self._file = path.open("wb")
        self._file.write(_MAGIC)
        self._contents: list[str] = []
        self._first = self._file.tell()
        self._groups: list[tuple[_Chunk, _Chunk]] = []

    def add(self, length: int, blocks: Iterable[memoryview], content: Callable[[], str]) -> int:
        """Append a tensor of `length` bytes, which come in `blocks`. Returns the offset of the first.

        `content` gives its content hash, and is called after the last block. If one raises, the file is as before.
        """
        begin = self._file.tell()
        try:
            self._file.write(_page_header(_LENGTH.size + length, 1) + _LENGTH.pack(length))
            offset = self._file.tell()
            if length >= _GROUP:
                reserve(self._file, length)
            for block in blocks:
                self._file.write(block)
            assert self._file.tell() == offset + length
            self._contents.append(content())
        except BaseException:
            self._file.seek(begin)
            self._file.truncate()
            raise
        if self._file.tell() - self._first >= _GROUP:
            self._end_group()
        return offset

    def _end_group(self) -> None:
        """Write the contents behind their data, which need not be in the order of the columns."""
        end = self._file.tell()
        texts = b"".join(_LENGTH.pack(len(content)) + content.encode() for content in self._contents)
        page = _page_header(len(texts), len(self._contents)) + texts
        self._file.write(page)
        count = len(self._contents)
        self._groups.append((_Chunk(end, len(page), count), _Chunk(self._first, end - self._first, count)))
        self._contents, self._first = [], self._file.tell()

    def abandon(self) -> None:
        """Release the file without finishing it, because its folder is about to be removed."""
        self._file.close()

    def close(self) -> None:
        """Finish the file."""
        if self._contents:
            self._end_group()
        footer = _footer(self._groups)
        self._file.write(footer + _LENGTH.pack(len(footer)) + _MAGIC)
        self._file.close()


def _page_header(size: int, values: int) -> bytes:
    """Return the header of a page of `size` bytes behind it."""
    of_data = {1: thrift.i32(values), 2: thrift.i32(_PLAIN), 3: thrift.i32(_RLE), 4: thrift.i32(_RLE)}
    fields = {1: thrift.i32(_DATA_PAGE), 2: thrift.i32(size), 3: thrift.i32(size), 5: thrift.struct(of_data)}
    return thrift.struct(fields)[1]


def _footer(groups: list[tuple[_Chunk, _Chunk]]) -> bytes:
    names = [column.name for column in table("values").columns]
    rows = sum(content.values for content, _ in groups)
    text_type = {6: thrift.i32(_UTF8)}
    columns = [
        thrift.struct({1: thrift.i32(_BYTE_ARRAY), 3: thrift.i32(_REQUIRED), 4: thrift.text(name)} | of_type)
        for name, of_type in zip(names, (text_type, {}), strict=True)
    ]
    root = thrift.struct({4: thrift.text("values"), 5: thrift.i32(len(columns))})
    fields = {
        1: thrift.i32(_VERSION),
        2: thrift.array([root, *columns]),
        3: thrift.i64(rows),
        4: thrift.array([_group(names, chunks) for chunks in groups]),
        6: thrift.text(f"lakeprobe version {__version__}"),
    }
    return thrift.struct(fields)[1]


def _group(names: list[str], chunks: tuple[_Chunk, _Chunk]) -> thrift.Value:
    columns = [_column(name, chunk) for name, chunk in zip(names, chunks, strict=True)]
    size = sum(chunk.size for chunk in chunks)
    return thrift.struct({1: thrift.array(columns), 2: thrift.i64(size), 3: thrift.i64(chunks[0].values)})


def _column(name: str, chunk: _Chunk) -> thrift.Value:
    described = {
        1: thrift.i32(_BYTE_ARRAY),
        2: thrift.array([thrift.i32(_PLAIN)]),
        3: thrift.array([thrift.text(name)]),
        4: thrift.i32(_UNCOMPRESSED),
        5: thrift.i64(chunk.values),
        6: thrift.i64(chunk.size),
        7: thrift.i64(chunk.size),
        9: thrift.i64(chunk.offset),
    }
    return thrift.struct({2: thrift.i64(chunk.offset), 3: thrift.struct(described)})
