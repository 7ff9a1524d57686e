"""Writes a merge of ranks to files: xlsx in the layout of msprobe's merge_result, csv, or Parquet with numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe import forms
from lakeprobe.analysis import merge as merging
from lakeprobe.analysis.merge import Merge, Sheet
from lakeprobe.errors import LakeError
from lakeprobe.lake import outputs
from lakeprobe.lake.connection import define_macros
from lakeprobe.reports.files import CSV_CELLS, free_path
from lakeprobe.system.files import new_folder

if TYPE_CHECKING:
    import duckdb
    from openpyxl import Workbook

STEM = "multi_ranks_compare_merge"
"""The beginning of the names of msprobe's merged files."""

_LONGEST_TITLE = 28
"""The most characters of a sheet's title. Excel allows 31, and a continued sheet needs a number."""

_TEXTS = ("MD5", "Result")
"""Metrics whose texts stay texts even if they look like numbers."""


def write(
    connection: duckdb.DuckDBPyConnection, merge: Merge, sheets: Iterable[Sheet], folder: Path, format: str
) -> list[Path]:
    """Write the `sheets` of `merge` into `folder`; if there are several steps, each gets a folder. Returns the files.

    xlsx: a sheet per metric, in msprobe's layout but in the order of the run. csv: a file per metric. parquet: the long
    form of `lakeprobe.analysis.merge.rows`. Raises UsageError for another format, and LakeError if writing fails.
    """
    write_sheets = forms.check(format, forms.writers(forms.MERGE))
    written = []
    try:
        for step, of_step in groupby(sheets, lambda sheet: sheet.step):
            place = folder / f"step{step}" if len(merge.steps) > 1 else folder
            outputs.refuse_lake(place)
            with new_folder(place):
                written += write_sheets(connection, of_step, place)
    except OSError as error:
        raise LakeError.from_system(error, folder, "the merge was not written") from error
    return written


def write_csv(connection: duckdb.DuckDBPyConnection, sheets: Iterator[Sheet], folder: Path) -> list[Path]:
    """Write the sheets of a step into `folder`: a file per metric. Returns the files."""
    written = []
    define_macros(connection, ("csv_cell",))
    for sheet in sheets:
        metric = re.sub(r"\W+", "_", sheet.metric)
        path = free_path(folder, f"{STEM}_{metric}", "csv")
        with outputs.draft(path) as hidden:
            sheet.rows.project(CSV_CELLS).write_csv(str(hidden), header=True)
        written.append(path)
    return written


def write_parquet(connection: duckdb.DuckDBPyConnection, sheets: Iterator[Sheet], folder: Path) -> list[Path]:
    """Write the sheets of a step into `folder`: the long form. Returns the files."""
    from pyarrow.parquet import ParquetWriter

    path = free_path(folder, STEM, "parquet")
    tables = (merging.rows(connection, sheet).to_arrow_table() for sheet in sheets)
    first = next(tables)
    with outputs.draft(path) as hidden, ParquetWriter(hidden, first.schema, compression="zstd") as writer:
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
        headers, rows = workbook.columns_and_rows(connection, "FROM merge_sheet")
        _add_sheet(book, sheet.metric, headers, rows)
    with outputs.draft(path) as hidden:
        book.save(hidden)
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
