"""Writes tests/checks/data/expected.parquet: what msprobe's own code says of every pair of `pairs.py`.

To be run once, where mindstudio-probe 26.2.0 and torch are installed: python tests/checks/make_expected.py. msprobe
sees bfloat16 and float8 as it does itself: as float32, with the dtype beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from msprobe.pytorch.api_accuracy_checker.compare import algorithm
from msprobe.pytorch.api_accuracy_checker.compare import api_precision_compare as two
from msprobe.pytorch.api_accuracy_checker.compare.compare import Comparator
from msprobe.pytorch.api_accuracy_checker.compare.compare_column import ApiPrecisionOutputColumn, CompareColumn
from msprobe.pytorch.api_accuracy_checker.compare.compare_input import CompareInput, PrecisionCompareInput
from msprobe.pytorch.api_accuracy_checker.compare.compare_utils import DETAIL_TEST_ROWS

sys.path.insert(0, str(Path(__file__).parent))
from pairs import APIS, DTYPES, pairs

np.seterr(all="ignore")
MEASURED = {
    "benchmark": ("small_value_err_ratio", "rmse", "eb", "max_rel_error", "mean_rel_error"),
    "absolute_threshold": ("inf_nan_error_ratio", "rel_err_ratio", "abs_err_ratio"),
    "ulp_compare": ("max_ulp_error", "mean_ulp_error", "ulp_error_proportion"),
    "thousandth_threshold": ("rel_err_thousandth",),
    "binary_consistency": ("error_rate",),
}
ACCUMULATIVE = "accumulative_error_compare"


def comparator():
    made = object.__new__(Comparator)
    made.registry = made._register_compare_func()
    return made


def columns_of(registry, standard, reference, device, dtype):
    column = CompareColumn()
    _, denominator = algorithm.get_abs_bench_with_eps(reference, dtype)
    relative = algorithm.get_rel_err_origin(algorithm.get_abs_err(reference, device), denominator)
    registry.comparison_functions[standard](CompareInput(reference, device, column, dtype, relative))
    return column


def number(value):
    return None if isinstance(value, str) else float(value)


def row_of(column, dtype):
    """The details' row of one leaf as api_precision_compare reads it."""
    values = column.to_column_value("", "")
    return dict(zip(DETAIL_TEST_ROWS[0][1:], values, strict=True)) | {"DEVICE Dtype": f"torch.{dtype}", "API Name": "x"}


def expected_floats(made, name, reference, device, peer):
    dtype = getattr(torch, name)
    device, peer = (array.astype(np.float32) if array.dtype.kind == "V" or name.startswith(("bf", "float8")) else array
                    for array in (device, peer))  # fmt: skip
    found = {}
    columns = {side: {} for side in ("device", "peer")}
    for standard, fields in MEASURED.items():
        for side, array in (("device", device), ("peer", peer)):
            if standard == "ulp_compare" and name == "float64":
                continue
            columns[side][standard] = columns_of(made.registry, standard, reference, array, dtype)
        for field in fields:
            if standard in columns["device"]:
                found[field] = number(getattr(columns["device"][standard], field))
    accumulative = columns_of(made.registry, ACCUMULATIVE, reference, device, dtype)
    for field in ("inf_nan_error_ratio", "rel_err_ratio", "abs_err_ratio"):
        found[f"accumulative_{field}"] = number(getattr(accumulative, field))

    whole = CompareColumn()
    status, whole, _ = made._compare_float_tensor(
        "gelu", reference, device, whole, {"dtype": dtype, "in_dtype": torch.float32}
    )
    found |= {
        "pre_check": status,
        "cosine": number(whole.cosine_sim),
        "max_abs_err": float(algorithm.get_abs_err(reference, device).max()),
    }

    if name == "float64":
        return found
    rows = {side: {standard: row_of(column, name) for standard, column in own.items()} for side, own in columns.items()}
    functions = {
        "binary_consistency": two.record_binary_consistency_result,
        "absolute_threshold": two.record_absolute_threshold_result,
        "thousandth_threshold": two.record_thousandth_threshold_result,
        "ulp_compare": two.record_ulp_compare_result,
    }
    for standard, function in functions.items():
        sides = rows["device"][standard], rows["peer"][standard]
        # the dtype as api_precision_compare has it: the text of the csv
        found[f"status_{standard}"] = function(
            PrecisionCompareInput(*sides, f"torch.{name}", ApiPrecisionOutputColumn(), api_name="gelu")
        )
    row = row_of(accumulative, name)
    found["status_accumulative"] = two.record_accumulative_error_compare_result(
        PrecisionCompareInput(row, row, f"torch.{name}", ApiPrecisionOutputColumn(), api_name="gelu")
    )
    for api in APIS:
        sides = rows["device"]["benchmark"], rows["peer"]["benchmark"]
        found[f"status_benchmark_{api}"] = two.record_benchmark_compare_result(
            PrecisionCompareInput(*sides, f"torch.{name}", ApiPrecisionOutputColumn(), api_name=api)
        )
    return found


def expected(made, name, reference, device, peer):
    if name in ("int32", "bool"):
        rate, status, _ = algorithm.compare_bool_tensor(reference, device)
        return {"error_rate": float(rate), "pre_check": status}
    return expected_floats(made, name, reference, device, peer)


def main():
    made = comparator()
    rows = [
        {"dtype": name, "number": count} | expected(made, name, *three)
        for name in DTYPES
        for count, three in enumerate(pairs(name))
    ]
    fields = sorted({field for row in rows for field in row})
    table = pa.Table.from_pylist([{field: row.get(field) for field in fields} for row in rows])
    pq.write_table(table, Path(__file__).parent / "data" / "expected.parquet", compression="zstd")


main()
