"""Finds ops of one program that the other skips, where two ops that are the same take a tensor before and behind them.

Where one program computes in two ops what the other computes in one, an op without counterpart is a step in between. It
is missing in the other program if that one goes on with what goes into the step, and comes to another result.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Sequence

from lakeprobe.mapping.align import Pair
from lakeprobe.mapping.ends import differing_ends
from lakeprobe.mapping.ops import Op, relation
from lakeprobe.mapping.tensors import Matches, Tensor, Tensors, ops_behind
from lakeprobe.mapping.units import Numbers, Unit

_LONGEST = 16
"""The largest number of ops that are searched for the way from one tensor to another."""

_ALIKE = {"div": "mul", "rdiv": "mul", "rmul": "mul", "imul": "mul", "radd": "add", "iadd": "add", "rsub": "sub"}
"""Kinds of op that do what another one does."""

_TWO_SIDED = {"add", "sub", "mul", "biasadd"}
"""Kinds of op, see `_kind`, that put a second tensor to one and keep its size."""

_MASKING = {"maskedfill", "where", "select"}
"""Kinds of op that put numbers in place of masked ones."""


def find_skipped(pairs: Sequence[Pair], target: Unit, golden: Unit, matches: Matches) -> tuple[set[Op], set[Op]]:
    """Return the ops of the target that golden skips, and those of golden that the target skips."""
    places = [pair.target.place for pair in pairs], [pair.golden.place for pair in pairs]
    sides = [
        _Side(unit, paired, tensors, partner)
        for unit, paired, tensors, partner in zip((target, golden), places, matches.sides, matches.partner, strict=True)
    ]
    found: tuple[set[Op], set[Op]] = (set(), set())
    for pair in pairs:
        is_call = pair.target.kind == "api" and pair.target.direction == "forward"
        if is_call and sides[0].is_behind[pair.target.place] and sides[1].is_behind[pair.golden.place]:
            found[1].update(_skipped_before(pair.target, pair.golden, *sides))
            found[0].update(_skipped_before(pair.golden, pair.target, *sides[::-1]))
    last = differing_ends(target, golden)
    if last is not None:
        found[1].update(_skipped_at_end(*last, sides[1]))
        found[0].update(_skipped_at_end(*last[::-1], sides[0]))
    return found


class _Side:
    """The forward ops of one run: what makes each tensor, and which have no counterpart."""

    def __init__(self, unit: Unit, paired: Sequence[int], tensors: Tensors, partner: Numbers) -> None:
        self.is_behind = ops_behind(unit, tensors, partner)
        self.paired = frozenset(paired)
        self.maker: dict[Tensor, Op] = {}
        for op in unit.ops:
            if op.kind == "api" and op.direction == "forward":
                for tensor in _given(op) - _taken(op):
                    self.maker.setdefault(tensor, op)

    def is_free(self, op: Op) -> bool:
        """Return whether `op` is a call in the forward pass without counterpart."""
        return op.kind == "api" and op.direction == "forward" and op.place not in self.paired

    def before(self, op: Op) -> list[Op]:
        """Return `op` and the calls without counterpart that what it takes is made in, the last first."""
        found = [op]
        for part in found:
            makers = (self.maker.get(tensor) for tensor in _taken(part))
            found += [made for made in makers if made is not None and self.is_free(made) and made not in found]
            if len(found) > _LONGEST:
                break
        return sorted(found, key=lambda part: -part.seq)

    def behind(self, op: Op) -> list[Op]:
        """Return the calls without counterpart that take what `op` gives, or what others of them make of it."""
        found = [op]
        for part in found:
            takers = [sight.op for tensor in _given(part) for sight in tensor.sights if sight.role == "input"]
            found += [taker for taker in dict.fromkeys(takers) if self.is_free(taker) and taker not in found]
            if len(found) > _LONGEST:
                break
        return found[1:]

    def way(self, start: Tensor, end: Tensor) -> list[Op]:
        """Return the ops without counterpart that make `end` of `start`, the last first; none if others do."""
        way: list[Op] = []
        tensor: Tensor | None = end
        while tensor is not None and len(way) < _LONGEST:
            op = self.maker.get(tensor)
            if op is None or not self.is_free(op):
                return []
            way.append(op)
            taken = _taken(op)
            if start in taken:
                return way
            tensor = next((each for each in taken if each.partner is None and each in self.maker), None)
        return []


def _skipped_before(one: Op, other: Op, side: _Side, other_side: _Side) -> Iterator[Op]:
    """Yield the ops before `other` that the run of `one` skips."""
    group, other_group = side.before(one), other_side.before(other)
    for first, second in _of_one_kind(one, other, group, other_group):
        ours, theirs = _taken(first), _taken(second)
        others = set(theirs).union(*(_taken(op) for op in other_group if op.seq > second.seq))
        taken = [tensor for tensor in ours if tensor.partner is not None and tensor.partner not in others]
        made = [tensor for tensor in theirs if _is_alone(tensor) and tensor in other_side.maker]
        if len(taken) == len(made) == 1 and _are_alike(taken[0], made[0]) and taken[0].partner is not None:
            way = [op for op in other_side.way(taken[0].partner, made[0]) if not op.is_view]
            later = [*(op for op in group if op.seq > first.seq), *side.behind(first)]
            if not (_does_all(first, way, taken[0].partner) or _are_alike_steps(later, way)):
                yield from way
            return
    yield from _with_more(one, group, other, other_group, side, other_side)


def _of_one_kind(one: Op, other: Op, group: Sequence[Op], other_group: Sequence[Op]) -> Iterator[tuple[Op, Op]]:
    """Yield the two ops, or parts of them, that are of one kind or multiply with the same tensor."""
    if relation(one, other):
        yield one, other
    for first in group:
        for second in other_group:
            common = {tensor.partner for tensor in _taken(first)} & _taken(second)
            if (first, second) != (one, other) and relation(first, second) and common:
                yield first, second


def _with_more(
    one: Op, group: Sequence[Op], other: Op, other_group: Sequence[Op], side: _Side, other_side: _Side
) -> Iterator[Op]:
    """Yield the ops that add a tensor to what `one` takes, or multiply one with it, which its run does nowhere."""
    ours = {tensor for op in group for tensor in _taken(op)}
    known = {tensor.partner for tensor in ours}
    if any(tensor.partner is None and tensor not in side.maker for tensor in ours):
        return  # a parameter that may hold what the other run adds
    for op in other_group:
        if op is other or _kind(op) not in _TWO_SIDED or not all(map(_is_alone, _given(op))):
            continue
        taken = _taken(op)
        basis, more = taken & known, list(taken - known)
        if len(basis) == len(more) == 1 and not (_is_masked(more[0], group) or _is_used(more[0], side, other_side)):
            yield op


def _is_masked(tensor: Tensor, group: Sequence[Op]) -> bool:
    """Return whether a tensor is zeros and ones, and an op of the group masks: with the same, or with the rest."""
    return (tensor.leaf.min, tensor.leaf.max) == (0, 1) and any(_kind(op) in _MASKING for op in group)


def _is_used(tensor: Tensor, side: _Side, other_side: _Side) -> bool:
    """Return whether an op of the other run, whose result only that one has, takes a tensor, or what it is made of."""
    if tensor.partner is None:
        return tensor in other_side.maker
    takers = (sight.op for sight in tensor.partner.sights if sight.role == "input")
    return any(side.is_free(op) and all(map(_is_alone, _given(op))) for op in takers)


def _does_all(op: Op, way: Sequence[Op], start: Tensor) -> bool:
    """Return whether `op` takes what else goes into steps on the way from `start`, as one that does all at once."""
    ours = _taken(op)
    return any(tensor.like in ours for step in way for tensor in _taken(step) - {start})


def _are_alike_steps(later: Sequence[Op], way: Sequence[Op]) -> bool:
    """Return whether later steps are of the kinds of those on the way, as where a scale is applied later."""
    return not set(map(_kind, later)).isdisjoint(map(_kind, way))


def _skipped_at_end(last: Tensor, other_last: Tensor, other_side: _Side) -> Iterator[Op]:
    """Yield the ops that make the other run's last result of what is the last result of this run."""
    if last.partner is not None and other_last.partner is None:
        yield from other_side.way(last.partner, other_last)


def _are_alike(tensor: Tensor, other: Tensor) -> bool:
    return (tensor.leaf.elements, tensor.leaf.kind) == (other.leaf.elements, other.leaf.kind)


def _is_alone(tensor: Tensor) -> bool:
    """Return whether only one run has the tensor, and it is no step on the way to what both have."""
    return tensor.partner is None and not tensor.is_rejoining


def _kind(op: Op) -> str:
    word = op.family.strip("_")
    return _ALIKE.get(word, word)


def _taken(op: Op) -> KeysView[Tensor]:
    return _shown(op, "input")


def _given(op: Op) -> KeysView[Tensor]:
    return _shown(op, "output")


def _shown(op: Op, role: str) -> KeysView[Tensor]:
    """Return the tensors that leaves of that role show, each once, in their order, which a set would not keep."""
    return {leaf.tensor: None for leaf in op.leaves if leaf.role == role and leaf.tensor is not None}.keys()
