"""Our tables against msprobe 26.2.0's own, cell for cell, on every real pair that it compared.

A cell may differ only for a reason that docs/differences.md gives; each reason is a function here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from peer_pairs import RECOMPUTED, Compared, PeerPair, rank_in, read_table, with_table

PAIRS = [pair for pair in with_table() if pair.id not in RECOMPUTED]
TENSOR_METRICS = {"EucDist", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandths Err Ratio"}
METRIC_COLUMNS = TENSOR_METRICS | {"Cosine"}
DIFFERENCES = {
    "Max diff": "max",
    "Min diff": "min",
    "Mean diff": "mean",
    "L2norm diff": "l2norm",
    "MaxRelativeErr": "max",
    "MinRelativeErr": "min",
    "MeanRelativeErr": "mean",
    "NormRelativeErr": "l2norm",
}
Row = dict[str, str]


@pytest.mark.sampled
@pytest.mark.parametrize("pair", PAIRS, ids=[pair.id for pair in PAIRS])
def test_table(pair: PeerPair, compared: Compared, tmp_path: Path) -> None:
    written = compared(*pair.steps)[1].write(tmp_path / "out", "csv")
    ours = {rank_in(path): read_table(path) for path in written}
    assert ours.keys() == pair.tables.keys()
    for rank, path in pair.tables.items():
        _check_table(ours[rank], read_table(path))


def _check_table(ours: list[Row], theirs: list[Row]) -> None:
    assert list(ours[0]) == list(theirs[0])
    assert all(row["NPU Name"] == "N/A" and row["Result"] == "unmatched" for row in ours[len(theirs) :])
    for mine, peers in zip(ours, theirs, strict=False):
        assert mine["NPU Name"] == _canonical(peers["NPU Name"])
        for column in peers:
            if not _agree(column, mine, peers):
                reasons = [reason.__name__ for reason in REASONS if reason(column, mine, peers)]
                assert reasons, (column, mine[column], peers[column], {**peers, "NPU_Stack_Info": ""})


def _canonical(name: str) -> str:
    return name.replace(".kwargs.", ".input.")


def _number(text: str) -> float | None:
    try:
        return float(text.strip().removesuffix("%"))
    except ValueError:
        return None


def _agree(column: str, mine: Row, peers: Row) -> bool:
    ours, theirs = mine[column], peers[column]
    if ours == theirs:
        return True
    if column in ("NPU Name", "Bench Name"):
        return ours == _canonical(theirs)
    first, second = _number(ours), _number(theirs)
    if first is None or second is None:
        return False
    if column == "Cosine":
        return abs(first - second) <= 1e-6
    tolerance = 1e-6 if column in TENSOR_METRICS and "Cosine" in mine else 1e-9
    return math.isclose(first, second, rel_tol=tolerance)


# ---- the reasons of docs/differences.md -------------------------------------------------------------------


def own_words(column: str, mine: Row, peers: Row) -> bool:
    """Messages are in our words, and none is lost."""
    return column == "Err_message"


def outcome_of_its_own(column: str, mine: Row, peers: Row) -> bool:
    """Unmatched, unreadable and skipped rows are not called pass (or, in the md5 layout, warning)."""
    return column == "Result" and mine["Result"] in ("unmatched", "unreadable", "skipped")


def other_kind_of_value(column: str, mine: Row, peers: Row) -> bool:
    """Values of different types are a pair with an error; msprobe calls the row unmatched."""
    return peers["Bench Name"] == "N/A" and mine["Bench Name"] == mine["NPU Name"] and mine["Result"] == "error"


def shows_the_value(column: str, mine: Row, peers: Row) -> bool:
    """Slices, sizes and memory formats show their value, and are compared by it."""
    shown = mine["NPU Dtype"] in ("slice", "torch.Size", "<class 'NoneType'>")
    return shown and (peers[column] == "None" or column in ("NPU MD5", "BENCH MD5"))


def judged_all_the_same(column: str, mine: Row, peers: Row) -> bool:
    """Ops that msprobe exempts from its rules are judged like any other."""
    exempt = ("to", "__setitem__", "numpy", "batch_isend_irecv", "all_to_all_single")
    return column == "Result" and mine["NPU Name"].split(".")[1] in exempt and peers[column] == "pass"


def other_places_of_nan(column: str, mine: Row, peers: Row) -> bool:
    """NaN or inf at different places, or inf of different sign, is an error."""
    return column == "Result" and "NaN or inf at different places" in mine["Err_message"]


def documented_threshold(column: str, mine: Row, peers: Row) -> bool:
    """The one thousandth rule uses the 0.6 that msprobe documents; its code has 0.1."""
    return column == "Result" and "within one thousandth" in mine["Err_message"]


def first_pass_of_a_checkpoint(column: str, mine: Row, peers: Row) -> bool:
    """The first pass of a checkpoint has no gradients; requires_grad that differs for that alone is not an error."""
    return column == "Result" and peers[column] == "error" and peers.get("Requires_grad Consistent") == "False"


def last_digits(column: str, mine: Row, peers: Row) -> bool:
    """A difference of two close doubles is exact here; msprobe loses last digits of it for MindSpore dumps."""
    if column not in DIFFERENCES or not mine["NPU Dtype"].startswith(("Float", "Int", "BFloat")):
        return False
    statistic = DIFFERENCES[column]
    target, golden = _number(mine[f"NPU {statistic}"]), _number(mine[f"Bench {statistic}"])
    first, second = _number(mine[column]), _number(peers[column])
    if None in (target, golden, first, second):
        return False
    scale = 100 / abs(golden) if column.endswith("Err") else 1.0
    exact = abs(target - golden) * scale
    ulps = 4 * math.ulp(max(abs(target), abs(golden))) * scale
    return math.isclose(abs(first), exact, rel_tol=1e-12) and abs(first - second) <= ulps


def nan_in_one_element(column: str, mine: Row, peers: Row) -> bool:
    """NaN or inf on one side only is N/A in all metrics, whatever the number of elements."""
    return (
        column in METRIC_COLUMNS and mine[column] == "N/A" and peers["Cosine"] == "unsupported" and _one_element(mine)
    )


def _one_element(row: Row) -> bool:
    sizes = [int(size) for size in row["NPU Tensor Shape"].strip("[]").split(",") if size.strip()]
    return math.prod(sizes) == 1


REASONS: tuple[Callable[[str, Row, Row], bool], ...] = (
    own_words,
    outcome_of_its_own,
    first_pass_of_a_checkpoint,
    other_kind_of_value,
    shows_the_value,
    judged_all_the_same,
    other_places_of_nan,
    documented_threshold,
    last_digits,
    nan_in_one_element,
)
