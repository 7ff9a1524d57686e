"""One workbook for all ranks: an overview that names the origin, findings as sentences, numbers as numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from openpyxl import Workbook, load_workbook
from test_workbook import HOSTILE, call, tensor, texts, write_dump

import lakeprobe
from lakeprobe.errors import UsageError
from lakeprobe.session import ComparisonResult

INF = float("inf")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> ComparisonResult:
    """Two ranks; on rank 1 an op differs, with infinite and hostile values."""
    folder = tmp_path_factory.mktemp("book")
    for side, norm in (("target", 3.0), ("golden", 1.0)):
        for rank in (0, 1):
            data = {
                "Torch.add.0.forward": call([tensor(1.0)], [tensor(norm if rank else 1.0)]),
                "Torch.mul.0.forward": call(texts(HOSTILE[:12]), [tensor(INF if rank and norm > 1 else 2.0)]),
            }
            made = write_dump(folder / f"{side}{rank}", data)
            (folder / side / "step0").mkdir(parents=True, exist_ok=True)
            (made / "rank0").rename(folder / side / "step0" / f"rank{rank}")
    lake = lakeprobe.open(folder / "lake", create=True)
    return lake.compare(folder / "target", folder / "golden")


@pytest.fixture(scope="module")
def book(result: ComparisonResult, tmp_path_factory: pytest.TempPathFactory) -> Workbook:
    (path,) = result.write(tmp_path_factory.mktemp("out"), "xlsx")
    return load_workbook(path)


def test_the_overview_names_the_origin(book: Workbook) -> None:
    lines = [row[0].value for row in book["overview"].iter_rows() if row[0].value is not None]
    assert lines[0] == "target against golden"
    assert "Verdict: different" in lines
    assert "First difference: rank 1, Torch.add.0.forward (step 0)" in lines
    rows = [[cell.value for cell in row[:8]] for row in book["overview"].iter_rows()]
    head = rows.index(["Step", "Rank", "Rows", "Errors", "Warnings", "Unmatched", "Different", "First difference"])
    assert [row[:2] + row[6:] for row in rows[head + 1 :]] == [[0, 0, 0, "–"], [0, 1, 2, "Torch.add.0.forward"]]


def test_findings_are_coloured_sentences_with_percent_formats(book: Workbook) -> None:
    sheet = book["findings"]
    headers = [cell.value for cell in sheet[1]]
    assert headers[:5] == ["Op and slot", "Result", "Step", "Rank", "Reason"]
    row = next(row for row in sheet.iter_rows(min_row=2) if row[0].value == "Torch.add.0.forward.output.0")
    assert row[1].fill.fgColor.rgb == row[0].fill.fgColor.rgb != "00000000"
    assert [row[place].value for place in (2, 3)] == [0, 1]
    assert row[4].value.endswith(".")
    assert row[4].value[0].isupper()
    norm = row[headers.index("NormRelativeErr")]
    assert (norm.value, norm.number_format, norm.data_type) == (2.0, "0.0000%_)", "n")


def test_heads_stand_over_their_numbers_in_one_font(book: Workbook) -> None:
    sheet = book["overview"]
    (head,) = (row for row in sheet.iter_rows() if row[0].value == "Step")
    first = sheet[head[0].row + 2]
    assert [cell.alignment.horizontal for cell in head[:8]] == ["right"] * 7 + ["left"]
    assert first[7].fill.fgColor.rgb != "00000000"
    assert {cell.font.name for row in sheet.iter_rows() for cell in row if cell.value is not None} == {"Calibri"}


def test_all_rows_of_all_ranks_are_on_one_sheet(book: Workbook, result: ComparisonResult) -> None:
    sheet = book["rows"]
    assert sheet.max_row - 1 == len(result.rows)
    headers = [cell.value for cell in sheet[1]]
    rows = list(sheet.iter_rows(min_row=2))
    infinite = next(row for row in rows if (row[0].value, row[3].value) == ("Torch.mul.0.forward.output.0", 1))
    assert infinite[headers.index("Target max")].value == "inf"  # Excel has no infinity
    assert infinite[headers.index("Golden max")].value == 2.0
    assert {cell.data_type for row in rows for cell in row} <= {"s", "n"}  # no formula, no error
    assert "=1+1" in [row[headers.index("Target value")].value for row in rows]


def test_it_is_made_to_be_read_and_printed(book: Workbook) -> None:
    for sheet in book:
        printed = sheet.page_setup
        assert (printed.orientation, printed.fitToHeight) == ("landscape", 0)
        assert sheet.sheet_properties.pageSetUpPr.fitToPage
        width = sum(sheet.column_dimensions[column[0].column_letter].width for column in sheet.iter_cols())
        assert width / printed.fitToWidth < 270  # digits across A4 in a type of 6 points
    assert [book[name].page_setup.fitToWidth for name in ("overview", "findings")] == [1, 1]
    assert book["rows"].print_title_cols == "$A:$B"  # the names stand on each of its pages
    for sheet in (book["findings"], book["rows"]):
        assert (sheet.freeze_panes, sheet.print_title_rows) == ("C2", "$1:$1")
        assert sheet.auto_filter.ref.startswith("A1:")
        texts = [[str(cell.value) for cell in column[1:] if cell.data_type == "s"] for column in sheet.iter_cols()]
        widths = [sheet.column_dimensions[column[0].column_letter].width for column in sheet.iter_cols()]
        assert all(width >= 0.9 * len(text) for width, texts in zip(widths[:4], texts, strict=False) for text in texts)


@pytest.mark.parametrize(
    ("name", "shown"), [("nul\0byte", r"nul\x00byte"), ("=1+1", "=1+1"), ("_x0041_", "_x005F_x0041_")]
)
def test_a_first_difference_of_any_name_is_a_text(tmp_path: Path, name: str, shown: str) -> None:
    for side, norm in (("target", 2.0), ("golden", 1.0)):
        write_dump(tmp_path / side, {f"{name}.add.0.forward": call([tensor(1.0)], [tensor(norm)])})
    result = lakeprobe.open(tmp_path / "lake", create=True).compare(tmp_path / "target", tmp_path / "golden")
    (path,) = result.write(tmp_path / "out", "xlsx")
    first = next(row[7] for row in load_workbook(path)["overview"].iter_rows() if row[0].value == 0)
    assert (first.value, first.data_type) == (f"{shown}.add.0.forward", "s")
    assert first.style in ("error", "warning")


def test_msprobes_layout_is_a_file_per_rank(result: ComparisonResult, tmp_path: Path) -> None:
    written = result.write(tmp_path, "xlsx", layout="msprobe")
    assert [path.name.rpartition("_")[0] for path in written] == ["compare_result_rank0", "compare_result_rank1"]
    assert load_workbook(written[0])["rows"]["A1"].value == "NPU Name"
    with pytest.raises(UsageError, match="the layout other is unknown; use one of lakeprobe, msprobe"):
        result.write(tmp_path, "xlsx", layout="other")
