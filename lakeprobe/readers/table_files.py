"""Reads result tables as texts, csv (also gzipped) and xlsx: the headers of each sheet, and its rows.

A csv counts as one sheet without a name. Limits keep a damaged file from filling the memory.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from lakeprobe.bounds import LAST_ROW, LONGEST_ROW
from lakeprobe.errors import DumpError
from lakeprobe.readers.sheets import no_warnings, opened_workbook, readable
from lakeprobe.system.files import open_regular

Row = list[str | None]

ENDINGS = (".csv", ".csv.gz", ".xlsx")
MOST_COLUMNS = 1024
_LONGEST_HEAD = 1 << 20
_SHEET_ROWS_AT_ONCE = 500


def heads(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the headers of each sheet, by its title; an empty sheet has none. Raises DumpError."""
    if not path.name.endswith(".xlsx"):
        return {"": tuple(cell or "" for cell in next(_csv_rows(path, _LONGEST_HEAD, "replace"), []))}
    with readable(path), opened_workbook(path) as workbook:
        return {sheet.title: _head(sheet) for sheet in workbook.worksheets}


def sections(path: Path, sheets: Sequence[str], width: int) -> Iterator[tuple[str, Iterator[Row]]]:
    """Yield each of `sheets` with its rows, the headers first; an empty cell is None, and empty rows are left out.

    A row of a workbook has at least `width` cells. Raises DumpError for a damaged file.
    """
    if not path.name.endswith(".xlsx"):
        yield "", _csv_rows(path)
        return
    with readable(path), opened_workbook(path) as workbook:
        for sheet in sheets:
            yield sheet, _sheet_rows(path, workbook[sheet], width)


class _Lines:
    """The lines of a csv. `taken` counts the characters of the current row, which may not exceed the limit."""

    def __init__(self, file: IO[str], path: Path, limit: int) -> None:
        self._file, self._path, self._limit = file, path, limit
        self.taken = 0

    def __iter__(self) -> Iterator[str]:
        while line := self._file.readline(self._limit + 1):
            self.taken += len(line)
            if self.taken > self._limit:
                raise DumpError(f"{self._path} has a row of more than {self._limit} characters; it is damaged")
            yield line


def _csv_rows(path: Path, limit: int = LONGEST_ROW, errors: str = "strict") -> Iterator[Row]:
    """Yield the rows of a csv that are not empty, the headers first. `errors` is that of `open`."""
    csv.field_size_limit(max(limit, csv.field_size_limit()))  # the limit holds for the whole process
    with readable(path), ExitStack() as stack:
        binary: IO[bytes] = stack.enter_context(open_regular(path))
        if path.name.endswith(".gz"):
            binary = cast("IO[bytes]", stack.enter_context(gzip.GzipFile(fileobj=binary)))
        lines = _Lines(stack.enter_context(io.TextIOWrapper(binary, "utf-8-sig", errors, newline="")), path, limit)
        for row in csv.reader(lines, strict=True):
            lines.taken = 0
            if row:
                yield [cell or None for cell in row]


def _head(sheet: Any) -> tuple[str, ...]:
    with no_warnings():
        row = next(sheet.iter_rows(max_row=1, max_col=MOST_COLUMNS, values_only=True), ())
    return tuple(_cell(value) or "" for value in row[: _filled(row)])


def _sheet_rows(path: Path, sheet: Any, width: int) -> Iterator[Row]:
    """Yield the rows of a sheet that are not empty: `width` cells, or more if a row is longer."""
    rows = sheet.iter_rows(max_row=LAST_ROW, max_col=MOST_COLUMNS, values_only=True)
    empty: object = None  # openpyxl has one row for all that are left out, and there may be a million of them
    while True:
        with readable(path), no_warnings():
            some = list(islice(rows, _SHEET_ROWS_AT_ONCE))
        for row in some:
            if row is empty:
                continue
            if filled := _filled(row):
                yield [_cell(value) for value in row[: max(filled, width)]]
            else:
                empty = row
        if not some:
            return


def _filled(row: Sequence[object]) -> int:
    """Return the number of cells up to the last that is not empty."""
    length = len(row)
    while length and row[length - 1] is None:
        length -= 1
    return length


def _cell(value: object) -> str | None:
    """Return a cell as text, a formula as its source. Numbers are written as Python writes them, with all digits."""
    return None if value is None else str(value) or None
