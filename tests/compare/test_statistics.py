"""Differences and relative errors of the recorded statistics, against a few lines of Python."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pair_dumps import Row, compared_leaves, scalar, tensor

NAN, INF = math.nan, math.inf
FLOATS = [1.0, -1.0, 4.0, 0.0, -0.0, 1e-300, 1.7e308, NAN, INF, -INF, None]
INTEGERS = [0, 3, -4, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**62 + 3, -(2**63), 2**63 - 1]
BEYOND = [2**64, 2**70, -(2**70)]
BOOLS = [True, False]
MIXED = [0, 0.0, -0.0, 1, 1.0, True, None, 2.5, 2**62, NAN]
PAIRS = [pair for values in (FLOATS, INTEGERS, BEYOND, BOOLS, MIXED) for pair in product(values, repeat=2)]


def difference(n: Any, b: Any) -> float | None:
    if n is None or b is None:
        return None
    if n == b or (n != n and b != b):
        return 0.0
    exact = all(type(value) is int and -(2**63) <= value < 2**63 for value in (n, b))
    return float(n - b) if exact else float(n) - float(b)


def relative(diff: float | None, b: Any) -> float | None:
    if diff is None or not math.isfinite(diff):
        return diff
    if diff == 0:
        return 0.0
    return INF if b == 0 else abs(diff / float(b))


def same(found: Any, expected: float | None) -> bool:
    if expected is None or found is None:
        return found is expected
    return found == expected or (math.isnan(found) and math.isnan(expected))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    cases = {f"t{number}": (tensor(n), tensor(b)) for number, (n, b) in enumerate(PAIRS)}
    return compared_leaves(tmp_path_factory.mktemp("statistics"), cases)


@pytest.mark.parametrize("statistic", ["max", "min"])
def test_differences_of_max_and_min(rows: dict[str, Row], statistic: str) -> None:
    for number, (n, b) in enumerate(PAIRS):
        row, diff = rows[f"t{number}"], difference(n, b)
        assert same(row[f"{statistic}_diff"], diff), (n, b, row[f"{statistic}_diff"])
        assert same(row[f"{statistic}_relative"], relative(diff, b)), (n, b, row[f"{statistic}_relative"])


@pytest.mark.parametrize("statistic", ["mean", "norm"])
def test_differences_of_mean_and_norm(rows: dict[str, Row], statistic: str) -> None:
    for number, (n, b) in enumerate(PAIRS):
        n, b = (None if value is None else float(value) for value in (n, b))  # kept as doubles
        row, diff = rows[f"t{number}"], difference(n, b)
        assert same(row[f"{statistic}_diff"], diff), (n, b, row[f"{statistic}_diff"])
        assert same(row[f"{statistic}_relative"], relative(diff, b)), (n, b, row[f"{statistic}_relative"])


MSPROBE = [
    # target, golden, difference, relative error: what msprobe 26.2 makes of each kind of value
    (1.0, NAN, NAN, NAN), (1.0, INF, -INF, -INF), (1.0, -INF, INF, INF),
    (NAN, 1.0, NAN, NAN), (NAN, NAN, 0.0, 0.0), (NAN, INF, NAN, NAN), (NAN, -INF, NAN, NAN),
    (INF, 1.0, INF, INF), (INF, NAN, NAN, NAN), (INF, INF, 0.0, 0.0), (INF, -INF, INF, INF),
    (-INF, 1.0, -INF, -INF), (-INF, NAN, NAN, NAN), (-INF, INF, -INF, -INF), (-INF, -INF, 0.0, 0.0),
    (3.0, 4.0, -1.0, 0.25), (1.0, 0.0, 1.0, INF), (2.0, -1.0, 3.0, 3.0),
    (0, 0.0, 0.0, 0.0), (-0.0, 0.0, 0.0, 0.0), (0.0, 2.0, -2.0, 1.0),
]  # fmt: skip
"""0 against 0.0 or -0.0 has no relative error; msprobe says inf (defect 26)."""


@pytest.mark.parametrize("form", ["tensor", "scalar"])
def test_kinds_of_values(tmp_path: Path, form: str) -> None:
    make = tensor if form == "tensor" else scalar
    cases = {f"x{number}": (make(n), make(b)) for number, (n, b, _, _) in enumerate(MSPROBE)}
    rows = compared_leaves(tmp_path, cases)
    for number, (n, b, diff, error) in enumerate(MSPROBE):
        for statistic in ("max", "min", "mean", "norm"):
            row = rows[f"x{number}"]
            found = row[f"{statistic}_diff"], row[f"{statistic}_relative"]
            assert same(found[0], diff), (n, b, found)
            assert same(found[1], error), (n, b, found)


def test_what_has_no_number_has_no_difference(tmp_path: Path) -> None:
    cases = {
        "texts": (scalar("abc"), scalar("xyz")),
        "digits": (scalar("1"), scalar("2")),
        "bools": (scalar(True), scalar(False)),
        "kinds": (tensor(1.0), scalar(2.0)),
        "nulls": (None, None),
        "devices": ({"type": "torch.device", "value": "npu:0"}, {"type": "torch.device", "value": "cuda:0"}),
    }
    for name, row in compared_leaves(tmp_path, cases).items():
        assert [row[f"{statistic}_diff"] for statistic in ("max", "min", "mean", "norm")] == [None] * 4, name
        assert row["max_relative"] is None
