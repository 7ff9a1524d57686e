"""Pairs the rows of aligned ops: by value first, so that permuted arguments find each other, then by slot and shape.

One op of a framework may be several of the other (MatMul, BiasAdd and Reshape are a linear). What an op pair leaves
over is therefore looked for in the unpaired ops around it that its tensors flow from and to.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import permutations

import numpy

from lakeprobe.mapping import layouts
from lakeprobe.mapping.align import SEQUENCE, Pair
from lakeprobe.mapping.known import argument, slot_name
from lakeprobe.mapping.ops import Leaf, Op, distance, relation, same_values
from lakeprobe.mapping.tensors import (
    Matches,
    Tensor,
    agree_by_slot,
    differ,
    excludes,
    is_evidence,
    is_partial,
    spread,
)
from lakeprobe.mapping.tensors import same_values as are_same_values
from lakeprobe.mapping.units import ROLES, Codes, Numbers, Unit, equal_rows

_WINDOW = 12
"""How many unpaired ops before and after an op may be parts of it."""

_SURE_VOTE = 0.8
"""Share of the op pairs with equal values that must agree on a slot before others follow."""

_NEAR = 0.01
"""How far apart in all the leaves of an op may be, so that no other order of them is looked for."""

_FAR = 0.1
"""How far apart leaves may be whose ops have nothing in common that both runs have."""

_MOST_PERMUTED = 4
"""Leaves of one shape up to which all ways to pair them are weighed."""


@dataclass(eq=False, slots=True)
class RowPair:
    """A target row and the golden row it is held to be, how sure that is (0 to 1), and why."""

    target: Leaf
    golden: Leaf
    confidence: float
    evidence: tuple[str, ...]


def pair_rows(
    pairs: Sequence[Pair], target: Unit, golden: Unit, matches: Matches, one_framework: bool = False
) -> list[RowPair]:
    """The rows that pair in `pairs` and around them, in the target's order; each row at most once.

    In one framework a backward op puts out the same gradients on both sides, whatever their values say.
    """
    found = _Rows(pairs, target, golden, matches, one_framework)
    found.by_tensor()
    found.each(found.by_value)
    found.around(by_value=True)
    found.sights(matches.pairs(), 0.92, "the same tensor in another op")
    found.sights(matches.presumed_pairs(), 0.8, "made of the same")
    found.each(found.by_slot)
    found.around(by_value=False)
    for pair in pairs:
        if pair.target.scalars and pair.golden.scalars:
            found.scalars(pair)
    return sorted(found.rows, key=lambda row: row.target.row)


_BY_PATH = ("same module path", "paired module")

_WHOLE = 3.0
"""A relation of two ops that are of one kind, not one a part of the other."""


class _Rows:
    """The rows paired so far, and what equal values said about the slots."""

    def __init__(
        self, pairs: Sequence[Pair], target: Unit, golden: Unit, matches: Matches, one_framework: bool
    ) -> None:
        self.pairs, self.matches, self.one_framework = pairs, matches, one_framework
        self.units = (target, golden)
        self.rows: list[RowPair] = []
        self.taken = bytearray(target.rows), bytearray(golden.rows)
        self.votes: dict[Hashable, Counter[str]] = defaultdict(Counter)
        paired = [pair.target.place for pair in pairs], [pair.golden.place for pair in pairs]
        self.neighbours = [_Neighbours(unit.ops, places) for unit, places in zip(self.units, paired, strict=True)]

    @cached_property
    def pair_of(self) -> dict[Op, Pair]:
        """The pair of each op that has one."""
        return {op: pair for pair in self.pairs for op in (pair.target, pair.golden)}

    def each(self, step: Callable[[Pair], None]) -> None:
        """Take a step with every pair of which both sides have something left; a step takes from its own pair only."""
        ours, theirs = self.open_ops()
        for pair in self.pairs:
            if ours[pair.target.place] and theirs[pair.golden.place]:
                step(pair)

    def open_ops(self) -> tuple[list[bool], list[bool]]:
        """Per op of both sides whether a leaf of it is left."""
        ours, theirs = (
            _has_free(unit, taken, unit.columns.op, len(unit.ops))
            for unit, taken in zip(self.units, self.taken, strict=True)
        )
        return ours, theirs

    def add(self, leaf: Leaf, other: Leaf, confidence: float, *evidence: str) -> None:
        if self.taken[0][leaf.row] or self.taken[1][other.row]:
            return
        if leaf.slot == other.slot and leaf.op.name == other.op.name:
            confidence, evidence = 1.0, ("same name", *evidence)
        self.rows.append(RowPair(leaf, other, confidence, evidence))
        self.taken[0][leaf.row] = self.taken[1][other.row] = 1

    def free(self, pair: Pair) -> tuple[list[Leaf], list[Leaf]]:
        ours, theirs = self.taken
        return (
            [leaf for leaf in pair.target.leaves if not ours[leaf.row]],
            [leaf for leaf in pair.golden.leaves if not theirs[leaf.row]],
        )

    def by_tensor(self) -> None:
        """Leaves that show one tensor in one role; those in equal slots first, then in their order.

        All pairs of ops at once: this is most of two units that are alike.
        """
        ops = [pair.target.place for pair in self.pairs], [pair.golden.place for pair in self.pairs]
        (number, leaf), (other_number, other) = (
            _leaves_of(unit, places, side.of_leaf)
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
        self.settle(number[ours], leaf[ours], other[theirs], plain, list(codes))

    def settle(
        self, number: Numbers, leaf: Numbers, other: Numbers, plain: Sequence[Numbers], slots: list[str]
    ) -> None:
        """Pair the leaves of the pairs of ops of these numbers, and count what they say about the slots."""
        same = are_same_values(self.units[0].columns, leaf, self.units[1].columns, other).tolist()
        ones, others = ([unit.leaves[each] for each in of_side.tolist()]
                        for unit, of_side in zip(self.units, (leaf, other), strict=True))  # fmt: skip
        evidence = [_op_evidence(pair) for pair in self.pairs]
        sure = [_sure(pair) for pair in self.pairs]
        for one, two, place, agrees in zip(ones, others, number.tolist(), same, strict=True):
            layout = layouts.of_pair(one, two)
            reasons = (_value(one, two), layout, *evidence[place]) if agrees else (layout, *evidence[place])
            confidence = sure[place]
            if one.slot == two.slot and one.op.name == two.op.name:
                confidence, reasons = 1.0, ("same name", *reasons)
            self.rows.append(RowPair(one, two, confidence, reasons))
        for taken, unit, settled in zip(self.taken, self.units, (leaf, other), strict=True):
            numpy.frombuffer(taken, dtype=numpy.uint8)[unit.columns.row[settled]] = 1
        voters = Codes()
        voter = numpy.array([
            voters[pair.target.kind == "api", pair.target.family, pair.golden.family, pair.target.direction]
            for pair in self.pairs
        ], dtype=numpy.int64)  # fmt: skip
        is_parameter = numpy.isin(self.units[0].columns.role[leaf], _PARAMETERS)
        ballots = (voter[number], is_parameter, plain[0][leaf], plain[1][other])
        _, first, count = numpy.unique(equal_rows(*ballots), return_index=True, return_counts=True)
        for place, votes in zip(first.tolist(), count.tolist(), strict=True):
            ballot = _ballot(self.pairs[number[place]], ones[place])
            self.votes[ballot][slots[plain[1][other[place]]]] += votes

    def sights(self, tensors: Iterable[tuple[Tensor, Tensor]], confidence: float, why: str) -> None:
        """What is left of the tensors that are one: the next sight of one side with the next of the other.

        Ops that compute nothing are left out: what they hand on is compared where it is used. So is what an op takes in
        that differs from its counterpart: there another tensor may be at the same place.
        """
        ours, theirs = self.taken
        is_seen_free = [
            _has_free(unit, taken, side.of_leaf, len(side.all))
            for unit, taken, side in zip(self.units, self.taken, self.matches.sides, strict=True)
        ]
        for tensor, partner in tensors:
            if not (is_seen_free[0][tensor.number] and is_seen_free[1][partner.number]):
                continue
            free = [leaf for leaf in tensor.sights if not ours[leaf.row]]
            left = [leaf for leaf in partner.sights if not theirs[leaf.row] and not self.tells_nothing(leaf)]
            for leaf in free:
                if self.tells_nothing(leaf):
                    continue
                fitting = (
                    (other.op.family != leaf.op.family, abs(place - len(left)), place)
                    for place, other in enumerate(left)
                    if (other.role, other.op.kind, other.op.direction) == (leaf.role, leaf.op.kind, leaf.op.direction)
                )
                best = min(fitting, default=None)
                if best is not None:
                    other = left.pop(best[2])
                    self.add(leaf, other, confidence, *_values(leaf, other), layouts.of_pair(leaf, other), why)

    def tells_nothing(self, leaf: Leaf) -> bool:
        """Whether this sight of a tensor says nothing of its other sights."""
        return _hands_on(leaf) or (leaf.role == "input" and self.differs(leaf.op))

    def differs(self, op: Op) -> bool:
        """Whether `op` differs from its counterpart of the same kind."""
        pair = self.pair_of.get(op)
        return pair is not None and relation(pair.target, pair.golden) >= _WHOLE and differ(pair.target, pair.golden)

    def by_value(self, pair: Pair) -> None:
        """Leaves of equal statistics and shape; in equal slots first, then where there is only one such pair."""
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

    def by_slot(self, pair: Pair) -> None:
        """Leaves whose values differ (behind a defect): by the slots that equal values showed, else by equal slots."""
        known = pair.how in _BY_PATH
        if not (known or _are_one_kind(pair)) or _return_others(pair):
            return
        is_rootless = pair.how != SEQUENCE and not known and self.matches.are_rootless(pair.target, pair.golden)
        are_behind = differ(pair.target, pair.golden)
        agree = pair.how == SEQUENCE or agree_by_slot(pair.target, pair.golden)
        for role in dict.fromkeys(leaf.role for leaf in pair.target.leaves):
            begun = any(leaf.role == role and self.taken[0][leaf.row] for leaf in pair.target.leaves)
            if not (self.one_framework or begun) and _hooked_elsewhere(pair, role):
                continue
            for layout in (_shape, _elements):  # another layout of the same tensor comes after the same
                for left, right in self.groups(pair, role, layout):
                    for leaf, other in self.assigned(pair, left, right):
                        if is_partial(leaf) or is_partial(other):
                            continue
                        if is_rootless and distance(leaf, other) > _FAR:
                            continue
                        is_sure = are_behind or (agree and self.proposed(pair, leaf, other))
                        if is_sure or not excludes(leaf, other):
                            confidence = 0.9 if known else 0.85
                            self.add(leaf, other, confidence, *_why(pair, leaf, other))

    def groups(self, pair: Pair, role: str, layout: Callable[[Leaf], Hashable]) -> list[tuple[list[Leaf], list[Leaf]]]:
        """What is free of one role, by what `layout` says of it; both sides of each group."""
        groups: dict[Hashable, tuple[list[Leaf], list[Leaf]]] = defaultdict(lambda: ([], []))
        for number, side in enumerate(self.free(pair)):
            for leaf in side:
                if leaf.role == role:
                    groups[layout(leaf)][number].append(leaf)
        return list(groups.values())

    def assigned(self, pair: Pair, ours: list[Leaf], theirs: list[Leaf]) -> list[tuple[Leaf, Leaf]]:
        """Pairs among leaves of one role and shape; none where it might as well be another way.

        Slots propose, values decide: where another order fits far better, it is that.
        """
        found = self.by_names(pair, ours, theirs)
        permuted = _fitting_better(found)
        return permuted if permuted is not None else found

    def by_names(self, pair: Pair, ours: list[Leaf], theirs: list[Leaf]) -> list[tuple[Leaf, Leaf]]:
        """Pairs by the slots that equal values showed, by arguments, by equal slots, or by the least distance."""
        slots = {_plain(other): other for other in theirs}
        voted = [(leaf, slots.get(self.vote(pair, leaf) or "")) for leaf in ours]
        sure = [(leaf, other) for leaf, other in voted if other is not None]
        if len(sure) == len(ours):
            return sure
        if sure:
            done = {leaf.row for pairs in sure for leaf in pairs}
            rest = [leaf for leaf in ours if leaf.row not in done], [leaf for leaf in theirs if leaf.row not in done]
            return sure + self.by_names(pair, *rest)
        if any(self.vote(pair, leaf) for leaf in ours):
            return []
        named = {_argument(other): other for other in theirs}
        if None not in named and all(_argument(leaf) in named for leaf in ours):
            return [(leaf, named[_argument(leaf)]) for leaf in ours]
        if {_plain(leaf) for leaf in ours} == set(slots):
            return [(leaf, slots[_plain(leaf)]) for leaf in ours]
        if len(ours) == len(theirs) == 1:
            return [(ours[0], theirs[0])]
        if {_plain(leaf) for leaf in ours} <= set(slots) and pair.target.family == pair.golden.family:
            return [(leaf, slots[_plain(leaf)]) for leaf in ours]
        return _nearest(ours, theirs)

    def proposed(self, pair: Pair, leaf: Leaf, other: Leaf) -> bool:
        """Whether the slots speak for the two: by what equal values showed elsewhere, else by being equal."""
        vote = self.vote(pair, leaf)
        return _same_slot(leaf, other) if vote is None else vote == _plain(other)

    def vote(self, pair: Pair, leaf: Leaf) -> str | None:
        votes = self.votes.get(_ballot(pair, leaf))
        if not votes:
            return None
        slot, count = votes.most_common(1)[0]
        return slot if count >= _SURE_VOTE * votes.total() else None

    def around(self, by_value: bool) -> None:
        """What is left of an op in the unpaired ops that its tensors flow from and to, on either side."""
        ours, theirs = self.open_ops()
        for pair in self.pairs:
            are_open = ours[pair.target.place], theirs[pair.golden.place]
            if pair.target.kind == "module" or not any(are_open):
                continue
            left = self.free(pair)
            for side, op in enumerate((pair.target, pair.golden)):
                if are_open[not side] and (are_open[side] or self.neighbours[side].parts(op) != [op]):
                    offers = self.offered(op, side)
                    for leaf in left[not side] if offers else ():
                        self.fill(pair, leaf, offers, by_value, side == 1)

    def offered(self, op: Op, side: int) -> list[Leaf]:
        """What `op` and its parts take in from outside, and what its parts put out; a view computes nothing."""
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
        within = {"input": _shown(computing, "output"), "output": _shown(computing, "input")}
        return [leaf for leaf in free if leaf.view not in within.get(leaf.role, ())]

    def fill(self, pair: Pair, leaf: Leaf, offers: list[Leaf], by_value: bool, ours: bool) -> None:
        """Pair `leaf`, of the target's op if `ours` else of golden's, with what the other side's parts offer."""
        used = self.taken[ours]
        opposite = pair.golden if ours else pair.target
        fitting = [
            other
            for other in offers
            if not used[other.row]
            and leaf.elements == other.elements
            and leaf.role == other.role
            and leaf.kind == other.kind
            and (not by_value or (is_evidence(leaf) and same_values(leaf, other)))
            and not excludes(*((leaf, other) if ours else (other, leaf)))
        ]
        if by_value:
            fitting.sort(key=lambda other: abs(other.op.seq - opposite.seq))
        elif (
            len(fitting) != 1
            or self.matches.are_rootless(leaf.op, fitting[0].op)
            or (leaf.role == "output" and leaf.op.direction == "backward")
        ):
            return
        if not fitting or self.taken[not ours][leaf.row]:
            return
        first, second = (leaf, fitting[0]) if ours else (fitting[0], leaf)
        confidence = 0.92 if by_value else 0.7
        why = *_values(first, second), layouts.of_pair(first, second), f"a part of {leaf.op.family}"
        self.add(first, second, confidence, *why)

    def scalars(self, pair: Pair) -> None:
        """Scalars of equal argument or slot, and of equal value."""
        if relation(pair.target, pair.golden) < _WHOLE:
            return
        slots = {leaf.slot: leaf for leaf in pair.golden.scalars}
        named = {name: leaf for leaf in pair.golden.scalars if (name := _argument(leaf)) is not None}
        for leaf in pair.target.scalars:
            other = named.get(_argument(leaf) or "") or slots.get(leaf.slot)
            if other is not None and leaf.value is not None and other.value == leaf.value:
                self.add(leaf, other, 0.95, f"same value {leaf.value}", *_op_evidence(pair))


class _Neighbours:
    """The calls of one side in their order, and which unpaired ones are parts of a paired one."""

    def __init__(self, ops: Sequence[Op], paired: Sequence[int]) -> None:
        self.is_paired = bytearray(len(ops))
        for place in paired:
            self.is_paired[place] = 1
        self.calls: dict[str, list[Op]] = defaultdict(list)
        self.number = [-1] * len(ops)
        for op in ops:
            if op.kind == "api":
                calls = self.calls[op.direction]
                self.number[op.place] = len(calls)
                calls.append(op)
        self.known: dict[Op, list[Op]] = {}

    def parts(self, op: Op) -> list[Op]:
        """`op`, and the unpaired calls beside it that its inputs come from or its outputs go to, in their order."""
        if op not in self.known:
            self.known[op] = self.found(op) if self.number[op.place] >= 0 else [op]
        return self.known[op]

    def found(self, op: Op) -> list[Op]:
        number = self.number[op.place]
        before = self.unpaired(op, range(number - 1, max(0, number - _WINDOW) - 1, -1))
        behind = self.unpaired(op, range(number + 1, min(len(self.calls[op.direction]), number + 1 + _WINDOW)))
        sources = _connected(op, before, "input", "output") if before else []
        return [*sources[::-1], op, *(_connected(op, behind, "output", "input") if behind else [])]

    def unpaired(self, op: Op, numbers: Iterable[int]) -> list[Op]:
        """The calls of these numbers up to the first that is paired itself or belongs to another module."""
        calls, parent, found = self.calls[op.direction], op.parent, []
        for number in numbers:
            other = calls[number]
            if self.is_paired[other.place] or other.parent != parent:
                break
            found.append(other)
        return found


def _connected(op: Op, others: Sequence[Op], role: str, opposite: str) -> list[Op]:
    """Those of `others` that a way leads to from the tensors that `op` has in `role`."""
    flowing, found = _shown([op], role), []
    for other in others:
        if not flowing.isdisjoint(_shown([other], opposite)):
            found.append(other)
            flowing |= _shown([other], role)
    return found


def _shown(ops: Iterable[Op], role: str) -> set[int]:
    """What `ops` take in or put out, as far as the dump tells one tensor from another."""
    return {leaf.view for op in ops for leaf in op.leaves if leaf.role == role} - {-1}


_PARAMETERS = [place for place, role in enumerate(ROLES) if role.startswith("parameters")]


def _leaves_of(unit: Unit, ops: Sequence[int], of_leaf: Numbers) -> tuple[Numbers, Numbers]:
    """The leaves of these ops that show a tensor, and for each the place of its op in `ops`."""
    ends = numpy.searchsorted(unit.columns.op, numpy.arange(len(unit.ops) + 1))
    chosen = numpy.array(ops, dtype=numpy.int64)
    number, leaf = spread(ends[chosen], ends[chosen + 1])
    shows = of_leaf[leaf] >= 0
    return number[shows], leaf[shows]


def _plain_slots(unit: Unit, codes: Codes) -> Numbers:
    """Per leaf the code of its slot in golden's words."""
    table = [[codes[_plain_slot(slot, role)] for role in ROLES] for slot in unit.slots]
    return numpy.array(table, dtype=numpy.int64).reshape(-1, len(ROLES))[unit.columns.slot, unit.columns.role]


def _joined(ours: Sequence[Numbers], theirs: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
    """Places of rows with equal keys: of several with one key the k-th of one side and the k-th of the other."""
    keys = equal_rows(*(numpy.concatenate(columns) for columns in zip(ours, theirs, strict=True)))
    mine, others = _ranked(keys[: len(ours[0])], len(keys)), _ranked(keys[len(ours[0]) :], len(keys))
    _, one, two = numpy.intersect1d(mine, others, assume_unique=True, return_indices=True)
    return one, two


def _others(places: Numbers, count: int) -> Numbers:
    """The numbers below `count` that are not among `places`."""
    is_other = numpy.ones(count, dtype=bool)
    is_other[places] = False
    return numpy.flatnonzero(is_other)


def _ranked(keys: Numbers, width: int) -> Numbers:
    """The keys, each made one of its kind by how many of the same, of at most `width`, come before it."""
    order = numpy.argsort(keys, kind="stable")
    _, start, count = numpy.unique(keys[order], return_index=True, return_counts=True)
    rank = numpy.empty(len(keys), dtype=numpy.int64)
    rank[order] = numpy.arange(len(keys)) - numpy.repeat(start, count)
    return keys * width + rank


def _has_free(unit: Unit, taken: bytearray, group: Numbers, count: int) -> list[bool]:
    """Per group of leaves, of `count`, whether one of its leaves is not taken; a leaf of group -1 is in none."""
    is_free = (numpy.frombuffer(taken, dtype=numpy.uint8)[unit.columns.row] == 0) & (group >= 0)
    has_free: list[bool] = (numpy.bincount(group[is_free], minlength=count) > 0).tolist()
    return has_free


def _argument(leaf: Leaf) -> str | None:
    """The name of the argument that `leaf` is, where a signature tells."""
    op = leaf.op
    return argument(op.framework, op.name, leaf.slot) if leaf.role == "input" and op.kind == "api" else None


def _shape(leaf: Leaf) -> Hashable:
    return (leaf.shape, leaf.kind)


def _elements(leaf: Leaf) -> Hashable:
    return (leaf.elements, leaf.kind)


def _are_one_kind(pair: Pair) -> bool:
    """Whether two ops are of one kind, or are related and of the same sizes: one is the other under another name."""
    if relation(pair.target, pair.golden) >= _WHOLE:
        return True
    forms = [Counter((leaf.role, leaf.elements, leaf.kind) for leaf in op.leaves) for op in (pair.target, pair.golden)]
    return relation(pair.target, pair.golden) > 0 and forms[0] == forms[1]


def _return_others(pair: Pair) -> bool:
    """Whether two backward ops carry gradients of different tensors: their forward ops put out different ones."""
    if pair.target.forward is None or pair.golden.forward is None:
        return False
    made = [{leaf.tensor for leaf in op.leaves if leaf.role == "output" and leaf.tensor is not None}
            for op in (pair.target.forward, pair.golden.forward)]  # fmt: skip
    places = [{tensor.like for tensor in of_side if tensor.like is not None} for of_side in made]
    return any(found and found.isdisjoint(other) for found, other in zip(places, made[::-1], strict=True))


def _hands_on(leaf: Leaf) -> bool:
    """Whether its op computes nothing of the tensor that `leaf` shows: a view, a query, or an output that came in."""
    return leaf.op.is_view or leaf.op.is_query or (leaf.role == "output" and leaf.op.carries)


def _fitting_better(found: list[tuple[Leaf, Leaf]]) -> list[tuple[Leaf, Leaf]] | None:
    """Another order of the same leaves that leaves less than half of the distance; None if there is none."""
    if not 2 <= len(found) <= _MOST_PERMUTED:
        return None
    ours, theirs = zip(*found, strict=True)
    total = sum(distance(leaf, other) for leaf, other in found)
    if total < _NEAR:
        return None
    ways = [
        (sum(distance(leaf, other) for leaf, other in zip(ours, order, strict=True)), number, order)
        for number, order in enumerate(permutations(theirs))
    ]
    least, _, order = min(ways)
    return list(zip(ours, order, strict=True)) if least < 0.5 * total else None


def _nearest(ours: list[Leaf], theirs: list[Leaf]) -> list[tuple[Leaf, Leaf]]:
    """The way to pair these leaves that moves the statistics least, if it is far ahead of any other."""
    if len(ours) != len(theirs) or not 2 <= len(ours) <= _MOST_PERMUTED:
        return []
    ways = sorted(
        (sum(distance(leaf, other) for leaf, other in zip(ours, order, strict=True)), number, order)
        for number, order in enumerate(permutations(theirs))
    )
    return list(zip(ours, ways[0][2], strict=True)) if ways[0][0] < 0.5 * ways[1][0] else []


def _hooked_elsewhere(pair: Pair, role: str) -> bool:
    """Whether the gradients that a backward op puts out are those of something else than the other's.

    PyTorch's hook sits on the last node of what an API builds, so that its output may be an inner gradient: there are
    others in number or shape, or they differ although the same came in.
    """
    if pair.target.kind != "api" or pair.target.direction != "backward" or role != "output":
        return False
    shapes = [
        Counter((leaf.shape, leaf.kind) for leaf in op.leaves if leaf.role == role) for op in (pair.target, pair.golden)
    ]
    if shapes[0] != shapes[1]:
        return True
    inputs = {leaf.slot: leaf for leaf in pair.golden.leaves if leaf.role == "input"}
    came_in = [same_values(leaf, inputs[leaf.slot]) for leaf in pair.target.leaves if leaf.slot in inputs]
    return bool(came_in) and all(came_in)


def _fits(leaf: Leaf, other: Leaf) -> bool:
    return leaf.role == other.role and leaf.shape == other.shape and leaf.kind == other.kind


def _plain(leaf: Leaf) -> str:
    """The slot in golden's words: parameters.gamma → weight, and the gradient of gamma alike."""
    return _plain_slot(leaf.slot, leaf.role)


@lru_cache(maxsize=65536)
def _plain_slot(slot: str, role: str) -> str:
    name = slot.removeprefix("parameters.")
    return slot_name(name) if role.startswith("parameters") else name


def _same_slot(leaf: Leaf, other: Leaf) -> bool:
    return _plain(leaf) == _plain(other)


def _ballot(pair: Pair, leaf: Leaf) -> Hashable:
    """What a vote on a slot counts for: the two kinds of op and the direction, which is one for a parameter."""
    direction = "parameters" if leaf.role.startswith("parameters") else pair.target.direction
    return (pair.target.kind == "api", pair.target.family, pair.golden.family, direction, _plain(leaf))


def _values(leaf: Leaf, other: Leaf) -> list[str]:
    return [_value(leaf, other)] if same_values(leaf, other) else []


def _value(leaf: Leaf, other: Leaf) -> str:
    """What two leaves of equal values have in common."""
    if leaf.digest is not None and leaf.digest == other.digest:
        return f"same digest {leaf.digest}"
    if leaf.norm is not None and other.norm is not None:
        return f"same norm {leaf.norm:.4g}"
    return f"same max {leaf.max:.4g} and min {leaf.min:.4g}"


def _why(pair: Pair, leaf: Leaf, other: Leaf) -> list[str]:
    return [*_values(leaf, other), layouts.of_pair(leaf, other), *_op_evidence(pair)]


def _sure(pair: Pair) -> float:
    """How sure a pair of rows is that have equal values."""
    return 0.98 if relation(pair.target, pair.golden) else 0.95


def _op_evidence(pair: Pair) -> tuple[str, ...]:
    if pair.how in _BY_PATH:
        return (pair.how,)
    if pair.target.family == pair.golden.family:
        return f"same op {pair.golden.family}", pair.how
    return f"{pair.target.family} is {pair.golden.family}", pair.how
