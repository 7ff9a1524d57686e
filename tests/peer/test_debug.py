"""Values that a user saved: our tables against msprobe's own, the planted truth, and SingleSave against both."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peer_pairs import read_table
from real_dumps import DUMPS, needs_dumps

import lakeprobe
from lakeprobe.tensors import open_tensor, read_tensor

Row = dict[str, Any]
SAVED = Path(__file__).parents[1] / "data" / "single_save"
TENSOR_METRICS = ("EucDist", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandths Err Ratio")
DIFFERENCES = {
    "Max diff": "max", "Min diff": "min", "Mean diff": "mean", "L2norm diff": "l2norm",
    "MaxRelativeErr": "max", "MinRelativeErr": "min", "MeanRelativeErr": "mean", "NormRelativeErr": "l2norm",
}  # fmt: skip


@dataclass(frozen=True)
class DebugPair:
    """A debug.json of a run with a defect and of one without, msprobe's table of the two, and the truth."""

    folder: Path

    def side(self, variant: str) -> Path:
        [path] = (self.folder / variant).rglob("debug.json")
        return path

    def table(self) -> list[dict[str, str]]:
        [path] = (self.folder / "peer_out_ln_eps_step0").glob("debug_compare_result_*.csv")
        return read_table(path)

    def truth(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((self.folder / "truth_ln_eps_step0.json").read_text())
        return told


PAIRS = [DebugPair(DUMPS / "D_debug_save" / name) for name in ("ms_stat", "pt_stat", "pt_tensor")]
each_pair = pytest.mark.parametrize("pair", PAIRS, ids=[pair.folder.name for pair in PAIRS])


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[lakeprobe.Lake]:
    with lakeprobe.open(tmp_path / "lake", create=True) as opened:
        yield opened


def rows_of(result: Any) -> list[Row]:
    rows: list[Row] = result.rows.arrow().read_all().to_pylist()
    return rows


# ---- msprobe's tables -------------------------------------------------------------------------------------------


def is_same(column: str, ours: str, theirs: str) -> bool:
    """Whether two cells agree: as texts, or as numbers to the digits that msprobe has."""
    if ours == theirs:
        return True
    try:
        first, second = float(ours.strip().removesuffix("%")), float(theirs.strip().removesuffix("%"))
    except ValueError:
        return False
    tolerance = 1e-6 if column in TENSOR_METRICS else 1e-9
    return ours.endswith("%") is theirs.endswith("%") and math.isclose(first, second, rel_tol=tolerance)


def is_last_digits(column: str, mine: dict[str, str]) -> bool:
    """Whether a difference of two statistics is exact here; msprobe loses its last digits for MindSpore dumps."""
    if column not in DIFFERENCES or not mine["NPU Dtype"].startswith("Float"):
        return False
    target, golden = (float(mine[f"{side} {DIFFERENCES[column]}"]) for side in ("NPU", "Bench"))
    if mine[column].endswith("%"):
        return math.isclose(float(mine[column][:-1]), abs((target - golden) / golden) * 100, rel_tol=1e-15)
    return float(mine[column]) == target - golden


@needs_dumps
@each_pair
def test_every_row_is_msprobes(pair: DebugPair, lake: lakeprobe.Lake, tmp_path: Path) -> None:
    [written] = lake.compare(pair.side("ln_eps"), pair.side("golden"), name="debug").write(tmp_path, "csv")
    ours, theirs = read_table(written), pair.table()
    assert [row["NPU Name"] for row in ours] == [row["NPU Name"] for row in theirs]
    for mine, peers in zip(ours, theirs, strict=True):
        assert mine.keys() == peers.keys()
        for column, cell in peers.items():
            assert is_same(column, mine[column], cell) or is_last_digits(column, mine), (column, mine[column], cell)


@needs_dumps
@each_pair
def test_the_points_that_differ_are_the_truths(pair: DebugPair, lake: lakeprobe.Lake) -> None:
    result, truth = lake.compare(pair.side("ln_eps"), pair.side("golden"), name="debug"), pair.truth()
    rows = rows_of(result)
    different = [row for row in rows if row["difference"] != "equal"]
    assert [first.op for first in result.summary().first] == [truth["first_diff"]]
    assert different[0]["target_op"] == truth["first_diff"]
    assert len({row["target_op"] for row in different}) == truth["n_diff_ops"]
    assert len(different) == truth["n_diff_leaves"]
    assert len({row["target_op"] for row in rows}) == truth["n_target"]
    assert result.first_difference().ranks.fetchall()[0][3] == truth["first_diff"]


# ---- verdicts by value ------------------------------------------------------------------------------------------


def changed(pair: DebugPair, folder: Path, **points: Any) -> Path:
    """A copy of the golden debug.json in which each point has the value that its function makes."""
    dump = json.loads(pair.side("golden").read_text())
    for point, change in points.items():
        change(dump["data"][point.replace("__", ".")])
    folder.mkdir()
    (folder / "debug.json").write_text(json.dumps(dump, indent=1))
    return folder


def scaled(factor: float) -> Any:
    def scale(leaf: Row) -> None:
        leaf.update({key: leaf[key] * factor for key in ("Max", "Min", "Mean", "Norm")})

    return scale


@pytest.mark.sampled
@needs_dumps
@pytest.mark.parametrize(("factor", "verdict"), [(1.6, "error"), (1.2, "warning"), (1.05, "pass"), (1.0, "pass")])
def test_a_tensor_is_judged_by_its_value(lake: lakeprobe.Lake, tmp_path: Path, factor: float, verdict: str) -> None:
    """msprobe 26.2.0 says pass for each of these (tried with 1.6)."""
    target = changed(PAIRS[1], tmp_path / "target", logits__1__debug=scaled(factor))
    rows = rows_of(lake.compare(target, PAIRS[1].side("golden"), name="debug"))
    assert {row["target_name"]: row["verdict"] for row in rows if row["verdict"] != "pass"} == (
        {} if verdict == "pass" else {"logits.1.debug": verdict}
    )
    different = [row["target_name"] for row in rows if row["difference"] == "different"]
    assert different == ([] if factor == 1 else ["logits.1.debug"])


@needs_dumps
def test_scalars_texts_and_nulls_are_judged_by_their_values(lake: lakeprobe.Lake, tmp_path: Path) -> None:
    def change(pack: Row) -> None:
        learning_rate, tag = pack["nested"][1]["lr"], pack["nested"][1]["tag"]
        learning_rate["value"] *= 2
        tag["value"] = "y"

    def appear(gradients: Row) -> None:
        gradients["ids"] = {"type": "int", "value": 3}

    target = changed(PAIRS[1], tmp_path / "target", pack__0__debug=change, pack_grad__1__debug=appear)
    rows = rows_of(lake.compare(target, PAIRS[1].side("golden"), name="debug"))
    assert {row["target_name"]: row["verdict"] for row in rows if row["verdict"] != "pass"} == {
        "pack.0.debug.nested.1.lr": "error",
        "pack.0.debug.nested.1.tag": "error",
        "pack_grad.1.debug.ids": "error",
    }


@needs_dumps
def test_a_point_that_one_side_lacks_is_unmatched(lake: lakeprobe.Lake, tmp_path: Path) -> None:
    folder = changed(PAIRS[1], tmp_path / "target")
    dump = json.loads((folder / "debug.json").read_text())
    del dump["data"]["logits.1.debug"]
    (folder / "debug.json").write_text(json.dumps(dump))
    rows = rows_of(lake.compare(folder, PAIRS[1].side("golden"), name="debug"))
    assert [(row["target_name"], row["golden_name"]) for row in rows if row["verdict"] == "unmatched"] == [
        (None, "logits.1.debug")
    ]
    assert {row["verdict"] for row in rows if row["target_name"]} == {"pass"}


# ---- SingleSave -------------------------------------------------------------------------------------------------


def test_single_save_has_the_numbers_of_msprobes_comparator(lake: lakeprobe.Lake) -> None:
    """tests/data/single_save/peer.json is what msprobe's SingleComparator wrote for the same two trees."""
    rows = {
        (row["step"], row["target_op"], row["target_name"]): row
        for row in rows_of(lake.compare(SAVED / "target", SAVED / "golden"))
    }
    checked = 0
    for peers in json.loads((SAVED / "peer.json").read_text()):
        if peers["tag"] == "parts":  # it knows one file of a dict only
            continue
        op = f"{peers['tag']}.{peers['micro_step']}.debug"
        mine = rows[peers["step"], op, op if peers["tag"] != "pair" else f"{op}.{peers['id']}"]
        assert mine["target_shape"] == json.loads(peers["shape1"])
        assert (mine["difference"] == "equal") is (peers["same_percent"] == 100)
        if peers["same_percent"] != 100:
            assert mine["max_abs_error"] == pytest.approx(peers["max_abs_error"], rel=1e-6)
            larger = max(abs(mine["target_max"]), abs(mine["golden_max"])) / abs(mine["golden_max"])
            assert mine["max_relative_error"] == pytest.approx(peers["max_relative_error"] * larger, rel=1e-6)
        checked += 1
    assert checked == 12
    # in words: only the loss of the second micro step is off, by a thousandth
    assert {name for _, name, _ in rows} >= {"only.0.debug", "parts.1.debug"}
    assert [(step, op) for (step, op, _), row in rows.items() if row["difference"] != "equal"] == [
        (0, "loss.1.debug"),
        (1, "loss.1.debug"),
    ]


def save_as_single_save(debug: Path, top: Path) -> Path:
    """The tensors and lists of tensors of a debug.json, as SingleSave would have written them."""
    for point, value in json.loads(debug.read_text())["data"].items():
        tag, call, _ = point.rsplit(".", 2)
        leaves = {"": value} if "dtype" in value else dict(enumerate(value)) if isinstance(value, list) else {}
        folder = top / "data" / tag / "step0" / "rank0" / f"micro_step{call}"
        for index, leaf in leaves.items():
            folder.mkdir(parents=True, exist_ok=True)
            tensor = open_tensor(read_tensor(debug.parent / "dump_tensor_data" / leaf["data_name"]))
            np.save(folder / (f"{tag}.npy" if index == "" else f"{tag}.{index}.npy"), tensor.astype(np.float32))
        if leaves:
            recorded = [
                {key.lower(): leaf[key] for key in ("Max", "Min", "Mean", "Norm", "shape")} for leaf in leaves.values()
            ]
            text = json.dumps({"data": recorded if isinstance(value, list) else recorded[0]}, indent=4)
            (folder / f"{tag}.json").write_text(text)
    return top


@needs_dumps
def test_single_save_against_debug_json(lake: lakeprobe.Lake, tmp_path: Path) -> None:
    pair = PAIRS[2]
    golden = save_as_single_save(pair.side("golden"), tmp_path / "single")
    plain = {
        row["target_name"]: row for row in rows_of(lake.compare(pair.side("ln_eps"), pair.side("golden"), name="a"))
    }
    mixed = rows_of(lake.compare(pair.side("ln_eps"), golden, name="b"))
    paired = {row["target_name"] for row in mixed if row["target_name"] and row["golden_name"]}
    assert paired == {name for name in plain if not name.startswith("pack")}
    for row in mixed:
        if row["target_name"] in paired:
            for column in (
                "golden_name",
                "difference",
                "verdict",
                "max_abs_error",
                "cosine",
                "golden_max",
                "target_norm",
            ):
                assert row[column] == plain[row["target_name"]][column]
