"""On every real pair, the first op that we name is the one that was planted."""

from __future__ import annotations

from pathlib import Path

import pytest
from peer_pairs import PeerPair, first_differences, with_truth

import lakeprobe

PAIRS = with_truth()


@pytest.mark.parametrize(("pair", "truth"), PAIRS, ids=[pair.id for pair, _ in PAIRS])
def test_first_op_that_differs(pair: PeerPair, truth: Path, tmp_path: Path) -> None:
    expected = first_differences(truth)
    with lakeprobe.open(tmp_path / "lake") as lake:
        result = lake.compare(pair.target, pair.golden)
        named = {first.rank: first for first in result.summary().first}
        assert len(result.stored.units) == len(expected)
        for rank, told in expected.items():
            ops = [row[0] for row in lake.sql("SELECT op FROM ops WHERE run = ? AND rank = ? ORDER BY seq", [result.stored.target, rank]).fetchall()]
            _check(named.get(rank), told, ops)


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
