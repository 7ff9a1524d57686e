"""Writes a comparison as an Excel workbook: a summary, the findings worst first, and msprobe's table in full.

The sheet `rows` has the texts of the csv, cell for cell; infinities lack the blank that msprobe writes before them only
there. `cell_content` alone turns a text into a cell, and never into a formula: the workbook shows what a dump contains
and runs nothing. Rows go from DuckDB to the file in batches, so memory does not grow with the comparison.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.styles import Font, NamedStyle, PatternFill
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.page import PageMargins
from openpyxl.worksheet.properties import PageSetupProperties

from lakeprobe import metrics, resources
from lakeprobe.analysis.summary import Outcome
from lakeprobe.analysis.verdict import coverage
from lakeprobe.lake.comparison import ComparedUnit, StoredComparison
from lakeprobe.lake.connection import MACROS, columns_of, define_macros
from lakeprobe.reports import table
from lakeprobe.reports.verdict_text import verdict_lines
from lakeprobe.resources import quote_identifier

if TYPE_CHECKING:
    import duckdb
    from openpyxl.cell import Cell
    from openpyxl.worksheet.worksheet import Worksheet

ROWS_PER_SHEET = 1_048_500
"""Rows of data on a sheet, as in msprobe. Excel allows 1,048,576 with the header."""

LONGEST_CELL = 32_767
"""The most UTF-16 code units in a cell of Excel."""

TEXT_COLUMNS = frozenset({
    "NPU Name", "Bench Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape",
    "NPU Requires_grad", "Bench Requires_grad", "NPU MD5", "BENCH MD5", "Requires_grad Consistent", "Result",
    "Err_message", "NPU_Stack_Info", "Data_name", "Part", "Module", "Line of code",
})  # fmt: skip
"""Columns whose texts stay texts even if they look like numbers, such as the digest 12345678."""

WIDTHS = {
    "NPU Name": 52, "Bench Name": 52, "NPU Dtype": 16, "Bench Dtype": 16, "NPU Tensor Shape": 19,
    "Bench Tensor Shape": 21, "Err_message": 60, "NPU_Stack_Info": 60, "Data_name": 60, "Module": 40,
    "Line of code": 80,
}  # fmt: skip
"""Widths in characters of the columns that are wider than their header."""

FONT = "Calibri"
"""The font of cells without a style; a style that names none has another in LibreOffice."""

FILLS = {"error": "FFC7CE", "warning": "FFF2CC", "unmatched": "E7E6E6", "unreadable": "E7E6E6"}
"""The colours of a row's Result and names: light red, light yellow, light grey."""

FILLED_COLUMNS = frozenset({"Result", "NPU Name", "Bench Name"})
"""The columns with coloured cells. To colour whole rows would double the time if every row is a finding."""

_SIDES = {
    "statistics": ("NPU l2norm", "Bench l2norm", "NPU max", "Bench max"),
    "tensor": ("NPU max", "Bench max"),
    "digest": ("NPU Dtype", "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape", "NPU MD5", "BENCH MD5"),
}
NUMBERS = {kind: (*metrics.finding_headers(kind), *sides) for kind, sides in _SIDES.items()}
"""The metrics and statistics that a finding shows, by the kind of comparison."""

_READABLE = 270
"""The most digits across a page: those of A4 in landscape, in a type of 6 points."""
_A4 = 9
_MARGIN_INCHES = 0.4

_BATCH = 5_000
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_INFINITIES = (" inf", " -inf")
_LARGEST_INTEGER = 2**53
_UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")


def write(connection: duckdb.DuckDBPyConnection, comparison: StoredComparison, unit: ComparedUnit, path: Path) -> None:
    """Write one pair of units to the workbook `path`."""
    workbook = Workbook(write_only=True)
    add_styles(workbook)
    define_macros(connection, MACROS)
    _write_summary(workbook, connection, unit)
    own_metrics = metrics.own_of_results(columns_of(connection, "results"))
    findings = f"WITH cells AS (\n{table.cells(connection, unit)}\n) {_findings(unit.kind, own_metrics)}"
    for title, query in (("findings", findings), ("rows", table.msprobe_table(connection, unit))):
        _write_table(workbook, title, *columns_and_rows(connection, query))
    workbook.save(path)


def cell_content(text: str | None, *, always_text: bool = False) -> tuple[str | None, str]:
    """Return the content of a cell for a text of the csv, and the cell's type: "n" is a number, "s" is text.

    A number keeps its digits. It stays text where Excel would round it: from 2^53 on, and beyond the range of a double.
    Characters that a workbook cannot hold become Python escapes.
    """
    if not text:
        return None, "n"
    if not always_text and _is_number(text):
        return text, "n"
    if not always_text and text in _INFINITIES:
        return text.strip(), "s"
    return _shortened(_UNWRITABLE.sub(_escaped, text)), "s"


def _is_number(text: str) -> bool:
    number = _NUMBER.fullmatch(text)
    if number is None:
        return False
    if number[2] or number[3]:
        return abs(float(text)) != float("inf")
    return len(text) <= len(str(-_LARGEST_INTEGER)) and abs(int(text)) <= _LARGEST_INTEGER


def _escaped(found: re.Match[str]) -> str:
    """Return the escape for a character; for `_`, the escape that keeps Excel from reading `_x0041_` as one."""
    if found[0] == "_":
        return "_x005F_"
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _shortened(text: str) -> str:
    """Return `text`, or as much of it as fits into a cell with a note on how much is missing."""
    if 2 * len(text) <= LONGEST_CELL:
        return text
    units = text.encode("utf-16-le")
    if len(units) <= 2 * LONGEST_CELL:
        return text
    room = LONGEST_CELL - len(f"… [{len(text)} characters cut]")
    kept = units[: 2 * room].decode("utf-16-le", "ignore")
    return f"{kept}… [{len(text) - len(kept)} characters cut]"


def add_styles(workbook: Workbook) -> None:
    """Add the named styles: one for headers, and one per coloured Result."""
    workbook.add_named_style(NamedStyle("header", font=Font(FONT, 11, bold=True)))
    for name, colour in FILLS.items():
        workbook.add_named_style(NamedStyle(name, font=Font(FONT, 11), fill=PatternFill("solid", fgColor=colour)))


def _findings(kind: str, own_metrics: Iterable[str]) -> str:
    columns = (
        "Result",
        "NPU Name",
        "Bench Name",
        "Err_message",
        *own_metrics,
        *NUMBERS[kind],
        "Module",
        "Line of code",
    )
    chosen = ", ".join(quote_identifier(column) for column in columns)
    return f"FROM ({resources.sql('reports/findings')}) SELECT {chosen}"


def columns_and_rows(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """Return the column names of a query and its rows, which are fetched on demand."""
    connection.execute(query)
    return [column[0] for column in connection.description or ()], _fetched(connection)


def _fetched(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while batch := connection.fetchmany(_BATCH):
        yield from batch


def _write_summary(workbook: Workbook, connection: duckdb.DuckDBPyConnection, unit: ComparedUnit) -> None:
    """Write what was compared, where the first difference is, and how the rows ended."""
    sheet: Worksheet = workbook.create_sheet("summary")
    set_up(sheet, [24, 24, 12, 12, 12, 12, 12, 12])
    for facts in (_compared(unit), _verdict(connection, unit), _first_difference(connection)):
        for label, value in facts.items():
            sheet.append([styled_cell(sheet, label, "header"), styled_cell(sheet, value)])
        sheet.append([])
    names, counts = columns_and_rows(connection, resources.sql("reports/outcome_counts"))
    sheet.append([styled_cell(sheet, name, "header") for name in names])
    for count in counts:
        sheet.append([styled_cell(sheet, str(value), _style(count[1])) for value in count])


def _compared(unit: ComparedUnit) -> dict[str, str]:
    return {
        "Compared by": unit.kind,
        "Target": f"step {unit.step}, rank {unit.rank}",
        "Golden": f"step {unit.golden_step}, rank {unit.golden_rank}",
        "Rows": str(unit.rows),
    }


def _verdict(connection: duckdb.DuckDBPyConnection, unit: ComparedUnit) -> dict[str, str]:
    query = f"WITH results AS ({resources.sql('reports/unit_results')}) FROM ({resources.sql('analysis/outcomes')})"
    outcomes = [Outcome(*row) for row in connection.execute(query).fetchall()]
    first, *rest = verdict_lines(coverage([unit], outcomes))
    return {"Verdict": first.partition(": ")[2], "": "; ".join(line.strip() for line in rest)}


def _first_difference(connection: duckdb.DuckDBPyConnection) -> dict[str, str | None]:
    unit_results = resources.sql("reports/unit_results")
    for name in ("findings_by_op", "outcomes"):
        analysis = resources.sql(f"analysis/{name}")
        query = f"WITH results AS ({unit_results}) FROM ({analysis})"
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {query}")
    names, rows = columns_and_rows(connection, resources.sql("reports/first_difference"))
    first = next(rows, ("none",))
    return dict(zip(names, first, strict=False))


def _write_table(workbook: Workbook, title: str, headers: list[str], rows: Iterator[tuple[Any, ...]]) -> None:
    """Write `rows` on the sheet `title`, and on `title 2`, `title 3` … if one sheet is too small."""
    always_text = [header in TEXT_COLUMNS for header in headers]
    filled = [header in FILLED_COLUMNS for header in headers]
    result = headers.index("Result")
    for number, piece in enumerate(pieces(rows, ROWS_PER_SHEET), start=1):
        sheet = new_table(workbook, title if number == 1 else f"{title} {number}", headers)
        last = 1
        for row in piece:
            last += 1
            style = _style(row[result])
            cells = zip(row, filled, always_text, strict=True)
            sheet.append([styled_cell(sheet, text, style if fill else None, always) for text, fill, always in cells])
        sheet.auto_filter.ref = f"A1:{get_column_letter(len(headers))}{last}"


def pieces(rows: Iterator[tuple[Any, ...]], size: int) -> Iterator[Iterator[tuple[Any, ...]]]:
    """Yield `rows` in pieces of `size`, each to be used before the next; without rows, yield one empty piece."""
    yield islice(rows, size)
    for first in rows:
        yield chain((first,), islice(rows, size - 1))


def new_table(workbook: Workbook, title: str, headers: list[str]) -> Worksheet:
    """Return a new sheet with its header, which stays in view, as does the first column."""
    sheet: Worksheet = workbook.create_sheet(title)
    sheet.freeze_panes = "B2"
    set_up(sheet, [WIDTHS.get(header, len(header) + 5) for header in headers], 1)
    sheet.append([styled_cell(sheet, header, "header") for header in headers])
    return sheet


def set_up(sheet: Worksheet, widths: Sequence[int], names: int = 0) -> None:
    """Set the widths of the columns, in digits, and how the sheet prints: A4, landscape, small margins.

    It is one page wide if its print can be read then. If not, its first `names` columns stand on every page. A sheet
    with `names` is a table, whose first row stands on every page.
    """
    for number, width in enumerate(widths, start=1):
        sheet.column_dimensions[get_column_letter(number)].width = width
    named = sum(widths[:names])
    pages = math.ceil((sum(widths) - named) / (_READABLE - named))
    sheet.page_setup.orientation = "landscape"
    sheet.page_setup.paperSize = _A4
    sheet.page_setup.fitToWidth, sheet.page_setup.fitToHeight = pages, 0
    sheet.sheet_properties.pageSetUpPr = PageSetupProperties(fitToPage=True)
    sheet.page_margins = PageMargins(*[_MARGIN_INCHES] * 4)
    if names:
        sheet.print_title_rows = "1:1"
        sheet.print_title_cols = f"A:{get_column_letter(names)}"


def _style(result: str | None) -> str | None:
    return result if result in FILLS else None


def styled_cell(
    sheet: Worksheet, text: str | None, style: str | None = None, always_text: bool = False
) -> Cell | str | float:
    """Return what openpyxl writes into a cell: a cell object, or a bare value, which takes half the time.

    A bare value is wrong for `=…`, which openpyxl makes a formula, for `#N/A`, which it makes an error, and for long
    numbers, which it rounds to 16 digits.
    """
    content, kind = cell_content(text, always_text=always_text)
    if content and not style:
        if kind == "n" and len(content) <= 16:
            return float(content)
        if kind == "s" and content[0] not in "=#":
            return content
    cell = WriteOnlyCell(sheet, content)
    cell.data_type = kind
    if style:
        cell.style = style
    return cell
