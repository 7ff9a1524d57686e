"""MindSpore kernel dumps against msprobe 26.2.0's own comparison, cell for cell, and against the planted truth.

A cell may differ only for a reason that is a function here (docs/differences.md).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from peer_pairs import read_table
from real_dumps import DUMPS

import lakeprobe

KERNELS = DUMPS / "H_ms_kernel"
TABLES = sorted(KERNELS.glob("*/peer_out_*/*.csv.gz"))
TRUTHS = sorted(KERNELS.glob("*/truth_*.json"))
FLOAT32 = 2.0**-23
TENSOR_METRICS = {
    "Cosine": "cosine",
    "EucDist": "euclidean_distance",
    "MaxAbsErr": "max_abs_error",
    "MaxRelativeErr": "max_relative_error",
    "One Thousandth Err Ratio": "one_thousandth_ratio",
    "Five Thousandths Err Ratio": "five_thousandths_ratio",
}
DIFFERENCES = {"Max diff": "max", "Min diff": "min", "Mean diff": "mean", "L2norm diff": "norm"}
RELATIVES = {"MaxRelativeErr": "max", "MinRelativeErr": "min", "MeanRelativeErr": "mean", "NormRelativeErr": "norm"}
STATISTICS = {"max": "max", "min": "min", "mean": "mean", "l2norm": "norm"}
Row = dict[str, Any]
Peer = dict[str, str]

Compared = dict[tuple[int, int], list[Row]]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Compared]:
    """Our results by step and rank, of a folder with msprobe's results beside target and golden."""
    done: dict[Path, Compared] = {}

    def of(target: Path) -> Compared:
        if target not in done:
            with lakeprobe.open(tmp_path_factory.mktemp("kernel") / "lake", create=True) as lake:
                lake.compare(target, target.parent / "golden", rule="kernel")
                found = lake.sql("SELECT * FROM results ORDER BY step, rank, row")
                rows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
            done[target] = {}
            for row in rows:
                done[target].setdefault((row["step"], row["rank"]), []).append(row)
        return done[target]

    return of


@pytest.mark.sampled
@pytest.mark.parametrize("table", TABLES, ids=[str(path.relative_to(KERNELS))[:-24] for path in TABLES])
def test_table(table: Path, compared: Callable[[Path], Compared]) -> None:
    rank, step = map(int, re.findall(r"_(\d+)", table.name)[:2])
    target = table.parents[1] / table.parent.name.removeprefix("peer_out_")
    ours = compared(target).get((step, rank))
    if ours is None:
        assert not list(target.rglob(f"*/{rank}/TinyNet"))  # the dump of this rank was not kept
        return
    theirs = read_table(table)
    assert len(ours) == len(theirs)
    by_name = {_key(row["target_data_name"] or row["target_name"]): row for row in ours}
    assert len(by_name) == len(ours)
    for peer in theirs:
        row = by_name[_key(peer["NPU Name"])]
        assert _key(row["golden_data_name"] or row["golden_name"] or "") == _key(peer["Bench Name"])
        for column, cell in _cells(row, peer).items():
            if not _agree(cell, peer[column]):
                reasons = [reason.__name__ for reason in REASONS if reason(column, cell, row, peer)]
                assert reasons, (column, cell, peer[column], row["target_name"], peer)


def _key(name: str) -> str:
    """What names a tensor on both sides: the file, or op name, task, io and slot (all executed once here)."""
    if name.endswith(".npy") or not name:
        return name.rpartition("/")[2]
    match = re.fullmatch(r"(?:[^.]+\.)?([^.]+)\.(\d+)(?:\.0)?\.((?:in|out)put)\.(\d+)", name)
    assert match, name
    return ".".join(match.groups())


def _cells(row: Row, peer: Peer) -> dict[str, Any]:
    """Our values of the columns of msprobe's table that speak of data."""
    cells = {}
    for header, side in (("NPU", "target"), ("Bench", "golden")):
        cells[f"{header} Dtype"] = (row[f"{side}_dtype"] or "").lower()
        cells[f"{header} Tensor Shape"] = row[f"{side}_shape"]
        cells |= {f"{header} {theirs}": row[f"{side}_{ours}"] for theirs, ours in STATISTICS.items()}
    if "Cosine" in peer:
        return cells | {theirs: row[ours] for theirs, ours in TENSOR_METRICS.items()}
    cells |= {theirs: row[f"{ours}_diff"] for theirs, ours in DIFFERENCES.items()}
    return cells | {theirs: row[f"{ours}_relative"] for theirs, ours in RELATIVES.items()}


def _agree(cell: Any, text: str) -> bool:
    if cell is None or isinstance(cell, str):
        return (cell or "") == text
    if isinstance(cell, list):
        return cell == [int(size) for size in re.findall(r"\d+", text)] and text.startswith("[")
    theirs = _number(text)
    return theirs is not None and math.isclose(cell, theirs, rel_tol=1e-12)


def _number(text: str) -> float | None:
    try:
        return float(text.strip().removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return {"True": 1.0, "False": 0.0}.get(text)


# ---- why a cell differs ---------------------------------------------------------------------------------------


def in_float32(column: str, cell: Any, row: Row, peer: Peer) -> bool:
    """msprobe works statistics, their differences and the tensors' metrics out in float32; we in float64."""
    theirs = _number(peer[column])
    if not isinstance(cell, float) or theirs is None:
        return False
    if column in DIFFERENCES or (column in RELATIVES and "Cosine" not in peer):
        statistic = DIFFERENCES.get(column) or RELATIVES[column]
        sizes = [abs(row[f"{side}_{statistic}"]) for side in ("target", "golden")]
        scale = 1.0 if column in DIFFERENCES else sizes[1]
        return abs(cell - theirs) * scale <= 2 * FLOAT32 * max(sizes)
    if column.endswith("mean"):  # of numbers that cancel
        side = "target" if column.startswith("NPU") else "golden"
        elements = max(math.prod(row[f"{side}_shape"]), 1)
        return abs(cell - theirs) <= 4 * FLOAT32 * row[f"{side}_norm"] / math.sqrt(elements)
    return math.isclose(cell, theirs, rel_tol=1e-6)


def null_counts_as_zero(column: str, cell: Any, row: Row, peer: Peer) -> bool:
    """statistic.csv says null where a bool has no mean and norm; msprobe takes it as 0."""
    return "Cosine" not in peer and cell is None and row["target_dtype"] == "Bool" and _number(peer[column]) == 0.0


def a_bool_has_no_mean(column: str, cell: Any, row: Row, peer: Peer) -> bool:
    """msprobe takes the mean and the norm of true and false as of 1 and 0."""
    return cell is None and column.endswith(("mean", "l2norm")) and peer["NPU Dtype"] == "bool"


def nan_is_an_empty_cell(column: str, cell: Any, row: Row, peer: Peer) -> bool:
    """pandas writes NaN as nothing; the relative errors are the text Nan."""
    return isinstance(cell, float) and math.isnan(cell) and peer[column] in ("", "Nan")


def of_zero_is_no_relative_error(column: str, cell: Any, row: Row, peer: Peer) -> bool:
    """msprobe gives no relative error where golden is 0; ours is 0 where both are, infinite where only golden is."""
    if column not in RELATIVES or peer[column] != "N/A":
        return False
    golden, difference = row[f"golden_{RELATIVES[column]}"], row[f"{RELATIVES[column]}_diff"]
    return golden is None or (golden == 0 and cell == (0.0 if difference == 0 else math.inf))


def a_scalar_is_measured(column: str, cell: Any, row: Row, peer: Peer) -> bool:
    """msprobe measures no tensor without dimensions; we do, as far as one element has the metric."""
    return column in TENSOR_METRICS and peer["NPU Tensor Shape"] == "[]" and peer[column] == "" and cell is not None


def one_element_has_no_ratios(column: str, cell: Any, row: Row, peer: Peer) -> bool:
    """One element is too few for a cosine, a distance and shares; msprobe gives the last three all the same."""
    return column in TENSOR_METRICS and cell is None and row["measurement"] == "scalar"


REASONS: list[Callable[[str, Any, Row, Peer], bool]] = [
    in_float32,
    null_counts_as_zero,
    a_bool_has_no_mean,
    nan_is_an_empty_cell,
    of_zero_is_no_relative_error,
    a_scalar_is_measured,
    one_element_has_no_ratios,
]


# ---- the planted defect ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("truth", TRUTHS, ids=[path.stem for path in TRUTHS])
@pytest.mark.parametrize("kind", ["real_cpu_npy", "synth_stat"])
def test_first_difference(truth: Path, kind: str, compared: Callable[[Path], Compared]) -> None:
    """The first op that differs, and how many tensors do, in the tensors and in their statistics."""
    results = compared(KERNELS / kind / truth.stem.removeprefix("truth_"))
    told = json.loads(truth.read_text())
    assert len(told) == len(results)
    for place, expected in told.items():
        rank, step = re.fullmatch(r"rank(\d+)(?: iteration (\d+))?", place).groups()
        rows = results[int(step or 0), int(rank)]
        differing = [row for row in rows if row["difference"] != "equal"]
        assert len(rows) == expected["n_common"]
        assert len(differing) == expected["n_diff_ops"]
        first = next((row["target_name"] for row in differing), None)
        name, _, slot = (expected["first_diff"] or "").partition(".input")
        assert first == (f"{name}.0.0.input{slot}" if expected["first_diff"] else None)
