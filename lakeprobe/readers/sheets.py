"""Opens workbooks within limits, and turns the errors of damaged tables into one kind of error."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakeprobe.errors import DumpError

_LARGEST_SHARED = 1 << 30
"""Bytes of the parts of a workbook that are not sheets (shared texts, styles); openpyxl holds them in memory."""


@contextmanager
def opened_workbook(path: Path) -> Iterator[Any]:
    """Yield the workbook at `path`, to read sheet by sheet. Raises DumpError if it would fill the memory."""
    from zipfile import ZipFile

    from openpyxl import load_workbook

    with path.open("rb") as file:
        with ZipFile(file) as archive:
            sizes = [part.file_size for part in archive.infolist() if not part.filename.startswith("xl/worksheets/")]
        if sum(sizes) > _LARGEST_SHARED:
            raise DumpError(f"{path} unpacks to {sum(sizes)} bytes besides its sheets; let the tool write csv")
        with no_warnings():
            workbook = load_workbook(file, read_only=True)
        try:
            yield workbook
        finally:
            workbook.close()


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
