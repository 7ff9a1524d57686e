"""Writes a merge of ranks to files: xlsx in the layout of msprobe's merge_result, csv, or Parquet with numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe import forms
from lakeprobe.analysis import merge as merging
from lakeprobe.analysis.merge import Merge, Sheet
from lakeprobe.errors import LakeError
from lakeprobe.lake.connection import define_macros
from lakeprobe.reports.files import CSV_CELLS, free_path
from lakeprobe.resources import quote_identifier

if TYPE_CHECKING:
    import duckdb
    from openpyxl import Workbook

STEM = "multi_ranks_compare_merge"
"""What the names of msprobe's merged files begin with."""

_LONGEST_TITLE = 28
"""Characters of a sheet's title; Excel has room for 31, and a sheet that goes on has a number behind it."""

_TEXTS = ("MD5", "Result")
"""Metrics in which a text that looks like a number is none."""


def write(
    connection: duckdb.DuckDBPyConnection, merge: Merge, sheets: Iterable[Sheet], folder: Path, format: str
) -> list[Path]:
    """Write the `sheets` of `merge` into `folder`, several steps into a folder each. Returns the files.

    xlsx: a sheet per metric, rows by name, as msprobe writes it. csv: a file per metric. parquet: the long form,
    `lakeprobe.analysis.merge.rows`. Raises UsageError for another format and LakeError where it cannot be written.
    """
    write_sheets = forms.check(format, forms.writers(forms.MERGE))
    written = []
    try:
        for step, of_step in groupby(sheets, lambda sheet: sheet.step):
            place = folder / f"step{step}" if len(merge.steps) > 1 else folder
            place.mkdir(parents=True, exist_ok=True)
            written += write_sheets(connection, of_step, place)
    except OSError as error:
        raise LakeError.from_system(error, folder, "the merge was not written") from error
    return written


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """A hidden path to write to, which becomes `path` when all is written."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_csv(connection: duckdb.DuckDBPyConnection, sheets: Iterator[Sheet], folder: Path) -> list[Path]:
    """Write the sheets of a step into `folder`: a file per metric. Returns the files."""
    written = []
    define_macros(connection, ("csv_cell",))
    for sheet in sheets:
        metric = re.sub(r"\W+", "_", sheet.metric)
        path = free_path(folder, f"{STEM}_{metric}", "csv")
        with _draft(path) as draft:
            sheet.rows.project(CSV_CELLS).write_csv(str(draft), header=True)
        written.append(path)
    return written


def write_parquet(connection: duckdb.DuckDBPyConnection, sheets: Iterator[Sheet], folder: Path) -> list[Path]:
    """Write the sheets of a step into `folder`: the long form. Returns the files."""
    from pyarrow.parquet import ParquetWriter

    path = free_path(folder, STEM, "parquet")
    tables = (merging.rows(connection, sheet).to_arrow_table() for sheet in sheets)
    first = next(tables)
    with _draft(path) as draft, ParquetWriter(draft, first.schema, compression="zstd") as writer:
        for table in chain((first,), tables):
            writer.write_table(table)
    return [path]


def write_workbook(connection: duckdb.DuckDBPyConnection, sheets: Iterator[Sheet], folder: Path) -> list[Path]:
    """Write the sheets of a step into `folder`: a sheet per metric. Returns the files."""
    from openpyxl import Workbook

    from lakeprobe.reports import workbook

    path = free_path(folder, STEM, "xlsx")
    book = Workbook(write_only=True)
    workbook.add_styles(book)
    for sheet in sheets:
        sheet.rows.create_view("merge_sheet", replace=True)
        headers, rows = workbook.columns_and_rows(
            connection, f"FROM merge_sheet ORDER BY {quote_identifier(merging.NAME)}"
        )
        _add_sheet(book, sheet.metric, headers, rows)
    with _draft(path) as draft:
        book.save(draft)
    return [path]


def _add_sheet(book: Workbook, metric: str, headers: list[str], rows: Iterator[tuple[Any, ...]]) -> None:
    """Write a metric to as many sheets as its rows need."""
    from lakeprobe.reports import workbook

    title = re.sub(r"[\[\]:*?/\\]", "_", metric)[:_LONGEST_TITLE]
    are_texts = metric in _TEXTS
    for number, piece in enumerate(workbook.pieces(rows, workbook.ROWS_PER_SHEET), start=1):
        page = workbook.new_table(book, title if number == 1 else f"{title} {number}", headers)
        for name, *cells in piece:
            named = workbook.styled_cell(page, name, always_text=True)
            page.append([named, *(workbook.styled_cell(page, cell, always_text=are_texts) for cell in cells)])
