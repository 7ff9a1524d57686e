"""Pairs ops by the tensors that both runs have: ops that take in and put out the same are the same.

The k-th of several calls on the same tensors pairs with the k-th. What only hands its input on (a view, a cast) pairs
with another such call on the same tensor, whatever the two are called.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from lakeprobe.mapping.align import Op, common_end, relation
from lakeprobe.mapping.tensors import Matches

_WEIGHT = {"output": 3.0, "parameters": 2.0, "parameters_grad": 3.0}
"""What a tensor in common says for a pair, by its role; an input says 1."""

_FORWARD = 3.0
"""What it says for two backward calls that their forward calls are a pair."""

_MOST_SIGHTS = 24
"""Sights of a tensor that are looked at: some are taken in everywhere."""


def ops_by_tensors(target: Sequence[Op], golden: Sequence[Op], matches: Matches) -> Iterator[tuple[Op, Op]]:
    """Pairs of ops of one kind and direction, each op at most once, those with most in common first."""
    places = ({op: place for place, op in enumerate(target)}, {op: place for place, op in enumerate(golden)})
    forward: dict[str, str] = {}
    for is_forward in (True, False):
        ballots = []
        for op, place in places[0].items():
            if (op.direction == "forward") is is_forward:
                for other, score in _scores(op, matches, forward).items():
                    apart = abs(place / len(target) - places[1][other] / len(golden))
                    ballots.append((-score, apart, place, places[1][other]))
        taken: tuple[set[int], set[int]] = (set(), set())
        for _, _, ours, theirs in sorted(ballots):
            if ours not in taken[0] and theirs not in taken[1]:
                taken[0].add(ours)
                taken[1].add(theirs)
                forward[target[ours].name] = golden[theirs].name
                yield target[ours], golden[theirs]


def _scores(op: Op, matches: Matches, forward: dict[str, str]) -> dict[Op, float]:
    """The ops of golden that have tensors in common with `op` in the same role, and how much speaks for each.

    `forward` has the pairs of forward calls: their backward calls are likely pairs too.
    """
    shared: dict[Op, dict[int, float]] = defaultdict(dict)
    produced: set[Op] = set()
    for leaf in op.leaves:
        tensor = matches.like(leaf, 0)
        if tensor is None:
            continue
        for other, their_leaf in tensor.sights[:_MOST_SIGHTS]:
            if their_leaf.role == leaf.role and _may_pair(op, other):
                shared[other].setdefault(their_leaf.row, _WEIGHT.get(leaf.role, 1.0))
                if leaf.role in _WEIGHT:
                    produced.add(other)
    known = forward.get(op.forward_name) if op.direction == "backward" else None
    return {
        other: sum(weights.values()) + _likeness(op, other) + (_FORWARD if other.forward_name == known else 0.0)
        for other, weights in shared.items()
        if other in produced or relation(op, other)
    }


def _may_pair(op: Op, other: Op) -> bool:
    """Whether the two are of one kind and direction; what hands its input on pairs with its like."""
    if op.kind != other.kind or op.direction != other.direction:
        return False
    return op.is_view == other.is_view and (op.carries == other.carries or relation(op, other) > 0)


def _likeness(op: Op, other: Op) -> float:
    """What the names of two ops say: less than a tensor in common does."""
    alike = 0.3 * relation(op, other) + (0.2 if op.name == other.name else 0.0)
    if op.kind == "module":
        alike += 0.2 * min(3, common_end(op.path.split("."), other.path.split(".")))
    return alike
