"""Aligns the ops of two runs whose names differ: by module path, kind, shapes, and statistics as fingerprints.

Nothing here reads a lake or writes a mapping. An alignment has two stages: a heaviest increasing chain through the few
likely pairs of two long sequences (O(n log n)), then all pairs in the short gaps of that chain. A pair is left out if
another one is just as likely, because whoever corrects a mapping finds a gap sooner than a mistake.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from typing import TypeVar

from msgspec import Struct

from lakeprobe.mapping.fingerprints import Fingerprints
from lakeprobe.mapping.ops import Op, common_end, distance, in_common, relation, same_values
from lakeprobe.mapping.tensors import Matches, are_elsewhere, excludes
from lakeprobe.mapping.units import Unit
from lakeprobe.mapping.votes import ops_by_tensors

_Item = TypeVar("_Item")

_MOST_ALIKE = 4
"""If more leaves of one run than this share a fingerprint, it does not identify an op."""

_LARGEST_GAP = 250_000
"""The largest gap of the chain, in pairs of ops, in which all pairs are scored."""

SEQUENCE = "the same sequence of ops"
"""How ops pair that follow each other in the same sequence on both sides, between paired neighbours."""

_MODULES = ("module", "parameters_grad")

_KNOWN = 100.0
"""The weight of a pair that was found before. See `_Alignment.score`."""


class Pair(Struct, eq=False):
    """A target op and its golden op. `how` names the evidence."""

    target: Op
    golden: Op
    how: str


def align(target: Unit, golden: Unit, matches: Matches) -> list[Pair]:
    """Return the ops that are the same in both runs, each at most once, in the target's order.

    `matches` pairs the tensors of the runs. They pair ops first, and no later pair contradicts them.
    """
    if len(target.ops) == len(golden.ops) and all(map(_same_ops, target.ops, golden.ops)):
        return [Pair(op, other, SEQUENCE) for op, other in zip(target.ops, golden.ops, strict=True)]
    found = _Alignment(target, golden)
    for op, other in ops_by_tensors(target, golden, matches):
        found.add(op, other, "same values")
    found.modules()
    found.calls("forward")
    found.later_modules()
    for direction in dict.fromkeys(op.direction for op in target.ops if op.direction != "forward"):
        found.calls(direction)
    return sorted(found.pairs.values(), key=lambda pair: pair.target.seq)


class _Alignment:
    """The pairs found so far, and what follows from them for other pairs."""

    def __init__(self, target: Unit, golden: Unit) -> None:
        self.target, self.golden = target.ops, golden.ops
        self.fingerprints = Fingerprints.of(target, golden)
        self.pairs: dict[str, Pair] = {}
        self.taken: set[str] = set()
        self.paths: dict[str, str] = {}

    def add(self, target: Op, golden: Op, how: str) -> None:
        if target.name not in self.pairs and golden.name not in self.taken:
            self.pairs[target.name] = Pair(target, golden, how)
            self.taken.add(golden.name)

    def modules(self) -> None:
        """Pair forward calls of modules: by path and call if these are equal, the others in order."""
        ours, theirs = (
            [op for op in side if op.kind == "module" and op.direction == "forward"]
            for side in (self.target, self.golden)
        )
        by_path = {(op.path, op.call): op for op in theirs}
        for op in ours:
            other = by_path.get((op.path, op.call))
            if other is not None and (
                relation(op, other) or op.shapes & other.shapes or not (op.leaves and other.leaves)
            ):
                self.add(op, other, "same module path")
        self.in_order(ours, theirs)
        for pair in self.pairs.values():
            self.paths.setdefault(pair.target.path, pair.golden.path)

    def later_modules(self) -> None:
        """Pair backward calls and parameter gradients of modules whose forward calls are paired.

        If a dump lacks the forward call, they pair by number, provided that both sides have equally many.
        """
        ours, theirs = (
            [op for op in side if op.kind in _MODULES and op.direction != "forward"]
            for side in (self.target, self.golden)
        )
        after = {op.forward: op for op in theirs if op.direction == "backward"}
        groups: tuple[dict[Hashable, list[Op]], dict[Hashable, list[Op]]] = (defaultdict(list), defaultdict(list))
        for op in ours:
            forward = self.of_forward(op)
            if forward is not None:
                if forward.golden in after:
                    self.add(op, after[forward.golden], _by_path(op, forward.golden))
            else:
                groups[0][self.paths.get(op.path, op.path), op.direction].append(op)
        for op in theirs:
            if op.name not in self.taken:
                groups[1][op.path, op.direction].append(op)
        for key, calls in groups[0].items():
            others = groups[1].get(key, [])
            if len(calls) == len(others):
                for op, other in zip(calls, others, strict=True):
                    self.add(op, other, _by_path(op, other))

    def calls(self, direction: str) -> None:
        """Pair all ops of one direction: after their forward calls, then in order. Known pairs constrain the others."""
        ours, theirs = ([op for op in side if op.direction == direction] for side in (self.target, self.golden))
        after = [] if direction == "forward" else list(self.after_forward(ours, theirs))
        self.add_after(after, lambda op, other: not _contradict(op, other))
        if all(op.name in self.pairs for op in ours) or all(op.name in self.taken for op in theirs):
            return  # no op is left to pair
        self.in_order(ours, theirs)
        self.add_after(after, lambda op, other: True)

    def add_after(self, pairs: Iterable[tuple[Op, Op]], is_enough: Callable[[Op, Op], bool]) -> None:
        """Add backward calls of paired forward calls: those that may pair, and those of one kind where `is_enough`."""
        for op, other in pairs:
            if op.name in self.pairs or other.name in self.taken:
                continue
            if (op.family == other.family and is_enough(op, other)) or self.may_pair(op, other):
                self.add(op, other, "paired forward call")

    def after_forward(self, ours: Sequence[Op], theirs: Sequence[Op]) -> Iterator[tuple[Op, Op]]:
        """Yield the backward calls whose forward calls are paired."""
        after = {op.forward: op for op in theirs if op.forward is not None}
        for op in ours:
            forward = self.of_forward(op)
            if forward is not None and forward.golden in after:
                yield op, after[forward.golden]

    def of_forward(self, op: Op) -> Pair | None:
        """Return the pair of the forward call that `op` is the backward of, or None."""
        return None if op.forward is None else self.pairs.get(op.forward.name)

    def in_order(self, ours: Sequence[Op], theirs: Sequence[Op]) -> None:
        """Add pairs of equal ends, then a heaviest chain of likely pairs, then pairs that fit into its gaps."""
        ours, theirs = self.without_equal_ends(ours, theirs)
        place = {op.name: index for index, op in enumerate(theirs)}
        weights: dict[tuple[int, int], float] = {}
        for index, op in enumerate(ours):
            if op.name in self.pairs:
                other = self.pairs[op.name].golden.name
                if other in place:
                    weights[index, place[other]] = _KNOWN
        free = [op for op in ours if op.name not in self.pairs], [op for op in theirs if op.name not in self.taken]
        places = {op.name: index for index, op in enumerate(ours)}, place
        likely = {(places[0][op.name], places[1][other.name]) for op, other in self.likely_pairs(*free)}
        for index, other_index in likely:
            weight = self.score(ours[index], theirs[other_index])
            if weight > 0:
                weights[index, other_index] = weight
        chain = heaviest_chain(weights)
        ends = [(-1, -1), *chain, (len(ours), len(theirs))]
        for (left, other_left), (right, other_right) in pairwise(ends):
            if right - left > 1 and other_right - other_left > 1:
                self.gap(ours[left + 1 : right], theirs[other_left + 1 : other_right])
        for index, other_index in chain:
            self.add(ours[index], theirs[other_index], "order and fingerprint")

    def likely_pairs(self, ours: Sequence[Op], theirs: Sequence[Op]) -> Iterator[tuple[Op, Op]]:
        """Yield ops that share a rare fingerprint, or whose names differ only in the first word."""
        yield from _share_one(ours, theirs, *(of_side.__getitem__ for of_side in self.fingerprints))
        yield from _share_one(ours, theirs, _own_names, _own_names)

    def without_equal_ends(self, ours: Sequence[Op], theirs: Sequence[Op]) -> tuple[Sequence[Op], Sequence[Op]]:
        """Add the pairs that are the same at both ends, and return the ops between them.

        Ops with the same name, shapes and values are the same. If all names are the same, the values may differ.
        """
        alike = _same_ops if len(ours) == len(theirs) and all(map(_same_ops, ours, theirs)) else _equal_ops
        start = _count(alike, ours, theirs)
        end = _count(alike, reversed(ours[start:]), reversed(theirs[start:]))
        for place in (*range(start), *range(-end, 0)):
            self.add(ours[place], theirs[place], "same place")
        return ours[start : len(ours) - end], theirs[start : len(theirs) - end]

    def gap(self, ours: Sequence[Op], theirs: Sequence[Op]) -> None:
        """Add the best pairs of the ops between two neighbours of the chain."""
        ours = [op for op in ours if op.name not in self.pairs]
        theirs = [op for op in theirs if op.name not in self.taken]
        if [_form(op) for op in ours] == [_form(op) for op in theirs]:
            for op, other in zip(ours, theirs, strict=True):
                if not _contradict(op, other) and not _wired_otherwise(op, other):
                    self.add(op, other, SEQUENCE)
        elif ours and theirs and len(ours) * len(theirs) <= _LARGEST_GAP:
            for index, other_index in best_path(ours, theirs, self.score):
                self.add(ours[index], theirs[other_index], "order")

    def score(self, target: Op, golden: Op) -> float:
        """Return the weight of the evidence for a pair. The pair must not be made if it is 0 or less."""
        if not self.may_pair(target, golden):
            return 0.0
        count = in_common(self.fingerprints[0][target], self.fingerprints[1][golden])
        shapes = in_common(target.shapes, golden.shapes)
        score = relation(target, golden) + 2.0 * count + 0.5 * shapes + _nearness(target, golden)
        return score + self._context(target, golden) + (1.0 if target.name == golden.name else 0.0)

    def may_pair(self, target: Op, golden: Op) -> bool:
        """Return whether two free ops have enough in common, and nothing is against the pair.

        Calls in a paired module do not pair with calls in a module that is paired with another.
        """
        if target.name in self.pairs or golden.name in self.taken or target.kind != golden.kind:
            return False
        parent = self.pairs.get(target.parent or "")
        if parent is not None and parent.golden.name != golden.parent and golden.parent in self.taken:
            return False
        share = self._share_enough if relation(target, golden) else self._share_results
        return share(target, golden) and not (_contradict(target, golden) or _are_steps(target, golden))

    def _share_enough(self, target: Op, golden: Op) -> bool:
        """Return whether two ops of one kind have a shape or a fingerprint in common, or one of them has no leaves."""
        if not (target.leaves and golden.leaves) or not target.shapes.keys().isdisjoint(golden.shapes):
            return True
        return in_common(self.fingerprints[0][target], self.fingerprints[1][golden]) > 0

    def _share_results(self, target: Op, golden: Op) -> bool:
        """Return whether two ops of different kinds have two fingerprints in common, one of a result of the target."""
        if target.carries or golden.carries or not self.produces_one_of(target, golden):
            return False
        return in_common(self.fingerprints[0][target], self.fingerprints[1][golden]) > 1

    def produces_one_of(self, target: Op, golden: Op) -> bool:
        """Return whether an output of `target` has the fingerprint of a tensor of `golden`."""
        codes, known = self.fingerprints[0].codes, self.fingerprints[1][golden]
        return any(leaf.role == "output" and codes[leaf.place] in known for leaf in target.leaves)

    def _context(self, target: Op, golden: Op) -> float:
        """Return the evidence of the paths' ends, and of the pairs of the enclosing module and of the forward call."""
        score = 0.0
        if target.kind == "module":
            score += min(3, common_end(target.path.split("."), golden.path.split(".")))
        parent = self.pairs.get(target.parent or "")
        if parent is not None and parent.golden.name == golden.parent:
            score += 2.0
        if target.direction == "backward":
            forward = self.of_forward(target)
            if forward is not None:
                score += 3.0 if forward.golden is golden.forward else -2.0
        return score


def _are_steps(target: Op, golden: Op) -> bool:
    """Return whether the outputs of the two are far apart.

    Then they are only steps on the way to a tensor that agrees, and so are the backward calls of such.
    """
    if target.forward is not None and golden.forward is not None and _are_steps(target.forward, golden.forward):
        return True
    outputs = [
        (leaf, other)
        for leaf in target.leaves
        for other in golden.leaves
        if leaf.role == other.role == "output" and leaf.elements == other.elements
    ]
    return bool(outputs) and all(excludes(leaf, other) for leaf, other in outputs)


def _wired_otherwise(target: Op, golden: Op) -> bool:
    """Return whether some slot of the two has tensors that both runs have, but different ones."""
    slots = {leaf.slot: leaf for leaf in golden.leaves}
    return any(are_elsewhere(leaf, slots[leaf.slot]) for leaf in target.leaves if leaf.slot in slots)


def _contradict(target: Op, golden: Op) -> bool:
    """Return whether another op of the other run makes what one of the two ops makes."""
    return any(
        leaf.tensor is not None
        and leaf.tensor.partner is not None
        and any(sight.role == leaf.role for sight in leaf.tensor.partner.sights)
        and not any(sight.op is other for sight in leaf.tensor.partner.sights if sight.role == leaf.role)
        for op, other in ((target, golden), (golden, target))
        for leaf in op.leaves
        if leaf.role == "output"
    )


def _by_path(op: Op, other: Op) -> str:
    return "same module path" if op.path == other.path else "paired module"


def _share_one(
    ours: Sequence[Op],
    theirs: Sequence[Op],
    our_keys: Callable[[Op], Iterable[Hashable]],
    their_keys: Callable[[Op], Iterable[Hashable]],
) -> Iterator[tuple[Op, Op]]:
    """Yield ops with a common key that few others have."""
    alike: tuple[dict[Hashable, list[Op]], dict[Hashable, list[Op]]] = (defaultdict(list), defaultdict(list))
    for side, keys, found in zip((ours, theirs), (our_keys, their_keys), alike, strict=True):
        for op in side:
            for key in keys(op):
                found[key].append(op)
    for key, ops in alike[0].items():
        others = alike[1].get(key, ())
        if len(ops) <= _MOST_ALIKE and len(others) <= _MOST_ALIKE:
            yield from ((op, other) for op in ops for other in others)


def _form(op: Op) -> Hashable:
    """Return what equivalent ops have in common, whatever their values are."""
    return (op.kind, op.direction, op.family, tuple((leaf.role, leaf.elements, leaf.kind) for leaf in op.leaves))


def _count(alike: Callable[[Op, Op], bool], ours: Iterable[Op], theirs: Iterable[Op]) -> int:
    """Return the number of pairs before the first that is not alike."""
    return sum(1 for _ in takewhile(lambda same: same, map(alike, ours, theirs)))


def _same_ops(op: Op, other: Op) -> bool:
    return op.name == other.name and [(leaf.slot, leaf.shape) for leaf in op.leaves] == [
        (leaf.slot, leaf.shape) for leaf in other.leaves
    ]


def _equal_ops(op: Op, other: Op) -> bool:
    return _same_ops(op, other) and all(same_values(*leaves) for leaves in zip(op.leaves, other.leaves, strict=True))


def _own_names(op: Op) -> tuple[Hashable, ...]:
    return ((op.family, op.path if op.kind == "module" else "", op.call),)


def heaviest_chain(weights: dict[tuple[int, int], float]) -> list[tuple[int, int]]:
    """Return the pairs, increasing on both sides, with the largest total weight. O(n log n) for n pairs."""
    pairs = sorted(weights, key=lambda pair: (pair[0], -pair[1]))
    if (
        all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(pairs))
        and min(weights.values(), default=0) > 0
    ):
        return pairs
    others = sorted({other for _, other in weights})
    best: list[tuple[float, int]] = [(0.0, -1)] * (len(others) + 1)
    before = [-1] * len(pairs)
    for number, pair in enumerate(pairs):
        place = bisect_left(others, pair[1])
        total, before[number] = _best_up_to(best, place)
        _raise(best, place + 1, (total + weights[pair], number))
    chain, number = [], _best_up_to(best, len(others))[1]
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]


def _best_up_to(tree: list[tuple[float, int]], place: int) -> tuple[float, int]:
    """Return the largest entry among the first `place` of a Fenwick tree of maxima."""
    best = (0.0, -1)
    while place > 0:
        if tree[place][0] > best[0]:
            best = tree[place]
        place -= place & -place
    return best


def _raise(tree: list[tuple[float, int]], place: int, entry: tuple[float, int]) -> None:
    while place < len(tree):
        if entry[0] > tree[place][0]:
            tree[place] = entry
        place += place & -place


def best_path(
    ours: Sequence[_Item], theirs: Sequence[_Item], score: Callable[[_Item, _Item], float]
) -> Iterable[tuple[int, int]]:
    """Yield the pairs, increasing on both sides, with the largest total score, by dynamic programming. O(n·m)."""
    scores = [[score(op, other) for other in theirs] for op in ours]
    totals = [[0.0] * (len(theirs) + 1) for _ in range(len(ours) + 1)]
    for row in range(len(ours) - 1, -1, -1):
        for column in range(len(theirs) - 1, -1, -1):
            taken = scores[row][column] + totals[row + 1][column + 1] if scores[row][column] > 0 else 0.0
            totals[row][column] = max(totals[row + 1][column], totals[row][column + 1], taken)
    row = column = 0
    while row < len(ours) and column < len(theirs):
        if totals[row][column] == totals[row + 1][column]:
            row += 1
        elif totals[row][column] == totals[row][column + 1]:
            column += 1
        else:
            yield row, column
            row, column = row + 1, column + 1


def _nearness(target: Op, golden: Op) -> float:
    """Return up to 1 if statistics in equal slots of equal shape are close.

    A defect moves them, but does not swap them.
    """
    slots = {leaf.slot: leaf for leaf in golden.leaves}
    pairs = [(leaf, slots[leaf.slot]) for leaf in target.leaves[:8] if leaf.slot in slots]
    near = [1 - distance(leaf, other) for leaf, other in pairs if leaf.shape == other.shape]
    return sum(near) / len(near) if near else 0.0
