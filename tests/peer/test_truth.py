"""On every real pair, the first op that we name is the one that was planted."""

from __future__ import annotations

from pathlib import Path

import pytest
from peer_pairs import Compared, PeerPair, first_differences, with_truth
from real_dumps import needs_dumps

UNLIKE = {"A_variants/peer_out_stat_vs_md5"}
"""Pairs whose dumps record different things of the same run: the truth calls the absent field a difference."""

PAIRS = [(pair, truth) for pair, truth in with_truth() if pair.id not in UNLIKE]


@pytest.mark.sampled
@pytest.mark.parametrize(("pair", "truth"), PAIRS, ids=[pair.id for pair, _ in PAIRS])
def test_first_op_that_differs(pair: PeerPair, truth: Path, compared: Compared) -> None:
    expected = first_differences(truth)
    lake, result = compared(*pair.steps)
    named = {first.rank: first for first in result.summary().first}
    assert len(result.stored.units) == len(expected)
    for rank, told in expected.items():
        query = "SELECT op FROM ops WHERE run = ? AND rank = ? ORDER BY seq"
        ops = lake.sql(query, [result.stored.target, rank]).fetchall()
        # a buffer whose data had not come is set aside: it differs, and says nothing
        aside = "SELECT DISTINCT target_op FROM results WHERE rank = ? AND step = ? AND verdict = 'skipped'"
        skipped = {op for (op,) in lake.sql(aside, [rank, result.stored.units[0].step]).fetchall()}
        if told["first_diff"] in skipped:
            assert rank not in named or ops.index((named[rank].op,)) >= ops.index((told["first_diff"],))
            continue
        _check(named.get(rank), told, [op for (op,) in ops])


def _check(first: object, told: dict, ops: list[str]) -> None:
    unpaired = bool(told["only_target"] or told["only_golden"])
    if told["first_diff"] is None and not unpaired:
        assert first is None
        return
    assert first is not None
    if first.op == told["first_diff"]:
        return
    assert first.finding in ("only in target", "only in golden"), (first, told["first_diff"])
    if first.finding == "only in target" and told["first_diff"] is not None:
        assert ops.index(first.op) < ops.index(told["first_diff"])


@needs_dumps
def test_what_only_one_side_records_is_no_difference(compared: Compared) -> None:
    [pair] = [pair for pair, _ in with_truth() if pair.id in UNLIKE]
    summary = compared(*pair.steps)[1].summary()
    assert summary.beyond_noise == ()
    assert {outcome.outcome for outcome in summary.outcomes} == {"compared"}
