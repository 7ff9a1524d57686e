"""msprobe's result files come out as they were written, whatever release and form; what is none is refused."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from openpyxl import Workbook

from lakeprobe.errors import DumpError, UsageError
from lakeprobe.readers import result_tables

TIME = "20260102030405"
NAMES = ["NPU Name", "Bench Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape"]
FLAGS = ["NPU Requires_grad", "Bench Requires_grad"]
DIFFERENCES = ["Max diff", "Min diff", "Mean diff", "L2norm diff"]
ERRORS = ["MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr"]
TENSOR = ["Cosine", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandths Err Ratio"]
STATISTICS = ["NPU max", "NPU min", "NPU mean", "NPU l2norm", "Bench max", "Bench min", "Bench mean", "Bench l2norm"]
TAIL = ["Requires_grad Consistent", "Result", "Err_message"]
EUCLID = ["Cosine", "EucDist", *TENSOR[1:]]

LAYOUTS = {
    "summary 1.2": ([*NAMES, *DIFFERENCES, *ERRORS, *STATISTICS, "Result", "Err_message"], "statistics"),
    "summary 26": ([*NAMES, *FLAGS, *DIFFERENCES, *ERRORS, *STATISTICS, *TAIL], "statistics"),
    "summary 26 with stack": (
        [*NAMES, *FLAGS, *DIFFERENCES, *ERRORS, *STATISTICS, *TAIL, "NPU_Stack_Info"],
        "statistics",
    ),
    "all 1.2": ([*NAMES, *TENSOR, *STATISTICS, "Accuracy Reached or Not", "Err_message", "Data_name"], "tensor"),
    "all 8.1": ([*NAMES, *EUCLID, *STATISTICS, "Accuracy Reached or Not", "Err_message", "Data_name"], "tensor"),
    "all 26": ([*NAMES, *FLAGS, *EUCLID, *STATISTICS, *TAIL, "NPU_Stack_Info", "Data_name"], "tensor"),
    "all 26, algorithm of the user": ([*NAMES, *FLAGS, *EUCLID, "My error", *STATISTICS, *TAIL, "Data_name"], "tensor"),
    "md5 8.1": ([*NAMES, "NPU MD5", "BENCH MD5", "Result"], "digest"),
    "md5 26": ([*NAMES, *FLAGS, "NPU MD5", "BENCH MD5", *TAIL], "digest"),
}
STACK = "['File a.py, line 1, in f, \n x = \"y\", z']"
Rows = list[list[str | None]]


def rows_for(headers: Sequence[str], count: int = 3) -> Rows:
    """Rows of which every cell says where it stands; one is empty, and the last is a call stack over two lines."""
    rows: Rows = [[f"{header} {row}" for header in headers] for row in range(count)]
    rows[0][1] = None
    rows[-1][-1] = STACK
    return rows


def write_csv(path: Path, headers: Sequence[str], rows: Rows) -> Path:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([headers, *rows])
    return path


def write_workbook(path: Path, sheets: dict[str, tuple[Sequence[str], Rows]]) -> Path:
    book = Workbook()
    book.remove(book.worksheets[0])
    for title, (headers, rows) in sheets.items():
        page = book.create_sheet(title)
        for row in [headers, *rows]:
            page.append(row)
    book.save(path)
    return path


def write(folder: Path, rank: int, ending: str, headers: Sequence[str], rows: Rows) -> Path:
    path = folder / f"compare_result_rank{rank}_{TIME}.{ending}"
    return write_workbook(path, {"Sheet1": (headers, rows)}) if ending == "xlsx" else write_csv(path, headers, rows)


def texts(file: result_tables.ResultFile, headers: Sequence[str]) -> pa.Table:
    with duckdb.connect() as connection:
        return result_tables.texts(connection, file, headers)


@pytest.mark.sampled
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "xlsx"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_and_form(layout: str, ending: str, tmp_path: Path) -> None:
    headers, kind = LAYOUTS[layout]
    rows = rows_for(headers)
    path = write(tmp_path, 7, ending, headers, rows)
    (file,) = result_tables.find([tmp_path])
    assert (file.path, file.rank, file.headers, file.layout) == (path, 7, tuple(headers), kind)
    asked = list(dict.fromkeys(["Result", "NPU Name", "Bench Name", "Cosine", headers[-1]]))
    table = texts(file, asked)
    assert table.column_names == asked
    expected = [{header: row[headers.index(header)] if header in headers else None for header in asked} for row in rows]
    assert table.to_pylist() == expected


def test_metrics_are_what_stands_between_names_and_statistics(tmp_path: Path) -> None:
    found = {}
    for rank, (headers, _) in enumerate(LAYOUTS.values()):
        write(tmp_path, rank, "csv", headers, [])
    for file in result_tables.find([tmp_path]):
        found[list(LAYOUTS)[file.rank]] = list(file.metrics)
    assert found == {
        "summary 1.2": [*DIFFERENCES, *ERRORS],
        "summary 26": [*DIFFERENCES, *ERRORS],
        "summary 26 with stack": [*DIFFERENCES, *ERRORS],
        "all 1.2": TENSOR,
        "all 8.1": EUCLID,
        "all 26": EUCLID,
        "all 26, algorithm of the user": [*EUCLID, "My error"],
        "md5 8.1": [],
        "md5 26": [],
    }


def test_cells_of_a_workbook_are_texts(tmp_path: Path) -> None:
    headers = LAYOUTS["summary 26"][0]
    rows: list[list[object]] = [[1, 1.5, True, "1.0", None, 1e-05, *["x"] * (len(headers) - 6)]]
    write(tmp_path, 0, "xlsx", headers, rows)
    (file,) = result_tables.find([tmp_path])
    assert list(texts(file, NAMES).to_pylist()[0].values()) == ["1", "1.5", "True", "1.0", None, "1e-05"]


def test_a_header_may_be_no_name_for_sql(tmp_path: Path) -> None:
    """DuckDB ends a name at a NUL: two headers would be one column, and the one asked for would not be there."""
    headers = [*LAYOUTS["summary 26"][0], "Max\0 diff", 'a"; --']
    row = [f"cell {place}" for place in range(len(headers))]
    write(tmp_path, 0, "csv", headers, [row])
    (file,) = result_tables.find([tmp_path])
    assert texts(file, headers).to_pylist() == [dict(zip(headers, row, strict=True))]


def test_parts_of_a_csv_and_sheets_of_a_workbook_follow_each_other(tmp_path: Path) -> None:
    headers = LAYOUTS["summary 26"][0]
    for part in (10, 2, 1):
        row = [f"part {part}", *[""] * (len(headers) - 1)]
        write_csv(tmp_path / f"compare_result_rank0_{TIME}_part_{part}.csv", headers, [row])
    sheets = {f"part_{part}": (headers, [[f"part {part}", *["x"] * (len(headers) - 1)]]) for part in (0, 1)}
    notes = {"notes": (["NPU Name", "what I think"], [["part 9", "odd"]])}
    write_workbook(tmp_path / f"compare_result_rank1-rank5_{TIME}.xlsx", notes | sheets)
    read = {}
    for file in result_tables.find([tmp_path]):
        read.setdefault(file.rank, []).extend(texts(file, ["NPU Name"])["NPU Name"].to_pylist())
    assert read == {0: ["part 1", "part 2", "part 10"], 1: ["part 0", "part 1"]}


def test_files_and_folders_go_together_by_rank(tmp_path: Path) -> None:
    headers = LAYOUTS["summary 26"][0]
    (tmp_path / "more").mkdir()
    single = write(tmp_path, 10, "csv", headers, [])
    for rank in (2, 0):
        write(tmp_path / "more", rank, "xlsx", headers, [])
    (tmp_path / "more" / "multi_ranks_compare_merge_20260102030405.xlsx").write_bytes(b"made by merge_result")
    assert [file.rank for file in result_tables.find([single, tmp_path / "more"])] == [0, 2, 10]


# ---- bad input ---------------------------------------------------------------------------------------------


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no result file of msprobe"):
        result_tables.find([tmp_path])


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.csv is neither a file nor a folder"):
        result_tables.find([tmp_path / "nothing.csv"])


@pytest.mark.parametrize(
    "name", [f"compare_result_{TIME}.csv", f"compare_result_0_0_{TIME}.csv", "compare_result.xlsx"]
)
def test_a_file_that_does_not_say_its_rank(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(UsageError, match=rf"{name} does not say its rank"):
        result_tables.find([tmp_path])


def test_a_rank_twice(tmp_path: Path) -> None:
    headers = LAYOUTS["summary 26"][0]
    write(tmp_path, 3, "csv", headers, [])
    write(tmp_path, 3, "xlsx", headers, [])
    with pytest.raises(UsageError, match=r"rank 3 is in .*\.csv and in .*\.xlsx"):
        result_tables.find([tmp_path])


def test_the_same_file_twice(tmp_path: Path) -> None:
    path = write(tmp_path, 3, "csv", LAYOUTS["summary 26"][0], [])
    with pytest.raises(UsageError, match=r"rank 3 is in "):
        result_tables.find([path, tmp_path])


OTHERS = {
    "kernel": [*NAMES, *STATISTICS, "Accuracy Reached or Not", "Err_message", *EUCLID],
    "no names": [*DIFFERENCES, *STATISTICS],
    "no statistics": [*NAMES, *DIFFERENCES, "Result"],
    "ptdbg": ["NPU Name", "Bench Name", "NPU Tensor Dtype", "Bench Tensor Dtype", *TENSOR],
    "nothing": [],
}


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "xlsx"])
@pytest.mark.parametrize("layout", OTHERS)
def test_a_table_of_another_layout(layout: str, ending: str, tmp_path: Path) -> None:
    path = write(tmp_path, 0, ending, OTHERS[layout], [])
    with pytest.raises(DumpError, match=rf"{path.name} has no table of msprobe's compare"):
        result_tables.find([tmp_path])


def test_a_header_twice(tmp_path: Path) -> None:
    write(tmp_path, 0, "csv", [*LAYOUTS["summary 26"][0], "Result"], [])
    with pytest.raises(DumpError, match="has a header twice"):
        result_tables.find([tmp_path])


@pytest.mark.sampled
@pytest.mark.parametrize("ending", ["csv.gz", "xlsx"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.95, 0.999])
def test_a_truncated_file(ending: str, share: float, tmp_path: Path) -> None:
    headers = LAYOUTS["summary 26"][0]
    path = write(tmp_path, 0, ending, headers, rows_for(headers, 400))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(DumpError, match=r"cannot be read as a table|has no table of msprobe's compare"):
        read(path)


@pytest.mark.parametrize("damage", [b"a,b\n", b'"never closed', b"\xff\xfe,\xff" + b"," * 30 + b"\n"])
def test_a_csv_that_ends_in_something_else(damage: bytes, tmp_path: Path) -> None:
    headers = LAYOUTS["summary 26"][0]
    path = write(tmp_path, 0, "csv", headers, rows_for(headers))
    path.write_bytes(path.read_bytes() + damage)
    with pytest.raises(DumpError, match="cannot be read as a table"):
        read(path)


@pytest.mark.sampled
@pytest.mark.parametrize("position", range(5, 100, 12))
def test_a_workbook_with_a_damaged_byte_is_read_whole_or_refused(position: int, tmp_path: Path) -> None:
    headers = LAYOUTS["summary 26"][0]
    path = write(tmp_path, 0, "xlsx", headers, rows_for(headers, 50))
    whole = read(path)
    data = bytearray(path.read_bytes())
    place = position * len(data) // 100
    data[place] ^= 0xFF
    path.write_bytes(data)
    try:
        assert read(path) == whole
    except DumpError as error:
        assert path.name in str(error)  # noqa: PT017 either outcome is right


def read(path: Path) -> list[dict[str, str | None]]:
    (file,) = result_tables.find([path])
    rows: list[dict[str, str | None]] = texts(file, file.headers).to_pylist()
    return rows
