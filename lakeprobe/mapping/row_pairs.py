"""Pairs the rows of aligned ops: by value first, so that permuted arguments find each other, then by slot and shape.

One op of a framework may be several of the other (MatMul, BiasAdd and Reshape are a linear). What an op pair leaves
over is therefore looked for in the unpaired ops around it that its tensors flow from and to.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

from lakeprobe.mapping import layouts
from lakeprobe.mapping.align import (
    SEQUENCE,
    Leaf,
    Op,
    Pair,
    distance,
    relation,
    same_values,
    statistics,
)
from lakeprobe.mapping.known import slot_name
from lakeprobe.mapping.tensors import Matches, Tensor

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
    pairs: Sequence[Pair], target: Sequence[Op], golden: Sequence[Op], matches: Matches, one_framework: bool = False
) -> list[RowPair]:
    """The rows that pair in `pairs` and around them, in the target's order; each row at most once.

    In one framework a backward op puts out the same gradients on both sides, whatever their values say.
    """
    found = _Rows(pairs, target, golden, matches, one_framework)
    found.each(found.by_tensor)
    found.each(found.by_value)
    found.around(by_value=True)
    found.sights(matches.pairs(), 0.92, "the same tensor in another op")
    found.sights(matches.presumed_pairs(), 0.8, "made of the same")
    found.each(found.by_slot)
    found.around(by_value=False)
    found.each(found.scalars)
    return sorted(found.rows.values(), key=lambda row: row.target_leaf.row)


_BY_PATH = ("same module path", "paired module")

_WHOLE = 3.0
"""A relation of two ops that are of one kind, not one a part of the other."""


class _Rows:
    """The rows paired so far, and what equal values said about the slots."""

    def __init__(
        self, pairs: Sequence[Pair], target: Sequence[Op], golden: Sequence[Op], matches: Matches, one_framework: bool
    ) -> None:
        self.pairs, self.matches, self.one_framework = pairs, matches, one_framework
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

    def by_tensor(self, pair: Pair) -> None:
        """Leaves that show one tensor in one role; those in equal slots first, then in their order."""
        for wanted in (_same_slot, lambda leaf, other: True):
            ours, theirs = self.free(pair)
            for leaf in ours:
                for other in theirs:
                    same = leaf.role == other.role and self.matches.same(leaf, other) and wanted(leaf, other)
                    if same and other.row not in self.taken:
                        self.votes[_ballot(pair, leaf)][_plain(other)] += 1
                        confidence = 0.98 if relation(pair.target, pair.golden) else 0.95
                        self.add(pair.target, pair.golden, leaf, other, confidence, *_why(pair, leaf, other))
                        break

    def sights(self, tensors: Iterable[tuple[Tensor, Tensor]], confidence: float, why: str) -> None:
        """What is left of the tensors that are one: the next sight of one side with the next of the other.

        Ops that compute nothing are left out: what they hand on is compared where it is used. So is what an op takes in
        that differs from its counterpart: there another tensor may be at the same place.
        """
        wired = {
            op
            for pair in self.pairs
            if relation(pair.target, pair.golden) >= _WHOLE and self.matches.differ(pair.target, pair.golden)
            for op in (pair.target, pair.golden)
        }
        for tensor, partner in tensors:
            theirs = [
                (op, leaf)
                for op, leaf in partner.sights
                if leaf.row not in self.taken and not _hands_on(op, leaf) and not (leaf.role == "input" and op in wired)
            ]
            for op, leaf in tensor.sights:
                if leaf.row in self.rows or _hands_on(op, leaf) or (leaf.role == "input" and op in wired):
                    continue
                fitting = (
                    (other.family != op.family, abs(place - len(theirs)), place)
                    for place, (other, sight) in enumerate(theirs)
                    if sight.role == leaf.role and other.kind == op.kind and other.direction == op.direction
                )
                best = min(fitting, default=None)
                if best is not None:
                    other, sight = theirs.pop(best[2])
                    self.add(
                        op, other, leaf, sight, confidence, *_values(leaf, sight), layouts.of_pair(leaf, sight), why
                    )

    def by_value(self, pair: Pair) -> None:
        """Leaves of equal statistics and shape; in equal slots first, then where there is only one such pair."""
        for wanted in (_same_slot, None):
            ours, theirs = self.free(pair)
            alike = {
                leaf.row: [
                    other
                    for other in theirs
                    if _fits(leaf, other) and same_values(leaf, other) and not self.matches.excludes(leaf, other)
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
                    confidence = 0.98 if relation(pair.target, pair.golden) else 0.95
                    self.add(pair.target, pair.golden, leaf, others[0], confidence, *_why(pair, leaf, others[0]))

    def by_slot(self, pair: Pair) -> None:
        """Leaves whose values differ (behind a defect): by the slots that equal values showed, else by equal slots."""
        known = pair.how in _BY_PATH
        if relation(pair.target, pair.golden) < _WHOLE and not known and not _are_of_one_form(pair):
            return
        is_rootless = pair.how != SEQUENCE and not known and self.matches.are_rootless(pair.target, pair.golden)
        differ = self.matches.differ(pair.target, pair.golden)
        agree = pair.how == SEQUENCE or self.matches.agree_by_slot(pair.target, pair.golden)
        for role in dict.fromkeys(leaf.role for leaf in pair.target.leaves):
            begun = any(leaf.role == role and leaf.row in self.rows for leaf in pair.target.leaves)
            if not (self.one_framework or begun) and _hooked_elsewhere(pair, role):
                continue
            for layout in (_shape, _elements):  # another layout of the same tensor comes after the same
                for left, right in self.groups(pair, role, layout):
                    for leaf, other in self.assigned(pair, left, right):
                        if self.matches.is_partial(leaf, 0) or self.matches.is_partial(other, 1):
                            continue
                        if is_rootless and distance(leaf, other) > _FAR:
                            continue
                        is_sure = differ or (agree and self.proposed(pair, leaf, other))
                        if is_sure or not self.matches.excludes(leaf, other):
                            confidence = 0.9 if known else 0.85
                            self.add(pair.target, pair.golden, leaf, other, confidence, *_why(pair, leaf, other))

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
        named = {other.argument: other for other in theirs}
        if None not in named and all(leaf.argument in named for leaf in ours):
            return [(leaf, named[leaf.argument]) for leaf in ours]
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
        """What `op` and its parts take in from outside, and what its parts put out; a view computes nothing."""
        computing = sorted((part for part in parts if not part.is_view), key=lambda part: part.seq)
        made = {statistics(leaf) for part in computing for leaf in part.leaves if leaf.role == "output"} - {None}
        taken = {statistics(leaf) for part in computing for leaf in part.leaves if leaf.role == "input"} - {None}
        return [
            (part, leaf)
            for part in computing
            for leaf in part.leaves
            if leaf.row not in used
            and not (part is op and leaf.role == "output")
            and statistics(leaf) not in {"input": made, "output": taken}.get(leaf.role, ())
        ]

    def fill(self, pair: Pair, leaf: Leaf, offers: list[tuple[Op, Leaf]], by_value: bool, ours: bool) -> None:
        """Pair `leaf`, of the target's op if `ours` else of golden's, with what the other side's parts offer."""
        used = self.taken if ours else self.rows
        own, opposite = (pair.target, pair.golden) if ours else (pair.golden, pair.target)
        fitting = [
            (op, other)
            for op, other in offers
            if other.row not in used
            and (leaf.role, leaf.elements, leaf.kind) == (other.role, other.elements, other.kind)
            and not self.matches.excludes(*((leaf, other) if ours else (other, leaf)))
        ]
        if by_value:
            fitting = [(op, other) for op, other in fitting if same_values(leaf, other)]
            fitting.sort(key=lambda offer: abs(offer[0].seq - opposite.seq))
        elif (
            len(fitting) != 1
            or self.matches.are_rootless(own, fitting[0][0])
            or (leaf.role == "output" and own.direction == "backward")
        ):
            return
        if not fitting or (leaf.row in self.rows if ours else leaf.row in self.taken):
            return
        op, other = fitting[0]
        target, golden = (own, op) if ours else (op, own)
        first, second = (leaf, other) if ours else (other, leaf)
        part = f"a part of {own.family}"
        self.add(
            target,
            golden,
            first,
            second,
            0.92 if by_value else 0.7,
            *_values(first, second),
            layouts.of_pair(first, second),
            part,
        )

    def scalars(self, pair: Pair) -> None:
        """Scalars of equal argument or slot, and of equal value."""
        if relation(pair.target, pair.golden) < _WHOLE:
            return
        slots = {leaf.slot: leaf for leaf in pair.golden.scalars}
        named = {leaf.argument: leaf for leaf in pair.golden.scalars if leaf.argument is not None}
        for leaf in pair.target.scalars:
            other = named.get(leaf.argument or "") or slots.get(leaf.slot)
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


def _shape(leaf: Leaf) -> Hashable:
    return (leaf.shape, leaf.kind)


def _elements(leaf: Leaf) -> Hashable:
    return (leaf.elements, leaf.kind)


def _are_of_one_form(pair: Pair) -> bool:
    """Whether two related ops take in and put out tensors of the same sizes: one is the other under another name."""
    forms = [Counter((leaf.role, leaf.elements, leaf.kind) for leaf in op.leaves) for op in (pair.target, pair.golden)]
    return relation(pair.target, pair.golden) > 0 and forms[0] == forms[1]


def _hands_on(op: Op, leaf: Leaf) -> bool:
    """Whether `op` computes nothing of the tensor that `leaf` shows: a view, a query, or an output that came in."""
    return op.is_view or op.is_query or (leaf.role == "output" and op.carries)


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
    name = leaf.slot.removeprefix("parameters.")
    return slot_name(name) if leaf.role.startswith("parameters") else name


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
    return [*_values(leaf, other), layouts.of_pair(leaf, other), *_op_evidence(pair)]


def _op_evidence(pair: Pair) -> list[str]:
    if pair.how in _BY_PATH:
        return [pair.how]
    if pair.target.family == pair.golden.family:
        return [f"same op {pair.golden.family}", pair.how]
    return [f"{pair.target.family} is {pair.golden.family}", pair.how]
