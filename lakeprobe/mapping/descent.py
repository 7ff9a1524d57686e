"""Pairs tensors behind a difference: no values agree there, but what is made of the same is the same.

A tensor that only one run has is made of tensors that both have: its support, those from which ways over the ops lead
to it. Two tensors of equally many elements and of one support stand at the same place of two implementations, whatever
the steps between are. First, parameters that only one run has pair with what is left of the other run's.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice

from lakeprobe.mapping.align import Op, best_path, distance, relation
from lakeprobe.mapping.tensors import Matches, Tensor

_MOST_MEMBERS = 64
"""Tensors of one support and size up to which all ways to pair them are weighed; of more, only the last pair."""

_LEAST_SCORE = 0.9
"""What has to speak for a pair of tensors of one support: to be near (up to 1), of one kind (0.5), the last (0.4)."""

_FAR = 0.5
"""How far apart the statistics of a parameter may be at most that is wrong in one run."""

_ASSOCIATIVE = {"add", "iadd", "radd", "mul", "imul", "rmul"}
"""Kinds of op of which several make the same in any order."""

_MOST_DANGLING = 32
"""Outputs that nothing took in yet, among which is looked for what an input without maker is a part of."""

_MOST_BITS = 4_000_000_000
"""Bits of all supports up to which they are worked out: half a gigabyte."""

_Made = dict[Tensor, Op]
"""The forward op that puts a tensor out first."""

_Results = dict[Tensor, set[Tensor]]
"""What is made of each tensor in one op."""


def presume(target: Sequence[Op], golden: Sequence[Op], matches: Matches) -> None:
    """Note in `matches` which tensors of the two runs are at the same place, and which ops are rootless."""
    sides = (_forward(target), _forward(golden))
    made = tuple(_makers(ops, matches, side) for side, ops in enumerate(sides))
    for tensor, other in _sources(sides, made, matches):
        matches.presume(tensor, other)
    numbers = {tensor: number for number, pair in enumerate(_known(matches)) for tensor in pair}
    if len(numbers) * sum(tensor not in numbers for of_side in made for tensor in of_side) > _MOST_BITS:
        return
    supports = [_supports(ops, made[side], matches, side, numbers) for side, ops in enumerate(sides)]
    matches.rootless = {
        made[side][tensor] for side in (0, 1) for tensor, support in supports[side].items() if not support
    }
    results = tuple(_results(ops, matches, side) for side, ops in enumerate(sides))
    for ours, theirs in _classes(supports, matches, int):
        if len(ours) == len(theirs) == 1 and ours[0] in results[0] and theirs[0] in results[1]:
            matches.presume(ours[0], theirs[0])
        else:
            _presume_best(ours, theirs, made, results, matches)
    for side, ops in enumerate(sides):
        matches.partial |= _partial(ops, made[side], matches, side)
    for ours, theirs in _classes(supports, matches, int.bit_length):  # the newest: not all ways are recorded
        _presume_best(ours, theirs, made, results, matches)


def _classes(
    supports: Sequence[dict[Tensor, int]], matches: Matches, key: Callable[[int], int]
) -> list[tuple[list[Tensor], list[Tensor]]]:
    """The tensors without place of both sides that agree in size and in what `key` says of their supports."""
    classes: dict[Hashable, tuple[list[Tensor], list[Tensor]]] = defaultdict(lambda: ([], []))
    for side, of_side in enumerate(supports):
        for tensor, support in of_side.items():
            is_free = tensor not in matches.rejoining and tensor not in matches.presumed
            if support and is_free and tensor.leaf.kind == "float":
                classes[key(support), tensor.leaf.elements][side].append(tensor)
    return [(ours, theirs) for ours, theirs in classes.values() if ours and theirs]


def _forward(ops: Sequence[Op]) -> list[Op]:
    """The forward ops, without those of the optimizer: what is called behind the last backward op."""
    backward = [op.seq for op in ops if op.direction != "forward"]
    end = max(backward, default=math.inf)
    return [op for op in ops if op.direction == "forward" and op.seq < end]


def _known(matches: Matches) -> list[tuple[Tensor, Tensor]]:
    """The tensors that both runs have, in the order in which the target's were seen."""
    return sorted((*matches.pairs(), *matches.presumed_pairs()), key=lambda pair: pair[0].leaf.row)


def _makers(ops: Sequence[Op], matches: Matches, side: int) -> _Made:
    """The op that makes each tensor; what only hands on what it takes in makes nothing."""
    made: _Made = {}
    seen: set[Tensor] = set()
    for op in ops:
        taken, put_out = _shown(op, matches, side)
        seen.update(taken)
        for tensor in put_out:
            if tensor not in seen:
                made[tensor] = op
                seen.add(tensor)
    return made


def _shown(op: Op, matches: Matches, side: int) -> tuple[list[Tensor], list[Tensor]]:
    """The tensors that an op takes in and those that it puts out."""
    shown: tuple[list[Tensor], list[Tensor]] = ([], [])
    for leaf in op.leaves:
        tensor = matches.by_row[side].get(leaf.row)
        if tensor is not None:
            shown[leaf.role == "output"].append(tensor)
    return shown


def _sources(
    sides: tuple[list[Op], list[Op]], made: tuple[_Made, ...], matches: Matches
) -> Iterator[tuple[Tensor, Tensor]]:
    """Parameters that only one run has: of equally many elements, and beside the same one that both runs have.

    The k-th pairs with the k-th, where equally many are left.
    """
    left: dict[Hashable, tuple[list[Tensor], list[Tensor]]] = defaultdict(lambda: ([], []))
    beside: dict[Tensor, set[Tensor]] = {}
    for side, ops in enumerate(sides):
        known: Tensor | None = None
        since: list[Tensor] = []
        for tensor in _parameters(ops, made[side], matches, side):
            if tensor in matches.partner:
                known = tensor if side == 0 else matches.partner[tensor]
                for waiting in since:
                    beside[waiting].add(known)
                since = []
            else:
                beside[tensor] = set() if known is None else {known}
                left[tensor.leaf.elements, tensor.leaf.kind][side].append(tensor)
                since.append(tensor)
    for ours, theirs in left.values():
        if len(ours) == len(theirs):
            for tensor, other in zip(ours, theirs, strict=True):
                if beside[tensor] & beside[other] and distance(tensor.leaf, other.leaf) < _FAR:
                    yield tensor, other


def _parameters(ops: Sequence[Op], made: _Made, matches: Matches, side: int) -> list[Tensor]:
    """What modules hold, in the order in which it is used; without modules, what ops take in that none made."""
    taken = [
        (leaf.role, tensor)
        for op in ops
        for leaf in op.leaves
        if leaf.role != "output" and (tensor := matches.by_row[side].get(leaf.row)) is not None and tensor not in made
    ]
    held = {tensor for role, tensor in taken if role == "parameters"}
    return [tensor for tensor in dict.fromkeys(tensor for _, tensor in taken) if not held or tensor in held]


def _supports(
    ops: Sequence[Op], made: _Made, matches: Matches, side: int, numbers: dict[Tensor, int]
) -> dict[Tensor, int]:
    """Per tensor that an op of this run makes and the other run has not, its support: a bit for each known tensor."""
    supports: dict[Tensor, int] = {}
    held = set(_parameters(ops, made, matches, side))
    dangling: dict[Tensor, int] = {}
    for op in ops:
        taken, put_out = _shown(op, matches, side)
        support = 0
        for tensor in taken:
            if tensor in numbers:
                support |= 1 << numbers[tensor]
            elif tensor in supports:
                support |= supports[tensor]
            elif tensor not in held:
                support |= _of_whole(tensor, dangling)
            if not op.is_view:
                dangling.pop(tensor, None)
        for tensor in put_out:
            if tensor not in numbers and tensor not in supports and made.get(tensor) is op:
                supports[tensor] = support
            if made.get(tensor) is op:
                dangling[tensor] = 1 << numbers[tensor] if tensor in numbers else support
    return supports


def _of_whole(part: Tensor, dangling: dict[Tensor, int]) -> int:
    """The support of the last output that nothing took in and that `part` may be cut from or made of.

    Not all ops are recorded: slices and parts of a tensor leave no trace in some dumps.
    """
    for whole, support in islice(reversed(dangling.items()), _MOST_DANGLING):
        ours, theirs = part.leaf, whole.leaf
        if theirs.kind != ours.kind:
            continue
        if theirs.elements == ours.elements:
            return support
        is_within = None not in (ours.max, ours.min, theirs.max, theirs.min) and (
            (theirs.min or 0) <= (ours.min or 0) <= (ours.max or 0) <= (theirs.max or 0)
        )
        if theirs.elements % max(ours.elements, 1) == 0 and is_within:
            return support
    return 0


def _results(ops: Sequence[Op], matches: Matches, side: int) -> _Results:
    results: _Results = defaultdict(set)
    for op in ops:
        taken, put_out = _shown(op, matches, side)
        for tensor in taken:
            results[tensor].update(put_out)
    return results


def _partial(ops: Sequence[Op], made: _Made, matches: Matches, side: int) -> set[Tensor]:
    """Sums and products that only go into another of their kind, which has its place in both runs.

    One program adds a and b first, another b and c.
    """
    found = {
        tensor for tensor, op in made.items() if op.family.strip("_") in _ASSOCIATIVE and tensor not in matches.presumed
    }
    taken: set[Tensor] = set()
    for op in ops:
        if op.kind != "api" or op.is_view:
            continue
        shown, put_out = _shown(op, matches, side)
        taken.update(shown)
        is_whole = any(tensor in matches.presumed for tensor in put_out)
        for tensor in shown:
            if tensor in found and not (is_whole and op.family.strip("_") == made[tensor].family.strip("_")):
                found.discard(tensor)
    return found & taken


def _presume_best(
    ours: list[Tensor],
    theirs: list[Tensor],
    made: tuple[_Made, ...],
    results: tuple[_Results, ...],
    matches: Matches,
) -> None:
    """Pair tensors of one class, in the order in which they are made, as most speaks for it."""
    lasts = tuple(_lasts(tensors, of_side) for tensors, of_side in zip((ours, theirs), results, strict=True))
    if max(len(ours), len(theirs)) > _MOST_MEMBERS:
        ours = [tensor for tensor in ours if tensor in lasts[0]]
        theirs = [tensor for tensor in theirs if tensor in lasts[1]]
    if max(len(ours), len(theirs)) > _MOST_MEMBERS:
        return

    def score(tensor: Tensor, other: Tensor) -> float:
        one, two = made[0][tensor], made[1][other]
        kind = 0.0 if one.is_view or two.is_view else min(1.0, relation(one, two))
        are_last = tensor in lasts[0] and other in lasts[1]
        total = 1 - distance(tensor.leaf, other.leaf) + 0.5 * kind + 0.4 * are_last
        return total if total >= _LEAST_SCORE else 0.0

    for place, other_place in best_path(ours, theirs, score):
        matches.presume(ours[place], theirs[other_place])


def _lasts(tensors: list[Tensor], results: _Results) -> set[Tensor]:
    """The tensors of which no op makes another of the same support and size."""
    return {tensor for tensor in tensors if not any(other in results.get(tensor, ()) for other in tensors)}
