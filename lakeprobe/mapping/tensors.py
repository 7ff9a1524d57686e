"""Finds which tensor of one run is which of the other, from what was recorded of them and nothing else.

A leaf is one sight of a tensor: the output of one op is the input of others. Within a run, leaves with the same number
of elements and the same statistics are one tensor, whatever their shape, because a view does not change these. Between
two runs statistics only agree within `TOLERANCE`, because two devices round differently, and where one of them computes
in 16 bits within a few spacings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy
from msgspec import Struct, field

from lakeprobe.mapping.ops import (
    BEYOND_VALUES,
    DIGITS_OF_BFLOAT,
    DIGITS_OF_HALF,
    LEAST_MASK,
    OF_BFLOAT,
    OF_HALF,
    TOLERANCE,
    Leaf,
    Op,
    distance,
    has_few_digits,
    of_rounded,
)
from lakeprobe.mapping.units import OUTPUT, Columns, Numbers, Unit, equal_rows, row_codes

_MOST_CANDIDATES = 32
"""A tensor that agrees with more tensors of the other run than this is not evidence for any of them."""

_CLOSER = 0.1
"""A candidate wins if its distance is below this share of the next one's."""

_NEAR = 0.1
"""The largest distance of one tensor's statistics downstream of a difference, if what is made of it agrees again."""

_NEAR_NUMBER = 0.001
"""The same of two single numbers, of which others are made that hide no difference."""

_FAR, _LEAST_USUAL = 20.0, 2e-6
"""Tensors agree normally up to this multiple of the median distance, which counts as at least the second number."""

_MANY = 2000
"""The number of first pairs of tensors from which the median distance is computed."""

_SAME_SUM = 1e-5
"""The largest difference of norm and mean of one tensor in two layouts, relative to its norm."""

_AT_ONCE = 2_000_000
"""The number of pairs of tensors that are compared at once."""


class Tensor(Struct, eq=False):
    """A tensor of one run. `sights` are the leaves that show it, in the order of the dump.

    `leaf`: its first sight, in mixed precision the first with all digits.
    `number`: its index among the tensors of its run.
    `partner`: the same tensor in the other run.
    `presumed`: the tensor at the same place of the other program, with different values (mapping/descent.py).
    `is_rejoining`: only one run has it, but both have what is made of it. It is a step on another path to the same.
    `is_summed_up`: only one run has it, but both have a single number that is made of it, such as a loss.
    `is_partial`: a partial sum, whose summands the other run adds in another order.
    """

    number: int
    leaf: Leaf
    sights: list[Leaf]
    partner: Tensor | None = None
    presumed: Tensor | None = None
    is_rejoining: bool = False
    is_summed_up: bool = False
    is_partial: bool = False

    @property
    def like(self) -> Tensor | None:
        """The counterpart in the other run: the same tensor, or the one at the same place with other values."""
        return self.partner or self.presumed


class Tensors(Struct, frozen=True):
    """The tensors of a run in order of their first sight, also as columns.

    `of_leaf`: for each leaf of the unit the index of its tensor, or -1 if statistics do not identify one, as where all
    elements are one number. `leaves`: the indexes of all leaves with a tensor, tensor by tensor. Those of tensor k
    begin at `starts[k]`. The last element of `starts` is their total number. `leaf`: for each tensor the index of the
    leaf that stands for it.
    """

    all: list[Tensor]
    of_leaf: Numbers
    leaves: Numbers
    starts: Numbers
    leaf: Numbers


class Matches(Struct, frozen=True):
    """The tensors of both runs. Each of them refers to its counterpart.

    `partner`: for each side and tensor the index of the same tensor on the other side, or -1.
    `agrees`: for each side and tensor whether the values of some tensor of the other side agree with it.
    `rootless`: forward ops that make what only one run has, from nothing that both have.
    """

    sides: tuple[Tensors, Tensors]
    partner: tuple[Numbers, Numbers]
    agrees: tuple[Numbers, Numbers]
    rootless: set[Op] = field(default_factory=set)

    def pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Return the tensors of the target that golden has too, each with golden's."""
        return ((tensor, tensor.partner) for tensor in self.sides[0].all if tensor.partner is not None)

    def presumed_pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Return the tensors of the target that have one of golden at the same place with other values, with it."""
        return ((tensor, tensor.presumed) for tensor in self.sides[0].all if tensor.presumed is not None)

    def are_rootless(self, target: Op, golden: Op) -> bool:
        """Return whether one of the two uses nothing that both runs have, so that nothing links the two."""
        return target in self.rootless or golden in self.rootless


def likes(side: Tensors) -> Numbers:
    """Return for each tensor of a run the number of its counterpart in the other run, or -1."""
    numbers = [-1 if tensor.like is None else tensor.like.number for tensor in side.all]
    return numpy.array(numbers, dtype=numpy.int64)


def presume(target: Tensor, golden: Tensor) -> None:
    """Record that the two are at the same place, though their values differ."""
    target.presumed, golden.presumed = golden, target


def partner_of(leaf: Leaf) -> Tensor | None:
    """Return the other side's tensor that `leaf` shows, or None."""
    return None if leaf.tensor is None else leaf.tensor.partner


def are_same(target: Leaf, golden: Leaf) -> bool:
    """Return whether the two leaves show one tensor."""
    partner = partner_of(target)
    return partner is not None and partner is golden.tensor


def is_step(leaf: Leaf) -> bool:
    """Return whether `leaf` shows a tensor that only its own run has, though what is made of it agrees.

    A small difference may not show in a single number, but steps that are far apart do not give the same one.
    """
    return leaf.tensor is not None and (leaf.tensor.is_rejoining or leaf.tensor.is_summed_up)


def are_on_two_ways(target: Leaf, golden: Leaf) -> bool:
    """Return whether the two lead to what agrees, each on a way of its own.

    They are steps, far apart, of which both runs make the same single number; or one result is a step, and the other
    run has the other one, too, as another tensor.
    """
    ours, theirs = target.tensor, golden.tensor
    if ours is None or theirs is None or ours.partner is theirs:
        return False
    is_elsewhere = (ours.is_rejoining and theirs.partner is not None) or (
        theirs.is_rejoining and ours.partner is not None
    )
    if is_elsewhere and target.role == golden.role == "output":
        return True
    near = _NEAR if target.elements > 1 else _NEAR_NUMBER
    return ours.is_summed_up and theirs.is_summed_up and distance(target, golden) > near


def are_gradients_on_two_ways(target: Leaf, golden: Leaf) -> bool:
    """Return whether the two are gradients of inputs of forward calls that are on two ways, see `are_on_two_ways`."""
    ours, theirs = _input_of(target), _input_of(golden)
    return ours is not None and theirs is not None and are_on_two_ways(ours, theirs)


def _input_of(gradient: Leaf) -> Leaf | None:
    """Return the input of the forward call whose gradient a leaf is, None for other leaves."""
    if gradient.role != "output" or gradient.op.forward is None:
        return None
    slot = gradient.slot.replace("output", "input", 1)
    return next((leaf for leaf in gradient.op.forward.leaves if leaf.slot == slot), None)


def is_partial(leaf: Leaf) -> bool:
    """Return whether `leaf` shows a partial sum, whose summands the other run adds in another order."""
    return leaf.tensor is not None and leaf.tensor.is_partial


def excludes(target: Leaf, golden: Leaf) -> bool:
    """Return whether values show that the two differ: one is the same as another tensor, or only a step on the way.

    So does its place, if another tensor of the other run is at the same one and has another shape than this.
    """
    if are_same(target, golden):
        return False
    places = [leaf.tensor.presumed for leaf in (target, golden) if leaf.tensor is not None]
    if target.shape != golden.shape and any(place not in (None, target.tensor, golden.tensor) for place in places):
        return True
    is_placed = (partner_of(target) or partner_of(golden)) is not None or is_step(target) or is_step(golden)
    return is_placed and distance(target, golden) > _NEAR


def are_elsewhere(target: Leaf, golden: Leaf) -> bool:
    """Return whether both show tensors that the other run has, but different ones."""
    return partner_of(target) is not None and partner_of(golden) is not None and not are_same(target, golden)


def agree_by_slot(target: Op, golden: Op) -> bool:
    """Return whether two ops of one kind share a tensor, and only one at most has a matched tensor of its own."""
    if target.family != golden.family:
        return False
    ours = {leaf.tensor for leaf in target.leaves if partner_of(leaf) is not None}
    theirs = {partner for leaf in golden.leaves if (partner := partner_of(leaf)) is not None}
    return bool(ours & theirs) and not (ours - theirs and theirs - ours)


def ops_behind(unit: Unit, side: Tensors, partner: Numbers) -> list[bool]:
    """Return for each op whether all of its outputs are absent from the other run, and lead to nothing that agrees."""
    agrees = (partner >= 0) | numpy.array([tensor.is_rejoining for tensor in side.all], dtype=bool)
    is_output = unit.columns.is_evidence & (unit.columns.role == OUTPUT)
    agreeing = unit.columns.op[is_output][agrees[side.of_leaf[is_output]]]
    found: list[bool] = (~contained(agreeing, len(unit.ops))).tolist()
    return found


def match_tensors(target: Unit, golden: Unit) -> Matches:
    """Return the tensors that both runs have.

    If several agree, the nearest match first, then those in the same order.
    """
    sides = group(target), group(golden)
    ours, theirs = _agreeing((target, golden), sides)
    alike = numpy.zeros(len(sides[0].all), dtype=bool), numpy.zeros(len(sides[1].all), dtype=bool)
    alike[0][ours] = alike[1][theirs] = True
    few = numpy.bincount(ours)[ours] <= _MOST_CANDIDATES
    ours, theirs = ours[few], theirs[few]
    partner = tuple(numpy.full(len(side.all), -1, dtype=numpy.int64) for side in sides)
    places = [(of_unit.columns, of_side.leaf) for of_unit, of_side in zip((target, golden), sides, strict=True)]
    alone = (numpy.bincount(ours, minlength=len(partner[0]))[ours] == 1) & (
        numpy.bincount(theirs, minlength=len(partner[1]))[theirs] == 1
    )
    _add(partner, ours[alone], theirs[alone])
    left = numpy.flatnonzero(~alone)
    far = _distances(places[0][0], places[0][1][ours[left]], places[1][0], places[1][1][theirs[left]])
    # what rounds to the same few digits need not be the nearest
    coarse = left[_fits(places[0][0].norm[places[0][1][ours[left]]], DIGITS_OF_HALF)]
    _match_in_order(partner, ours[coarse].tolist(), theirs[coarse].tolist())
    _match_nearest(partner, ours[left], theirs[left], far)
    _match_in_order(partner, ours[left].tolist(), theirs[left].tolist())
    matched = numpy.flatnonzero(partner[0] >= 0)
    leaves = places[0][0], places[0][1][matched], places[1][0], places[1][1][partner[0][matched]]
    far = _distances(*leaves)
    limit = max(_LEAST_USUAL, _FAR * float(numpy.median(far[:_MANY]))) if len(far) else _LEAST_USUAL
    limit = min(limit, TOLERANCE)  # what agrees only as far as 16 bits tell may hide a difference
    is_near = far <= numpy.maximum(limit, _spacings(*leaves))
    for place, other in zip(matched.tolist(), partner[0][matched].tolist(), strict=True):
        tensor, counterpart = sides[0].all[place], sides[1].all[other]
        tensor.partner, counterpart.partner = counterpart, tensor
    agreeing = [numpy.zeros(len(of_side), dtype=bool) for of_side in partner]
    agreeing[0][matched] = is_near
    agreeing[1][partner[0][matched]] = is_near
    for unit, side, of_side, agrees in zip((target, golden), sides, partner, agreeing, strict=True):
        _mark_rejoining(unit, side, of_side, agrees)
    return Matches(sides, (partner[0], partner[1]), alike)


def group(unit: Unit) -> Tensors:
    """Return the tensors of a run that statistics identify, in order of their first sight."""
    columns = unit.columns
    evidence = numpy.flatnonzero(columns.is_evidence)
    has_digest = columns.digest[evidence] >= 0
    key = row_codes(
        columns.key[evidence], numpy.where(has_digest, columns.elements[evidence], -1 - columns.kind[evidence])
    )
    first = evidence.copy()  # for each leaf the first sight of its tensor
    left = numpy.arange(len(evidence))
    while len(left):
        _, start, code = numpy.unique(key[left], return_index=True, return_inverse=True)
        first[left] = evidence[left][start][code]
        left = left[~_same_sums(columns, first[left], evidence[left])]
    if columns.digits <= DIGITS_OF_HALF:
        first = _with_casts(columns, first)
    leaf, number = numpy.unique(first, return_inverse=True)
    sight = numpy.unique(number, return_index=True)[1]
    leaf, number = leaf[numpy.argsort(sight)], numpy.argsort(numpy.argsort(sight))[number]
    of_leaf = numpy.full(len(unit.leaves), -1, dtype=numpy.int64)
    of_leaf[evidence] = number
    leaves = evidence[numpy.argsort(number, kind="stable")]
    starts = numpy.concatenate(([0], numpy.cumsum(numpy.bincount(number, minlength=len(leaf))))).astype(numpy.int64)
    return Tensors(_tensors(unit, leaves, starts, leaf), of_leaf, leaves, starts, leaf)


def _with_casts(columns: Columns, first: Numbers) -> Numbers:
    """Return `first` with one leaf for a tensor and its cast to the coarsest type of the run: that with all digits.

    A cast rounds the extremes, and moves norm and mean by less than a spacing.
    """
    seen, number = numpy.unique(first, return_inverse=True)
    known = numpy.flatnonzero((columns.norm[seen] > 0) & (columns.norm[seen] < numpy.inf))
    leaf = seen[known]
    sizes, norm, mean = numpy.stack((columns.max[leaf], columns.min[leaf])), columns.norm[leaf], columns.mean[leaf]
    is_cast = numpy.asarray(_fits(numpy.vstack((sizes, norm)), columns.digits).all(axis=0))
    code = equal_rows(columns.elements[leaf], columns.kind[leaf], *_rounded_to(sizes, columns.digits))
    of_cast, of_whole = (numpy.bincount(code[side], minlength=len(leaf))[code] for side in (is_cast, ~is_cast))
    both = numpy.flatnonzero((of_cast == 1) & (of_whole == 1))
    whole, cast = both[numpy.lexsort((is_cast[both], code[both]))].reshape(-1, 2).T
    slack = 2 / columns.digits * norm[whole]
    is_near = numpy.abs(norm[whole] - norm[cast]) <= slack
    with numpy.errstate(invalid="ignore"):
        gap = numpy.abs(mean[whole] - mean[cast]) * numpy.sqrt(columns.elements[leaf[whole]])
        near = numpy.flatnonzero(is_near & ~(gap > slack))  # a mean may be unknown
    whole, cast = known[whole[near]], known[cast[near]]
    found = seen.copy()
    found[cast] = seen[whole]
    return numpy.asarray(found[number])


def _rounded_to(numbers: Numbers, digits: float) -> Numbers:
    """Return the nearest numbers of a type with so many binary digits."""
    mantissa, exponent = numpy.frexp(numbers)
    return numpy.asarray(numpy.ldexp(numpy.rint(mantissa * digits) / digits, exponent) + 0.0)


def _tensors(unit: Unit, leaves: Numbers, starts: Numbers, leaf: Numbers) -> list[Tensor]:
    sights = [unit.leaves[leaf] for leaf in leaves.tolist()]
    ends = pairwise(starts.tolist())
    found = []
    for number, (place, (start, end)) in enumerate(zip(leaf.tolist(), ends, strict=True)):
        tensor = Tensor(number, unit.leaves[place], sights[start:end])
        for seen in tensor.sights:
            seen.tensor = tensor
        found.append(tensor)
    return found


def _same_sums(columns: Columns, ours: Numbers, theirs: Numbers) -> Numbers:
    """Return whether norm and mean agree up to the order of summation. Rotated tensors differ in the mean only."""
    norm, other_norm = columns.norm[ours], columns.norm[theirs]
    mean, other_mean = columns.mean[ours], columns.mean[theirs]
    with numpy.errstate(invalid="ignore"):
        slack = _SAME_SUM * numpy.fmax(numpy.abs(norm), numpy.abs(other_norm))  # of a single number it has a sign
        is_unknown = ~(numpy.isfinite(norm) & numpy.isfinite(other_norm))
        has_mean = columns.has_mean[ours] & columns.has_mean[theirs]
        same_mean = ~has_mean | (numpy.abs(mean - other_mean) <= slack)
        same = is_unknown | ((numpy.abs(norm - other_norm) <= slack) & same_mean)
    return numpy.asarray(same | (ours == theirs))


def _mark_rejoining(unit: Unit, side: Tensors, partner: Numbers, agrees: Numbers) -> None:
    """Mark the tensors without partner that lead to one with a partner, over the ops that use them.

    A single number, such as a loss, may agree downstream of a small difference, so what leads to one alone is marked as
    summed up. What agrees by chance does not count. Numbers picked by size (topk, argmax, a comparison) may agree
    though their source does not.
    """
    columns, tensor = unit.columns, side.of_leaf
    taken_alone = (tensor >= 0) & (columns.role != OUTPUT)
    taken_alone[taken_alone] = partner[tensor[taken_alone]] < 0
    near, is_number = agrees.tolist(), (columns.elements[side.leaf] == 1).tolist()
    for place in numpy.unique(columns.op[taken_alone])[::-1].tolist():
        shown = [(leaf.role, leaf.tensor) for leaf in unit.ops[place].leaves if leaf.tensor is not None]
        agreeing = [
            each
            for role, each in shown
            if role == "output"
            and (each.is_rejoining or each.is_summed_up or (near[each.number] and not _is_chance(each)))
        ]
        if not agreeing:
            continue
        taken = {tensor for role, tensor in shown if role != "output"}
        rejoining = [
            each for each in agreeing if each.is_rejoining or not (each.is_summed_up or is_number[each.number])
        ]
        kinds = {tensor.leaf.kind for tensor in rejoining if tensor not in taken}
        for tensor in taken:
            if tensor.partner is None and tensor.leaf.kind == "float" and not rejoining:
                tensor.is_summed_up = True
            if tensor.partner is None and not tensor.is_rejoining:
                tensor.is_rejoining = "float" in kinds if tensor.leaf.kind == "float" else bool(kinds)


def _is_chance(tensor: Tensor) -> bool:
    """Return whether a tensor has its partner by chance, as where statistics of 16 bits have few digits.

    Then neither what the two are made of nor what is made of them is in the other run.
    """
    if tensor.partner is None or not has_few_digits(tensor.leaf.norm):
        return False
    both = (tensor, tensor.partner)
    return bool(_results(tensor)) and all(
        _is_made_of_others(each)
        and all(result.partner is None and not result.is_rejoining for result in _results(each))
        for each in both
    )


def _results(tensor: Tensor) -> set[Tensor]:
    """Return what ops make of a tensor."""
    return {result for op in _ops(tensor, "input") for result in _tensors_of(op, "output")} - {tensor}


def _is_made_of_others(tensor: Tensor) -> bool:
    """Return whether an op made a tensor of what only its own run has."""
    given = {taken for op in _ops(tensor, "output")[:1] for taken in _tensors_of(op, "input")} - {tensor}
    return any(taken.partner is None and taken.leaf.kind == "float" for taken in given)


def _ops(tensor: Tensor, role: str) -> list[Op]:
    """Return the ops that show a tensor in a role, in order."""
    return [sight.op for sight in tensor.sights if sight.role == role]


def _tensors_of(op: Op, role: str) -> list[Tensor]:
    """Return the tensors that an op shows in a role."""
    return [leaf.tensor for leaf in op.leaves if leaf.role == role and leaf.tensor is not None]


def _agreeing(units: Sequence[Unit], sides: Sequence[Tensors]) -> tuple[Numbers, Numbers]:
    """Return pairs of a target and a golden tensor that agree. The target's tensors are in order."""
    found: list[tuple[Numbers, Numbers]] = []
    digits = min(unit.columns.digits for unit in units)
    buckets, sizes = zip(*(_buckets(*side) for side in zip(units, sides, strict=True)), strict=True)
    orders = [numpy.lexsort((size, bucket)) for bucket, size in zip(buckets, sizes, strict=True)]
    ours, theirs = (_starts(bucket[order]) for bucket, order in zip(buckets, orders, strict=True))
    for bucket, (start, end) in ours.items():
        if bucket not in theirs:
            continue
        mine = orders[0][start:end]
        others = orders[1][slice(*theirs[bucket])]
        size = sizes[0][mine]
        tolerance = numpy.where(_fits(size, DIGITS_OF_HALF), OF_HALF[0], of_rounded(digits)[0])
        slack = 2 * tolerance * numpy.where(numpy.isfinite(size), size, 0.0)
        lows = numpy.searchsorted(sizes[1][others], size - slack, side="left")
        highs = numpy.searchsorted(sizes[1][others], size + slack, side="right")
        for part in _parts(highs - lows):
            near, far = spread(lows[part], highs[part])
            pair = mine[part][near], others[far]
            agree = same_values(units[0].columns, sides[0].leaf[pair[0]], units[1].columns, sides[1].leaf[pair[1]])
            found.append((pair[0][agree], pair[1][agree]))
    if not found:
        return numpy.zeros(0, dtype=numpy.int64), numpy.zeros(0, dtype=numpy.int64)
    one, two = (numpy.concatenate(side) for side in zip(*found, strict=True))
    order = numpy.argsort(one, kind="stable")
    return one[order], two[order]


def _buckets(unit: Unit, side: Tensors) -> tuple[Numbers, Numbers]:
    """Return for each tensor a bucket, equal for tensors that may match, and a sort key: the larger magnitude."""
    columns, first = unit.columns, side.leaf
    is_forward = numpy.array([op.direction == "forward" for op in unit.ops], dtype=bool)
    has_digest = columns.digest[first] >= 0
    kind = numpy.where(is_forward[columns.op[first]], 2, 0) + 4 * (columns.kind[first] + 1)
    bucket = columns.elements[first] * 4096 + numpy.where(has_digest, 1, kind)
    magnitudes = numpy.abs(numpy.stack((columns.max[first], columns.min[first])))
    size = numpy.where(numpy.isfinite(magnitudes), magnitudes, -1.0).max(axis=0, initial=-1.0)
    size = numpy.where(has_digest, columns.digest[first].astype(numpy.float64), numpy.where(size < 0, numpy.inf, size))
    return bucket, size


def _starts(values: Numbers) -> dict[int, tuple[int, int]]:
    """Return the start and end of each of the sorted values."""
    distinct, start = numpy.unique(values, return_index=True)
    ends = numpy.append(start, len(values))[1:]
    return dict(zip(distinct.tolist(), zip(start.tolist(), ends.tolist(), strict=True), strict=True))


def _parts(counts: Numbers) -> Iterator[slice]:
    """Yield slices of `counts` whose sums are not much more than `_AT_ONCE`."""
    ends = numpy.cumsum(counts) // _AT_ONCE
    start = 0
    while start < len(counts):
        end = max(start + 1, int(numpy.searchsorted(ends, ends[start], side="right")))
        yield slice(start, end)
        start = end


def leaves_of(unit: Unit, ops: Sequence[int] | Numbers, of_leaf: Numbers) -> tuple[Numbers, Numbers]:
    """Return the leaves of these ops that show a tensor, each with the index of its op in `ops`."""
    ends = numpy.searchsorted(unit.columns.op, numpy.arange(len(unit.ops) + 1))
    chosen = numpy.array(ops, dtype=numpy.int64)
    number, leaf = spread(ends[chosen], ends[chosen + 1])
    shows = of_leaf[leaf] >= 0
    return number[shows], leaf[shows]


def contained(numbers: Numbers, count: int) -> Numbers:
    """Return for each number below `count` whether it is among `numbers`."""
    return numpy.asarray(numpy.bincount(numbers, minlength=count) > 0)


def spread(lows: Numbers, highs: Numbers) -> tuple[Numbers, Numbers]:
    """Return all numbers from each low up to its high (exclusive), each with the index of its low."""
    counts = highs - lows
    place = numpy.repeat(numpy.arange(len(lows)), counts)
    within = numpy.arange(int(counts.sum())) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
    return place, lows[place] + within


def same_values(ours: Columns, our_leaf: Numbers, theirs: Columns, their_leaf: Numbers) -> Numbers:
    """Compute `ops.same_values` for many pairs of leaves. False if the dumps do not tell."""
    one, other = _numbers_of(ours, our_leaf), _numbers_of(theirs, their_leaf)
    with numpy.errstate(invalid="ignore", over="ignore"):
        magnitude, is_masked = _magnitudes(one, other)
        has_few_digits = (magnitude > 0) & _fits(magnitude, DIGITS_OF_HALF)
        of_extremes, of_sums = _tolerances(one, other, min(ours.digits, theirs.digits))
        near = _close(one[0], other[0], magnitude, of_extremes) & _close(one[1], other[1], magnitude, of_extremes)
        has_norm = ours.has_norm[our_leaf] & theirs.has_norm[their_leaf]
        norm = numpy.where(numpy.abs(other[3]) > numpy.abs(one[3]), numpy.abs(other[3]), numpy.abs(one[3]))
        has_mean = has_norm & ours.has_mean[our_leaf] & theirs.has_mean[their_leaf]
        width = numpy.sqrt(numpy.maximum(ours.elements[our_leaf], 1))
        near &= ~has_norm | _close(one[3], other[3], norm, of_sums)
        near &= ~has_mean | _close(one[2], other[2], norm / width, of_sums)
        near &= ours.has_range[our_leaf] & theirs.has_range[their_leaf] & ~(is_masked & has_few_digits)
    digest, other_digest = ours.digest[our_leaf], theirs.digest[their_leaf]
    return numpy.asarray(numpy.where((digest >= 0) & (other_digest >= 0), digest == other_digest, near))


def _magnitudes(one: Sequence[Numbers], other: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
    """Return the largest of the finite extremes of both sides that are no masks, and whether one is a mask."""
    ours, theirs = numpy.stack(one[:2]), numpy.stack(other[:2])
    size = numpy.abs(ours)
    is_mask = (ours == theirs) & (size >= LEAST_MASK) & (size >= BEYOND_VALUES * size[::-1])
    sizes = (numpy.where(is_mask | ~numpy.isfinite(side), 0.0, numpy.abs(side)) for side in (ours, theirs))
    return numpy.maximum(*sizes).max(axis=0, initial=0.0), is_mask.any(axis=0)


def _numbers_of(columns: Columns, leaf: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    return columns.max[leaf], columns.min[leaf], columns.mean[leaf], columns.norm[leaf]


def _tolerances(one: Sequence[Numbers], other: Sequence[Numbers], digits: float) -> tuple[Numbers, Numbers]:
    """Compute `ops.tolerances` for many pairs, given as max, min, mean and norm, of runs with so many digits."""
    numbers = numpy.stack((one[0], one[1], one[3], other[0], other[1], other[3]))
    has_norms = (one[3] > 0) & (other[3] > 0)
    fits = [_fits(numbers, few).all(axis=0) for few in (DIGITS_OF_BFLOAT, DIGITS_OF_HALF)]
    cases = [~has_norms, *fits]
    choices = zip((TOLERANCE, TOLERANCE), OF_BFLOAT, OF_HALF, of_rounded(digits), strict=True)
    of_extremes, of_sums = (numpy.select(cases, chosen[:3], chosen[3]) for chosen in choices)
    return of_extremes, of_sums


def _fits(numbers: Numbers, digits: float) -> Numbers:
    """Return which numbers a type with so many binary digits holds, NaN and infinity among them."""
    with numpy.errstate(invalid="ignore"):
        return numpy.asarray(~numpy.isfinite(numbers) | (numpy.frexp(numbers)[0] * digits % 1 == 0))


def _close(ours: Numbers, theirs: Numbers, magnitude: Numbers, tolerance: Numbers) -> Numbers:
    are_nan = numpy.isnan(ours) & numpy.isnan(theirs)
    slack = tolerance * magnitude
    return numpy.asarray((ours == theirs) | are_nan | ((numpy.abs(ours - theirs) <= slack) & (slack < numpy.inf)))


def _distances(ours: Columns, our_leaf: Numbers, theirs: Columns, their_leaf: Numbers) -> Numbers:
    """Return the relative distances of the statistics of tensors that agree."""
    one, other = _numbers_of(ours, our_leaf), _numbers_of(theirs, their_leaf)
    far = numpy.zeros(len(our_leaf))
    with numpy.errstate(invalid="ignore", divide="ignore", over="ignore"):
        size, _ = _magnitudes(one, other)
        scales = (size, size, one[3] / numpy.sqrt(numpy.maximum(ours.elements[our_leaf], 1)), one[3])
        for mine, another, scale in zip(one, other, scales, strict=True):
            share = numpy.abs(mine - another) / scale
            is_known = numpy.isfinite(mine - another) & numpy.isfinite(scale) & (scale > 0)
            far = numpy.maximum(far, numpy.where(is_known, share, 0.0))
    return far


def _spacings(ours: Columns, our_leaf: Numbers, theirs: Columns, their_leaf: Numbers) -> Numbers:
    """Return a spacing of float16 for tensors of two runs in it, unless both are rounded to it; 0 for all else.

    A spacing of bfloat16 would hide a difference.
    """
    digits = min(ours.digits, theirs.digits)
    if digits != DIGITS_OF_HALF:
        return numpy.zeros(len(our_leaf))
    one, other = _numbers_of(ours, our_leaf), _numbers_of(theirs, their_leaf)
    is_rounded = _fits(numpy.stack((one[0], one[1], one[3], other[0], other[1], other[3])), digits).all(axis=0)
    return numpy.where(is_rounded, 0.0, 2 / digits)


def _add(partner: Sequence[Numbers], ours: Numbers | int, theirs: Numbers | int) -> None:
    partner[0][ours], partner[1][theirs] = theirs, ours


def _match_nearest(partner: Sequence[Numbers], ours: Numbers, theirs: Numbers, far: Numbers) -> None:
    """Match tensors that are far nearer to each other than to any other, on both sides."""
    ways: dict[int, list[tuple[float, int]]] = defaultdict(list)
    backwards: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for tensor, other, distance_between in zip(ours.tolist(), theirs.tolist(), far.tolist(), strict=True):
        ways[tensor].append((distance_between, other))
        backwards[other].append((distance_between, tensor))
    for tensor, others in ways.items():
        nearest = sorted(range(len(others)), key=lambda place: (others[place][0], place))[:2]
        near, other = others[nearest[0]]
        if len(others) > 1 and near >= _CLOSER * others[nearest[1]][0]:
            continue
        rest = [gap for gap, rival in backwards[other] if rival != tensor]
        is_free = partner[0][tensor] < 0 and partner[1][other] < 0
        if is_free and (not rest or near < _CLOSER * min(rest)):
            _add(partner, tensor, other)


def _match_in_order(partner: Sequence[Numbers], ours: Sequence[int], theirs: Sequence[int]) -> None:
    """Match the k-th with the k-th where equally many tensors on both sides agree with each other."""
    candidates: dict[int, list[int]] = defaultdict(list)
    rivals: dict[int, list[int]] = defaultdict(list)
    for tensor, other in zip(ours, theirs, strict=True):
        candidates[tensor].append(other)
        rivals[other].append(tensor)
    for tensor, others in candidates.items():
        if partner[0][tensor] >= 0:
            continue
        free = [other for other in others if partner[1][other] < 0]
        rival = [each for each in rivals[others[0]] if partner[0][each] < 0]
        if len(free) == len(rival):
            for own, other in zip(rival, sorted(free), strict=True):
                if other in candidates[own]:
                    _add(partner, own, other)
