"""Which units are held against which."""

from __future__ import annotations

import pytest

from lakeprobe.compare.plan import by_position, pair_units
from lakeprobe.lake.layout import UnitKey

Units = list[tuple[int, int]]


@pytest.mark.parametrize(
    ("target", "golden", "pairs", "unpaired"),
    [
        ([(0, 0), (0, 1)], [(0, 0), (0, 1)], [(0, 0, 0, 0), (0, 1, 0, 1)], []),
        # numbers in common decide, even where both sides have equally many
        ([(0, 0), (0, 1)], [(0, 1), (0, 2)], [(0, 1, 0, 1)], ["t 0 0", "g 0 2"]),
        # none in common and equally many: by place
        ([(0, 8), (0, 9)], [(0, 0), (0, 1)], [(0, 8, 0, 0), (0, 9, 0, 1)], []),
        ([(0, 9), (0, 10)], [(0, 2), (0, 1)], [(0, 9, 0, 1), (0, 10, 0, 2)], []),
        # none in common and not equally many
        ([(0, 8)], [(0, 0), (0, 1)], [], ["t 0 8", "g 0 0", "g 0 1"]),
        # steps pair first, and ranks within them
        ([(5, 0)], [(0, 7)], [(5, 0, 0, 7)], []),
        ([(0, 0), (1, 0)], [(1, 0), (2, 0)], [(1, 0, 1, 0)], ["t 0 0", "g 2 0"]),
        ([(0, 0), (1, 4)], [(0, 0), (1, 5)], [(0, 0, 0, 0), (1, 4, 1, 5)], []),
        ([(0, 0), (0, 1), (1, 0)], [(0, 0), (1, 0)], [(0, 0, 0, 0), (1, 0, 1, 0)], ["t 0 1"]),
        ([], [(0, 0)], [], ["g 0 0"]),
    ],
)
def test_pairs_of_units(target: Units, golden: Units, pairs: list[tuple[int, ...]], unpaired: list[str]) -> None:
    made, left = pair_units([UnitKey("t", *key) for key in target], [UnitKey("g", *key) for key in golden])
    assert [(ours.step, ours.rank, theirs.step, theirs.rank) for ours, theirs in made] == pairs
    assert all((ours.run, theirs.run) == ("t", "g") for ours, theirs in made)
    assert [f"{key.run} {key.step} {key.rank}" for key in left] == unpaired


@pytest.mark.parametrize(
    ("target", "golden", "said"),
    [
        ([(0, 0), (1, 4)], [(0, 0), (1, 4)], []),
        ([(1, 3)], [(0, 1)], [
            "step 1 of t is compared with step 0 of g: the two sides have no step in common",
            "rank 3 of t is compared with rank 1 of g: the two sides have no rank in common",
        ]),
        ([(0, rank) for rank in (8, 9, 12)], [(0, rank) for rank in range(3)], [
            "ranks 8–9, 12 of t are compared in this order with ranks 0–2 of g: the two sides have no rank in common"
        ]),
    ],
)  # fmt: skip
def test_pairs_by_position_are_told(target: Units, golden: Units, said: list[str]) -> None:
    pairs, _ = pair_units([UnitKey("t", *key) for key in target], [UnitKey("g", *key) for key in golden])
    assert list(by_position(pairs)) == said


def test_a_run_against_itself_has_nothing_left_over() -> None:
    keys = [UnitKey("t", 0, 0), UnitKey("t", 0, 1)]
    assert pair_units(keys, keys) == ([(keys[0], keys[0]), (keys[1], keys[1])], [])
