"""Opens workbooks within limits, and turns the errors of damaged tables into one kind of error."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast
from xml.parsers import expat
from zipfile import ZipFile, ZipInfo

from lakeprobe.bounds import (
    ALWAYS_UNPACKED,
    DEEPEST_ELEMENT,
    LARGEST_PART,
    LARGEST_ZIP_DIRECTORY,
    LAST_ROW,
    LONGEST_CELL,
    LONGEST_ROW,
    MIB,
    MOST_CELLS,
    MOST_ELEMENTS,
    MOST_TEXTS,
    MOST_UNPACKED,
)
from lakeprobe.errors import DumpError
from lakeprobe.system.files import open_regular
from lakeprobe.system.zip_member import LimitedReads

_SHEETS = "xl/worksheets/"
_STEP = 1 << 16


@contextmanager
def opened_workbook(path: Path) -> Iterator[Any]:
    """Yield the workbook at `path`, to read sheet by sheet. Raises DumpError if it would fill the memory."""
    from openpyxl.reader.excel import ExcelReader

    with open_regular(path) as file:
        bounded = _BoundedZip(path, file)
        reader = ExcelReader(file, read_only=True)
        reader.archive = bounded
        with no_warnings():
            reader.read()
        try:
            yield reader.wb
        finally:
            reader.wb.close()


class _BoundedZip(ZipFile):
    """A workbook's zip whose parts are looked at while they are read: sizes, nesting, number of elements."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        super().__init__(cast("IO[bytes]", LimitedReads(file, LARGEST_ZIP_DIRECTORY)))
        self.fp = file
        self._path = path
        unpacked = sum(part.file_size for part in self.infolist())
        most = max(ALWAYS_UNPACKED, MOST_UNPACKED * file.seek(0, io.SEEK_END))
        if unpacked > most:
            raise self._too_large(f"it unpacks to {unpacked} bytes, more than {most}")
        for part in self.infolist():
            if part.file_size > LARGEST_PART and not part.filename.startswith(_SHEETS):
                raise self._too_large(f"{part.filename:.80} has {part.file_size} bytes, more than {LARGEST_PART}")

    def open(self, name: str | ZipInfo, *arguments: Any, **options: Any) -> IO[bytes]:
        """The part `name`, looked at while it is read."""
        part = super().open(name, *arguments, **options)
        watched = _Watched(part, name.filename if isinstance(name, ZipInfo) else name, self._too_large)
        return io.BufferedReader(watched, _STEP)

    def _too_large(self, what: str) -> DumpError:
        return DumpError(f"{self._path}: {what}; let the tool write csv")


class _Watched(io.RawIOBase):
    """A part of a workbook that is parsed once more while it is read, without a tree, and refused if it is not a table.

    What openpyxl keeps in memory is bounded by that: it forgets a row and a shared text when they end.
    """

    def __init__(self, part: IO[bytes], name: str, refused: Callable[[str], DumpError]) -> None:
        self._part, self._name, self._refused = part, name, refused
        self._depth = self._outside = self._inside = self._texts = 0
        self._closes_at = -1
        """The depth of the row or shared text that is open; -1 while none is."""
        self._row = self._row_began = self._taken = self._since_tag = 0
        self._has_ended = False
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._doctype

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._has_ended:
            return 0
        data = self._part.read(len(buffer))
        self._look_for_tags(data)
        try:
            self._parser.Parse(data, not data)
        except expat.ExpatError as error:
            raise ValueError(f"{self._name}: {error}") from None
        self._taken += len(data)
        if self._closes_at >= 0 and self._taken - self._row_began > LONGEST_ROW:
            raise self._refused(f"{self._name:.80} has a row of more than {LONGEST_ROW} bytes")
        self._has_ended = not data
        buffer[: len(data)] = data
        return len(data)

    def _look_for_tags(self, data: bytes) -> None:
        """Refuse what is long between two tags: a text, a tag or a comment, which a parser holds in memory."""
        first, last = data.find(b"<"), data.rfind(b"<")
        longest = self._since_tag + (len(data) if first < 0 else first)
        self._since_tag = longest if first < 0 else len(data) - last
        if longest > LONGEST_CELL:
            raise self._refused(f"{self._name:.80} has a cell of more than {LONGEST_CELL // MIB} MiB")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEEPEST_ELEMENT:
            raise self._refused(f"{self._name:.80} is nested more than {DEEPEST_ELEMENT} levels deep")
        if self._closes_at < 0 and name.rpartition(" ")[2] in ("row", "si"):
            self._closes_at, self._inside, self._row_began = self._depth, 0, self._taken
            self._texts += 1
            if self._texts > MOST_TEXTS:
                raise self._refused(f"{self._name:.80} has more than {MOST_TEXTS} rows or texts")
            if name.endswith("row"):
                self._row = int(attributes.get("r", self._row + 1))
                if self._row > LAST_ROW:
                    raise self._refused(f"{self._name:.80} has rows after row {LAST_ROW}")
        if self._closes_at < 0:
            self._outside += 1
            if self._outside > MOST_ELEMENTS:
                raise self._refused(f"{self._name:.80} has more than {MOST_ELEMENTS} elements")
        else:
            self._inside += 1
            if self._inside > MOST_CELLS:
                raise self._refused(f"{self._name:.80} has a row of more than {MOST_CELLS} cells")

    def _end(self, name: str) -> None:
        if self._depth == self._closes_at:
            self._closes_at = -1
        self._depth -= 1

    def _doctype(self, *_: object) -> None:
        raise self._refused(f"{self._name:.80} declares a document type, as no workbook does")


@contextmanager
def no_warnings() -> Iterator[None]:
    """Hide the warnings of openpyxl about styles and dates that it does not understand."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn every error that csv, gzip, zip, XML and openpyxl raise for a damaged file into a DumpError."""
    import struct
    import zlib
    from xml.etree.ElementTree import ParseError
    from zipfile import BadZipFile

    import duckdb
    from openpyxl.utils.exceptions import CellCoordinatesException

    damaged = (
        OSError, EOFError, zlib.error, BadZipFile, csv.Error, ValueError, duckdb.Error,
        # openpyxl and zipfile raise these for XML and zip folders with contents that they do not expect
        ParseError, LookupError, TypeError, AttributeError, ArithmeticError, NotImplementedError, RuntimeError,
        AssertionError, struct.error, CellCoordinatesException,
    )  # fmt: skip
    try:
        yield
    except damaged as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DumpError(f"{path} cannot be read as a table ({reason}); let the tool write it again") from error
