"""Result tables of other tools: which files are some, what they are called, and that no cell is lost or changed."""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import re
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from effort import calls_of
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from openpyxl import Workbook, load_workbook
from real_dumps import DUMPS, needs_dumps
from sampling import examples

from lakeprobe.errors import DumpError
from lakeprobe.lake import layout
from lakeprobe.readers import foreign_tables, sheets, table_files
from lakeprobe.readers.foreign_tables import ForeignTable, TableFile, find, gather, read
from lakeprobe.readers.source import Listing

CHECKOUT = Path(__file__).resolve().parents[2]
ENDINGS = (".csv", ".csv.gz", ".xlsx")
TIME = "20260102030405"

SIX = ["NPU Name", "Bench Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape"]
STATISTICS = ["NPU max", "NPU min", "NPU mean", "NPU l2norm", "Bench max", "Bench min", "Bench mean", "Bench l2norm"]
TENSOR = ["Cosine", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandths Err Ratio"]
COMPARE = [*SIX, "NPU MD5", "BENCH MD5", "Result"]
PTDBG = ["NPU Name", "Bench Name", "NPU Tensor Dtype", "Bench Tensor Dtype", *SIX[4:]]
FREE = ["rank", "pert_mode", "stage", "step", "api_name", "max_rel", "dtype", "shape", "output_index"]
ACCURACY = ["API Name", "Forward Test Success", "Backward Test Success", "Message"]
DETAILS = [
    "API Name", "Bench Dtype", "DEVICE Dtype", "Shape",
    "余弦相似度", "最大绝对误差", "双百指标", "双千指标", "双万指标", "二进制一致错误率", "误差均衡性",
    "均方根误差", "小值域错误占比", "相对误差最大值", "相对误差平均值", "inf/nan错误率", "相对误差错误率",
    "绝对误差错误率", "ULP误差最大值", "ULP误差平均值", "ULP误差大于阈值占比", "Status", "Message",
]  # fmt: skip
SINGLE_SAVE = ["step", "rank", "micro_step", "id", "shape1", "shape2", "相同元素百分比(%)", "最大绝对误差"]
HEADERS: dict[str, tuple[str, list[str]]] = {
    "statistics 1.2": (
        "compare", [*SIX, "Max diff", "Min diff", "Mean diff", "L2norm diff", *STATISTICS, "Result", "Err_message"],
    ),
    "tensor 8.1": ("compare", [*SIX, *TENSOR, *STATISTICS, "Accuracy Reached or Not", "Err_message", "Data_name"]),
    "digest 1.2": ("compare", COMPARE),
    "kernel": ("kernel_compare", [*SIX, *STATISTICS, "Accuracy Reached or Not", "Err_message", *TENSOR]),
    "ptdbg 2": ("ptdbg_compare", [*PTDBG, "Cosine", "MaxAbsErr", "NPU max", "Accuracy Reached or Not", "Err_message"]),
    "ptdbg 6, digest": ("ptdbg_compare", [*PTDBG, "NPU MD5", "BENCH MD5", "Result"]),
    "folders": ("folder_compare", ["Name", *SIX[2:], *TENSOR, *STATISTICS, "Accuracy Reached or Not", "Data_name"]),
    "merged": ("merged_compare", ["NPU Name", "rank0", "rank1", "rank10"]),
    "SingleSave": ("single_save_compare", SINGLE_SAVE),
    "free benchmark": ("free_benchmark", FREE),
    "accuracy": ("accuracy_result", ACCURACY),
    "accuracy details": ("accuracy_details", DETAILS),
    "accuracy details, MindSpore": (
        "accuracy_details",
        ["API Name", "Bench Dtype", "Tested Dtype", "Shape", "Cosine", "MaxAbsErr", "MaxRelativeErr", *DETAILS[-2:]],
    ),
    "precision details": (
        "precision_details", ["API Name", "小值域错误比值", "小值域判定结果", "比对结果", "比对算法", "Message"],
    ),
    "grad L0": ("grad_probe", ["param_name", "MD5", "max", "min", "norm", "shape"]),
    "grad L1": ("grad_probe", ["param_name", "max", "min", "norm", "shape"]),
    "grad L2": ("grad_probe", ["param_name", "(-inf, 0]", "(0, inf)", "=0", "max", "min", "norm", "shape"]),
    "monitor": ("monitor", ["vpp_stage", "name", "step", "norm", "max"]),
    "monitor, micro steps": ("monitor", ["vpp_stage", "name", "step", "micro_step", "norm"]),
    "monitor 2": ("monitor", ["vpp_stage", "step", "module_name", "norm"]),
    "monitor stacks": ("monitor_stacks", ["module_name", "stack_info"]),
    "random": ("random_apis", ["api_name", "stack"]),
}  # fmt: skip
NOBODYS: dict[str, list[str]] = {
    "statistic.csv": [
        "Op Type",
        "Op Name",
        "Task ID",
        "Stream ID",
        "Timestamp",
        "IO",
        "Slot",
        "Data Size",
        "Data Type",
    ],
    "mapping.csv": ["short.npy", "long.npy"],
    "ms_execution_order_graph_0.csv": ["NodeExecutionOrder-FullNameWithScope"],
    "ms_global_execution_order_graph_0.csv": ["0"],
    "compare_result_20260102030405.csv": ["NPU Name", "Bench Name", "NPU Dtype"],
    "free_benchmark.csv": FREE[:-1],
    "grad_summary_0.csv": ["param_name", "max", "min", "norm"],
    "random.csv": ["api_name", "stack", "more"],
    "merged.csv": ["NPU Name", "rank0", "rank"],
    "empty.csv": [],
}


def write_csv(path: Path, rows: Iterable[Sequence[object]], encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", newline="", encoding=encoding) as file:
        csv.writer(file).writerows(rows)
    return path


def write_workbook(path: Path, sheets: dict[str, list[Sequence[Any]]]) -> Path:
    book = Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def found_under(top: Path) -> list[TableFile]:
    found = []
    for folder, folders, files in os.walk(top):
        found += find(Listing(Path(folder), sorted(files), sorted(folders), top))
    return found


def rows_of(table: ForeignTable) -> tuple[list[str], list[tuple[Any, ...]]]:
    schema, batches = read(table)
    rows: list[tuple[Any, ...]] = []
    for batch in batches:
        assert batch.schema == schema
        rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return schema.names, rows


def types_of(table: ForeignTable) -> dict[str, str]:
    return {field.name: str(field.type) for field in read(table)[0]}


def only(top: Path) -> ForeignTable:
    (table,) = gather(found_under(top))
    return table


def same(cell: object, text: str) -> bool:
    """Whether `cell` is what the file says: the same text, or a number with the same digits."""
    if isinstance(cell, str):
        return cell == text
    if cell is None:
        return not text
    return str(cell) == text or Decimal(str(cell)) == Decimal(text)


# ---- which files, and which kind


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", HEADERS)
def test_headers_decide(name: str, ending: str, tmp_path: Path) -> None:
    kind, headers = HEADERS[name]
    path, rows = tmp_path / f"any name{ending}", [headers, [f"x{place}" for place in range(len(headers))]]
    write_workbook(path, {"Sheet1": rows}) if ending == ".xlsx" else write_csv(path, rows)
    (file,) = found_under(tmp_path)
    assert (file.path, file.kind.kind, list(file.headers)) == (path, kind, headers)
    _, cells = rows_of(only(tmp_path))
    assert [row[-len(headers) :] for row in cells] == [tuple(rows[1])]


@pytest.mark.parametrize("name", NOBODYS)
def test_other_csv_are_not_claimed(name: str, tmp_path: Path) -> None:
    write_csv(tmp_path / name, [NOBODYS[name], ["x"] * len(NOBODYS[name])])
    assert found_under(tmp_path) == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_damaged_file_is_told_if_it_is_called_a_result(ending: str, tmp_path: Path) -> None:
    damaged = b'"no end'
    (tmp_path / f"holiday{ending}").write_bytes(damaged)
    assert found_under(tmp_path) == []
    (tmp_path / f"compare_result_{TIME}{ending}").write_bytes(damaged)
    with pytest.raises(DumpError, match=f"compare_result_{TIME}{ending}"):
        found_under(tmp_path)


PLACES: dict[str, tuple[str, tuple[str, str, int | None, int | None, int]]] = {
    f"out/compare_result_{TIME}.csv": ("digest 1.2", ("out", "compare_result", None, None, 0)),
    f"out/compare_result_rank12_{TIME}.csv.gz": ("digest 1.2", ("out", "compare_result", None, 12, 0)),
    f"out/compare_result_rank3-rank1_{TIME}.csv": ("ptdbg 2", ("out", "compare_result", None, 3, 0)),
    f"out/compare_result_rank0_{TIME}_part_2.csv": ("digest 1.2", ("out", "compare_result", None, 0, 2)),
    f"out/debug_compare_result_{TIME}.csv": ("statistics 1.2", ("out", "debug_compare_result", None, None, 0)),
    f"out/compare_result_proc77_{TIME}.csv": ("digest 1.2", ("out", "compare_result_proc77", None, None, 0)),
    f"out/graph/step4/compare_result_rank0_{TIME}.csv": ("digest 1.2", ("graph", "compare_result", 4, 0, 0)),
    f"out/compare_result_2_1_{TIME}.csv": ("kernel", ("out", "compare_result", 1, 2, 0)),
    "grad/rank5/grad_summary_17.csv": ("grad L1", ("grad", "grad_summary", 17, 5, 0)),
    "mon/Dec03_21-34-40-rank7-a1b2/actv_grad_100-199.csv": ("monitor", ("mon", "actv_grad", None, 7, 100)),
    "mon/rank_3/module_step0-9.csv": ("monitor 2", ("mon", "module", None, 3, 0)),
    "free_benchmark.csv": ("free benchmark", ("", "free_benchmark", None, None, 0)),
    "my result.csv": ("digest 1.2", ("", "my result", None, None, 0)),
}


@pytest.mark.parametrize("path", PLACES)
def test_name_and_folders_say_step_rank_and_part(path: str, tmp_path: Path) -> None:
    headers, (root, *told) = PLACES[path]
    write_csv(tmp_path / path, [HEADERS[headers][1]])
    (file,) = found_under(tmp_path)
    assert [file.name, file.step, file.rank, file.part] == told
    assert file.root.name == (root or tmp_path.name)


# ---- which files are one table


def write_results(folder: Path, *names: str, headers: Sequence[str] = COMPARE) -> None:
    for name in names:
        write_csv(folder / name, [headers, [f"{name} {header}" for header in headers]])


def names_and_files(top: Path, run: str | None = None) -> dict[str, list[str]]:
    return {
        table.name: [file.path.relative_to(top).as_posix() for file in table.files]
        for table in gather(found_under(top), run)
    }


def test_ranks_of_one_comparison_are_one_table(tmp_path: Path) -> None:
    names = [f"compare_result_rank{rank}_2026010203040{rank % 10}.csv" for rank in (0, 1, 2, 10)]
    write_results(tmp_path, *names)
    assert names_and_files(tmp_path) == {"compare_result_20260102030400": names}
    headers, rows = rows_of(only(tmp_path))
    assert headers[:3] == ["file", "rank", "NPU Name"]
    assert [(row[0], row[1], row[2]) for row in rows] == [
        (name, rank, f"{name} NPU Name") for name, rank in zip(names, (0, 1, 2, 10), strict=True)
    ]


def test_second_comparison_in_a_folder_is_another_table(tmp_path: Path) -> None:
    first = [f"compare_result_rank{rank}_20260102030400.csv" for rank in (0, 1)]
    second = [f"compare_result_rank{rank}_20260102040400.csv" for rank in (0, 1)]
    write_results(tmp_path, *first, *second)
    assert names_and_files(tmp_path) == {
        "compare_result_20260102030400": first,
        "compare_result_20260102040400": second,
    }


def test_parts_steps_and_headers(tmp_path: Path) -> None:
    parts = [f"compare_result_{TIME}_part_{part}.csv" for part in (1, 2, 10)]
    write_results(tmp_path / "parts", *parts)
    for step in (0, 1, 11):
        write_results(tmp_path / "steps" / f"step{step}", f"compare_result_2026010203041{step % 10}.csv")
    write_results(tmp_path / "kinds", "compare_result_rank0_20260102030420.csv")
    write_results(tmp_path / "kinds", "compare_result_rank1_20260102030421.csv", headers=[*COMPARE, "Err_message"])
    assert names_and_files(tmp_path) == {
        "compare_result_rank0_20260102030420": ["kinds/compare_result_rank0_20260102030420.csv"],
        "compare_result_rank1_20260102030421": ["kinds/compare_result_rank1_20260102030421.csv"],
        f"compare_result_{TIME}": [f"parts/{name}" for name in parts],
        "compare_result_20260102030410": [
            f"steps/step{step}/compare_result_2026010203041{step % 10}.csv" for step in (0, 1, 11)
        ],
    }


def test_names_are_made_unique_by_folders(tmp_path: Path) -> None:
    for folder in ("a/out", "b/out", "b/Other (1)", ".hidden"):
        write_results(tmp_path / folder, "free_benchmark.csv", headers=FREE)
    write_results(tmp_path / "b/out", "Free_Benchmark.csv.gz", headers=FREE)
    write_results(tmp_path / "c", "result 1.csv")
    write_results(tmp_path / "d", f"compare_result_{TIME}.csv")
    write_workbook(tmp_path / f"d/compare_result_{TIME}.xlsx", {"Sheet1": [COMPARE, COMPARE]})
    expected = {
        "a.out.free_benchmark", "b.out.Free_Benchmark", "free_benchmark_2", "Other _1_.free_benchmark",
        "hidden.free_benchmark", "result 1", f"compare_result_{TIME}", f"compare_result_{TIME}_2",
    }  # fmt: skip
    assert set(names_and_files(tmp_path)) == expected
    assert set(names_and_files(tmp_path / "c", "night")) == {"night.result 1"}


def test_names_are_not_too_long(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write_results(tmp_path / folder / ("y" * 200), "x" * 240 + ".csv")
    names = list(names_and_files(tmp_path))
    assert len(set(names)) == 2
    assert [layout.check_name(name, "table") for name in names] == names


def test_many_ranks_are_put_together_quickly() -> None:
    folder, kind = Path("/out"), foreign_tables.kinds()[1]
    files = [
        TableFile(folder / f"compare_result_rank{rank}.csv", kind, (), folder, "compare_result", rank=rank)
        for rank in range(10_000)
    ]
    tables: list[ForeignTable] = []
    assert calls_of(lambda: tables.extend(gather(reversed(files)))) < 20 * len(files)
    assert [table.files for table in tables] == [tuple(files)]


# ---- cells and types

TYPES: dict[str, tuple[list[str], str]] = {
    "integers": (["0", "-1", "", "9223372036854775807", "-9223372036854775808"], "int64"),
    "too large": (["9223372036854775808"], "string"),
    "whole doubles": (["18446744073709551616.0"], "string"),
    "doubles": (["0.1", "-2.5e-07", "1e+22", "19.999999999999996", "", "5e-324"], "double"),
    "mixed": (["1", "2.5", "9007199254740992"], "double"),
    "mixed, not exact": (["2.5", "9007199254740993"], "string"),
    "zeros at the end": (["0.500", "1.0"], "double"),
    "too many digits": (["0.1", "0.1000000000000000055511151231257827"], "string"),
    "one digit too many": (["0.30000000000000004", "0.300000000000000041"], "string"),
    "beyond a double": (["1e999"], "string"),
    "below a double": (["1e-999"], "string"),
    "not finite": (["nan", "inf", "-inf", "1.5"], "double"),
    "as msprobe writes it": (["Nan", "1.5"], "string"),
    "blank before": ([" inf", "1.5"], "string"),
    "blank": ([" "], "string"),
    "percent": (["0.01%"], "string"),
    "marks": (["N/A", "1"], "string"),
    "leading zero": (["007"], "string"),
    "plus": (["+1"], "string"),
    "minus zero": (["-0"], "double"),
    "underscore": (["1_000"], "string"),
    "other digits": (["١٢"], "string"),
    "hexadecimal": (["0x10"], "string"),
    "formula": (["=1+1", "@x", "-1+1"], "string"),
    "booleans": (["True", "False"], "string"),
    "empty": (["", ""], "string"),
}


@pytest.mark.parametrize("name", TYPES)
def test_a_column_is_numbers_only_if_no_digit_changes(name: str, tmp_path: Path) -> None:
    cells, expected = TYPES[name]
    write_csv(tmp_path / "a.csv", [["NPU Name", "rank0"], *(["x", cell] for cell in cells)])
    table = only(tmp_path)
    assert types_of(table)["rank0"] == expected
    read_back = [row[-1] for row in rows_of(table)[1]]
    assert len(read_back) == len(cells)
    assert all(same(cell, text) for cell, text in zip(read_back, cells, strict=True)), read_back


def test_types_hold_for_all_files_of_a_table(tmp_path: Path) -> None:
    headers = ["vpp_stage", "name", "step", "norm", "max"]
    write_csv(tmp_path / "actv_0-9.csv", [headers, [0, "a", 1, 1.5, 2]])
    write_csv(tmp_path / "actv_10-19.csv", [headers, [0, "a", 10, "nan", "N/A"]])
    table = only(tmp_path)
    assert types_of(table) == {
        "file": "string", "vpp_stage": "int64", "name": "string", "step": "int64", "norm": "double", "max": "string",
    }  # fmt: skip
    (_, first), (_, second) = ((row[0], row[3:]) for row in rows_of(table)[1])
    assert first == (1, 1.5, "2")
    assert second[0] == 10
    assert math.isnan(second[1])


def test_digests_stay_text(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", [COMPARE, [*SIX, "12345678", "12345e12", "pass"]])
    assert rows_of(only(tmp_path))[1] == [("a.csv", *SIX, "12345678", "12345e12", "pass")]


def test_csv_dialects(tmp_path: Path) -> None:
    stack = "File \"a.py\", line 1,\r\n  x = 'y'\n" * 8000
    assert len(stack) > 1 << 17
    rows = [["random.rand", stack], ['quo"te', "a,b"], ["", "x"], ["größe 张量", "\x00"], ["last", "no end of line"]]
    for name, encoding in (("plain.csv", "utf-8"), ("mark.csv", "utf-8-sig"), ("packed.csv.gz", "utf-8")):
        write_csv(tmp_path / name / name, [["api_name", "stack"], *rows], encoding)
    text = (tmp_path / "plain.csv" / "plain.csv").read_bytes()
    (tmp_path / "plain.csv" / "plain.csv").write_bytes(text.removesuffix(b"\r\n"))
    tables = gather(found_under(tmp_path))
    assert [table.name for table in tables] == ["mark", "packed", "plain"]
    for table in tables:
        assert [row[1:] for row in rows_of(table)[1]] == [(one or None, two) for one, two in rows]
    (tmp_path / "lines.csv").write_bytes(b'"api_name","stack"\n\na,b\n\n"c","d"')
    assert rows_of(only_file(tmp_path / "lines.csv"))[1] == [("lines.csv", "a", "b"), ("lines.csv", "c", "d")]


def only_file(path: Path) -> ForeignTable:
    (table,) = gather(find(Listing(path.parent, [path.name], [], path)))
    return table


def test_headers_that_sql_could_not_tell_apart(tmp_path: Path) -> None:
    extra = ["Cosine", "cosine", "", "File", "step", "Cosine_2"]
    headers = [*SIX, *extra, *TENSOR[1:], "Result"]
    write_csv(
        tmp_path / f"step3/compare_result_rank1_{TIME}.csv", [headers, [f"x{place}" for place in range(len(headers))]]
    )
    names, rows = rows_of(only(tmp_path))
    assert names == [
        "file", "rank", *SIX, "Cosine", "cosine_3", "column_11", "File_2", "step", "Cosine_2", *TENSOR[1:], "Result",
    ]  # fmt: skip
    assert rows == [(f"compare_result_rank1_{TIME}.csv", 1, *(f"x{place}" for place in range(len(headers))))]


def test_rows_as_the_accuracy_checker_writes_them(tmp_path: Path) -> None:
    """Three cells if all is well, and the call stack behind everything else, without a header."""
    rows = [["a", "pass", "pass"], ["b", "SKIP", "SKIP", "why"], ["c", "SKIP", "SKIP", "why", "stack"]]
    write_csv(tmp_path / f"accuracy_checking_result_{TIME}.csv", [ACCURACY, *rows])
    names, cells = rows_of(only(tmp_path))
    assert names == ["file", *ACCURACY, "column_5"]
    assert [row[1:] for row in cells] == [tuple(row + [None] * (5 - len(row))) for row in rows]


def test_workbook_cells(tmp_path: Path) -> None:
    rows = [
        ["NPU Name", "rank0", "rank1", "rank2", "rank3"],
        ["a", 1, 0.1, "0.01%", "=1+1"],
        ["b", 2**53, 0.123456789012345, 3, None],
        ["c", None, 1e-300, True, "x"],
    ]
    write_workbook(tmp_path / "a.xlsx", {"Max diff": rows, "Min diff": rows[:2]})
    table = only(tmp_path)
    names, cells = rows_of(table)
    assert names == ["file", "sheet", *rows[0]]
    assert [types_of(table)[name] for name in names[3:]] == ["int64", "double", "string", "string"]
    assert cells == [
        ("a.xlsx", "Max diff", "a", 1, 0.1, "0.01%", "=1+1"),
        ("a.xlsx", "Max diff", "b", 2**53, 0.123456789012345, "3", None),
        ("a.xlsx", "Max diff", "c", None, 1e-300, "True", "x"),
        ("a.xlsx", "Min diff", "a", 1, 0.1, "0.01%", "=1+1"),
    ]


def test_sheets_of_one_comparison_are_one_table(tmp_path: Path) -> None:
    parts = {f"part_{part}": [COMPARE, *([f"{part} {row}"] * len(COMPARE) for row in range(3))] for part in range(3)}
    write_workbook(tmp_path / f"compare_result_{TIME}.xlsx", {"notes": [["mine"]], **parts, "empty": []})
    table = only(tmp_path)
    assert table.left_out == [f"compare_result_{TIME}.xlsx: sheet notes"]
    assert [row[1] for row in rows_of(table)[1]] == [f"{part} {row}" for part in range(3) for row in range(3)]


def test_many_rows_come_in_batches(tmp_path: Path) -> None:
    rows = [*([f"api {row}", "s"] for row in range(25_000)), *([f"api {row}", "s" * 200_000] for row in range(150))]
    write_csv(tmp_path / "random_rank0_20260102030405.csv", [["api_name", "stack"], *rows])
    _, batches = read(only(tmp_path))
    sizes = [(len(batch), batch.nbytes) for batch in batches]
    assert sum(size for size, _ in sizes) == 25_150
    assert max(size for size, _ in sizes) < 25_000
    assert max(size for _, size in sizes) < 1 << 25


# ---- bad input


def test_rows_of_another_length(tmp_path: Path) -> None:
    path = tmp_path / f"compare_result_{TIME}.csv"
    for row in (["x"] * 8, ["x"] * 10):
        write_csv(path, [COMPARE, ["y"] * 9, row])
        with pytest.raises(DumpError, match=rf"{TIME}\.csv row 3 has {len(row)} cells, not 9"):
            read(only(tmp_path))
    path.unlink()
    write_workbook(tmp_path / "a.xlsx", {"Sheet1": [COMPARE, ["y"] * 9, ["x"] * 12]})
    with pytest.raises(DumpError, match="row 3 has 12 cells, not 9"):
        read(only(tmp_path))


@pytest.mark.parametrize(
    "damaged",
    [b'a,"b', b'a,"b"c\n', b"a,\xff\n", b"a,b\rc,d,e\n", b"a\n"],
    ids=["no closing quote", "text behind a quote", "not UTF-8", "a row more", "a cell less"],
)
def test_damaged_csv(damaged: bytes, tmp_path: Path) -> None:
    (tmp_path / "random.csv").write_bytes(b"api_name,stack\nx,y\n" + damaged)
    with pytest.raises(DumpError, match=r"random\.csv"):
        read(only(tmp_path))


def test_files_cut_off(tmp_path: Path) -> None:
    rows = [COMPARE, *([f"cell {row} {column}" for column in range(9)] for row in range(500))]
    book = write_workbook(tmp_path / f"compare_result_{TIME}.xlsx", {"Sheet1": rows}).read_bytes()
    packed = write_csv(tmp_path / f"compare_result_rank0_{TIME}.csv.gz", rows).read_bytes()
    for path, content in (
        (tmp_path / "cut" / "compare_result.xlsx", book),
        (tmp_path / "cut" / "compare_result.csv.gz", packed),
    ):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content[: len(content) * 2 // 3])
        with pytest.raises(DumpError, match="compare_result"):
            read(only_file(path))
        path.unlink()


def test_a_row_without_end_costs_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files._csv_rows, "__defaults__", (10_000, "strict"))
    path = tmp_path / "random.csv"
    for row in ("x" * 20_000, '"' + "x\n" * 10_000, '"x\n",' * 5_000):
        path.write_text("api_name,stack\n" + row)
        with pytest.raises(DumpError, match="row of more than 10000 characters"):
            read(only(tmp_path))
    write_csv(path, [["api_name", "stack"], *([["x" * 5000, "y"]] * 5)])
    assert len(rows_of(only(tmp_path))[1]) == 5


def test_very_many_columns_are_damage(tmp_path: Path) -> None:
    path = write_csv(tmp_path / f"accuracy_checking_result_{TIME}.csv", [ACCURACY, ["a"], ["x"] * 2000])
    with pytest.raises(DumpError, match="row 3 has 2000 cells"):
        read(only(tmp_path))
    write_csv(path, [["vpp_stage", "step", *(f"c{place}" for place in range(2000))]])
    assert found_under(tmp_path) == []


def test_workbook_that_would_unpack_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheets, "ALWAYS_UNPACKED", 100)
    monkeypatch.setattr(sheets, "MOST_UNPACKED", 1)
    write_workbook(tmp_path / "compare_result.xlsx", {"Sheet1": [COMPARE]})
    with pytest.raises(DumpError, match="unpacks to"):
        found_under(tmp_path)


def test_workbook_with_wild_cell_addresses(tmp_path: Path) -> None:
    """A row a billion further down and a column beyond all others cost neither time nor memory."""
    book = write_workbook(tmp_path / "compare_result.xlsx", {"Sheet1": [COMPARE, ["x"] * 9]})
    content = io.BytesIO()
    with zipfile.ZipFile(book) as old, zipfile.ZipFile(content, "w") as new:
        for part in old.infolist():
            text = old.read(part)
            if part.filename.endswith("sheet1.xml"):
                text = text.replace(b'r="I2"', b'r="ZZZZZZZZ2"').replace(
                    b"</sheetData>", b'<row r="999999999"><c r="A999999999"><v>1</v></c></row></sheetData>'
                )
            new.writestr(part, text)
    book.write_bytes(content.getvalue())
    with suppress(DumpError):
        assert len(rows_of(only(tmp_path))[1]) <= 2


def with_last_row(folder: Path, row: str) -> Path:
    """A workbook of one table whose rows have no numbers, but for the last: `row`."""
    book = write_workbook(folder / "compare_result.xlsx", {"Sheet1": [COMPARE, ["x"] * 9]})
    content = io.BytesIO()
    with zipfile.ZipFile(book) as old, zipfile.ZipFile(content, "w") as new:
        for part in old.infolist():
            text = old.read(part)
            if part.filename.endswith("sheet1.xml"):
                text = re.sub(rb' r="[A-Z]*[0-9]+"', b"", text).replace(b"</sheetData>", row.encode() + b"</sheetData>")
            new.writestr(part, text)
    book.write_bytes(content.getvalue())
    return folder


def test_a_million_rows_that_are_left_out_take_no_time(tmp_path: Path) -> None:
    """They took half a minute; what is behind the last row that Excel has was left out without a word."""
    table = only(with_last_row(tmp_path, '<row r="1048576"><c><v>1</v></c></row>'))
    rows: list[tuple[Any, ...]] = []
    assert calls_of(lambda: rows.extend(rows_of(table)[1])) < 4 * 1048576
    assert len(rows) == 2


@pytest.mark.parametrize("row", ['<row r="1048577"><c><v>1</v></c></row>', '<row r="1048576"></row><row></row>'])
def test_rows_behind_the_last_row(tmp_path: Path, row: str) -> None:
    with pytest.raises(DumpError, match=r"sheet1.xml has rows after row 1048576; let the tool write csv"):
        found_under(with_last_row(tmp_path, row))


# ---- any text, any bytes

ANY_CELL = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
DIGITS = st.from_regex(r"-?[0-9]{1,25}([.][0-9]{1,25})?(e-?[0-9]{1,4})?", fullmatch=True)
NUMBER_LIKE = st.one_of(st.floats().map(repr), st.integers().map(str), st.decimals().map(str), DIGITS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any")


@settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(ANY_CELL, ANY_CELL | NUMBER_LIKE), max_size=6))
@example([("", "")])
def test_any_cells_come_back(folder: Path, rows: list[tuple[str, str]]) -> None:
    path = write_csv(folder / "random.csv", [["api_name", "stack"], *rows])
    _, read_back = rows_of(only_file(path))
    assert len(read_back) == len(rows)
    for (_, *cells), texts in zip(read_back, rows, strict=True):
        assert all(same(cell, text) for cell, text in zip(cells, texts, strict=True)), (cells, texts)


@settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))
@given(st.lists(NUMBER_LIKE, min_size=1, max_size=4))
def test_numbers_keep_their_digits(folder: Path, texts: list[str]) -> None:
    path = write_csv(folder / "numbers.csv", [["NPU Name", "rank0"], *(["x", text] for text in texts)])
    for row, text in zip(rows_of(only_file(path))[1], texts, strict=True):
        if not (isinstance(row[-1], float) and math.isnan(row[-1]) and text == "nan"):
            assert same(row[-1], text), (row[-1], text)


CSV = (",".join(ACCURACY) + '\n"a, b",pass,pass\nc,SKIP,SKIP,"two\nlines ""quoted"""\nd,1.5,2,x\n').encode()
XLSX = io.BytesIO()
write_workbook(
    XLSX, {"Max diff": [["NPU Name", "rank0"], ["a", 1.5], ["b", "N/A"]], "Min diff": [["NPU Name", "rank0"]]}
)  # type: ignore[arg-type]


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """`content` with bytes flipped, cut out, put in or doubled, up to three times."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 24)))
        filling = draw(
            st.one_of(st.binary(max_size=8), st.just(content[start:end] * 2), st.sampled_from([b'"', b",", b"\n"]))
        )
        content = content[:start] + filling + content[end:]
    return content


def read_or_refuse(path: Path, content: bytes) -> None:
    """Rows of one shape, or a DumpError; anything else fails the test."""
    path.write_bytes(content)
    with suppress(DumpError):
        for table in gather(find(Listing(path.parent, [path.name], [], path))):
            names, rows = rows_of(table)
            assert all(len(row) == len(names) for row in rows)


@settings(max_examples=examples(200), suppress_health_check=list(HealthCheck))
@given(mutated(CSV))
def test_any_csv_is_read_or_refused(folder: Path, content: bytes) -> None:
    read_or_refuse(folder / "accuracy_checking_result.csv", content)


@settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))
@given(mutated(gzip.compress(CSV, mtime=0)))
def test_any_gzip_is_read_or_refused(folder: Path, content: bytes) -> None:
    read_or_refuse(folder / "accuracy_checking_result.csv.gz", content)


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(mutated(XLSX.getvalue()))
def test_any_workbook_is_read_or_refused(folder: Path, content: bytes) -> None:
    read_or_refuse(folder / "multi_ranks_compare_merge.xlsx", content)


PARTS = {part.filename: zipfile.ZipFile(XLSX).read(part) for part in zipfile.ZipFile(XLSX).infolist()}


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_workbook_with_damaged_parts_is_read_or_refused(folder: Path, data: st.DataObject) -> None:
    """The zip is whole, so that what is damaged gets as far as openpyxl."""
    name = data.draw(st.sampled_from(sorted(PARTS)))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for part, text in PARTS.items():
            archive.writestr(part, data.draw(mutated(text)) if part == name else text)
    read_or_refuse(folder / "multi_ranks_compare_merge.xlsx", content.getvalue())


# ---- msprobe's and ptdbg's own results


@pytest.fixture(scope="module")
def real() -> list[TableFile]:
    return found_under(DUMPS)


@needs_dumps
def test_every_result_of_the_real_dumps_is_recognised(real: list[TableFile]) -> None:
    results = [path for path in DUMPS.rglob("*") if path.name.endswith(ENDINGS) and "peer_out" in str(path)]
    assert {file.path for file in real} == set(results)
    kinds = {
        "multi_ranks": "merged_compare", "F_ptdbg": "ptdbg_compare", "H_ms_kernel": "kernel_compare", "": "compare",
    }  # fmt: skip
    for file in real:
        assert file.kind.kind == next(kind for part, kind in kinds.items() if part in str(file.path)), file.path
    tables = gather(real)
    assert len({table.name.lower() for table in tables}) == len(tables)
    assert sum(len(table.files) for table in tables) == len(results)


def oracle(path: Path) -> list[list[str]]:
    """The cells below the headers as the csv module or openpyxl's other reader have them."""
    if path.suffix == ".xlsx":
        rows = [row for sheet in load_workbook(path).worksheets for row in sheet.iter_rows(min_row=2, values_only=True)]
        return [["" if cell is None else str(cell) for cell in row] for row in rows]
    csv.field_size_limit(1 << 30)
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))[1:]


@needs_dumps
def test_cells_of_real_results(real: list[TableFile]) -> None:
    """The smallest file of every kind, layout and ending: its cells, and what its columns of numbers add up to."""
    by_size = sorted(real, key=lambda file: file.path.stat().st_size, reverse=True)
    smallest = {(file.kind.kind, file.headers, file.path.suffix): file.path for file in by_size}
    assert len(smallest) >= 12
    for path in smallest.values():
        _check_cells(path)


def _check_cells(path: Path) -> None:
    table = only_file(path)
    names, rows = rows_of(table)
    expected = oracle(path)
    width = len(table.files[0].headers)
    assert len(rows) == len(expected) >= 12
    for row, texts in zip(rows, expected, strict=True):
        assert row[0] == path.name
        assert all(same(cell, text) for cell, text in zip(row[-width:], texts, strict=True)), (path, texts)
    for place, (name, type_) in enumerate(list(types_of(table).items())[-width:]):
        if type_ == "double":
            cells = [row[len(names) - width + place] for row in rows]
            assert math.fsum(cell for cell in cells if cell is not None) == pytest.approx(
                math.fsum(float(row[place]) for row in expected if row[place]), nan_ok=True
            ), (path, name)
