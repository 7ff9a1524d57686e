"""Aligns the ops of two runs whose names differ: by module path, kind, shapes, and statistics as fingerprints.

Nothing here reads a lake or writes a mapping. An alignment is worked out twice over: a heavy increasing chain through
the few likely pairs of two long sequences (O(n log n)), then every pair inside the short gaps that it leaves. A pair
that could as well be another one is left out: who corrects a mapping finds a gap sooner than a mistake.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from lakeprobe.mapping.tensors import Matches

_Item = TypeVar("_Item")

TOLERANCE = 1e-4
"""How far apart two statistics may be, relative to the tensor's magnitude, and still be called the same."""

_GRID = 1e3
"""Steps per factor e of the grid that statistics are put on to find equal ones; close ones may fall to two sides."""

_MOST_ALIKE = 4
"""A fingerprint that more leaves of one run have is no evidence of which op is meant."""

_LARGEST_GAP = 250_000
"""Pairs of ops in a gap of the chain up to which all are weighed."""

SEQUENCE = "the same sequence of ops"
"""How ops pair that stand between paired neighbours in the same sequence on both sides."""

_MODULES = ("module", "parameters_grad")

_SAME_FAMILY, _PART_OF, _KNOWN = 3.0, 1.5, 100.0
"""What speaks for a pair: one kind of op, a part of it, or that it was found before. See `_Alignment.score`."""

PART_OF = {"matmul": "linear", "biasadd": "linear", "gather": "embedding"}
"""Kinds of op that do a part of what one op does in the other framework."""

VIEWS = frozenset({
    "astype", "atleast1d", "broadcasttensors", "broadcastto", "cast", "chunk", "clone", "contiguous",
    "detach", "expand", "expandas", "expanddims", "flatten", "float", "getitem", "half", "identity",
    "movedim", "narrow", "permute", "ravel", "reshape", "reshapeas", "select", "split", "splitwithsize",
    "squeeze", "stopgradient", "stridedslice", "t", "tensorsplit", "to", "transpose", "type", "typeas",
    "unbind", "unflatten", "unsqueeze", "view", "viewas",
})  # fmt: skip
"""Kinds of op that give their input another shape, place or dtype, or a part of it, and compute nothing."""

QUERIES = frozenset(
    {
        "shape",
        "shapeop",
        "getattr",
        "isfloatingpoint",
        "isinstance",
        "size",
        "dim",
        "numel",
        "rank",
        "dtype",
        "len",
        "item",
        "storageoffset",
        "stride",
    }
)
"""Kinds of op that ask for a tensor's shape or the like."""


@dataclass(eq=False)
class Leaf:
    """A tensor or scalar of an op; `kind` is its element class (int, float, …) or, of a scalar, `scalar`.

    `argument`: the name of the argument that it is, where a signature tells (mapping/known.py).
    """

    row: int
    slot: str
    role: str
    kind: str | None
    shape: tuple[int, ...] | None
    max: float | None
    min: float | None
    mean: float | None
    norm: float | None
    digest: str | None
    value: str | None = None
    argument: str | None = None
    elements: int = 0
    """How many elements the shape has; 1 for a scalar."""

    def __post_init__(self) -> None:
        self.elements = math.prod(self.shape or ())

    @cached_property
    def fingerprint(self) -> Hashable | None:
        """What equal tensors have in common in two frameworks; None where it would say nothing (all 0 or 1)."""
        if self.digest is not None:
            return (self.elements, self.digest)
        if self.max is None or self.min is None or (self.max in _TRIVIAL and self.min in _TRIVIAL):
            return None
        return (self.role, self.kind, self.elements, _on_grid(self.max), _on_grid(self.min))


_TRIVIAL = (0.0, 1.0, -1.0)


@dataclass(eq=False)
class Op:
    """An op with its leaves. `path` is the module's path or the API's name; `parent` the enclosing module's op."""

    seq: int
    name: str
    kind: str
    path: str
    family: str
    direction: str
    call: int
    parent: str | None
    class_name: str = ""
    leaves: list[Leaf] = field(default_factory=list)
    scalars: list[Leaf] = field(default_factory=list)

    @cached_property
    def fingerprints(self) -> Counter[Hashable]:
        """How often each fingerprint occurs in the op."""
        return Counter(leaf.fingerprint for leaf in self.leaves if leaf.fingerprint is not None)

    @cached_property
    def shapes(self) -> Counter[Hashable]:
        """How often each role, shape and element class occurs in the op."""
        return Counter((leaf.role, leaf.shape, leaf.kind) for leaf in self.leaves)

    @cached_property
    def carries(self) -> bool:
        """Whether an output is an input in another form (reshape, cast, dropout of nothing): its values are no clue."""
        inputs = {statistics(leaf) for leaf in self.leaves if leaf.role == "input"} - {None}
        return any(statistics(leaf) in inputs for leaf in self.leaves if leaf.role == "output")

    @cached_property
    def is_view(self) -> bool:
        """Whether it only gives its input another shape, place or dtype."""
        return self.kind == "api" and self.family.removesuffix("_") in VIEWS

    @property
    def is_query(self) -> bool:
        """Whether it only asks for a tensor's shape or the like."""
        return self.kind == "api" and self.family in QUERIES

    @cached_property
    def forward_name(self) -> str:
        """The name of the forward op that this is the backward of."""
        return re.sub(r"\.backward(?=\.\d+$|$)", ".forward", self.name)


@dataclass(frozen=True, eq=False)
class Pair:
    """A target op and the golden op that it is held to be; `how` says by what."""

    target: Op
    golden: Op
    how: str


def statistics(leaf: Leaf) -> Hashable | None:
    """What a tensor has in common with its own reshaped self in the same run."""
    if leaf.digest is not None or leaf.max is None:
        return leaf.digest
    return (leaf.elements, leaf.max, leaf.min)


def same_values(target: Leaf, golden: Leaf) -> bool | None:
    """Whether the two could be one tensor by their statistics or digest; None if the dumps do not tell."""
    if target.digest is not None and golden.digest is not None:
        return target.digest == golden.digest
    if target.max is None or golden.max is None or target.min is None or golden.min is None:
        return None
    magnitude = 0.0
    for number in (target.max, target.min, golden.max, golden.min):
        if magnitude < abs(number) < math.inf:
            magnitude = abs(number)
    if not (_close(target.max, golden.max, magnitude) and _close(target.min, golden.min, magnitude)):
        return False
    if target.norm is None or golden.norm is None:
        return True
    norm = max(abs(target.norm), abs(golden.norm))
    if not _close(target.norm, golden.norm, norm):
        return False
    if target.mean is None or golden.mean is None:
        return True
    return _close(target.mean, golden.mean, norm / math.sqrt(max(target.elements, 1)))


def distance(target: Leaf, golden: Leaf) -> float:
    """How far the statistics of two tensors are apart, relative to them: 0 the same, 1 nothing in common or unknown."""
    parts = [
        min(1.0, abs(ours - theirs) / max(abs(ours), abs(theirs)))
        for ours, theirs in ((target.max, golden.max), (target.min, golden.min), (target.norm, golden.norm))
        if ours is not None and theirs is not None and math.isfinite(ours) and math.isfinite(theirs) and ours != theirs
    ]
    known = target.max is not None and golden.max is not None
    return sum(parts) / len(parts) if parts else (0.0 if known else 1.0)


def align(target: Sequence[Op], golden: Sequence[Op], matches: Matches | None = None) -> list[Pair]:
    """The ops that are the same in both runs, each at most once, in the target's order.

    `matches` says which tensor is which; ops pair by them first, and none pairs against them.
    """
    from lakeprobe.mapping.tensors import match_tensors
    from lakeprobe.mapping.votes import ops_by_tensors

    matches = matches or match_tensors(target, golden)
    if len(target) == len(golden) and all(map(_same_ops, target, golden)):
        return [Pair(op, other, SEQUENCE) for op, other in zip(target, golden, strict=True)]
    found = _Alignment(target, golden, matches)
    for op, other in ops_by_tensors(target, golden, matches):
        found.add(op, other, "same values")
    found.modules()
    found.calls("forward")
    found.later_modules()
    for direction in dict.fromkeys(op.direction for op in target if op.direction != "forward"):
        found.calls(direction)
    return sorted(found.pairs.values(), key=lambda pair: pair.target.seq)


class _Alignment:
    """The pairs found so far, and what they say about the next ones."""

    def __init__(self, target: Sequence[Op], golden: Sequence[Op], matches: Matches) -> None:
        self.target, self.golden, self.matches = target, golden, matches
        self.pairs: dict[str, Pair] = {}
        self.taken: set[str] = set()
        self.paths: dict[str, str] = {}

    def add(self, target: Op, golden: Op, how: str) -> None:
        if target.name not in self.pairs and golden.name not in self.taken:
            self.pairs[target.name] = Pair(target, golden, how)
            self.taken.add(golden.name)

    def modules(self) -> None:
        """Forward calls of modules: where the paths are the same, by path and call; the others by their order."""
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
        """Backward calls and parameter gradients of modules, by what their forward calls paired with.

        Where a dump has not the forward call, they pair by number if both sides have equally many.
        """
        ours, theirs = (
            [op for op in side if op.kind in _MODULES and op.direction != "forward"]
            for side in (self.target, self.golden)
        )
        after = {op.forward_name: op for op in theirs if op.direction == "backward"}
        groups: tuple[dict[Hashable, list[Op]], dict[Hashable, list[Op]]] = (defaultdict(list), defaultdict(list))
        for op in ours:
            forward = self.pairs.get(op.forward_name)
            if forward is not None and op.direction == "backward":
                if forward.golden.name in after:
                    self.add(op, after[forward.golden.name], _by_path(op, forward.golden))
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
        """All ops of one direction in their order; pairs that are known stay, and hold the others in place."""
        ours, theirs = ([op for op in side if op.direction == direction] for side in (self.target, self.golden))
        self.in_order(ours, theirs)
        for index, other_index in self.after_forward(ours, theirs):
            op, other = ours[index], theirs[other_index]
            if op.family == other.family or self.score(op, other) > 0:
                self.add(op, other, "paired forward call")

    def after_forward(self, ours: Sequence[Op], theirs: Sequence[Op]) -> Iterable[tuple[int, int]]:
        """Places of backward calls whose forward calls are a pair."""
        places = {op.forward_name: index for index, op in enumerate(theirs) if op.direction == "backward"}
        for index, op in enumerate(ours):
            forward = self.pairs.get(op.forward_name) if op.direction == "backward" else None
            if forward is not None and forward.golden.name in places:
                yield index, places[forward.golden.name]

    def in_order(self, ours: Sequence[Op], theirs: Sequence[Op]) -> None:
        """Add what begins and ends alike, then a heavy chain of likely pairs, and then what fits in its gaps."""
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
        likely = [(places[0][op.name], places[1][other.name]) for op, other in likely_pairs(*free)]
        for index, other_index in {*likely, *self.after_forward(ours, theirs)}:
            weight = self.score(ours[index], theirs[other_index])
            if weight > 0:
                weights[index, other_index] = weight
        chain = heaviest_chain(weights)
        ends = [(-1, -1), *chain, (len(ours), len(theirs))]
        for (left, other_left), (right, other_right) in pairwise(ends):
            self.gap(ours[left + 1 : right], theirs[other_left + 1 : other_right])
        for index, other_index in chain:
            self.add(ours[index], theirs[other_index], "order and fingerprint")

    def without_equal_ends(self, ours: Sequence[Op], theirs: Sequence[Op]) -> tuple[Sequence[Op], Sequence[Op]]:
        """The ops between those that are the same at both ends, which are added.

        Ops of the same name, shapes and values are the same; where all names are, the values need not be.
        """
        alike = _same_ops if len(ours) == len(theirs) and all(map(_same_ops, ours, theirs)) else _equal_ops
        start = _count(alike, ours, theirs)
        end = _count(alike, reversed(ours[start:]), reversed(theirs[start:]))
        for place in (*range(start), *range(-end, 0)):
            self.add(ours[place], theirs[place], "same place")
        return ours[start : len(ours) - end], theirs[start : len(theirs) - end]

    def gap(self, ours: Sequence[Op], theirs: Sequence[Op]) -> None:
        """Add the best pairs of what lies between two neighbours of the chain."""
        ours = [op for op in ours if op.name not in self.pairs]
        theirs = [op for op in theirs if op.name not in self.taken]
        if [_form(op) for op in ours] == [_form(op) for op in theirs]:
            for op, other in zip(ours, theirs, strict=True):
                if not self.contradict(op, other) and not self.wired_otherwise(op, other):
                    self.add(op, other, SEQUENCE)
        elif ours and theirs and len(ours) * len(theirs) <= _LARGEST_GAP:
            for index, other_index in best_path(ours, theirs, self.score):
                self.add(ours[index], theirs[other_index], "order")

    def score(self, target: Op, golden: Op) -> float:
        """How much speaks for the pair; 0 or less if it is not to be made.

        Ops of one kind need a common shape. Ops of different kinds need two common fingerprints, one of them of an
        output, and must not merely hand on their input. Modules that pair with others do not share their calls.
        """
        if target.name in self.pairs or golden.name in self.taken or target.kind != golden.kind:
            return 0.0
        parent = self.pairs.get(target.parent or "")
        if parent is not None and parent.golden.name != golden.parent and golden.parent in self.taken:
            return 0.0
        if self.contradict(target, golden) or self.are_steps(target, golden):
            return 0.0
        kind = relation(target, golden)
        values = target.fingerprints & golden.fingerprints
        count = values.total()
        shapes = (target.shapes & golden.shapes).total()
        if not kind:
            produced = any(leaf.role == "output" and leaf.fingerprint in values for leaf in target.leaves)
            if count < 2 or not produced or target.carries or golden.carries:
                return 0.0
        elif target.leaves and golden.leaves and not shapes and not count:
            return 0.0
        score = kind + 2.0 * count + 0.5 * shapes + _nearness(target, golden) + self._context(target, golden)
        return score + (1.0 if target.name == golden.name else 0.0)

    def are_steps(self, target: Op, golden: Op) -> bool:
        """Whether what the two put out is far apart, and a step to what agrees."""
        outputs = [
            (leaf, other)
            for leaf in target.leaves
            for other in golden.leaves
            if leaf.role == other.role == "output" and leaf.elements == other.elements
        ]
        return bool(outputs) and all(self.matches.excludes(leaf, other) for leaf, other in outputs)

    def wired_otherwise(self, target: Op, golden: Op) -> bool:
        """Whether one slot of the two shows tensors that both runs have, and not the same one."""
        slots = {leaf.slot: leaf for leaf in golden.leaves}
        return any(self.matches.are_elsewhere(leaf, slots[leaf.slot]) for leaf in target.leaves if leaf.slot in slots)

    def contradict(self, target: Op, golden: Op) -> bool:
        """Whether what one of the two puts out is put out by another op of the other run."""
        return any(
            (tensor := self.matches.of(leaf, side)) is not None
            and any(sight.role == leaf.role for _, sight in tensor.sights)
            and not any(seen is other for seen, sight in tensor.sights if sight.role == leaf.role)
            for side, (op, other) in enumerate(((target, golden), (golden, target)))
            for leaf in op.leaves
            if leaf.role == "output"
        )

    def _context(self, target: Op, golden: Op) -> float:
        """What the pairs of the enclosing module and of the forward call say, and how alike the paths end."""
        score = 0.0
        if target.kind == "module":
            score += min(3, common_end(target.path.split("."), golden.path.split(".")))
        parent = self.pairs.get(target.parent or "")
        if parent is not None and parent.golden.name == golden.parent:
            score += 2.0
        if target.direction == "backward":
            forward = self.pairs.get(target.forward_name)
            if forward is not None:
                score += 3.0 if forward.golden.name == golden.forward_name else -2.0
        return score


def _by_path(op: Op, other: Op) -> str:
    return "same module path" if op.path == other.path else "paired module"


def relation(target: Op, golden: Op) -> float:
    """How the kinds of two ops are related: the same, a part of the other, or 0 for not at all."""
    if target.family == golden.family:
        return _SAME_FAMILY
    if PART_OF.get(target.family) == golden.family or PART_OF.get(golden.family) == target.family:
        return _PART_OF
    return 0.0


def likely_pairs(ours: Sequence[Op], theirs: Sequence[Op]) -> Iterable[tuple[Op, Op]]:
    """Ops that share a rare fingerprint, or have the same name but for its first word."""
    for keys in (lambda op: op.fingerprints, _own_names):
        alike: tuple[dict[Hashable, list[Op]], dict[Hashable, list[Op]]] = (defaultdict(list), defaultdict(list))
        for side, found in zip((ours, theirs), alike, strict=True):
            for op in side:
                for key in keys(op):
                    found[key].append(op)
        for key, ops in alike[0].items():
            others = alike[1].get(key, ())
            if len(ops) <= _MOST_ALIKE and len(others) <= _MOST_ALIKE:
                yield from ((op, other) for op in ops for other in others)


def _form(op: Op) -> Hashable:
    """What ops of one sequence have in common whatever their values are."""
    return (op.kind, op.direction, op.family, tuple((leaf.role, leaf.elements, leaf.kind) for leaf in op.leaves))


def _count(alike: Callable[[Op, Op], bool], ours: Iterable[Op], theirs: Iterable[Op]) -> int:
    """How many pairs there are before the first that is not alike."""
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
    """The pairs, increasing on both sides, whose weights add up to most. O(n log n) for n pairs."""
    others = sorted({other for _, other in weights})
    best: list[tuple[float, int]] = [(0.0, -1)] * (len(others) + 1)
    pairs = sorted(weights, key=lambda pair: (pair[0], -pair[1]))
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
    """The largest entry among the first `place` of a Fenwick tree of maxima."""
    best = (0.0, -1)
    while place > 0:
        best = max(best, tree[place], key=lambda entry: entry[0])
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
    """The pairs, increasing on both sides, whose scores add up to most, by weighing all of them. O(n·m)."""
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


def _on_grid(value: float) -> Hashable:
    if not math.isfinite(value) or value == 0:
        return str(abs(value)) if value == 0 else str(value)
    return (value > 0, round(math.log(abs(value)) * _GRID))


def _close(ours: float, theirs: float, magnitude: float) -> bool:
    if ours == theirs or (ours != ours and theirs != theirs):  # both NaN
        return True
    return abs(ours - theirs) <= TOLERANCE * magnitude < math.inf


def _nearness(target: Op, golden: Op) -> float:
    """Up to 1 if the statistics in equal slots of equal shape are close: a defect moves them, it does not swap them."""
    slots = {leaf.slot: leaf for leaf in golden.leaves}
    pairs = [(leaf, slots[leaf.slot]) for leaf in target.leaves[:8] if leaf.slot in slots]
    near = [1 - distance(leaf, other) for leaf, other in pairs if leaf.shape == other.shape]
    return sum(near) / len(near) if near else 0.0


def common_end(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """How many parts two paths have in common at their ends."""
    count = 0
    while count < min(len(ours), len(theirs)) and ours[-1 - count] == theirs[-1 - count]:
        count += 1
    return count
