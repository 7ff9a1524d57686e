"""Pairs the rows of aligned ops: by value first, so that permuted arguments find each other, then by slot and shape.

One op of a framework may be several of the other (MatMul, BiasAdd and Reshape are a linear). What an op pair leaves
over is therefore looked for in the unpaired ops around it that its tensors flow from and to.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

from lakeprobe.mapping.align import (
    RENAMED_SLOTS,
    Leaf,
    Op,
    Pair,
    distance,
    relation,
    same_values,
    statistics,
)

_WINDOW = 12
"""How many unpaired ops before and after an op may be parts of it."""

_SURE_VOTE = 0.8
"""Share of the op pairs with equal values that must agree on a slot before others follow."""

_MOST_PERMUTED = 4
"""Leaves of one shape up to which all ways to pair them are weighed."""


@dataclass(frozen=True, eq=False)
class RowPair:
    """A target row and the golden row it is held to be, how sure that is (0 to 1), and why."""

    target: Op
    golden: Op
    target_leaf: Leaf
    golden_leaf: Leaf
    confidence: float
    evidence: tuple[str, ...]

    @property
    def target_name(self) -> str:
        """The target row's name."""
        return f"{self.target.name}.{self.target_leaf.slot}"

    @property
    def golden_name(self) -> str:
        """The golden row's name."""
        return f"{self.golden.name}.{self.golden_leaf.slot}"


def pair_rows(
    pairs: Sequence[Pair], target: Sequence[Op], golden: Sequence[Op], one_framework: bool = False
) -> list[RowPair]:
    """The rows that pair in `pairs` and around them, in the target's order; each row at most once.

    In one framework a backward op puts out the same gradients on both sides, whatever their values say.
    """
    found = _Rows(pairs, target, golden, one_framework)
    found.each(found.by_value)
    found.around(by_value=True)
    found.each(found.by_slot)
    found.around(by_value=False)
    found.each(found.scalars)
    return sorted(found.rows.values(), key=lambda row: row.target_leaf.row)


_BY_PATH = ("same module path", "paired module")

_WHOLE = 3.0
"""A relation of two ops that are of one kind, not one a part of the other."""


class _Rows:
    """The rows paired so far, and what equal values said about the slots."""

    def __init__(self, pairs: Sequence[Pair], target: Sequence[Op], golden: Sequence[Op], one_framework: bool) -> None:
        self.pairs, self.one_framework = pairs, one_framework
        self.sides = (target, golden)
        self.rows: dict[int, RowPair] = {}
        self.taken: set[int] = set()
        self.votes: dict[Hashable, Counter[str]] = defaultdict(Counter)
        self.paired = ({pair.target.name for pair in pairs}, {pair.golden.name for pair in pairs})

    def each(self, step: Callable[[Pair], None]) -> None:
        for pair in self.pairs:
            step(pair)

    def add(self, target: Op, golden: Op, leaf: Leaf, other: Leaf, confidence: float, *evidence: str) -> None:
        if leaf.row in self.rows or other.row in self.taken:
            return
        same_name = f"{target.name}.{leaf.slot}" == f"{golden.name}.{other.slot}"
        self.rows[leaf.row] = RowPair(
            target, golden, leaf, other,
            1.0 if same_name else confidence,
            ("same name", *evidence) if same_name else evidence,
        )  # fmt: skip
        self.taken.add(other.row)

    def free(self, pair: Pair) -> tuple[list[Leaf], list[Leaf]]:
        ours = [leaf for leaf in pair.target.leaves if leaf.row not in self.rows]
        return ours, [leaf for leaf in pair.golden.leaves if leaf.row not in self.taken]

    def by_value(self, pair: Pair) -> None:
        """Leaves of equal statistics and shape; in equal slots first, then where there is only one such pair."""
        for wanted in (_same_slot, None):
            ours, theirs = self.free(pair)
            alike = {
                leaf.row: [other for other in theirs if _fits(leaf, other) and same_values(leaf, other)]
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
                    confidence = 0.98 if relation(pair.target, pair.golden) else 0.95
                    self.add(pair.target, pair.golden, leaf, others[0], confidence, *_why(pair, leaf, others[0]))

    def by_slot(self, pair: Pair) -> None:
        """Leaves whose values differ (behind a defect): by the slots that equal values showed, else by equal slots."""
        known = pair.how in _BY_PATH
        if relation(pair.target, pair.golden) < _WHOLE and not known:
            return
        ours, theirs = self.free(pair)
        for role in dict.fromkeys(leaf.role for leaf in ours):
            begun = any(leaf.role == role and leaf.row in self.rows for leaf in pair.target.leaves)
            if not (self.one_framework or begun) and _hooked_elsewhere(pair, role):
                continue
            groups: dict[Hashable, tuple[list[Leaf], list[Leaf]]] = defaultdict(lambda: ([], []))
            for number, side in enumerate((ours, theirs)):
                for leaf in side:
                    if leaf.role == role:
                        groups[leaf.shape, leaf.kind][number].append(leaf)
            for left, right in groups.values():
                for leaf, other in self.assigned(pair, left, right):
                    self.add(pair.target, pair.golden, leaf, other, 0.9 if known else 0.85, *_why(pair, leaf, other))

    def assigned(self, pair: Pair, ours: list[Leaf], theirs: list[Leaf]) -> list[tuple[Leaf, Leaf]]:
        """Pairs among leaves of one role and shape; none where it might as well be another way."""
        slots = {_plain(other): other for other in theirs}
        voted = [(leaf, slots.get(self.vote(pair, leaf) or "")) for leaf in ours]
        sure = [(leaf, other) for leaf, other in voted if other is not None]
        if len(sure) == len(ours):
            return sure
        if sure:
            done = {leaf.row for pairs in sure for leaf in pairs}
            rest = [leaf for leaf in ours if leaf.row not in done], [leaf for leaf in theirs if leaf.row not in done]
            return sure + self.assigned(pair, *rest)
        if any(self.vote(pair, leaf) for leaf in ours):
            return []
        if {_plain(leaf) for leaf in ours} == set(slots):
            return [(leaf, slots[_plain(leaf)]) for leaf in ours]
        if len(ours) == len(theirs) == 1:
            return [(ours[0], theirs[0])]
        if {_plain(leaf) for leaf in ours} <= set(slots) and pair.target.family == pair.golden.family:
            return [(leaf, slots[_plain(leaf)]) for leaf in ours]
        return _nearest(ours, theirs)

    def vote(self, pair: Pair, leaf: Leaf) -> str | None:
        votes = self.votes.get(_ballot(pair, leaf))
        if not votes:
            return None
        slot, count = votes.most_common(1)[0]
        return slot if count >= _SURE_VOTE * votes.total() else None

    def around(self, by_value: bool) -> None:
        """What is left of an op in the unpaired ops that its tensors flow from and to, on either side."""
        neighbours = [_Neighbours(side, paired) for side, paired in zip(self.sides, self.paired, strict=True)]
        for pair in self.pairs:
            ours, theirs = self.free(pair)
            if pair.target.kind != "module" and theirs:
                candidates = self.offered(pair.target, neighbours[0].parts(pair.target), self.rows)
                for other in theirs:
                    self.fill(pair, other, candidates, by_value, False)
            if pair.target.kind != "module" and ours:
                candidates = self.offered(pair.golden, neighbours[1].parts(pair.golden), self.taken)
                for leaf in ours:
                    self.fill(pair, leaf, candidates, by_value, True)

    def offered(self, op: Op, parts: Sequence[Op], used: Container[int]) -> list[tuple[Op, Leaf]]:
        """The leaves of the parts of `op`, but for its own, that are put out or come from outside them."""
        made: set[Hashable] = set()
        offers = []
        for part in sorted(parts, key=lambda part: part.seq):
            offers += [
                (part, leaf)
                for leaf in part.leaves
                if part is not op and leaf.row not in used and (leaf.role != "input" or statistics(leaf) not in made)
            ]
            made |= {statistics(leaf) for leaf in part.leaves if leaf.role == "output"} - {None}
        return offers

    def fill(self, pair: Pair, leaf: Leaf, offers: list[tuple[Op, Leaf]], by_value: bool, ours: bool) -> None:
        """Pair `leaf`, of the target's op if `ours` else of golden's, with what the other side's parts offer."""
        used = self.taken if ours else self.rows
        own, opposite = (pair.target, pair.golden) if ours else (pair.golden, pair.target)
        fitting = [(op, other) for op, other in offers if other.row not in used and _fits(leaf, other)]
        if by_value:
            fitting = [(op, other) for op, other in fitting if same_values(leaf, other)]
            fitting.sort(key=lambda offer: abs(offer[0].seq - opposite.seq))
        elif len(fitting) != 1 or (leaf.role == "output" and own.direction == "backward"):
            return
        if not fitting or (leaf.row in self.rows if ours else leaf.row in self.taken):
            return
        op, other = fitting[0]
        target, golden = (own, op) if ours else (op, own)
        first, second = (leaf, other) if ours else (other, leaf)
        part = f"a part of {own.family}"
        self.add(target, golden, first, second, 0.92 if by_value else 0.7, *_values(first, second), "same shape", part)

    def scalars(self, pair: Pair) -> None:
        """Scalars of equal slot and value."""
        if relation(pair.target, pair.golden) < _WHOLE:
            return
        slots = {leaf.slot: leaf for leaf in pair.golden.scalars}
        for leaf in pair.target.scalars:
            other = slots.get(leaf.slot)
            if other is not None and leaf.value is not None and other.value == leaf.value:
                self.add(pair.target, pair.golden, leaf, other, 0.95, f"same value {leaf.value}", *_op_evidence(pair))


class _Neighbours:
    """The calls of one side in their order, and which unpaired ones are parts of a paired one."""

    def __init__(self, ops: Sequence[Op], paired: set[str]) -> None:
        self.paired = paired
        self.calls: dict[str, list[Op]] = defaultdict(list)
        self.place: dict[str, int] = {}
        for op in ops:
            if op.kind == "api":
                self.place[op.name] = len(self.calls[op.direction])
                self.calls[op.direction].append(op)

    def parts(self, op: Op) -> list[Op]:
        """`op`, and the unpaired calls beside it that its inputs come from or its outputs go to."""
        if op.name not in self.place:
            return [op]
        calls, place = self.calls[op.direction], self.place[op.name]
        needed = {statistics(leaf) for leaf in op.leaves if leaf.role == "input"} - {None}
        made = {statistics(leaf) for leaf in op.leaves if leaf.role == "output"} - {None}
        found = [op]
        for other in self.beside(op, reversed(calls[max(0, place - _WINDOW) : place])):
            if any(leaf.role == "output" and statistics(leaf) in needed for leaf in other.leaves):
                found.append(other)
                needed |= {statistics(leaf) for leaf in other.leaves if leaf.role == "input"} - {None}
        for other in self.beside(op, calls[place + 1 : place + 1 + _WINDOW]):
            if any(leaf.role == "input" and statistics(leaf) in made for leaf in other.leaves):
                found.append(other)
                made |= {statistics(leaf) for leaf in other.leaves if leaf.role == "output"} - {None}
        return found

    def beside(self, op: Op, others: Iterable[Op]) -> Iterable[Op]:
        """`others` up to the first that is paired itself or belongs to another module."""
        for other in others:
            if other.name in self.paired or other.parent != op.parent:
                return
            yield other


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
    name = leaf.slot.removeprefix("parameters.")
    return RENAMED_SLOTS.get(name, name) if leaf.role.startswith("parameters") else name


def _same_slot(leaf: Leaf, other: Leaf) -> bool:
    return _plain(leaf) == _plain(other)


def _ballot(pair: Pair, leaf: Leaf) -> Hashable:
    """What a vote on a slot counts for: the two kinds of op and the direction, which is one for a parameter."""
    direction = "parameters" if leaf.role.startswith("parameters") else pair.target.direction
    return (pair.target.kind == "api", pair.target.family, pair.golden.family, direction, _plain(leaf))


def _values(leaf: Leaf, other: Leaf) -> list[str]:
    if not same_values(leaf, other):
        return []
    if leaf.digest is not None and leaf.digest == other.digest:
        return [f"same digest {leaf.digest}"]
    if leaf.norm is not None and other.norm is not None:
        return [f"same norm {leaf.norm:.4g}"]
    return [f"same max {leaf.max:.4g} and min {leaf.min:.4g}"]


def _why(pair: Pair, leaf: Leaf, other: Leaf) -> list[str]:
    return [*_values(leaf, other), "same shape", *_op_evidence(pair)]


def _op_evidence(pair: Pair) -> list[str]:
    if pair.how in _BY_PATH:
        return [pair.how]
    if pair.target.family == pair.golden.family:
        return [f"same op {pair.golden.family}", pair.how]
    return [f"{pair.target.family} is {pair.golden.family}", pair.how]
