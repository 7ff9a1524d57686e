"""The workbook shows what the csv shows, whatever the texts are, and marks what a reader looks for."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from openpyxl import load_workbook
from openpyxl.cell import Cell
from openpyxl.workbook import Workbook
from openpyxl.worksheet.worksheet import Worksheet

from lakeprobe.compare.run import compare
from lakeprobe.lake import comparison
from lakeprobe.lake.comparison import StoredComparison
from lakeprobe.reports import files, table, workbook

LONG = "long " * 10_000
HOSTILE = [
    "=1+1", "=", "-1", "+1", "@x", "#N/A", "a\x0b\x1fb", "line\r\nbreak\ttab", "_x0041_", "\uffff", " blanks ",
    "007", "1_000", "1e999", "9007199254740993", "نص", "😀" * 20_000, LONG,
]  # fmt: skip
FRAMES = [
    "File /env/site-packages/torch/nn/modules/linear.py, line 9, in forward, \n return F.linear(",
    "File /job/train.py, line 12, in forward, \n x = self.head(x)",
]


def tensor(value: float, dtype: str = "torch.float32", grad: bool = False) -> dict[str, Any]:
    statistics = {"Max": value, "Min": -value, "Mean": value / 7, "Norm": value * 3}
    return {"type": "torch.Tensor", "dtype": dtype, "shape": [2, 3], **statistics, "requires_grad": grad}


def call(inputs: list[Any], outputs: list[Any]) -> dict[str, Any]:
    return {"input_args": inputs, "input_kwargs": {}, "output": outputs}


def texts(values: list[str]) -> list[Any]:
    return [{"type": "str", "value": value} for value in values]


def write_dump(folder: Path, data: dict[str, Any]) -> Path:
    place = folder / "step0" / "rank0"
    place.mkdir(parents=True)
    head = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None}
    (place / "dump.json").write_text(json.dumps({**head, "data": data}))
    (place / "stack.json").write_text(json.dumps({"0": [list(data), FRAMES]}))
    (place / "construct.json").write_text("{}")
    return folder / "step0"


def compared(folder: Path, target: dict[str, Any], golden: dict[str, Any]) -> StoredComparison:
    dumps = [write_dump(folder / side, data) for side, data in (("target", target), ("golden", golden))]
    report = compare(*dumps, lake=folder / "lake", name="both")
    return comparison.load(folder / "lake", report.name)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> StoredComparison:
    """Equal rows with hostile texts, then an error, a warning, and rows that only one side has."""
    nan, inf = float("nan"), float("inf")
    same = call(texts(HOSTILE), [tensor(0.1 + 0.2), tensor(nan), tensor(inf), None])
    target = {
        "Torch.same.0.forward": same,
        "Torch.extra.0.forward": call([tensor(1)], [tensor(1)]),
        "Torch.grows.0.forward": call([tensor(1)], [tensor(1.3)]),
        "Torch.breaks.0.forward": call([tensor(1, grad=True)], [tensor(nan), tensor(1)]),
    }
    golden = {
        "Torch.same.0.forward": same,
        "Torch.grows.0.forward": call([tensor(1)], [tensor(1)]),
        "Torch.breaks.0.forward": call([tensor(1)], [tensor(1), tensor(1)]),
        "Torch.missing.0.forward": call([tensor(1)], texts(["=cmd()"])),
    }
    return compared(tmp_path_factory.mktemp("hostile"), target, golden)


def written(stored: StoredComparison, folder: Path) -> Workbook:
    (path,) = files.write(stored, folder, "xlsx")
    return load_workbook(path)


def read_csv(stored: StoredComparison, folder: Path) -> list[list[str]]:
    (path,) = files.write(stored, folder, "csv")
    csv.field_size_limit(10**6)
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.reader(lines))


def cells(sheet: Worksheet) -> list[list[Cell]]:
    return [list(row) for row in sheet.iter_rows()]  # type: ignore[arg-type]


def values(sheet: Worksheet) -> list[list[Any]]:
    return [[cell.value for cell in row] for row in cells(sheet)]


def agrees(text: str, cell: Cell, header: str) -> bool:
    """Whether a cell shows the csv's text: the same number, the same text, or the text as `cell_content` shows it."""
    text = re.sub(r"^'(?=[=+\-@\t\r\n])", "", text)  # csv has formulas behind an apostrophe
    content, kind = workbook.cell_content(text, always_text=header in workbook.TEXT_COLUMNS)
    if kind == "n":
        return cell.value is None if text == "" else cell.data_type == "n" and cell.value == float(text)
    return cell.data_type == "s" and cell.value == content


def test_agrees_with_the_csv_cell_for_cell(hostile: StoredComparison, tmp_path: Path) -> None:
    headers, *lines = read_csv(hostile, tmp_path)
    first, *rows = cells(written(hostile, tmp_path)["rows"])
    assert [cell.value for cell in first] == headers
    assert len(rows) == len(lines) == hostile.units[0].rows
    differing = [
        (header, text, cell.value)
        for line, row in zip(lines, rows, strict=True)
        for header, text, cell in zip(headers, line, row, strict=True)
        if not agrees(text, cell, header)
    ]
    assert differing == []


def test_no_cell_is_a_formula_or_an_error(hostile: StoredComparison, tmp_path: Path) -> None:
    book = written(hostile, tmp_path)
    found = {cell.data_type for sheet in book for row in cells(sheet) for cell in row}
    assert found == {"n", "s"}
    shown = {value for row in values(book["rows"]) for value in row}
    assert {"=1+1", "=", "@x", "#N/A", "=cmd()"} <= shown


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("0.30000000000000004", ("0.30000000000000004", "n")),
        ("-1", ("-1", "n")),
        ("1e-05", ("1e-05", "n")),
        ("9007199254740992", ("9007199254740992", "n")),
        ("9007199254740993", ("9007199254740993", "s")),
        ("-9007199254740992", ("-9007199254740992", "n")),
        ("9" * 5_000, ("9" * 5_000, "s")),
        ("1e999", ("1e999", "s")),
        ("007", ("007", "s")),
        ("1_000", ("1_000", "s")),
        ("+1", ("+1", "s")),
        ("19.9%", ("19.9%", "s")),
        (" inf", ("inf", "s")),
        (" -inf", ("-inf", "s")),
        (" information", (" information", "s")),
        ("Nan", ("Nan", "s")),
        ("None", ("None", "s")),
        ("N/A", ("N/A", "s")),
        ("unsupported", ("unsupported", "s")),
        ("=1+1", ("=1+1", "s")),
        ("a\x0bb\rc\td\ne\uffff", ("a\\x0bb\\x0dc\td\ne\\uffff", "s")),
        ("_x0041_", ("_x005F_x0041_", "s")),
        ("", (None, "n")),
        (None, (None, "n")),
    ],
)
def test_a_text_becomes_a_cell(text: str | None, content: tuple[str | None, str]) -> None:
    assert workbook.cell_content(text) == content


def test_digits_are_text_in_columns_without_numbers() -> None:
    assert workbook.cell_content("12345678", always_text=True) == ("12345678", "s")
    assert workbook.cell_content(" inf", always_text=True) == (" inf", "s")


@pytest.mark.parametrize("text", [LONG, "😀" * 20_000, "x" + "😀" * 20_000])
def test_a_text_too_long_says_how_much_is_missing(text: str) -> None:
    content, _ = workbook.cell_content(text)
    assert content is not None
    assert len(content.encode("utf-16-le")) <= 2 * workbook.LONGEST_CELL
    kept, _, mark = content.rpartition("… [")
    assert text.startswith(kept)
    assert mark == f"{len(text) - len(kept)} characters cut]"


def test_a_text_that_just_fits_is_whole() -> None:
    text = "x" * workbook.LONGEST_CELL
    assert workbook.cell_content(text) == (text, "s")


def test_sheets_can_be_read_and_filtered(hostile: StoredComparison, tmp_path: Path) -> None:
    book = written(hostile, tmp_path)
    assert book.sheetnames == ["summary", "findings", "rows"]
    for sheet in (book["findings"], book["rows"]):
        assert sheet.freeze_panes == "B2"
        assert sheet.auto_filter.ref == sheet.dimensions
        assert sheet["A1"].font.b
        assert all(10 <= sheet.column_dimensions[row.column_letter].width <= 80 for row in cells(sheet)[0])


def test_findings_are_the_rows_that_do_not_pass_worst_first(hostile: StoredComparison, tmp_path: Path) -> None:
    header, *rows = values(written(hostile, tmp_path)["findings"])
    assert header[:4] == ["Result", "NPU Name", "Bench Name", "Err_message"]
    assert header[-2:] == ["Module", "Line of code"]
    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("error", "Torch.breaks.0.forward.output.0", "Torch.breaks.0.forward.output.0"),
        ("error", "Torch.breaks.0.forward.input.0", "Torch.breaks.0.forward.input.0"),
        ("warning", "Torch.grows.0.forward.output.0", "Torch.grows.0.forward.output.0"),
        ("unmatched", "Torch.extra.0.forward.input.0", "N/A"),
        ("unmatched", "Torch.extra.0.forward.output.0", "N/A"),
        ("unmatched", "N/A", "Torch.missing.0.forward.input.0"),
        ("unmatched", "N/A", "Torch.missing.0.forward.output.0"),
    ]
    assert rows[0][-1] == "File /job/train.py, line 12, in forward, x = self.head(x)"


@pytest.mark.parametrize("kind", workbook.NUMBERS)
def test_findings_show_the_numbers_of_their_kind(hostile: StoredComparison, tmp_path: Path, kind: str) -> None:
    unit = replace(hostile.units[0], kind=kind)
    with table.opened(unit) as connection:
        workbook.write(connection, hostile, unit, tmp_path / "draft")
    with (tmp_path / "draft").open("rb") as draft:
        header = values(load_workbook(draft)["findings"])[0]
    assert header[4:-2] == list(workbook.NUMBERS[kind])


def test_result_and_names_are_coloured(hostile: StoredComparison, tmp_path: Path) -> None:
    book = written(hostile, tmp_path)
    for sheet in (book["findings"], book["rows"]):
        header, *rows = cells(sheet)
        names = [cell.value for cell in header]
        for row in rows:
            result = row[names.index("Result")].value
            colour = "00" + workbook.FILLS.get(str(result), "000000")
            for name, cell in zip(names, row, strict=True):
                expected = colour if name in workbook.FILLED_COLUMNS else "00000000"
                assert cell.fill.fgColor.rgb == expected, (result, name)


def test_rows_go_on_on_further_sheets(
    hostile: StoredComparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = written(hostile, tmp_path / "whole")
    count = hostile.units[0].rows
    monkeypatch.setattr(workbook, "ROWS_PER_SHEET", 10)
    book = written(hostile, tmp_path / "parts")
    parts = ["rows", *[f"rows {number}" for number in range(2, (count + 9) // 10 + 1)]]
    assert book.sheetnames == ["summary", "findings", *parts]
    header = values(whole["rows"])[0]
    together = [header]
    for title in parts:
        first, *rows = values(book[title])
        assert first == header
        assert len(rows) <= 10
        assert book[title].auto_filter.ref == book[title].dimensions
        together += rows
    assert together == values(whole["rows"])


def test_a_full_sheet_has_no_empty_one_behind_it(
    hostile: StoredComparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbook, "ROWS_PER_SHEET", hostile.units[0].rows)
    assert written(hostile, tmp_path).sheetnames == ["summary", "findings", "rows"]


def test_summary_names_the_first_op_that_differs(hostile: StoredComparison, tmp_path: Path) -> None:
    sheet = values(written(hostile, tmp_path)["summary"])
    facts = {row[0]: row[1] for row in sheet if row[0]}
    assert facts["Compared by"] == "statistics"
    assert facts["Rows"] == hostile.units[0].rows
    assert facts["First op that differs"] == "Torch.extra.0.forward"
    assert facts["Finding"] == "only in target"
    assert facts["Line of code"] == "File /job/train.py, line 12, in forward, x = self.head(x)"
    start = next(number for number, row in enumerate(sheet) if row[0] == "Outcome")
    counts = {(row[0], row[1]): row[2] for row in sheet[start + 1 :]}
    assert counts[("unmatched", "unmatched")] == 4
    assert sum(counts.values()) == hostile.units[0].rows


def test_equal_dumps_have_no_findings(tmp_path: Path) -> None:
    data = {"Torch.same.0.forward": call([tensor(1)], [tensor(1)])}
    book = written(compared(tmp_path, data, data), tmp_path)
    facts = {row[0]: row[1] for row in values(book["summary"])}
    assert facts["First op that differs"] == "none"
    assert book["findings"].dimensions == book["findings"].auto_filter.ref == "A1:K1"
