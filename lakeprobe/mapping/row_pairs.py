"""Pairs the rows of aligned ops: first by value, so that permuted arguments match, then by slot and shape.

One op of a framework may be several ops of the other (MatMul, BiasAdd and Reshape are a linear). So what an op pair
leaves over is searched in the unpaired ops around it that its tensors flow from and to.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache

import numpy
from msgspec import Struct

from lakeprobe.mapping import layouts
from lakeprobe.mapping.align import SEQUENCE, Pair
from lakeprobe.mapping.gradients import is_gradient, return_others, take_other_sizes, take_the_same
from lakeprobe.mapping.known import argument, slot_name
from lakeprobe.mapping.neighbours import Neighbours, shown
from lakeprobe.mapping.ops import Leaf, Op, distance, relation, same_values
from lakeprobe.mapping.orders import NEAR, fitting_better, nearest
from lakeprobe.mapping.tensors import (
    Matches,
    Tensor,
    agree_by_slot,
    are_gradients_on_two_ways,
    are_on_two_ways,
    contained,
    excludes,
    is_partial,
    leaves_of,
    ops_behind,
)
from lakeprobe.mapping.tensors import same_values as are_same_values
from lakeprobe.mapping.units import ROLES, Codes, Numbers, Unit, equal_rows, row_codes

_SURE_VOTE = 0.8
"""The share of op pairs with equal values that must agree on a slot before other pairs follow."""

_FAR = 0.1
"""The largest distance of paired leaves whose ops have nothing in common that both runs have."""


class _Group(Struct, frozen=True):
    """Leaves of one role and layout in ops of two forms, each given by its index in its op.

    `is_hooked`: whether they may be gradients of different tensors (see `is_gradient`). `named`: the pairs that slots
    propose. `rest`, `other_rest`: those of target and golden for which only values can tell.
    """

    is_hooked: bool
    named: list[tuple[int, int]]
    rest: list[int]
    other_rest: list[int]


class RowPair(Struct, eq=False):
    """A target row and its golden row, with a confidence from 0 to 1 and the evidence."""

    target: Leaf
    golden: Leaf
    confidence: float
    evidence: tuple[str, ...]


def pair_rows(
    pairs: Sequence[Pair], target: Unit, golden: Unit, matches: Matches, one_framework: bool = False
) -> list[RowPair]:
    """Return the rows that pair in `pairs` and around them, in the target's order, each row at most once.

    In one framework, paired backward ops have the same gradients as outputs, whatever their values are.
    """
    found = _Rows(pairs, target, golden, matches, one_framework)
    found.by_tensor()
    found.by_value()
    found.around(by_value=True)
    found.sights(matches.pairs(), 0.92, "the same tensor in another op")
    found.sights(matches.presumed_pairs(), 0.8, "made of the same")
    for layout in (_shape, _elements):  # the same layout comes first, then another layout of the same tensor
        found.by_slot(layout)
    found.sights(found.taken_alike(), 0.75, "goes into the same place")
    found.around(by_value=False)
    for pair in pairs:
        if pair.target.scalars and pair.golden.scalars:
            found.scalars(pair)
    return sorted(found.rows, key=lambda row: row.target.row)


_BY_PATH = ("same module path", "paired module")

_FRACTION = re.compile(r"[-+]?(\d+\.\d*|\d*\.?\d+e-\d+)", re.IGNORECASE)
"""The text of a number with a point or a negative exponent."""

_WORD = re.compile(r"(?!(?:cpu|cuda|npu|gpu|[Aa]scend|True|False|None)$)[A-Za-z_]+")
"""The text of a word that is no device, and neither a flag nor None."""

_WHOLE = 3.0
"""The relation of two ops of one kind, as opposed to one that is a part of the other."""


class _Rows:
    """The rows paired so far, and what equal values say about the slots."""

    def __init__(
        self, pairs: Sequence[Pair], target: Unit, golden: Unit, matches: Matches, one_framework: bool
    ) -> None:
        self.pairs, self.matches, self.one_framework = pairs, matches, one_framework
        self.units = (target, golden)
        self.rows: list[RowPair] = []
        self.taken = bytearray(target.rows), bytearray(golden.rows)
        self.votes: dict[Hashable, Counter[str]] = defaultdict(Counter)
        paired = [pair.target.place for pair in pairs], [pair.golden.place for pair in pairs]
        self.is_behind = [
            ops_behind(unit, side, partner)
            for unit, side, partner in zip(self.units, matches.sides, matches.partner, strict=True)
        ]
        self.neighbours = [Neighbours(unit.ops, places) for unit, places in zip(self.units, paired, strict=True)]

    @cached_property
    def pair_of(self) -> dict[Op, Pair]:
        """The pair of each paired op."""
        return {op: pair for pair in self.pairs for op in (pair.target, pair.golden)}

    @cached_property
    def evidence(self) -> list[tuple[str, ...]]:
        """The evidence of each pair of ops."""
        return [_op_evidence(pair) for pair in self.pairs]

    @cached_property
    def return_others(self) -> list[bool]:
        """Whether each pair of backward ops carries gradients of different tensors, see `gradients.return_others`."""
        return return_others(self.pairs, self.units, self.matches.sides)

    @cached_property
    def forms(self) -> tuple[_Forms, _Forms]:
        """The forms of the ops of both sides."""
        return _Forms(self.units[0]), _Forms(self.units[1])

    def open_pairs(self, by_value: bool) -> Iterator[int]:
        """Yield the indexes of the pairs that have unpaired leaves on both sides, see `open_ops`."""
        ours, theirs = self.open_ops(by_value)
        for number, pair in enumerate(self.pairs):
            if ours[pair.target.place] and theirs[pair.golden.place]:
                yield number

    def open_ops(self, by_value: bool) -> list[list[bool]]:
        """Return for each op of both sides whether it has an unpaired leaf.

        With `by_value`, a leaf counts only if a tensor of the other run agrees with it.
        """
        found = []
        for unit, taken, side, agrees in zip(
            self.units, self.taken, self.matches.sides, self.matches.agrees, strict=True
        ):
            op = unit.columns.op.copy()
            if by_value:
                tensor = side.of_leaf >= 0
                op[tensor] = numpy.where(agrees[side.of_leaf[tensor]], op[tensor], -1)
            found.append(_has_free(unit, taken, op, len(unit.ops)))
        return found

    def add(self, leaf: Leaf, other: Leaf, confidence: float, *evidence: str) -> None:
        if self.taken[0][leaf.row] or self.taken[1][other.row]:
            return
        self.rows.append(_row_pair(leaf, other, confidence, evidence))
        self.taken[0][leaf.row] = self.taken[1][other.row] = 1

    def free(self, pair: Pair) -> tuple[list[Leaf], list[Leaf]]:
        ours, theirs = self.taken
        return (
            [leaf for leaf in pair.target.leaves if not ours[leaf.row]],
            [leaf for leaf in pair.golden.leaves if not theirs[leaf.row]],
        )

    def by_tensor(self) -> None:
        """Pair leaves that show one tensor in one role: first those in equal slots, then the others in order.

        It handles all pairs of ops at once, because two similar units are mostly settled here.
        """
        ops = [pair.target.place for pair in self.pairs], [pair.golden.place for pair in self.pairs]
        (number, leaf), (other_number, other) = (
            leaves_of(unit, places, side.of_leaf)
            for unit, side, places in zip(self.units, self.matches.sides, ops, strict=True)
        )
        columns = [unit.columns for unit in self.units]
        codes = Codes()
        plain = [_plain_slots(unit, codes) for unit in self.units]
        tensor = self.matches.partner[0][self.matches.sides[0].of_leaf[leaf]]
        number, leaf, tensor = number[tensor >= 0], leaf[tensor >= 0], tensor[tensor >= 0]
        keys = (number, columns[0].role[leaf], tensor, plain[0][leaf])
        other_keys = (
            other_number, columns[1].role[other], self.matches.sides[1].of_leaf[other], plain[1][other],
        )  # fmt: skip
        ours, theirs = _joined(keys, other_keys)
        left, other_left = _others(ours, len(leaf)), _others(theirs, len(other))
        more, other_more = _joined([key[left] for key in keys[:3]], [key[other_left] for key in other_keys[:3]])
        ours, theirs = numpy.concatenate((ours, left[more])), numpy.concatenate((theirs, other_left[other_more]))
        order = numpy.argsort(leaf[ours])
        ours, theirs = ours[order], theirs[order]
        number, leaf, other = number[ours], leaf[ours], other[theirs]
        self.add_all(number, leaf, other, [_sure(pair) for pair in self.pairs])
        self.count_votes(number, leaf, other, plain, list(codes))

    def add_all(self, number: Numbers, leaf: Numbers, other: Numbers, confidence: Sequence[float]) -> None:
        """Pair leaves, given by index, with the indexes of their op pairs and the confidence of each of these."""
        same = are_same_values(self.units[0].columns, leaf, self.units[1].columns, other).tolist()
        ones, others = ([unit.leaves[each] for each in of_side.tolist()]
                        for unit, of_side in zip(self.units, (leaf, other), strict=True))  # fmt: skip
        for one, two, place, agrees in zip(ones, others, number.tolist(), same, strict=True):
            layout = layouts.of_pair(one, two)
            reasons = (*((_value(one, two),) if agrees else ()), layout, *self.evidence[place])
            self.rows.append(_row_pair(one, two, confidence[place], reasons))
        for taken, unit, settled in zip(self.taken, self.units, (leaf, other), strict=True):
            numpy.frombuffer(taken, dtype=numpy.uint8)[unit.columns.row[settled]] = 1

    def count_votes(
        self, number: Numbers, leaf: Numbers, other: Numbers, plain: Sequence[Numbers], slots: list[str]
    ) -> None:
        """Count what paired leaves say about slots, given the indexes of their op pairs."""
        voters = Codes()
        voter = numpy.array([
            voters[pair.target.kind == "api", pair.target.family, pair.golden.family, pair.target.direction]
            for pair in self.pairs
        ], dtype=numpy.int64)  # fmt: skip
        is_parameter = numpy.isin(self.units[0].columns.role[leaf], _PARAMETERS)
        ballots = (voter[number], is_parameter, plain[0][leaf], plain[1][other])
        _, first, count = numpy.unique(row_codes(*ballots), return_index=True, return_counts=True)
        for place, votes in zip(first.tolist(), count.tolist(), strict=True):
            ballot = _ballot(self.pairs[number[place]], self.units[0].leaves[leaf[place]])
            self.votes[ballot][slots[plain[1][other[place]]]] += votes

    def sights(self, tensors: Iterable[tuple[Tensor, Tensor]], confidence: float, why: str) -> None:
        """Pair the remaining leaves of matched tensors: each sight on one side with the next fitting one on the other.

        Ops that compute nothing are left out, because what they pass on is compared where it is used. So are inputs of
        an op that differs from its counterpart, which may take another tensor at the same place.
        """
        ours, theirs = self.taken
        is_seen_free = [
            _has_free(unit, taken, side.of_leaf, len(side.all))
            for unit, taken, side in zip(self.units, self.taken, self.matches.sides, strict=True)
        ]
        for tensor, partner in tensors:
            if not (is_seen_free[0][tensor.number] and is_seen_free[1][partner.number]):
                continue
            left = self.telling(leaf for leaf in partner.sights if not theirs[leaf.row])
            for leaf in self.telling(leaf for leaf in tensor.sights if not ours[leaf.row]):
                fitting = (
                    (other.op.family != leaf.op.family, abs(place - len(left)), place)
                    for place, other in enumerate(left)
                    if (other.role, other.op.kind, other.op.direction) == (leaf.role, leaf.op.kind, leaf.op.direction)
                )
                best = min(fitting, default=None)
                if best is not None:
                    other = left.pop(best[2])
                    self.add(leaf, other, confidence, *_values(leaf, other), layouts.of_pair(leaf, other), why)

    def taken_alike(self) -> list[tuple[Tensor, Tensor]]:
        """Return the tensors without a counterpart that paired ops take at the same place, and only there.

        So the results of steps pair whose inside nothing else in the two programs has in common.
        """
        found: dict[Tensor, set[Tensor]] = defaultdict(set)
        backwards: dict[Tensor, set[Tensor]] = defaultdict(set)
        for row in self.rows:
            ours, theirs = row.target.tensor, row.golden.tensor
            is_taken = row.target.role == "input" and row.target.op.direction == "forward"
            if is_taken and ours is not None and theirs is not None and ours.like is None and theirs.like is None:
                found[ours].add(theirs)
                backwards[theirs].add(ours)
        return [
            (tensor, other)
            for tensor, others in found.items()
            for other in others
            if len(others) == len(backwards[other]) == 1
        ]

    def telling(self, sights: Iterable[Leaf]) -> list[Leaf]:
        """Return the sights of a tensor that tell of its other sights.

        A cast is not recorded. So an op that hands on what it casts may be the only one that gives the tensor.
        """
        found = list(sights)
        told = [leaf for leaf in found if not self.tells_nothing(leaf)]
        if any(leaf.role == "output" and leaf.op.kind == "api" for leaf in told):
            return told
        handed_on = (leaf for leaf in found if leaf.role == "output" and leaf.op.carries and not leaf.op.is_view)
        return told + [leaf for leaf in handed_on if leaf.op.direction == "forward"]

    def tells_nothing(self, leaf: Leaf) -> bool:
        """Return whether this sight of a tensor says nothing about its other sights."""
        return _hands_on(leaf) or (leaf.role == "input" and self.differs(leaf.op))

    def differs(self, op: Op) -> bool:
        """Return whether `op` differs from its counterpart of the same kind."""
        pair = self.pair_of.get(op)
        return pair is not None and relation(pair.target, pair.golden) >= _WHOLE and self.are_behind(pair)

    def by_value(self) -> None:
        """Pair leaves of equal statistics and shape: first in equal slots, then where only one such pair exists."""
        for number in self.open_pairs(by_value=True):
            self.by_value_in(self.pairs[number])

    def by_value_in(self, pair: Pair) -> None:
        for wanted in (_same_slot, None):
            ours, theirs = self.free(pair)
            alike = {
                leaf.row: [
                    other
                    for other in theirs
                    if _fits(leaf, other) and same_values(leaf, other) and not excludes(leaf, other)
                ]
                for leaf in ours
            }
            if not any(alike.values()):
                return
            rivals = Counter(other.row for others in alike.values() for other in others)
            for leaf in ours:
                others = alike[leaf.row]
                if wanted is not None:
                    others = [other for other in others if wanted(leaf, other)]
                elif len(others) != 1 or rivals[others[0].row] != 1:
                    others = []
                if others:
                    self.votes[_ballot(pair, leaf)][_plain(others[0])] += 1
                    self.add(leaf, others[0], _sure(pair), *_why(pair, leaf, others[0]))

    def by_slot(self, layout: Callable[[Leaf], Hashable]) -> None:
        """Pair leaves of equal `layout` whose values differ, downstream of a defect.

        The slots that equal values showed decide, or else equal slots. Ops of the same forms have the same slots, so
        these are worked out once for all of their pairs.
        """
        found = [
            (number, leaf.place, other.place)
            for alike in self.alike()
            for plan in [list(self.plan(self.pairs[alike[0]], layout))]
            for number in alike
            if plan and not self.return_others[number]
            for leaf, other in self.planned(self.pairs[number], plan)
        ]
        number, ours, theirs = numpy.array(found, dtype=numpy.int64).reshape(-1, 3).T
        self.add_all(number, ours, theirs, [0.9 if pair.how in _BY_PATH else 0.85 for pair in self.pairs])

    def alike(self) -> Iterable[list[int]]:
        """Return the open pairs, by index, in groups whose ops have the same kinds, slots, shapes and free leaves."""
        groups: dict[Hashable, list[int]] = defaultdict(list)
        free = [numpy.frombuffer(taken, dtype=numpy.uint8)[unit.columns.row].tobytes()
                for taken, unit in zip(self.taken, self.units, strict=True)]  # fmt: skip
        for number in self.open_pairs(by_value=False):
            pair = self.pairs[number]
            forms = self.forms[0].of(pair.target, free[0]), self.forms[1].of(pair.golden, free[1])
            groups[pair.how in _BY_PATH, *forms].append(number)
        return groups.values()

    def plan(self, pair: Pair, layout: Callable[[Leaf], Hashable]) -> Iterator[_Group]:
        """Yield the groups of free leaves that may pair in `pair`, and in all pairs of ops of the same forms."""
        if not (pair.how in _BY_PATH or _are_one_kind(pair)):
            return
        roles = dict.fromkeys(leaf.role for leaf in pair.target.leaves)
        if pair.target.direction == "backward" and take_other_sizes(pair):
            roles.pop("output", None)
        for role in roles:
            begun = any(leaf.role == role and self.taken[0][leaf.row] for leaf in pair.target.leaves)
            is_hooked = not (self.one_framework or begun) and is_gradient(pair, role, "api")
            is_shared = is_gradient(pair, role, "module")
            if (is_hooked or is_shared) and _forms(pair.target, role) != _forms(pair.golden, role):
                continue
            for ours, theirs in self.groups(pair, role, layout):
                named = self.by_names(pair, ours, theirs)
                done = {leaf.place for leaf, _ in named}, {other.place for _, other in named}
                rest = [[leaf for leaf in side if leaf.place not in of_side]
                        for side, of_side in zip((ours, theirs), done, strict=True)]  # fmt: skip
                if any(self.vote(pair, leaf) for leaf in rest[0]):
                    rest = [[], []]
                yield _Group(
                    is_hooked,
                    [(_index(leaf), _index(other)) for leaf, other in named],
                    [_index(leaf) for leaf in rest[0]],
                    [_index(leaf) for leaf in rest[1]],
                )

    def planned(self, pair: Pair, plan: Sequence[_Group]) -> Iterator[tuple[Leaf, Leaf]]:
        """Yield the leaves of a pair that pair by `plan`. Slots propose, values decide.

        Another order of the slots wins if it fits far better.
        """
        is_nowhere = pair.how not in (SEQUENCE, *_BY_PATH) and self.matches.are_rootless(pair.target, pair.golden)
        is_sure = self.are_behind(pair)
        ours, theirs = pair.target.leaves, pair.golden.leaves
        used: set[int] = set()  # votes may propose one slot of golden for two of the target: the first has it
        for group in plan:
            if group.is_hooked and take_the_same(pair):
                continue
            found = [(ours[index], theirs[other]) for index, other in group.named]
            found += nearest([ours[index] for index in group.rest], [theirs[index] for index in group.other_rest])
            for leaf, other in fitting_better(found) or found:
                if other.place in used or is_partial(leaf) or is_partial(other):
                    continue
                if are_on_two_ways(leaf, other) or are_gradients_on_two_ways(leaf, other):
                    continue
                if is_nowhere and distance(leaf, other) > _FAR:
                    continue
                if is_sure or not excludes(leaf, other) or self.is_proposed(pair, leaf, other):
                    used.add(other.place)
                    yield leaf, other

    def are_behind(self, pair: Pair) -> bool:
        """Return whether all outputs of both ops are absent from the other run, and lead to nothing that agrees."""
        return self.is_behind[0][pair.target.place] and self.is_behind[1][pair.golden.place]

    def groups(self, pair: Pair, role: str, layout: Callable[[Leaf], Hashable]) -> list[tuple[list[Leaf], list[Leaf]]]:
        """Return the free leaves of one role in groups of equal `layout` that both sides have."""
        ours, theirs = ([leaf for leaf in side if leaf.role == role] for side in self.free(pair))
        if not (ours and theirs):
            return []
        groups: dict[Hashable, tuple[list[Leaf], list[Leaf]]] = defaultdict(lambda: ([], []))
        for number, side in enumerate((ours, theirs)):
            for leaf in side:
                groups[layout(leaf)][number].append(leaf)
        return [group for group in groups.values() if all(group)]

    def by_names(self, pair: Pair, ours: list[Leaf], theirs: list[Leaf]) -> list[tuple[Leaf, Leaf]]:
        """Return pairs by the slots of equal values, by arguments, or by equal slots."""
        slots = {_plain(other): other for other in theirs}
        voted = [(leaf, slots.get(self.vote(pair, leaf) or "")) for leaf in ours]
        sure = [(leaf, other) for leaf, other in voted if other is not None]
        if sure:
            done = {leaf.row for pairs in sure for leaf in pairs}
            rest = [leaf for leaf in ours if leaf.row not in done], [leaf for leaf in theirs if leaf.row not in done]
            return sure + self.by_names(pair, *rest)
        if any(self.vote(pair, leaf) for leaf in ours):
            return []
        named = {_argument(other): other for other in theirs}
        if None not in named and all(_argument(leaf) in named for leaf in ours):
            return [(leaf, named[_argument(leaf)]) for leaf in ours]
        own = {_plain(leaf) for leaf in ours}
        if own == set(slots) or (own <= set(slots) and pair.target.family == pair.golden.family):
            return [(leaf, slots[_plain(leaf)]) for leaf in ours]
        return [(ours[0], theirs[0])] if len(ours) == len(theirs) == 1 else []

    def is_proposed(self, pair: Pair, leaf: Leaf, other: Leaf) -> bool:
        """Return whether the ops agree by slot and the slots support the pair.

        They do as equal values showed elsewhere, else if they are equal.
        """
        if pair.how != SEQUENCE and not agree_by_slot(pair.target, pair.golden):
            return False
        vote = self.vote(pair, leaf)
        return _same_slot(leaf, other) if vote is None else vote == _plain(other)

    def vote(self, pair: Pair, leaf: Leaf) -> str | None:
        votes = self.votes.get(_ballot(pair, leaf))
        if not votes:
            return None
        slot, count = votes.most_common(1)[0]
        return slot if count >= _SURE_VOTE * votes.total() else None

    def around(self, by_value: bool) -> None:
        """Pair what is left of an op with leaves of unpaired ops that its tensors flow from and to, on either side."""
        ours, theirs = self.open_ops(by_value)
        for number, pair in enumerate(self.pairs):
            are_open = ours[pair.target.place], theirs[pair.golden.place]
            if pair.target.kind == "module" or not any(are_open):
                continue
            for side, op in enumerate((pair.target, pair.golden)):
                if not are_open[not side] or not (are_open[side] or len(self.neighbours[side].parts(op)) > 1):
                    continue
                offers = self.offered(op, side)
                if offers and (by_value or not self.return_others[number]):
                    free = self.free(pair)[not side]
                    alike = Counter() if by_value else Counter(map(_fitting, free))
                    for leaf in free:
                        if alike[_fitting(leaf)] <= 1:  # among several of a shape, the shape says nothing
                            self.fill(pair, leaf, offers, by_value, side == 1)

    def offered(self, op: Op, side: int) -> list[Leaf]:
        """Return the external inputs of `op` and its parts, and the outputs of its parts. Views are left out."""
        computing = [part for part in self.neighbours[side].parts(op) if not part.is_view]
        taken = self.taken[side]
        free = [
            leaf
            for part in computing
            for leaf in part.leaves
            if not taken[leaf.row] and not (part is op and leaf.role == "output")
        ]
        if not free:
            return []
        within = {"input": shown(computing, "output"), "output": shown(computing, "input")}
        return [leaf for leaf in free if leaf.view not in within.get(leaf.role, ())]

    def fill(self, pair: Pair, leaf: Leaf, offers: list[Leaf], by_value: bool, ours: bool) -> None:
        """Pair `leaf` with one of `offers` from the other side.

        It belongs to the target's op if `ours`, else to golden's.
        """
        used = self.taken[ours]
        opposite = pair.golden if ours else pair.target
        fitting = [
            other
            for other in offers
            if not used[other.row]
            and _fitting(leaf) == _fitting(other)
            and (leaf.role == "output" or (leaf.tensor is None) == (other.tensor is None))
            and (not by_value or (leaf.tensor is not None and same_values(leaf, other)))
            and not excludes(*((leaf, other) if ours else (other, leaf)))
        ]
        if by_value:
            fitting.sort(key=lambda other: abs(other.op.seq - opposite.seq))
        elif (
            len(fitting) != 1
            or self.matches.are_rootless(leaf.op, fitting[0].op)
            or (leaf.role == "output" and leaf.op.direction == "backward")
            or (not self.are_behind(pair) and distance(leaf, fitting[0]) > NEAR)
        ):
            return
        if not fitting or self.taken[not ours][leaf.row]:
            return
        first, second = (leaf, fitting[0]) if ours else (fitting[0], leaf)
        confidence = 0.92 if by_value else 0.7
        why = *_values(first, second), layouts.of_pair(first, second), f"a part of {leaf.op.family}"
        self.add(first, second, confidence, *why)

    def scalars(self, pair: Pair) -> None:
        """Pair scalars with an equal argument or slot and an equal value, or another one in a call that is the same."""
        if relation(pair.target, pair.golden) < _WHOLE:
            return
        slots = {leaf.slot: leaf for leaf in pair.golden.scalars}
        named = {name: leaf for leaf in pair.golden.scalars if (name := _argument(leaf)) is not None}
        for leaf in pair.target.scalars:
            other = named.get(_argument(leaf) or "") or slots.get(leaf.slot)
            if other is None or leaf.value is None:
                continue
            if other.value == leaf.value:
                self.add(leaf, other, 0.95, f"same value {leaf.value}", *_op_evidence(pair))
            elif _are_telling(leaf, other) and self.is_same_call(pair):
                self.add(leaf, other, 0.9, "the same argument", *_op_evidence(pair))

    def is_same_call(self, pair: Pair) -> bool:
        """Return whether a call of one API in the forward pass takes and gives the same tensors in both runs.

        Optimizers divide their factors in different ways among the calls.
        """
        one, two = pair.target, pair.golden
        if one.framework != two.framework or not _are_of_one_api(one, two):
            return False
        if one.direction != "forward" or one.seq > self.first_backward:
            return False
        return len(one.leaves) == len(two.leaves) and all(self.golden_op.get(leaf.row) is two for leaf in one.leaves)

    @cached_property
    def first_backward(self) -> float:
        """The place of the target's first backward call."""
        return min((op.seq for op in self.units[0].ops if op.direction != "forward"), default=math.inf)

    @cached_property
    def golden_op(self) -> dict[int, Op]:
        """The op of the golden row of each row that was paired before scalars were."""
        return {row.target.row: row.golden.op for row in self.rows}


class _Forms:
    """What the ops of one side have in common with others of their form: their kind, and the form of each leaf."""

    def __init__(self, unit: Unit) -> None:
        columns = unit.columns
        self.leaves = row_codes(columns.slot, columns.role, columns.shape, columns.kind).tolist()

    def of(self, op: Op, free: bytes) -> Hashable:
        """Return a key that is equal for ops of one form with the same free leaves; `free` says it of all leaves."""
        start = op.leaves[0].place
        end = start + len(op.leaves)
        path = op.path if op.kind == "api" else ""
        return (op.kind, op.direction, op.family, path, tuple(self.leaves[start:end]), free[start:end])


_PARAMETERS = [place for place, role in enumerate(ROLES) if role.startswith("parameters")]


def _plain_slots(unit: Unit, codes: Codes) -> Numbers:
    """Return for each leaf the code of its slot in golden's words."""
    table = [[codes[_plain_slot(slot, role)] for role in ROLES] for slot in unit.slots]
    return numpy.array(table, dtype=numpy.int64).reshape(-1, len(ROLES))[unit.columns.slot, unit.columns.role]


def _joined(ours: Sequence[Numbers], theirs: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
    """Return the indexes of rows with equal keys.

    Among equal keys, the k-th of one side pairs with the k-th of the other.
    """
    keys = equal_rows(*(numpy.concatenate(columns) for columns in zip(ours, theirs, strict=True)))
    mine, others = _ranked(keys[: len(ours[0])], len(keys)), _ranked(keys[len(ours[0]) :], len(keys))
    _, one, two = numpy.intersect1d(mine, others, assume_unique=True, return_indices=True)
    return one, two


def _others(places: Numbers, count: int) -> Numbers:
    """Return the numbers below `count` that are not in `places`."""
    is_other = numpy.ones(count, dtype=bool)
    is_other[places] = False
    return numpy.flatnonzero(is_other)


def _ranked(keys: Numbers, width: int) -> Numbers:
    """Return the keys, made unique by the number of equal keys before them. There are at most `width` equal keys."""
    order = numpy.argsort(keys, kind="stable")
    _, start, count = numpy.unique(keys[order], return_index=True, return_counts=True)
    rank = numpy.empty(len(keys), dtype=numpy.int64)
    rank[order] = numpy.arange(len(keys)) - numpy.repeat(start, count)
    return keys * width + rank


def _has_free(unit: Unit, taken: bytearray, group: Numbers, count: int) -> list[bool]:
    """Return for each of `count` groups of leaves whether one of its leaves is free. Group -1 is not a group."""
    is_free = (numpy.frombuffer(taken, dtype=numpy.uint8)[unit.columns.row] == 0) & (group >= 0)
    has_free: list[bool] = contained(group[is_free], count).tolist()
    return has_free


def _argument(leaf: Leaf) -> str | None:
    """Return the name of the argument that `leaf` is, if a signature has it."""
    op = leaf.op
    return argument(op.framework, op.name, leaf.slot) if leaf.role == "input" and op.kind == "api" else None


def _fitting(leaf: Leaf) -> Hashable:
    """Return what a leaf shares with those that may be its counterpart."""
    return leaf.role, leaf.kind, leaf.elements


def _shape(leaf: Leaf) -> Hashable:
    return (leaf.shape, leaf.kind)


def _elements(leaf: Leaf) -> Hashable:
    return (leaf.elements, leaf.kind)


def _are_one_kind(pair: Pair) -> bool:
    """Return whether two ops are of one kind, or are related and have the same sizes. Then only their names differ."""
    if relation(pair.target, pair.golden) >= _WHOLE:
        return True
    forms = [Counter((leaf.role, leaf.elements, leaf.kind) for leaf in op.leaves) for op in (pair.target, pair.golden)]
    return relation(pair.target, pair.golden) > 0 and forms[0] == forms[1]


def _are_of_one_api(one: Op, two: Op) -> bool:
    return one.kind == two.kind == "api" and one.path == two.path


def _are_telling(leaf: Leaf, other: Leaf) -> bool:
    """Return whether two scalars say how a call computes: numbers with a point, as epsilons but not axes, or words."""
    return any(all(form.fullmatch(each.value or "") for each in (leaf, other)) for form in (_FRACTION, _WORD))


def _hands_on(leaf: Leaf) -> bool:
    """Return whether the leaf's op does not compute its tensor: a view, a query, or an output that is an input."""
    return leaf.op.is_view or leaf.op.is_query or (leaf.role == "output" and leaf.op.carries)


def _forms(op: Op, role: str) -> Counter[Hashable]:
    return Counter(_shape(leaf) for leaf in op.leaves if leaf.role == role)


def _fits(leaf: Leaf, other: Leaf) -> bool:
    return leaf.role == other.role and leaf.shape == other.shape and leaf.kind == other.kind


def _plain(leaf: Leaf) -> str:
    """Return the slot in golden's words: parameters.gamma → weight, also for the gradient of gamma."""
    return _plain_slot(leaf.slot, leaf.role)


@lru_cache(maxsize=65536)
def _plain_slot(slot: str, role: str) -> str:
    name = slot.removeprefix("parameters.")
    return slot_name(name) if role.startswith("parameters") else name


def _same_slot(leaf: Leaf, other: Leaf) -> bool:
    return _plain(leaf) == _plain(other)


def _ballot(pair: Pair, leaf: Leaf) -> Hashable:
    """Return the key of a vote on a slot: both kinds of op and the direction, which is the same for all parameters."""
    direction = "parameters" if leaf.role.startswith("parameters") else pair.target.direction
    return (pair.target.kind == "api", pair.target.family, pair.golden.family, direction, _plain(leaf))


def _index(leaf: Leaf) -> int:
    """Return the index of a leaf in its op."""
    return leaf.place - leaf.op.leaves[0].place


def _row_pair(leaf: Leaf, other: Leaf, confidence: float, evidence: tuple[str, ...]) -> RowPair:
    """Return the pair of two rows, which is certain if their names are the same."""
    if leaf.slot == other.slot and leaf.op.name == other.op.name:
        return RowPair(leaf, other, 1.0, ("same name", *evidence))
    return RowPair(leaf, other, confidence, evidence)


def _values(leaf: Leaf, other: Leaf) -> list[str]:
    return [_value(leaf, other)] if same_values(leaf, other) else []


def _value(leaf: Leaf, other: Leaf) -> str:
    """Return what two leaves with equal values have in common."""
    if leaf.digest is not None and leaf.digest == other.digest:
        return f"same digest {leaf.digest}"
    if leaf.norm is not None and other.norm is not None:
        return f"same norm {leaf.norm:.4g}"
    return f"same max {leaf.max:.4g} and min {leaf.min:.4g}"


def _why(pair: Pair, leaf: Leaf, other: Leaf) -> list[str]:
    return [*_values(leaf, other), layouts.of_pair(leaf, other), *_op_evidence(pair)]


def _sure(pair: Pair) -> float:
    """Return the confidence of two rows with equal values."""
    return 0.98 if relation(pair.target, pair.golden) else 0.95


def _op_evidence(pair: Pair) -> tuple[str, ...]:
    if pair.how in _BY_PATH:
        return (pair.how,)
    if pair.target.family == pair.golden.family:
        return f"same op {pair.golden.family}", pair.how
    return f"{pair.target.family} is {pair.golden.family}", pair.how
