"""Pairs tensors downstream of a difference. Their values disagree, but they are made of the same tensors.

A tensor that only one run has is made of tensors that both have. Those from which paths over the ops lead to it are its
support. Two tensors with the same number of elements and the same support are at the same place of two implementations,
whatever the steps in between. Before that, parameters that only one run has are paired with the other run's remaining
parameters.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain, islice

import numpy

from lakeprobe.mapping.align import best_path
from lakeprobe.mapping.ends import differing_ends
from lakeprobe.mapping.ops import Op, distance, has_few_digits, relation
from lakeprobe.mapping.tensors import Matches, Tensor, Tensors, are_on_two_ways, presume
from lakeprobe.mapping.units import OUTPUT, PARAMETERS, Numbers, Unit

_MOST_MEMBERS = 64
"""The largest class of tensors with the same support and size in which all pairings are scored.

Larger classes pair only their last tensors.
"""

_ATTENTION_AND_END = {"multiheadattentionforward", "linear"}
"""Kinds of op: an attention in one op, and the layer that is its last part in another program."""

_LEAST_SCORE = 0.9
"""The least score of a pair of tensors with the same support: closeness (up to 1), being near (0.5), same kind
(0.5), last of both (0.4)."""

_NEAR = 0.05
"""The distance up to which closeness says more than the place: a small defect moves a tensor less than that."""

_UNRELATED = 0.25
"""The largest distance of tensors that unrelated kinds of op made: others are steps on two ways to the same tensor."""

_FAR = 0.5
"""The largest distance between the statistics of a parameter that is wrong in one run."""

_ASSOCIATIVE = {"add", "iadd", "radd", "mul", "imul", "rmul"}
"""Kinds of op that can be chained in any order with the same result."""

_MOST_DANGLING = 32
"""The number of latest unused outputs that are searched for the source of an input without a maker."""

_MOST_BITS = 4_000_000_000
"""The largest total size of all supports in bits: half a gigabyte."""

_Shown = Sequence[tuple[Op, list[Tensor], list[Tensor]]]
"""Ops in order, each with the tensors that it takes in and those that it puts out."""

_Made = dict[Tensor, Op]
"""The forward op that makes a tensor first."""

_Results = dict[Tensor, set[Tensor]]
"""The tensors that are made of each tensor in one op."""


def presume_places(target: Unit, golden: Unit, matches: Matches) -> None:
    """Presume which tensors of the two runs are at the same place, and note the ops without roots in `matches`."""
    sides = (_forward(target.ops), _forward(golden.ops))
    first = [
        _first_shown(unit, ops, of_side)
        for unit, ops, of_side in zip((target, golden), sides, matches.sides, strict=True)
    ]
    made = tuple(of_side for of_side, _ in first)
    held = tuple(of_side for _, of_side in first)
    for tensor, other in chain(_sources(held), _fed_alike(held[0]), _ends(target, golden)):
        presume(tensor, other)
    shown_in = [[(op, *_shown(op)) for op in ops] for ops in sides]
    numbers = {tensor: number for number, pair in enumerate(_known(matches)) for tensor in pair}
    unknown = [sum(tensor not in numbers for tensor in of_side) for of_side in made]
    if len(numbers) * sum(unknown) > _MOST_BITS:
        return
    supports = [
        _supports(shown_in[side], made[side], set(held[side]), numbers) if unknown[side] else {} for side in (0, 1)
    ]
    matches.rootless.update(
        made[side][tensor] for side in (0, 1) for tensor, support in supports[side].items() if not support
    )
    results, modules = tuple(map(_results, shown_in)), _modules(target.ops, golden.ops)
    if all(supports):
        for ours, theirs in _classes(supports, int):
            if len(ours) == len(theirs) == 1 and ours[0] in results[0] and theirs[0] in results[1]:
                _presume(ours[0], theirs[0])
            else:
                _presume_best(ours, theirs, made, results, modules)
    if next(matches.presumed_pairs(), None) is not None:
        for side in (0, 1):
            _mark_partial(shown_in[side], made[side])
    if all(supports):
        for ours, theirs in _classes(supports, int.bit_length):  # not all paths are recorded
            _presume_best(ours, theirs, made, results, modules)


def _classes(
    supports: Sequence[dict[Tensor, int]], key: Callable[[int], int]
) -> list[tuple[list[Tensor], list[Tensor]]]:
    """Return the unplaced tensors of both sides in classes of equal size and equal `key` of their supports.

    Steps on the way to what agrees need no place. In 16 bits less agrees, so what is a step in one run alone keeps its
    counterpart from another's place.
    """
    classes: dict[Hashable, tuple[list[Tensor], list[Tensor]]] = defaultdict(lambda: ([], []))
    for side, of_side in enumerate(supports):
        for tensor, support in of_side.items():
            is_step = tensor.is_rejoining and not has_few_digits(tensor.leaf.norm)
            is_free = not is_step and tensor.presumed is None
            if support and is_free and tensor.leaf.kind == "float":
                classes[key(support), tensor.leaf.elements][side].append(tensor)
    return [(ours, theirs) for ours, theirs in classes.values() if ours and theirs]


def _forward(ops: Sequence[Op]) -> list[Op]:
    """Return the forward ops without those of the optimizer, which are called after the last backward op."""
    backward = [op.seq for op in ops if op.direction != "forward"]
    end = max(backward, default=math.inf)
    return [op for op in ops if op.direction == "forward" and op.seq < end]


def _known(matches: Matches) -> list[tuple[Tensor, Tensor]]:
    """Return the pairs of tensors that both runs have, in the order in which the target shows them."""
    return sorted((*matches.pairs(), *matches.presumed_pairs()), key=lambda pair: pair[0].leaf.row)


def _first_shown(unit: Unit, forward: list[Op], tensors: Tensors) -> tuple[_Made, list[Tensor]]:
    """Return the op that makes each tensor, and the parameters, which modules hold, in order of use.

    Ops that only pass on their input make nothing. Without modules, the parameters are the inputs that no op makes.
    """
    columns = unit.columns
    is_forward = numpy.zeros(len(unit.ops), dtype=bool)
    is_forward[numpy.array([op.place for op in forward], dtype=numpy.int64)] = True
    leaf = numpy.flatnonzero(is_forward[columns.op] & (tensors.of_leaf >= 0))
    tensor, is_output = tensors.of_leaf[leaf], columns.role[leaf] == OUTPUT
    order = numpy.lexsort((is_output, columns.op[leaf], tensor))
    numbers, first = numpy.unique(tensor[order], return_index=True)
    leads = order[first]
    is_made = numpy.zeros(len(tensors.all), dtype=bool)
    is_made[numbers] = is_output[leads]
    made_in = numpy.sort(leads[is_output[leads]])
    made = {tensors.all[tensor[each]]: unit.ops[columns.op[leaf[each]]] for each in made_in.tolist()}
    taken = ~is_output & ~is_made[tensor]
    held = set(tensor[taken & (columns.role[leaf] == PARAMETERS)].tolist())
    return made, [tensors.all[number] for number in _in_order(tensor[taken]) if not held or number in held]


def _in_order(numbers: Numbers) -> list[int]:
    """Return the distinct numbers in order of first occurrence."""
    distinct, first = numpy.unique(numbers, return_index=True)
    found: list[int] = distinct[numpy.argsort(first)].tolist()
    return found


def _shown(op: Op) -> tuple[list[Tensor], list[Tensor]]:
    """Return the tensors that an op takes in and those that it puts out."""
    shown: tuple[list[Tensor], list[Tensor]] = ([], [])
    for leaf in op.leaves:
        if leaf.tensor is not None:
            shown[leaf.role == "output"].append(leaf.tensor)
    return shown


def _sources(held: Sequence[list[Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield pairs of parameters that only one run has, with the same size and next to a common parameter.

    If equally many of a size are left, the k-th pairs with the k-th.
    """
    left: dict[Hashable, tuple[list[Tensor], list[Tensor]]] = defaultdict(lambda: ([], []))
    neighbours: dict[Tensor, set[Tensor]] = {}
    for side, parameters in enumerate(held):
        known: Tensor | None = None
        since: list[Tensor] = []
        for tensor in parameters:
            if tensor.partner is not None:
                known = tensor if side == 0 else tensor.partner
                for waiting in since:
                    neighbours[waiting].add(known)
                since = []
            else:
                neighbours[tensor] = set() if known is None else {known}
                left[tensor.leaf.elements, tensor.leaf.kind][side].append(tensor)
                since.append(tensor)
    for ours, theirs in left.values():
        if len(ours) == len(theirs):
            for tensor, other in zip(ours, theirs, strict=True):
                if neighbours[tensor] & neighbours[other] and distance(tensor.leaf, other.leaf) < _FAR:
                    yield tensor, other


def _fed_alike(held: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield pairs of tensors that only one run has each, and that ops of one kind multiply with the same parameter."""
    for parameter in held:
        if parameter.partner is None:
            continue
        ours, theirs = _multiplied_with(parameter), _multiplied_with(parameter.partner)
        if len(ours) != len(theirs):
            continue
        for (op, tensor), (other_op, other) in zip(ours, theirs, strict=True):
            if tensor is None or other is None or not relation(op, other_op):
                continue
            if tensor.presumed is other.presumed is None and tensor.leaf.elements == other.leaf.elements:
                yield tensor, other


def _ends(target: Unit, golden: Unit) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield what the forward passes end with, if both differ from all that the other run has."""
    last = differing_ends(target, golden)
    if last is not None and all(tensor.like is None for tensor in last):
        yield last


def _multiplied_with(parameter: Tensor) -> list[tuple[Op, Tensor | None]]:
    """Return the calls that take a matrix, each with the other tensor that it takes, if only this run has that one."""
    found: list[tuple[Op, Tensor | None]] = []
    for sight in parameter.sights:
        op = sight.op
        if op.kind == "api" and op.direction == "forward" and sight.role == "input" and len(sight.shape or ()) > 1:
            others = {tensor for tensor in _shown(op)[0] if tensor.partner is None and not tensor.is_rejoining}
            found.append((op, others.pop() if len(others) == 1 else None))
    return found


def _supports(shown: _Shown, made: _Made, held: set[Tensor], numbers: dict[Tensor, int]) -> dict[Tensor, int]:
    """Return the support of each tensor that this run makes and the other run lacks.

    It has one bit per known tensor.
    """
    supports: dict[Tensor, int] = {}
    dangling: dict[Tensor, None] = {}
    for op, taken, put_out in shown:
        new = [tensor for tensor in put_out if tensor not in numbers and made.get(tensor) is op]
        support = 0
        for tensor in taken:
            if new:
                is_known = tensor in numbers or tensor in supports or tensor in held
                source = tensor if is_known else _whole(tensor, dangling) or tensor
                support |= 1 << numbers[source] if source in numbers else supports.get(source, 0)
            if not op.is_view:
                dangling.pop(tensor, None)
        dangling.update(dict.fromkeys(tensor for tensor in put_out if made.get(tensor) is op))
        for tensor in new:
            supports.setdefault(tensor, support)
    return supports


def _whole(part: Tensor, dangling: dict[Tensor, None]) -> Tensor | None:
    """Return the latest unused output that `part` may be cut from or made of, or None.

    Not all ops are recorded. Some dumps do not show slices and parts of a tensor.
    """
    for whole in islice(reversed(dangling), _MOST_DANGLING):
        ours, theirs = part.leaf, whole.leaf
        if theirs.kind != ours.kind:
            continue
        if theirs.elements == ours.elements:
            return whole
        is_within = None not in (ours.max, ours.min, theirs.max, theirs.min) and (
            (theirs.min or 0) <= (ours.min or 0) <= (ours.max or 0) <= (theirs.max or 0)
        )
        if theirs.elements % max(ours.elements, 1) == 0 and is_within:
            return whole
    return None


def _results(shown: _Shown) -> _Results:
    results: _Results = defaultdict(set)
    for _, taken, put_out in shown:
        for tensor in taken:
            results[tensor].update(put_out)
    return results


def _mark_partial(shown: _Shown, made: _Made) -> None:
    """Mark sums and products that only go into another of their kind, which is placed in both runs.

    One program may add a and b first, the other b and c.
    """
    found = {tensor for tensor, op in made.items() if op.family.strip("_") in _ASSOCIATIVE and tensor.presumed is None}
    used: set[Tensor] = set()
    for op, taken, put_out in shown:
        if op.kind != "api" or op.is_view:
            continue
        used.update(taken)
        is_whole = any(tensor.presumed is not None for tensor in put_out)
        for tensor in taken:
            if tensor in found and not (is_whole and op.family.strip("_") == made[tensor].family.strip("_")):
                found.discard(tensor)
    for tensor in found & used:
        tensor.is_partial = True


def _modules(target: Sequence[Op], golden: Sequence[Op]) -> dict[str, str]:
    """Return the path of each call of a module whose path both runs have."""
    calls = [{op.name: op.path for op in ops if op.kind == "module"} for ops in (target, golden)]
    common = set(calls[0].values()) & set(calls[1].values())
    return {name: path for of_side in calls for name, path in of_side.items() if path in common}


def _presume_best(
    ours: list[Tensor],
    theirs: list[Tensor],
    made: tuple[_Made, ...],
    results: tuple[_Results, ...],
    modules: dict[str, str],
) -> None:
    """Pair tensors of one class in the order in which they are made, with the largest total score.

    What is shown in two modules that both runs have does not pair.
    """
    lasts = tuple(_lasts(tensors, of_side) for tensors, of_side in zip((ours, theirs), results, strict=True))
    if max(len(ours), len(theirs)) > _MOST_MEMBERS:
        ours = [tensor for tensor in ours if tensor in lasts[0]]
        theirs = [tensor for tensor in theirs if tensor in lasts[1]]
    if max(len(ours), len(theirs)) > _MOST_MEMBERS:
        return
    shown = {tensor: {modules.get(sight.op.parent or "") for sight in tensor.sights} for tensor in (*ours, *theirs)}

    def score(tensor: Tensor, other: Tensor) -> float:
        one, two = made[0][tensor], made[1][other]
        are_apart = None not in shown[tensor] | shown[other] and shown[tensor].isdisjoint(shown[other])
        if are_apart or are_on_two_ways(tensor.leaf, other.leaf):
            return 0.0
        kind = _kinship(one, two)
        are_last = tensor in lasts[0] and other in lasts[1]
        far = distance(tensor.leaf, other.leaf)
        total = 1 - far + 0.5 * max(0.0, 1 - far / _NEAR) + 0.5 * kind + 0.4 * are_last
        return total if total >= _LEAST_SCORE and (kind or far <= _UNRELATED) else 0.0

    for place, other_place in best_path(ours, theirs, score):
        _presume(ours[place], theirs[other_place])


def _kinship(one: Op, other: Op) -> float:
    """Return how far the kinds of two ops speak for results at one place, up to 1. Views say nothing."""
    if one.is_view or other.is_view:
        return 0.0
    return 1.0 if {one.family, other.family} == _ATTENTION_AND_END else min(1.0, relation(one, other))


def _presume(tensor: Tensor, other: Tensor) -> None:
    """Presume that two tensors are at the same place, unless one is a step on the way to what agrees."""
    if not (tensor.is_rejoining or other.is_rejoining or are_on_two_ways(tensor.leaf, other.leaf)):
        presume(tensor, other)


def _lasts(tensors: list[Tensor], results: _Results) -> set[Tensor]:
    """Return the tensors that no op turns into another one with the same support and size."""
    of_class = set(tensors)
    return {tensor for tensor in tensors if not (of_class & results.get(tensor, set())) - {tensor}}
