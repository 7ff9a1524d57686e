"""On real dumps, what is planted is what is named first: the rank, the op, and what carried it to the other ranks."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from peer_pairs import RECOMPUTED, Compared, PeerPair, first_differences, with_truth
from real_dumps import DUMPS, needs_dumps

from lakeprobe.reports.diff_analyze import diff_analyze

UNLIKE = {"A_variants/peer_out_stat_vs_md5", "A_variants/peer_out_repeat_md5", *RECOMPUTED}
"""Pairs whose truth is not ours: dumps that record different things of one run, digests that were taken late, and names
that recomputation shifts."""

PAIRS = [(pair, truth) for pair, truth in with_truth() if pair.id not in UNLIKE]
SINGLE = [(pair, truth) for pair, truth in PAIRS if not pair.id.startswith("B_")]

PLANTED = {
    ("L1_stat", "gelu_tanh"): (1, "Functional.gelu.1.forward", "an argument"),
    ("L1_stat", "log0"): (3, "Tensor.__add__.4.forward", "an argument"),
    ("L1_stat", "wrong_peer"): (1, "Distributed.isend.0.forward", "no recorded op"),
    ("L1_stat_nop2p", "gelu_tanh"): (1, "Functional.gelu.1.forward", "an argument"),
    ("L1_stat_nop2p", "ln_eps"): (1, "Functional.layer_norm.1.forward", "an argument"),
    ("L1_stat_nop2p", "log0"): (3, "Tensor.__add__.4.forward", "an argument"),
    ("L1_stat_ranks01", "ln_eps"): (1, "Functional.layer_norm.1.forward", "an argument"),
    ("L1_tensor", "gelu_tanh"): (1, "Functional.gelu.1.forward", "an argument"),
    ("mix_stat", "gelu_tanh"): (1, "Functional.gelu.1.forward", "an argument"),
    ("mix_stat", "log0"): (3, "Tensor.__add__.4.forward", "an argument"),
}
"""Of the four ranks: where the defect sits (INDEX.md) and the op of the truth files on that rank."""


@pytest.mark.sampled
@pytest.mark.parametrize(("pair", "truth"), SINGLE, ids=[pair.id for pair, _ in SINGLE])
def test_single_rank(pair: PeerPair, truth: Path, compared: Compared) -> None:
    expected = first_differences(truth)
    found = compared(*pair.steps)[1].first_difference(threshold=0, paired=True)
    named = dict(found.ranks.project("rank, op").fetchall())
    assert named == {rank: told["first_diff"] for rank, told in expected.items()}


@pytest.mark.sampled
@needs_dumps
@pytest.mark.parametrize(("folder", "defect"), PLANTED)
def test_planted_rank_is_the_only_origin(folder: str, defect: str, compared: Compared) -> None:
    base = DUMPS / "B_pt_dist" / folder
    found = compared(base / defect / "step0", base / "golden" / "step0")[1].first_difference()
    planted = PLANTED[folder, defect]
    assert found.origins.project("rank, op, source").fetchall() == [planted]
    assert {origin for (origin,) in found.ranks.project("origin").fetchall()} == {planted[0]}
    truth = first_differences(base / f"truth_{defect}_step0.json")
    assert truth[planted[0]]["first_diff"] == planted[1]


@needs_dumps
def test_what_carried_it_to_the_other_ranks(compared: Compared) -> None:
    base = DUMPS / "B_pt_dist" / "L1_stat"
    found = compared(base / "gelu_tanh" / "step0", base / "golden" / "step0")[1].first_difference()
    assert found.ranks.filter("source IS NULL").project("rank, explained_by, meeting").fetchall() == [
        (0, 1, "all_reduce [0, 1] #1"),
        (2, 1, "send 1 → 2 #0"),
        (3, 0, "send 0 → 3 #0"),
    ]


@needs_dumps
def test_the_source_of_an_input_that_no_op_made(compared: Compared) -> None:
    base = DUMPS / "B_pt_dist" / "L1_stat"
    found = compared(base / "wrong_peer" / "step0", base / "golden" / "step0")[1].first_difference()
    traced = found.leaves.filter("rank = 1 AND is_traced").project("slot, source_op").fetchall()
    assert traced == [("input.0", "Functional.linear.5.forward")]


@needs_dumps
def test_equal_runs(compared: Compared) -> None:
    golden = DUMPS / "B_pt_dist" / "L1_stat" / "golden"
    found = compared(golden, golden)[1].first_difference()
    assert found.is_equal
    assert len(found.ranks.fetchall()) == 8


@needs_dumps
def test_digests_taken_late_are_no_difference(compared: Compared) -> None:
    """Two runs without any defect: an optimizer works in place while a thread still works out the digests."""
    target, golden = sides(DUMPS / "A_variants" / "peer_out_repeat_md5")
    found = compared(target, golden)[1].first_difference()
    assert found.is_equal
    assert {reason for *_, reason, _ in found.set_aside.fetchall()} == {"late digest"}


@needs_dumps
@pytest.mark.parametrize(
    ("folder", "op"),
    [
        ("peer_out_cross_L1_stat_ln_eps_am", "Primitive.layer_norm.LayerNorm.3.forward"),
        ("peer_out_cross_L0_stat_ln_eps_cm", "Cell.layers.1.ln2.LayerNorm.forward.0"),
        ("peer_out_cross_mix_stat_plain", None),
    ],
)
def test_between_frameworks(folder: str, op: str | None, compared: Compared) -> None:
    found = compared(*sides(DUMPS / "C_cross" / folder))[1].first_difference()
    assert found.ranks.project("op").fetchall() == [(op,)]


DIFF_ANALYZE = [
    "A_pt_lm/L0_md5/peer_out_ln_eps_step0_dirda",
    "A_pt_lm/L0_stat/peer_out_ln_eps_step0_dirda",
    "A_pt_lm/L1_md5/peer_out_bf16_step0_dirda",
    "A_pt_lm/L1_md5/peer_out_ln_eps_step0_dirda",
    "A_pt_lm/L1_stat/peer_out_ln_eps_step0_dirda",
    "A_pt_lm/L1_xor/peer_out_ln_eps_step0_dirda",
    "A_pt_lm/mix_stat/peer_out_ln_eps_step0_dirda",
    "B_pt_dist/L1_stat/peer_out_log0_step0_da",
    "B_pt_dist/mix_stat/peer_out_log0_step0_da",
    "E_overflow/pt_fp16_overflow/L1_stat/peer_out_step0_da",
    "E_overflow/pt_log0/L1_stat/peer_out_step0_da",
]
"""Runs of msprobe whose -da named the right op, by INDEX.md."""


@pytest.mark.sampled
@needs_dumps
@pytest.mark.parametrize("folder", DIFF_ANALYZE)
def test_diff_analyze_is_what_msprobe_writes(folder: str, compared: Compared) -> None:
    [written] = (DUMPS / folder).glob("diff_analyze_*.json")
    target, golden = sides(DUMPS / folder)
    _, result = compared(target, golden)
    assert diff_analyze(result.stored, result.first_difference()) == json.loads(written.read_text())


def sides(folder: Path) -> list[Path]:
    """The dumps that the peer was given; where that were copies with another folder name, the dumps themselves."""
    words = shlex.split((folder / "cmd.txt").read_text().splitlines()[0].removeprefix("command: "))
    given = [Path(words[words.index(option) + 1]) for option in ("-tp", "-gp")]
    if "scratch" in given[0].parts:
        variant, step = folder.name.removeprefix("peer_out_").removesuffix("_dirda").rsplit("_", 1)
        return [folder.parent / run / step for run in (variant, "golden")]
    return [DUMPS / path.relative_to("/data/dumps") for path in given]


@pytest.mark.parametrize("pair", [pair for pair, _ in with_truth() if pair.id in RECOMPUTED], ids=lambda pair: pair.id)
def test_what_only_one_run_recomputes_is_no_difference(pair: PeerPair, compared: Compared) -> None:
    lake, comparison = compared(*pair.steps)
    assert comparison.verdict.value == "equal"
    assert not comparison.first_difference().differs
    rows = f"FROM results WHERE comparison = '{comparison.name}'"
    outcomes = lake.sql(f"SELECT DISTINCT outcome, difference {rows} ORDER BY outcome").fetchall()
    assert outcomes == [("compared", "equal"), ("recomputed", None)]
    (again,) = lake.sql(f"SELECT count(DISTINCT target_op) {rows} AND outcome = 'recomputed'").fetchall()[0]
    assert again > 50
