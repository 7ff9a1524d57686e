"""Pairs ops by the tensors that both runs have: ops with the same inputs and outputs are the same.

Of several calls on the same tensors, the k-th pairs with the k-th. An op that only passes on its input (a view, a cast)
pairs with another such op on the same tensor, whatever their names are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy
from msgspec import Struct

from lakeprobe.mapping.ops import Op, common_end, relation
from lakeprobe.mapping.tensors import Matches, likes, spread
from lakeprobe.mapping.units import GRADIENT, OUTPUT, PARAMETERS, Codes, Numbers, Unit

_WEIGHT = {OUTPUT: 3.0, PARAMETERS: 2.0, GRADIENT: 3.0}
"""The weight of a common tensor by its role. An input has weight 1."""

_FORWARD = 3.0
"""The weight of a pair of forward calls for the pair of their backward calls."""

_SURE = 3.0
"""The least evidence for a pair that says where others are: a common result, or several inputs."""

_MOST_SIGHTS = 24
"""The number of sights of a tensor to look at. Some tensors are used everywhere."""


def ops_by_tensors(target: Unit, golden: Unit, matches: Matches) -> Iterator[tuple[Op, Op]]:
    """Yield pairs of ops of one kind and direction, each op at most once. Pairs with most in common come first."""
    if not target.ops or not golden.ops:
        return
    ballots = _ballots(target, golden, matches)
    partner = numpy.full(len(target.ops), -1, dtype=numpy.int64)
    forward = _forward_calls(target.ops), _forward_calls(golden.ops)
    is_taken = numpy.zeros(len(golden.ops), dtype=bool)
    is_forward = numpy.array([op.direction == "forward" for op in target.ops])[ballots.ours]
    for wanted in (True, False):
        few = numpy.flatnonzero(is_forward == wanted)
        ours, theirs = ballots.ours[few], ballots.theirs[few]
        known = numpy.where(forward[0][ours] >= 0, partner[forward[0][ours]], -1)
        score = ballots.score[few] + numpy.where((known >= 0) & (known == forward[1][theirs]), _FORWARD, 0.0)
        for these in (score >= _SURE, score < _SURE):  # where sure pairs stand says where others are
            mine, other, worth = ours[these], theirs[these], score[these]
            gap = numpy.abs(_expected(mine, partner, target, golden) - other)
            order = numpy.lexsort((other, mine, gap, -worth))
            for one, two in zip(mine[order].tolist(), other[order].tolist(), strict=True):
                if partner[one] < 0 and not is_taken[two]:
                    partner[one], is_taken[two] = two, True
                    yield target.ops[one], golden.ops[two]


def _expected(ours: Numbers, partner: Numbers, target: Unit, golden: Unit) -> Numbers:
    """Return where the counterparts of target's ops would stand in golden, by those that were found around them."""
    found = numpy.flatnonzero(partner >= 0)
    places = numpy.concatenate(([-1], found, [len(target.ops)]))
    others = numpy.concatenate(([-1], partner[found], [len(golden.ops)]))
    return numpy.interp(ours, places, others)


class _Ballots(Struct, frozen=True):
    """Pairs of ops, by index, that share tensors in a role, and the weight of the evidence for each pair."""

    ours: Numbers
    theirs: Numbers
    score: Numbers


def _ballots(target: Unit, golden: Unit, matches: Matches) -> _Ballots:
    leaf, other = _shared(target, golden, matches)
    ours, theirs = target.columns.op[leaf], golden.columns.op[other]
    codes = Codes()
    marks = [_marks(unit.ops, codes) for unit in (target, golden)]
    families = [_codes([op.family for op in unit.ops], codes) for unit in (target, golden)]
    related = _relations(target.ops, golden.ops, families, ours, theirs)
    carries = [numpy.array([op.carries for op in unit.ops]) for unit in (target, golden)]
    may_pair = (marks[0][ours] == marks[1][theirs]) & ((carries[0][ours] == carries[1][theirs]) | (related > 0))
    sights = numpy.unique(ours[may_pair] * len(golden.leaves) + other[may_pair])
    if not len(sights):
        return _Ballots(sights, sights, sights.astype(numpy.float64))
    other = sights % len(golden.leaves)
    pairs = sights // len(golden.leaves) * len(golden.ops) + golden.columns.op[other]
    weights = numpy.ones(len(sights))
    for role, weight in _WEIGHT.items():
        weights[golden.columns.role[other] == role] = weight
    distinct, start = numpy.unique(pairs, return_index=True)
    total = numpy.add.reduceat(weights, start)
    is_produced = numpy.maximum.reduceat(weights, start) > 1
    ours, theirs = distinct // len(golden.ops), distinct % len(golden.ops)
    related = _relations(target.ops, golden.ops, families, ours, theirs)
    are_namesakes = [target.ops[place].name == golden.ops[other].name
                     for place, other in zip(ours.tolist(), theirs.tolist(), strict=True)]  # fmt: skip
    likeness = 0.3 * related + numpy.where(are_namesakes, 0.2, 0.0)
    for place in numpy.flatnonzero(numpy.array([op.kind == "module" for op in target.ops])[ours]).tolist():
        likeness[place] += 0.2 * _common_path(target.ops[ours[place]], golden.ops[theirs[place]])
    chosen = is_produced | (related > 0)
    return _Ballots(ours[chosen], theirs[chosen], (total + likeness)[chosen])


def _shared(target: Unit, golden: Unit, matches: Matches) -> tuple[Numbers, Numbers]:
    """Return leaves of target and golden that show one tensor, or two at the same place, in the same role."""
    like = likes(matches.sides[0])
    of_leaf, their = matches.sides[0].of_leaf, matches.sides[1]
    leaf = numpy.flatnonzero(of_leaf >= 0)
    tensor = like[of_leaf[leaf]] if len(leaf) else leaf
    leaf, tensor = leaf[tensor >= 0], tensor[tensor >= 0]
    starts = their.starts[tensor]
    place, sight = spread(starts, numpy.minimum(their.starts[tensor + 1], starts + _MOST_SIGHTS))
    leaf, other = leaf[place], their.leaves[sight]
    same = target.columns.role[leaf] == golden.columns.role[other]
    return leaf[same], other[same]


def _marks(ops: Sequence[Op], codes: Codes) -> Numbers:
    """Return codes of what two ops must have in common: kind, direction, and whether they are views."""
    return _codes([(op.kind, op.direction, op.is_view) for op in ops], codes)


def _codes(keys: Sequence[object], codes: Codes) -> Numbers:
    return numpy.array([codes[key] for key in keys], dtype=numpy.int64)


def _relations(
    target: Sequence[Op], golden: Sequence[Op], families: Sequence[Numbers], ours: Numbers, theirs: Numbers
) -> Numbers:
    """Return `ops.relation` of many pairs of ops of few kinds."""
    width = int(families[1].max(initial=0)) + 1
    _, first, code = numpy.unique(
        families[0][ours] * width + families[1][theirs], return_index=True, return_inverse=True
    )
    related = [relation(target[ours[place]], golden[theirs[place]]) for place in first.tolist()]
    return numpy.array(related, dtype=numpy.float64)[code]


def _forward_calls(ops: Sequence[Op]) -> Numbers:
    """Return for each backward op the index of its forward op, and -1 for other ops."""
    return numpy.array([-1 if op.forward is None else op.forward.place for op in ops], dtype=numpy.int64)


def _common_path(op: Op, other: Op) -> int:
    return min(3, common_end(op.path.split("."), other.path.split(".")))
