"""Explains why a row has no counterpart: one implementation takes steps that the other does not.

What only one run has is harmless if it is on a path between tensors that both have: a product without its bias, a view,
a mask that is made differently. These rows are counted separately, each with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

import numpy
from msgspec import Struct, field

from lakeprobe.mapping.ops import TOLERANCE, Leaf, Op, has_few_digits
from lakeprobe.mapping.tensors import Tensor, Tensors, contained
from lakeprobe.mapping.units import GRADIENT, OUTPUT, Numbers, Unit

_MASKED = -5e3
"""A number as low as this in a tensor of scores comes from a mask."""

_NEAR = 0.05
"""How far scores of 16 bits may have come apart that differ in their masks alone. They are compared before it, too."""

INSIDE, STRUCTURE, UNMATCHED = "inside", "structure", "unmatched"
"""Outcomes of a row without counterpart that has a reason: a step in between, an op that computes nothing, or one that
the other run skips."""


class LeftOver(Struct, frozen=True):
    """The rows of one side without counterpart, as columns: the outcome and the reason of each.

    `seqs` are the ops of the rows. None in `rows` stands for all rows of the op that are not listed.
    """

    seqs: list[int] = field(default_factory=list)
    rows: list[int | None] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def add(self, seq: int, row: int | None, outcome: str, reason: str) -> None:
        """Add a row, or all rows of an op if `row` is None."""
        self.seqs.append(seq)
        self.rows.append(row)
        self.outcomes.append(outcome)
        self.reasons.append(reason)


def explain(
    unit: Unit,
    tensors: Tensors,
    partner: Numbers,
    paired: Sequence[Leaf],
    others: Sequence[Leaf],
    notes: Mapping[Tensor, str],
    skipped: Set[Op],
) -> LeftOver:
    """Return the reasons for the rows of one side without counterpart.

    `paired` has the paired leaves of the side, and `others` the leaf that each is compared with. `partner` has for each
    tensor its number in the other run, or -1. `notes` has what is known of some tensors (mapping/layouts.py).
    `skipped` are the ops that the other run skips (mapping/skipped.py).
    """
    places = numpy.array([leaf.place for leaf in paired], dtype=numpy.int64)
    compared = numpy.zeros(len(unit.leaves), dtype=bool)
    compared[places[places >= 0]] = True
    counterpart, sight = _firsts(unit, tensors, places)
    left = _of_paired(unit, counterpart, others)
    reached, leading = _ways(unit, tensors, sight >= 0)
    between = _between(unit, tensors, partner, compared)
    evidence = set(unit.columns.op[unit.columns.is_evidence].tolist())
    for place in numpy.flatnonzero(counterpart < 0).tolist():
        op = unit.ops[place]
        if op in skipped:
            left.add(op.seq, None, UNMATCHED, "the other run goes on with what goes in here")
            continue
        why = _of_alone(op, place in evidence, reached[place], leading[place]) or between.get(op)
        if why is not None:
            left.add(op.seq, None, *why)
    for place in numpy.flatnonzero(~compared & (tensors.of_leaf >= 0)).tolist():
        leaf, op = unit.leaves[place], unit.ops[unit.columns.op[place]]
        tensor = tensors.all[tensors.of_leaf[place]]
        if op in skipped:
            continue
        if tensor in notes:
            left.add(op.seq, leaf.row, INSIDE, notes[tensor])
        elif sight[tensor.number] >= 0 and not op.is_view:
            other = others[sight[tensor.number]]
            left.add(op.seq, leaf.row, INSIDE, f"the tensor that is compared with {other.name}")
    return left


def _firsts(unit: Unit, tensors: Tensors, places: Numbers) -> tuple[Numbers, Numbers]:
    """Return for each op and each tensor the index of its first paired leaf in `places`, or -1."""
    number = numpy.flatnonzero(places >= 0)
    found = []
    for order, of_leaf, count in (
        (numpy.argsort(places[number], kind="stable"), unit.columns.op, len(unit.ops)),
        (slice(None), tensors.of_leaf, len(tensors.all)),
    ):
        keys, first = numpy.unique(of_leaf[places[number[order]]], return_index=True)
        firsts = numpy.full(count + 1, -1, dtype=numpy.int64)  # leaves without a tensor have the key -1, the last entry
        firsts[keys] = number[order][first]
        found.append(firsts[:count])
    return found[0], found[1]


def are_masked_otherwise(leaf: Leaf, other: Leaf) -> bool:
    """Return whether the two differ only in the number that a mask puts in: -1e9, -10000, the dtype's minimum, -inf."""
    if leaf.min is None or leaf.min > _MASKED or other.min is None or leaf.max is None or other.max is None:
        return False
    if leaf.kind != "float" or leaf.min == other.min or max(leaf.min, other.min) > _MASKED:
        return False
    largest = max(abs(leaf.max), abs(other.max))
    return abs(leaf.max - other.max) <= (_NEAR if has_few_digits(largest) else TOLERANCE) * largest


def masks(leaf: Leaf, other: Leaf) -> str:
    """Return what the two masks put in."""
    return f"masked with {leaf.min:.4g} on this side and with {other.min:.4g} on the other, and otherwise equal"


def _of_paired(unit: Unit, counterpart: Numbers, others: Sequence[Leaf]) -> LeftOver:
    """Explain leftover rows of paired ops: arguments or tensors that the other's call does not have."""
    places = numpy.flatnonzero(counterpart >= 0)
    ops = [unit.ops[place] for place in places.tolist()]
    names = [others[number].op.name for number in counterpart[places].tolist()]
    return LeftOver(
        [op.seq for op in ops],
        [None] * len(ops),
        [STRUCTURE if op.is_view else INSIDE for op in ops],
        [f"an argument or output that {name} does not have" for name in names],
    )


def _of_alone(op: Op, has_evidence: bool, is_reached: bool, is_leading: bool) -> tuple[str, str] | None:
    """Return why an op has no counterpart. None if no reason is known."""
    if op.is_view or op.is_query:
        return STRUCTURE, "a view, or a query of a shape"
    if not has_evidence:
        return STRUCTURE, "holds one number throughout, or no tensor"
    if is_reached and is_leading:
        return INSIDE, "a step between tensors that are compared"
    if is_leading:
        return INSIDE, "only this side makes it; what is made of it is compared"
    if {leaf.kind for leaf in op.leaves if leaf.role == "output"} == {"bool"}:
        return INSIDE, "makes a mask, which statistics do not identify"
    return None


def _between(unit: Unit, tensors: Tensors, partner: Numbers, compared: Numbers) -> dict[Op, tuple[str, str]]:
    """Return the ops without counterpart between ops that are compared, unless a difference begins there.

    Dumps do not show parts of a tensor and sums of gradients, so there may be no path of tensors to these ops.
    """
    found: dict[Op, tuple[str, str]] = {}
    ends = _agreement(unit, tensors, partner, compared)
    for direction in dict.fromkeys(op.direction for op in unit.ops):
        before: tuple[Op, bool] | None = None
        waiting: list[Op] = []
        for op, agrees in zip(unit.ops, ends, strict=True):
            if op.direction != direction:
                continue
            if agrees is None:
                waiting.append(op)
                continue
            if waiting:
                if agrees or (before is not None and not before[1]):
                    where = (
                        f"between {before[0].name} and {op.name}, which are"
                        if before
                        else f"before {op.name}, which is"
                    )
                    found |= dict.fromkeys(waiting, (INSIDE, f"lies {where} compared"))
                waiting = []
            before = (op, agrees)
        if before is not None:
            why = f"follows {before[0].name}, which is compared, and no recorded op uses its result"
            found |= dict.fromkeys(waiting, (INSIDE, why))
    return found


def _agreement(unit: Unit, tensors: Tensors, partner: Numbers, compared: Numbers) -> list[bool | None]:
    """Return for each op whether both runs have its outputs. None if the op is not compared."""
    columns = unit.columns
    is_made = compared & _is_made(unit)
    agrees = ~columns.is_evidence
    shows = tensors.of_leaf >= 0
    agrees[shows] = partner[tensors.of_leaf[shows]] >= 0
    has, agree = (contained(columns.op[chosen], len(unit.ops)).tolist() for chosen in (is_made, is_made & agrees))
    return [agreed if compares else None for compares, agreed in zip(has, agree, strict=True)]


def _ways(unit: Unit, tensors: Tensors, known: Numbers) -> tuple[list[bool], list[bool]]:
    """Return for each op whether it is reached from a compared tensor, and whether it leads to one."""
    columns, of_leaf = unit.columns, tensors.of_leaf
    shows = of_leaf >= 0
    is_known = numpy.zeros(len(of_leaf), dtype=bool)
    is_known[shows] = known[of_leaf[shows]]
    is_made = _is_made(unit)
    between = numpy.unique(columns.op[shows & ~is_known]).tolist()  # only these ops pass on unknown tensors
    found = []
    for is_start, order in ((~is_made, between), (is_made, between[::-1])):
        touched = contained(columns.op[is_known & is_start], len(unit.ops)).tolist()
        _follow(unit, order, touched, is_start.tolist())
        found.append(touched)
    return found[0], found[1]


def _follow(unit: Unit, order: Iterable[int], touched: list[bool], is_start: Sequence[bool]) -> None:
    """Mark the ops that are reached by following tensors from op to op."""
    reached: set[Tensor] = set()
    for place in order:
        starts = [leaf.tensor for leaf in unit.ops[place].leaves if is_start[leaf.place] and leaf.tensor is not None]
        if touched[place] or not reached.isdisjoint(starts):
            touched[place] = True
            reached.update(
                leaf.tensor for leaf in unit.ops[place].leaves if not is_start[leaf.place] and leaf.tensor is not None
            )


def _is_made(unit: Unit) -> Numbers:
    """Return for each leaf whether its op makes it."""
    return numpy.asarray((unit.columns.role == OUTPUT) | (unit.columns.role == GRADIENT))
