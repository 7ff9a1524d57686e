"""When the gradients of two backward ops are not of the same tensors, so that they must not be compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from lakeprobe.mapping.align import Pair
from lakeprobe.mapping.ops import same_values
from lakeprobe.mapping.tensors import Tensors, contained, leaves_of, likes
from lakeprobe.mapping.units import OUTPUT, Codes, Numbers, Unit


def return_others(pairs: Sequence[Pair], units: Sequence[Unit], sides: Sequence[Tensors]) -> list[bool]:
    """Return for each pair whether its backward ops carry gradients of different tensors.

    They do if the outputs of their forward ops differ. If one run makes the same tensor more often, each of its
    gradients is only a share.
    """
    backward = [(number, pair.target.forward.place, pair.golden.forward.place)
                for number, pair in enumerate(pairs) if pair.target.forward and pair.golden.forward]  # fmt: skip
    number, *forward = numpy.array(backward, dtype=numpy.int64).reshape(-1, 3).T
    made, others, times = [], [], []
    for unit, side, places in zip(units, sides, forward, strict=True):
        of_pair, leaf = leaves_of(unit, places, side.of_leaf)
        is_output = unit.columns.role[leaf] == OUTPUT
        of_pair, leaf = number[of_pair[is_output]], leaf[is_output]
        made.append((of_pair, side.of_leaf[leaf]))
        others.append(likes(side)[side.of_leaf[leaf]])
        counts = numpy.zeros(len(pairs), dtype=numpy.int64)
        first, place = numpy.unique(of_pair, return_index=True)
        counts[first] = _times_made(unit, side)[leaf[place]]
        times.append(counts)
    has_like = [contained(of_pair[other >= 0], len(pairs)) for (of_pair, _), other in zip(made, others, strict=True)]
    width = len(sides[1].all) + 1
    is_common = numpy.isin(made[0][0] * width + others[0], made[1][0] * width + made[1][1])
    share_one = contained(made[0][0][is_common], len(pairs))
    found: list[bool] = numpy.where(share_one, times[0] != times[1], has_like[0] | has_like[1]).tolist()
    return found


def _times_made(unit: Unit, side: Tensors) -> Numbers:
    """Return for each leaf that shows an output how many calls of the kind of its op make that tensor. Else 0."""
    codes = Codes()
    kinds = numpy.array([codes[op.kind, op.family] for op in unit.ops], dtype=numpy.int64)
    output = numpy.flatnonzero((unit.columns.role == OUTPUT) & (side.of_leaf >= 0))
    made = side.of_leaf[output] * len(codes) + kinds[unit.columns.op[output]]
    _, code, count = numpy.unique(made, return_inverse=True, return_counts=True)
    times = numpy.zeros(len(side.of_leaf), dtype=numpy.int64)
    times[output] = count[code]
    return times


def is_gradient(pair: Pair, role: str, kind: str) -> bool:
    """Return whether leaves of `role` are gradients that a backward op of this kind gives out.

    Those of an API may belong to different tensors: PyTorch's hook is on the last node that the API creates, so the
    output may be an inner gradient. Those of a module may be shares: one that takes a tensor as query, key and value
    has three shares of its gradient, where the other has the sum. Then number or shapes differ.
    """
    return pair.target.kind == kind and pair.target.direction == "backward" and role == "output"


def take_other_sizes(pair: Pair) -> bool:
    """Return whether two ops have no input of equal size, so that one computes on more rows than the other."""
    ours, theirs = ({leaf.elements for leaf in op.leaves if leaf.role == "input"} for op in (pair.target, pair.golden))
    return bool(ours and theirs) and ours.isdisjoint(theirs)


def take_the_same(pair: Pair) -> bool:
    """Return whether two ops have equal inputs, so that outputs which differ are not the same tensors."""
    inputs = {leaf.slot: leaf for leaf in pair.golden.leaves if leaf.role == "input"}
    came_in = [same_values(leaf, inputs[leaf.slot]) for leaf in pair.target.leaves if leaf.slot in inputs]
    return bool(came_in) and all(came_in)
