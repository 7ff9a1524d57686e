"""Writes a comparison as one workbook for a person: an overview that names the origin, the findings, and all rows.

Numbers are numbers and shares have percent formats. What a dump contains is never a formula. msprobe's layout, a file
per step and rank with the texts of its csv, is `lakeprobe.reports.workbook`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.styles import Alignment, Font
from openpyxl.utils import get_column_letter

from lakeprobe import metrics, resources
from lakeprobe.errors import LakeError
from lakeprobe.lake import outputs, views
from lakeprobe.lake.comparison import RESULTS_FILE, STACKS_FILE, StoredComparison
from lakeprobe.lake.connection import columns_of, connect, records
from lakeprobe.reports import files, workbook
from lakeprobe.reports.first_difference_text import origins_text
from lakeprobe.reports.verdict_text import verdict_lines
from lakeprobe.resources import quote_identifier
from lakeprobe.schema import metrics as declared

if TYPE_CHECKING:
    import duckdb
    from openpyxl.worksheet.worksheet import Worksheet

    from lakeprobe.analysis.first_difference import FirstDifference
    from lakeprobe.analysis.summary import Summary

_PERCENT, _NUMBER, _COUNT = "0.0000%_)", "0.0000E+00_)", "#,##0_)"  # _) leaves room before the next column
_LARGEST_INTEGER = 2**53
_LETTER, _MARGIN, _FILTER = 0.9, 2, 3
"""Widths in digits: of a letter, of the space beside a text, and of the filter's arrow in a header."""


class Column(Struct, frozen=True):
    """A column: the query's name for it, its header, its greatest width, and the format if it has numbers."""

    name: str
    header: str
    width: int
    format: str | None = None


_NAMES = (
    Column("op_row", "Op and slot", 72), Column("verdict", "Result", 12), Column("step", "Step", 8, _COUNT),
    Column("rank", "Rank", 8, _COUNT), Column("reason", "Reason", 44),
)  # fmt: skip
_SIDES = (
    Column("target_dtype", "Target dtype", 15), Column("golden_dtype", "Golden dtype", 15),
    Column("target_shape", "Target shape", 15), Column("golden_shape", "Golden shape", 15),
    *(
        Column(f"{side}_{statistic}", f"{side.capitalize()} {statistic}", 12, _NUMBER)
        for statistic in ("max", "min", "mean", "norm")
        for side in ("target", "golden")
    ),
    Column("target_value", "Target value", 14), Column("golden_value", "Golden value", 14),
)  # fmt: skip
_PLACES = (
    Column("other_name", "Name in golden", 72),
    Column("module", "Module", 40),
    Column("code", "Line of code", 64),
)
_FEW = ("max_relative", "norm_relative", "max_relative_error", "one_thousandth_ratio", "cosine", "max_abs_error")
"""The metrics that a finding shows; the sheet of rows has all."""


def write(comparison: StoredComparison, summary: Summary, found: FirstDifference, folder: Path) -> Path:
    """Write the workbook of all steps and ranks into `folder`. Returns the file. Raises LakeError."""
    try:
        path = files.free_path(outputs.folder(folder), "compare_result", "xlsx")
        with outputs.draft(path) as hidden, connect() as connection:
            _fill(comparison, summary, found, connection).save(hidden)
    except OSError as error:
        raise LakeError.from_system(error, folder, "the report was not written") from error
    return path


def _fill(
    comparison: StoredComparison, summary: Summary, found: FirstDifference, connection: duckdb.DuckDBPyConnection
) -> Workbook:
    for name, file in (("results", RESULTS_FILE), ("stacks", STACKS_FILE)):
        views.define_over(connection, name, comparison.files(file))
    book = Workbook(write_only=True)
    workbook.add_styles(book)
    _overview(book, comparison, summary, found)
    measured = _metrics(connection)
    few = [column for column in measured if column.name in _FEW or column.name not in _declared()]
    text = resources.sql("reports/book_rows")
    has_other_names = connection.execute("FROM results WHERE target_name <> golden_name LIMIT 1").fetchall()
    places = _PLACES if has_other_names else _PLACES[1:]
    gravest = "ORDER BY verdict <> 'error', verdict <> 'warning', norm_relative DESC NULLS LAST, step, rank, row"
    findings = f"FROM ({text}) WHERE verdict NOT IN ('pass', 'skipped') {gravest}"
    _table(book, "findings", connection, findings, (*_NAMES, *few, *places))
    everything = f"FROM ({text}) ORDER BY step, rank, row"
    _table(book, "rows", connection, everything, (*_NAMES, *measured, *_SIDES, *places))
    return book


def _declared() -> set[str]:
    return {metric.name for metric in declared()}


def _metrics(connection: duckdb.DuckDBPyConnection) -> list[Column]:
    """Return the columns of the metrics that some row has, those of the rule included."""
    columns = columns_of(connection, "results")
    known = {metric.name: metric.header or metric.name for metric in declared() if metric.kept}
    names = [*known, *metrics.own_of_results(columns)]
    names = [name for name in names if name in columns and columns[name] in ("DOUBLE", "FLOAT", "BIGINT", "INTEGER")]
    if not names:
        return []
    chosen = ", ".join(f"count({quote_identifier(name)})" for name in names)
    ((*counts,),) = connection.execute(f"SELECT {chosen} FROM results").fetchall()
    return [
        Column(name, known.get(name, name), 14, _PERCENT if name.endswith(("_relative", "_ratio")) else _NUMBER)
        for name, count in zip(names, counts, strict=True)
        if count
    ]


def _overview(book: Workbook, comparison: StoredComparison, summary: Summary, found: FirstDifference) -> None:
    """Write the verdict, the origin, and a line for each step and rank."""
    sheet = _sheet(book, "overview", [10, 8, 10, 10, 10, 11, 10, 60])
    title = WriteOnlyCell(sheet, "")
    title.value, title.data_type, title.font = (
        f"{comparison.target} against {comparison.golden}",
        "s",
        Font(workbook.FONT, 16),
    )
    sheet.append([title])
    sheet.append([workbook.styled_cell(sheet, f"compared by the rule {comparison.rule}")])
    sheet.append([])
    for line in verdict_lines(summary.coverage):
        sheet.append([workbook.styled_cell(sheet, line.strip(), "header" if line.startswith("Verdict") else None)])
    sheet.append([])
    sheet.append([workbook.styled_cell(sheet, "Where the difference began", "header")])
    for line in origins_text(found).strip().splitlines():
        sheet.append([workbook.styled_cell(sheet, line, always_text=True)])
    sheet.append([])
    _units(sheet, summary, found)


def _units(sheet: Worksheet, summary: Summary, found: FirstDifference) -> None:
    headers = ("Step", "Rank", "Rows", "Errors", "Warnings", "Unmatched", "Different", "First difference")
    *counted, last = headers
    sheet.append([*(_head(sheet, header, Alignment("right")) for header in counted), _head(sheet, last, _APART)])
    firsts = {(rank["step"], rank["rank"]): rank["op"] for rank in records(found.ranks)}
    for step, rank in sorted({(outcome.step, outcome.rank) for outcome in summary.outcomes}):
        here = [outcome for outcome in summary.outcomes if (outcome.step, outcome.rank) == (step, rank)]
        counts = {
            verdict: sum(outcome.rows - outcome.excused_rows for outcome in here if outcome.verdict == verdict)
            for verdict in ("error", "warning", "unmatched")
        }
        numbers = (sum(outcome.rows for outcome in here), *counts.values(), sum(one.different_rows for one in here))
        op = firsts.get((step, rank)) or "–"
        first: Any = workbook.styled_cell(sheet, op, _gravest(counts) or "Normal", always_text=True)
        first.alignment = _APART
        sheet.append([*(_number(sheet, number, _COUNT) for number in (step, rank, *numbers)), first])


def _gravest(counts: dict[str, int]) -> str | None:
    return next((verdict for verdict, count in counts.items() if count), None)


def _table(
    book: Workbook, title: str, connection: duckdb.DuckDBPyConnection, query: str, columns: Sequence[Column]
) -> None:
    """Write the rows of `query` on the sheet `title`, and on `title 2`, `title 3` … if one sheet is too small."""
    chosen = ", ".join(quote_identifier(column.name) for column in columns)
    widths = _widths(connection, query, columns)
    _, rows = workbook.columns_and_rows(connection, f"SELECT {chosen} {query}")
    for number, piece in enumerate(workbook.pieces(rows, workbook.ROWS_PER_SHEET), start=1):
        sheet = _sheet(book, title if number == 1 else f"{title} {number}", widths, "C2")
        sheet.append([_head(sheet, column.header, _over(column)) for column in columns])
        last = 1 + _append(sheet, piece, columns)
        sheet.auto_filter.ref = f"A1:{get_column_letter(len(columns))}{last}"


def _widths(connection: duckdb.DuckDBPyConnection, query: str, columns: Sequence[Column]) -> list[int]:
    """Return for each column what its longest text and the words of its header need, texts up to the column's width."""
    lengths = ", ".join(f"max(length(CAST({quote_identifier(column.name)} AS VARCHAR)))" for column in columns)
    (longest,) = connection.execute(f"SELECT {lengths} FROM (SELECT * {query})").fetchall()
    return [
        max(min(column.width, round((length or 0) * _LETTER) + _MARGIN), max(map(len, column.header.split())) + _FILTER)
        for column, length in zip(columns, longest, strict=True)
    ]


def _append(sheet: Worksheet, rows: Iterable[tuple[Any, ...]], columns: Sequence[Column]) -> int:
    count = 0
    for row in rows:
        fill = row[1] if row[1] in workbook.FILLS else None
        sheet.append(list(_cells(sheet, row, columns, fill)))
        count += 1
    return count


def _cells(sheet: Worksheet, row: tuple[Any, ...], columns: Sequence[Column], fill: str | None) -> Iterator[Any]:
    for place, (value, column) in enumerate(zip(row, columns, strict=True)):
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield _number(sheet, value, column.format or _NUMBER)
        else:
            text = None if value is None else str(value)
            yield workbook.styled_cell(sheet, text, fill if place < 2 else None, always_text=True)


def _number(sheet: Worksheet, value: float, format: str) -> Any:
    """Return the cell of a number; NaN, infinities and integers that Excel would round are texts."""
    if not math.isfinite(value) or (abs(value) > _LARGEST_INTEGER and isinstance(value, int)):
        return str(value)
    cell = WriteOnlyCell(sheet, value)
    cell.number_format = format
    return cell


_APART = Alignment("left", indent=1)
"""For a text to the right of a number."""


def _over(column: Column) -> Alignment:
    return Alignment("right" if column.format else "left", "top", wrap_text=True)


def _head(sheet: Worksheet, header: str, alignment: Alignment) -> Any:
    cell = WriteOnlyCell(sheet, header)
    cell.style = "header"
    cell.alignment = alignment
    return cell


def _sheet(book: Workbook, title: str, widths: Sequence[int], frozen: str | None = None) -> Worksheet:
    """Return a new sheet. With `frozen`, it is a table, whose header and columns before that cell stay in view."""
    sheet: Worksheet = book.create_sheet(title)
    sheet.freeze_panes = frozen
    workbook.set_up(sheet, widths, 2 if frozen else 0)
    return sheet
