"""What readers of csv and workbooks share: workbooks that fill no memory, and one error for all that damage raises."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakeprobe.errors import DumpError

_LARGEST_SHARED = 1 << 30
"""Bytes of what is in a workbook beside its sheets; openpyxl holds it in memory (shared texts, styles)."""


@contextmanager
def opened_workbook(path: Path) -> Iterator[Any]:
    """The workbook at `path`, to be read sheet by sheet. Raises DumpError for one that would fill the memory."""
    from zipfile import ZipFile

    from openpyxl import load_workbook

    with path.open("rb") as file:
        with ZipFile(file) as archive:
            sizes = [part.file_size for part in archive.infolist() if not part.filename.startswith("xl/worksheets/")]
        if sum(sizes) > _LARGEST_SHARED:
            raise DumpError(f"{path} unpacks to {sum(sizes)} bytes beside its sheets; let the tool write csv")
        with no_warnings():
            workbook = load_workbook(file, read_only=True)
        try:
            yield workbook
        finally:
            workbook.close()


@contextmanager
def no_warnings() -> Iterator[None]:
    """Hide what openpyxl tells of styles and dates that it does not understand."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def readable(path: Path, what: str = "a table", tool: str = "the tool") -> Iterator[None]:
    """Turn what the readers of csv, gzip, zip, XML and workbooks raise for a damaged file into a DumpError."""
    import struct
    import zlib
    from xml.etree.ElementTree import ParseError
    from zipfile import BadZipFile

    import duckdb
    from openpyxl.utils.exceptions import CellCoordinatesException

    damaged = (
        OSError, EOFError, zlib.error, BadZipFile, csv.Error, ValueError, duckdb.Error,
        # what openpyxl and zipfile stumble over in XML and zip folders that hold something else than they expect
        ParseError, LookupError, TypeError, AttributeError, ArithmeticError, NotImplementedError, RuntimeError,
        AssertionError, struct.error, CellCoordinatesException,
    )  # fmt: skip
    try:
        yield
    except damaged as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DumpError(f"{path} cannot be read as {what} ({reason}); let {tool} write it again") from error
