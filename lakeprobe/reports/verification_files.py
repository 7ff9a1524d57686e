"""Writes msprobe's csv files of acc_check, free_benchmark and code_mapping."""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from lakeprobe.errors import LakeError
from lakeprobe.lake import outputs
from lakeprobe.shown import csv_cell

_DETAILS = (
    ("API Name", "name"),
    ("Bench Dtype", "reference_dtype"),
    ("DEVICE Dtype", "dtype"),
    ("Shape", "shape"),
    ("余弦相似度", "cosine"),
    ("最大绝对误差", "max_abs_error"),
    ("双百指标", "one_hundredth_ratio"),
    ("双千指标", "one_thousandth_ratio"),
    ("双万指标", "one_ten_thousandth_ratio"),
    ("二进制一致错误率", "binary_error_share"),
    ("误差均衡性", "error_balance"),
    ("均方根误差", "rmse"),
    ("小值域错误占比", "small_value_error_share"),
    ("相对误差最大值", "max_relative_error"),
    ("相对误差平均值", "mean_relative_error"),
    ("inf/nan错误率", "nonfinite_error_share"),
    ("相对误差错误率", "relative_error_share"),
    ("绝对误差错误率", "absolute_error_share"),
    ("ULP误差最大值", "max_ulp"),
    ("ULP误差平均值", "mean_ulp"),
    ("ULP误差大于阈值占比", "ulp_share"),
    ("Status", "status"),
    ("Message", "message"),
)
"""msprobe's headers (26.2, DETAIL_TEST_ROWS), and the columns of verifications."""

_RESULT = ("API Name", "Forward Test Success", "Backward Test Success", "Message")
_FREE_BENCHMARK = ("rank", "pert_mode", "stage", "step", "api_name", "max_rel", "dtype", "shape", "output_index")
_CODE_MAPPING = ("File Path", "Code Stack", "Scope Name")
_BLANK = " "
_WORST = ("error", "warning", "pass")


def write(rows: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write accuracy_checking_result_TIME.csv and …_details_TIME.csv into `folder`; the paths.

    `rows` are those of one verification in its order, of the origin device. A cell that a spreadsheet would read as a
    formula begins with an apostrophe.
    """
    stamp = time.strftime("%Y%m%d%H%M%S")
    paths = [folder / f"accuracy_checking_{kind}_{stamp}.csv" for kind in ("result", "details")]
    _write(paths[0], _RESULT, [_result(list(group)) for _, group in groupby(rows, _call)])
    details = [[_cell(_named(row, number)[column]) for _, column in _DETAILS] for number, row in _numbered(rows)]
    _write(paths[1], [header for header, _ in _DETAILS], details)
    return paths


def write_free_benchmark(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write free_benchmark.csv from the rows of perturbations: the results that are not consistent."""
    cells = [
        [
            row["rank"], row["mode"], row["direction"], row["step"], _stem(row), row["max_relative"],
            f"torch.{row['dtype']}", row["shape"], row["slot"].rpartition(".")[2],
        ]
        for row in rows if row["is_consistent"] is False
    ]  # fmt: skip
    _write(path, _FREE_BENCHMARK, [[_cell(value) for value in line] for line in cells])


def write_code_mapping(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write code_mapping.csv: the files of kernels with their lines of code, which stand below each other in a cell."""
    cells = [[_cell(row["file_path"]), _lines(row["code_stack"]), _cell(row["scope_name"])] for row in rows]
    _write(path, _CODE_MAPPING, cells)


def _lines(text: str | None) -> str:
    return str(csv_cell("\n".join(map(_cell, text.split("\n"))))) if text else ""


def _call(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["step"], row["rank"], row["seq"]


def _numbered(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    """Every row with its number among the results of its call and direction."""
    return [
        (number, row)
        for _, group in groupby(rows, lambda row: (*_call(row), row["direction"]))
        for number, row in enumerate(group)
    ]


def _stem(row: Mapping[str, Any]) -> str:
    return str(row["op"]).removesuffix(".forward").removesuffix(".backward")


def _named(row: Mapping[str, Any], number: int) -> dict[str, Any]:
    dtypes = {
        name: row[name] and (f"torch.{row[name]}" if row["dtype"] != "bool" else "torch.bool")
        for name in ("dtype", "reference_dtype")
    }
    name = f"{_stem(row)}.{row['direction']}.output.{number}"
    return {**row, **dtypes, "name": name, "message": row["problem"] or row["remark"] or ""}


def _result(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    directions = ("forward", "backward")
    found = [_worst([row["status"] for row in rows if row["direction"] == direction]) for direction in directions]
    message = next((row["problem"] for row in rows if row["problem"]), "")
    return [_cell(_stem(rows[0])), *found, _cell(message)]


def _worst(statuses: Sequence[str]) -> str:
    if not statuses:
        return _BLANK
    return next((status for status in _WORST if status in statuses), "SKIP")


def _cell(value: Any) -> str:
    if value is None:
        return _BLANK
    if value == "skip":
        return "SKIP"
    if isinstance(value, float):
        return f"{value:.14g}"
    return str(csv_cell(str(value).replace("\n", " ")))


def _write(path: Path, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write a table, and the folders that it needs. Raises UsageError and LakeError."""
    try:
        outputs.folder(path.parent)
        with outputs.draft(path) as hidden, hidden.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(headers)
            writer.writerows(rows)
    except OSError as error:
        raise LakeError.from_system(error, path, "the table was not written") from error
