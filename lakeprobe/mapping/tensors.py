"""Finds which tensor of one run is which of the other, by what was recorded of them and nothing else.

A leaf is one sight of a tensor: what an op puts out is what others take in. Within a run, leaves with the same number
of elements and the same statistics are one tensor, whatever its shape: a view does not change them. Between two runs
the statistics agree to `TOLERANCE` only, since two devices round each in their own way.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import median

from lakeprobe.mapping.align import TOLERANCE, Leaf, Op, distance, same_values

_MOST_CANDIDATES = 32
"""A tensor that agrees with more tensors of the other run is no evidence of any."""

_CLOSER = 0.1
"""A candidate is the one if it is this many times nearer than the next."""

_NEAR = 0.1
"""How far apart the statistics of a tensor may be behind a difference, where what is made of it agrees again."""

_FAR, _LEAST_USUAL = 20.0, 2e-6
"""Tensors agree as the others do up to so many times their median distance, which is at least so large."""

_MANY = 2000
"""Pairs of tensors, the first ones, that tell how far the others are apart."""

_SAME_SUM = 1e-5
"""How far norm and mean of one tensor may be apart in two layouts, as a share of its norm."""


@dataclass(eq=False)
class Tensor:
    """A tensor of one run: the leaves in which it was seen, each with its op, in the order of the dump."""

    sights: list[tuple[Op, Leaf]] = field(default_factory=list)

    @property
    def leaf(self) -> Leaf:
        """Where it was seen first."""
        return self.sights[0][1]

    @property
    def direction(self) -> str:
        """Whether it is of the forward or of the backward pass."""
        return self.sights[0][0].direction


@dataclass(eq=False)
class Matches:
    """Which tensor is which: both ways, by the row of a leaf the tensor that it shows."""

    by_row: tuple[dict[int, Tensor], dict[int, Tensor]]
    partner: dict[Tensor, Tensor] = field(default_factory=dict)
    rejoining: set[Tensor] = field(default_factory=set)
    """Tensors that only one run has although what is made of them is in both: steps on another way to the same."""
    presumed: dict[Tensor, Tensor] = field(default_factory=dict)
    """Tensors whose values differ, at the same place of the two programs (mapping/descent.py); both ways."""
    rootless: set[Op] = field(default_factory=set)
    """Forward ops that make what only one run has, of nothing that both have."""

    partial: set[Tensor] = field(default_factory=set)
    """Sums of which another run adds the parts in another order."""

    def pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Each tensor of the target that golden has, and golden's."""
        for tensor in dict.fromkeys(self.by_row[0].values()):
            if tensor in self.partner:
                yield tensor, self.partner[tensor]

    def presumed_pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Each tensor of the target that stands where one of golden does, though its values differ, and golden's."""
        for tensor in dict.fromkeys(self.by_row[0].values()):
            if tensor in self.presumed:
                yield tensor, self.presumed[tensor]

    def add(self, target: Tensor, golden: Tensor) -> None:
        """Say that the two are one."""
        self.partner[target] = golden
        self.partner[golden] = target

    def are_rootless(self, target: Op, golden: Op) -> bool:
        """Whether nothing that both runs have goes into one of the two: nothing says that they belong together."""
        return target in self.rootless or golden in self.rootless

    def is_partial(self, leaf: Leaf, side: int) -> bool:
        """Whether `leaf` shows a sum of which the other run adds the parts in another order."""
        return self.by_row[side].get(leaf.row) in self.partial

    def presume(self, target: Tensor, golden: Tensor) -> None:
        """Say that the two stand at the same place, though their values differ."""
        self.presumed[target] = golden
        self.presumed[golden] = target

    def like(self, leaf: Leaf, side: int) -> Tensor | None:
        """The tensor of the other side that stands where `leaf`, of `side`, does: the same, or behind a difference."""
        tensor = self.by_row[side].get(leaf.row)
        return None if tensor is None else self.partner.get(tensor) or self.presumed.get(tensor)

    def same(self, target: Leaf, golden: Leaf) -> bool:
        """Whether the two leaves show one tensor."""
        ours = self.by_row[0].get(target.row)
        return ours is not None and ours in self.partner and self.partner[ours] is self.by_row[1].get(golden.row)

    def is_step(self, leaf: Leaf, side: int) -> bool:
        """Whether `leaf` shows a tensor that only its own run has, though what is made of it agrees."""
        return self.by_row[side].get(leaf.row) in self.rejoining

    def excludes(self, target: Leaf, golden: Leaf) -> bool:
        """Whether values say that the two are not one: one is elsewhere, or is but a step to what agrees."""
        if self.same(target, golden):
            return False
        if (self.of(target, 0) or self.of(golden, 1)) is not None and distance(target, golden) > _NEAR:
            return True
        return (self.is_step(target, 0) or self.is_step(golden, 1)) and distance(target, golden) > _NEAR

    def are_elsewhere(self, target: Leaf, golden: Leaf) -> bool:
        """Whether both show tensors that the other run has, and not one and the same."""
        ours, theirs = self.of(target, 0), self.of(golden, 1)
        return ours is not None and theirs is not None and not self.same(target, golden)

    def agree_by_slot(self, target: Op, golden: Op) -> bool:
        """Whether two ops of one kind have a tensor in common, and none of them takes in what the other does not."""
        if target.family != golden.family:
            return False
        shown = [
            {self.partner.get(tensor, tensor) if side else tensor for tensor in tensors}
            for side, tensors in enumerate((self._known(target, 0), self._known(golden, 1)))
        ]
        return bool(shown[0] & shown[1]) and not (shown[0] - shown[1] and shown[1] - shown[0])

    def _known(self, op: Op, side: int) -> set[Tensor]:
        """The tensors of `op` that the other run has too."""
        shown = (self.by_row[side].get(leaf.row) for leaf in op.leaves)
        return {tensor for tensor in shown if tensor is not None and tensor in self.partner}

    def differ(self, target: Op, golden: Op) -> bool:
        """Whether the two ops put out what the other run has nowhere, and what leads to nothing that agrees."""
        return all(
            leaf.row in self.by_row[side] and self.of(leaf, side) is None and not self.is_step(leaf, side)
            for side, op in enumerate((target, golden))
            for leaf in op.leaves
            if leaf.role == "output" and is_evidence(leaf)
        )

    def of(self, leaf: Leaf, side: int) -> Tensor | None:
        """The tensor of the other side that `leaf`, of `side`, shows."""
        tensor = self.by_row[side].get(leaf.row)
        return None if tensor is None else self.partner.get(tensor)


def match_tensors(target: Sequence[Op], golden: Sequence[Op]) -> Matches:
    """The tensors that both runs have. Those that agree with several are told apart by nearness, then by order."""
    ours, theirs = group(target), group(golden)
    matches = Matches((_by_row(ours), _by_row(theirs)))
    candidates = _candidates(ours, theirs)
    rivals: dict[Tensor, list[Tensor]] = defaultdict(list)
    for tensor, others in candidates.items():
        for other in others:
            rivals[other].append(tensor)
    for tensor, others in candidates.items():
        if len(others) == 1 and len(rivals[others[0]]) == 1:
            matches.add(tensor, others[0])
    _match_nearest(matches, candidates)
    _match_in_order(matches, candidates, rivals)
    limit = _usual_distance(matches)
    for side, ops in enumerate((target, golden)):
        matches.rejoining |= _rejoining(ops, matches, side, limit)
    return matches


def _rejoining(ops: Sequence[Op], matches: Matches, side: int, limit: float) -> set[Tensor]:
    """The tensors without partner from which a way leads to one with a partner, over the ops that take them in.

    A single number, as a loss, agrees behind a difference that is small. Numbers that were picked by their size (topk,
    argmax, a comparison) may agree though what they were picked from does not.
    """
    found: set[Tensor] = set()
    for op in reversed(ops):
        shown = [(leaf.role, matches.by_row[side].get(leaf.row)) for leaf in op.leaves]
        taken = {tensor for role, tensor in shown if role != "output" and tensor is not None}
        alone = [tensor for tensor in taken if tensor not in matches.partner and tensor not in found]
        if not alone:
            continue
        made = {tensor for role, tensor in shown if role == "output" and tensor is not None} - taken
        agreeing = {
            tensor.leaf.kind
            for tensor in made
            if tensor in found or _agrees(tensor, matches.partner.get(tensor), limit)
        }
        found.update(tensor for tensor in alone if ("float" in agreeing if tensor.leaf.kind == "float" else agreeing))
    return found


def _agrees(tensor: Tensor, partner: Tensor | None, limit: float) -> bool:
    return partner is not None and tensor.leaf.elements > 1 and _distance(tensor, partner) <= limit


def _usual_distance(matches: Matches) -> float:
    """How far apart two tensors may be that agree as the others do: behind a small difference some are still near."""
    some = islice(matches.pairs(), _MANY)
    return max(_LEAST_USUAL, _FAR * median([_distance(*pair) for pair in some] or [0.0]))


def is_evidence(leaf: Leaf) -> bool:
    """Whether a tensor's statistics say which it is: not where all elements are one number that many tensors have."""
    if leaf.digest is not None:
        return True
    if leaf.max is None or leaf.min is None or leaf.kind == "bool":
        return False
    if leaf.max == leaf.min:
        return leaf.elements == 1 and leaf.kind == "float" and math.isfinite(leaf.max) and leaf.max != round(leaf.max)
    return leaf.elements > 1


def group(ops: Iterable[Op]) -> list[Tensor]:
    """The tensors of a run that say which they are, in the order in which they were seen first."""
    alike: dict[Hashable, list[Tensor]] = defaultdict(list)
    found = []
    for op in ops:
        for leaf in op.leaves:
            if not is_evidence(leaf):
                continue
            known = alike[_key(leaf)]
            tensor = next((tensor for tensor in known if _same_sums(tensor.leaf, leaf)), None)
            if tensor is None:
                tensor = Tensor()
                known.append(tensor)
                found.append(tensor)
            tensor.sights.append((op, leaf))
    return found


def _key(leaf: Leaf) -> Hashable:
    if leaf.digest is not None:
        return (leaf.elements, leaf.digest)
    return (leaf.kind, leaf.elements, repr(leaf.max), repr(leaf.min))


def _same_sums(leaf: Leaf, other: Leaf) -> bool:
    """Whether norm and mean agree, which are summed in the order of the layout; a rotation keeps all but the mean."""
    norm, mean = leaf.norm, leaf.mean
    if norm is None or other.norm is None or not (math.isfinite(norm) and math.isfinite(other.norm)):
        return True
    slack = _SAME_SUM * max(norm, other.norm)
    same_mean = mean is None or other.mean is None or abs(mean - other.mean) <= slack
    return abs(norm - other.norm) <= slack and same_mean


def _by_row(tensors: Iterable[Tensor]) -> dict[int, Tensor]:
    return {leaf.row: tensor for tensor in tensors for _, leaf in tensor.sights}


def _candidates(ours: Iterable[Tensor], theirs: Iterable[Tensor]) -> dict[Tensor, list[Tensor]]:
    """Per tensor of the target those of golden whose statistics agree with its own."""
    by_digest: dict[Hashable, list[Tensor]] = defaultdict(list)
    buckets: dict[Hashable, list[Tensor]] = defaultdict(list)
    for tensor in theirs:
        leaf = tensor.leaf
        if leaf.digest is not None:
            by_digest[leaf.elements, leaf.digest].append(tensor)
        else:
            buckets[_bucket(tensor)].append(tensor)
    sizes: dict[Hashable, list[float]] = {}
    for key, bucket in buckets.items():
        bucket.sort(key=lambda tensor: _size(tensor.leaf))
        sizes[key] = [_size(tensor.leaf) for tensor in bucket]
    found = {}
    for tensor in ours:
        leaf = tensor.leaf
        if leaf.digest is not None:
            others = by_digest.get((leaf.elements, leaf.digest), [])
        else:
            others = list(_agreeing(tensor, buckets.get(_bucket(tensor), []), sizes.get(_bucket(tensor), [])))
        if 0 < len(others) <= _MOST_CANDIDATES:
            found[tensor] = others
    return found


def _bucket(tensor: Tensor) -> Hashable:
    leaf = tensor.leaf
    return (tensor.direction == "forward", leaf.kind, leaf.elements)


def _size(leaf: Leaf) -> float:
    """What a bucket is sorted by: the larger magnitude of max and min."""
    sizes = [abs(number) for number in (leaf.max, leaf.min) if number is not None and math.isfinite(number)]
    return max(sizes, default=math.inf)


def _agreeing(tensor: Tensor, bucket: Sequence[Tensor], sizes: Sequence[float]) -> Iterator[Tensor]:
    size = _size(tensor.leaf)
    slack = 2 * TOLERANCE * size if math.isfinite(size) else 0.0
    for other in bucket[bisect_left(sizes, size - slack) : bisect_right(sizes, size + slack)]:
        if same_values(tensor.leaf, other.leaf):
            yield other


def _distance(target: Tensor, golden: Tensor) -> float:
    """How far the statistics of two tensors that agree are apart, as a share of the tensor."""
    ours, theirs = target.leaf, golden.leaf
    parts = [
        abs(one - other) / scale
        for one, other, scale in (
            (ours.max, theirs.max, _size(ours)),
            (ours.min, theirs.min, _size(ours)),
            (ours.norm, theirs.norm, ours.norm),
        )
        if one is not None and other is not None and scale and math.isfinite(one - other) and math.isfinite(scale)
    ]
    return max(parts, default=0.0)


def _match_nearest(matches: Matches, candidates: dict[Tensor, list[Tensor]]) -> None:
    """Match what is far nearer to one than to any other, on both sides."""
    nearest: dict[Tensor, tuple[Tensor, float]] = {}
    backwards: dict[Tensor, list[tuple[float, Tensor]]] = defaultdict(list)
    for tensor, others in candidates.items():
        if tensor in matches.partner:
            continue
        ways = sorted((_distance(tensor, other), place) for place, other in enumerate(others))
        for far, place in ways:
            backwards[others[place]].append((far, tensor))
        if len(ways) == 1 or ways[0][0] < _CLOSER * ways[1][0]:
            nearest[tensor] = others[ways[0][1]], ways[0][0]
    for tensor, (other, near) in nearest.items():
        rest = [far for far, rival in backwards[other] if rival is not tensor]
        is_free = tensor not in matches.partner and other not in matches.partner
        if is_free and (not rest or near < _CLOSER * min(rest)):
            matches.add(tensor, other)


def _match_in_order(
    matches: Matches, candidates: dict[Tensor, list[Tensor]], rivals: dict[Tensor, list[Tensor]]
) -> None:
    """Match the k-th with the k-th where equally many on both sides agree with each other."""
    for tensor, others in candidates.items():
        if tensor in matches.partner:
            continue
        theirs = [other for other in others if other not in matches.partner]
        ours = [rival for rival in rivals[others[0]] if rival not in matches.partner]
        if len(theirs) == len(ours):
            for own, other in zip(ours, sorted(theirs, key=lambda other: other.leaf.row), strict=True):
                if other in candidates[own]:
                    matches.add(own, other)
