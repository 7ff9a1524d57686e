"""MindSpore runs against PyTorch runs of the same model: the pairs of the hand-checked lists, clean where it is clean.

The lists are tests/data/cross/*.csv: how they were made is said there. Numbers are held against msprobe's, with its
mapping files as they are.
"""

from __future__ import annotations

import csv
import math
import shlex
from pathlib import Path
from typing import Any

import pytest
from peer_pairs import read_table
from real_dumps import DUMPS, NOT_THERE, needs_dumps

import lakeprobe
from lakeprobe.mapping.files import read as read_mappings

CROSS = DUMPS / "C_cross"
DATA = Path(__file__).resolve().parents[1] / "data"
LISTS = DATA / "cross"
PAIRS = [
    ("L0", "ms_L0_stat", "pt_L0_stat"),
    ("L0", "ms_L0_tensor", "pt_L0_tensor"),
    ("L1", "ms_L1_stat", "pt_L1_stat"),
    ("L1", "ms_L1_tensor", "pt_L1_tensor"),
    ("mix", "ms_mix_stat", "pt_mix_stat"),
    ("mix", "ms_mix_tensor", "pt_mix_tensor"),
    ("mint", "msmint_L1_stat", "pt_L1_stat"),
]
PLANTED = {
    "L0": "Cell.layers.1.ln2.LayerNorm.forward.0",
    "L1": "Primitive.layer_norm.LayerNorm.3.forward",
    "mix": "Primitive.layer_norm.LayerNorm.3.forward",
}


def dump(run: str, variant: str) -> Path:
    """Step 0 of a run: of the real dumps, or of the few that are copied here."""
    for folder in (CROSS, DATA / "dumps" / "cross"):
        if (folder / run / variant).is_dir():
            return folder / run / variant / "step0"
    return pytest.skip(NOT_THERE)


def hand_checked(name: str) -> dict[str, str]:
    with (LISTS / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return {row["target_name"]: row["golden_name"] for row in csv.DictReader(file)}


def rows_of(tmp_path: Path, target: Path, golden: Path, **options: Any) -> tuple[list[dict[str, Any]], Any]:
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        result = lake.compare(target, golden, **options)
        relation = result.rows
        rows = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
        return rows, result.summary()


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "target", "golden"), PAIRS, ids=[target for _, target, _ in PAIRS])
def test_equal_models_pair_by_name_and_come_out_clean(tmp_path: Path, name: str, target: str, golden: str) -> None:
    rows, summary = rows_of(tmp_path, dump(target, "golden"), dump(golden, "golden"), search=False)
    paired = {row["target_name"]: row["golden_name"] for row in rows if row["matched_by"]}
    assert paired == hand_checked(name)
    assert {row["difference"] for row in rows} == {"equal", "noise", None}
    assert not [row for row in rows if row["verdict"] not in ("pass", "skipped")]
    assert all((row["verdict"] == "skipped") == (row["matched_by"] is None) for row in rows)
    assert summary.beyond_noise == ()


@pytest.mark.sampled
@pytest.mark.parametrize("swapped", [False, True], ids=["mindspore", "pytorch"])
@pytest.mark.parametrize(("name", "target", "golden"), PAIRS, ids=[target for _, target, _ in PAIRS])
def test_a_search_pairs_that_and_more_in_both_directions(
    tmp_path: Path, name: str, target: str, golden: str, swapped: bool
) -> None:
    sides = dump(target, "golden"), dump(golden, "golden")
    rows, summary = rows_of(tmp_path, *(sides[::-1] if swapped else sides))
    paired = {row["target_name"]: row["golden_name"] for row in rows if row["matched_by"]}
    tensors = {row["target_name"] for row in rows if row["matched_by"] and row["target_kind"] == "tensor"}
    listed = dict(pair[:: -1 if swapped else 1] for pair in hand_checked(name).items())
    assert {
        left: right for left, right in paired.items() if left in listed and left in tensors
    }.items() <= listed.items()
    assert sum(left in listed for left in tensors) >= 0.95 * sum(
        left in tensors or left not in paired for left in listed
    )
    assert {row["difference"] for row in rows} == {"equal", "noise", None}
    assert {row["outcome"] for row in rows} <= {"compared", "equal", "inside", "structure", "unmatched"}
    left = [row for row in rows if row["golden_name"] and row["outcome"] == "unmatched"]
    assert len(left) <= 0.05 * sum(row["golden_name"] is not None for row in rows)
    assert summary.beyond_noise == ()


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "target", "golden"), PAIRS[:-1], ids=[target for _, target, _ in PAIRS[:-1]])
def test_the_planted_defect_is_found(tmp_path: Path, name: str, target: str, golden: str) -> None:
    rows, summary = rows_of(tmp_path, dump(target, "ln_eps"), dump(golden, "golden"))
    paired, listed = {row["target_name"]: row["golden_name"] for row in rows if row["matched_by"]}, hand_checked(name)
    assert {left: right for left, right in paired.items() if left in listed}.items() <= listed.items()
    assert [finding.op for finding in summary.beyond_noise] == [PLANTED[name]]


MAPPED = [
    ("L0_stat_cm", "cell"),
    ("L0_stat_cmyaml", "cell"),
    ("L0_stat_dm", "data"),
    ("L0_stat_lm", "layer"),
    ("L0_tensor_cmyaml", "cell"),
    ("L0_tensor_dm", "data"),
    ("L0_tensor_lm", "layer"),
    ("L1_stat_am", "api"),
    ("L1_stat_am_codekeys", "api"),
    ("L1_stat_am_documented", "api"),
    ("L1_stat_amyaml", "api"),
    ("L1_tensor_am", "api"),
    ("mint_L1_stat_am", "api"),
    ("mix_stat_lm", "layer"),
    ("mix_tensor_lm", "layer"),
]
NUMBERS = {
    "max_diff": "Max diff",
    "min_diff": "Min diff",
    "mean_diff": "Mean diff",
    "norm_diff": "L2norm diff",
    "cosine": "Cosine",
    "euclidean_distance": "EucDist",
    "max_abs_error": "MaxAbsErr",
    "one_thousandth_ratio": "One Thousandth Err Ratio",
}


@pytest.mark.sampled
@needs_dumps
@pytest.mark.parametrize(("peer", "kind"), MAPPED, ids=[peer for peer, _ in MAPPED])
def test_pairs_and_numbers_of_msprobe_with_its_mapping_files(tmp_path: Path, peer: str, kind: str) -> None:
    """What msprobe pairs with a mapping file, we pair, or rightly otherwise; numbers are the same where both pair."""
    folder = CROSS / f"peer_out_cross_{peer}"
    words = shlex.split((folder / "cmd.txt").read_text().splitlines()[0].removeprefix("command: "))
    target, golden = (
        Path(words[words.index(option) + 1].replace("/data/dumps", str(DUMPS))) for option in ("-tp", "-gp")
    )
    file = Path(words[-1].replace("/data/dumps", str(DUMPS)))
    mappings = read_mappings(**{kind: file}) if file.suffix == ".yaml" else None
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        result = lake.compare(target, golden, mappings=mappings, rule="layer" if kind == "layer" else None)
        relation = result.rows
        ours = {
            row["target_name"]: row
            for row in (dict(zip(relation.columns, values, strict=True)) for values in relation.fetchall())
            if row["target_name"]
        }
    tables = list(folder.glob("compare_result*.csv*"))
    if not tables:
        return  # msprobe crashed on it; that we do not is what there is to show
    theirs = [row for row in read_table(tables[0]) if row["Bench Name"] != "N/A"]
    assert theirs
    right = hand_checked(peer.split("_")[0])
    for row in theirs:
        mine = ours[row["NPU Name"]]
        if mine["golden_name"] != row["Bench Name"]:  # msprobe is wrong: backward calls, gradients of a part of an op
            assert mine["golden_name"] == right.get(row["NPU Name"])
            continue
        for column, theirs_column in NUMBERS.items():
            number = _number(row.get(theirs_column, ""))
            if number is not None and mine[column] is not None:
                assert math.isclose(mine[column], number, rel_tol=1e-6, abs_tol=1e-12), (row["NPU Name"], column)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
