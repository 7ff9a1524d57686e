"""Says why a row found no counterpart: one implementation takes steps that the other does not.

What only one run has is harmless where it lies on a way between tensors that both have: a product without its bias, a
view, a mask that is made otherwise. These rows are counted apart, each with its reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakeprobe.mapping.align import TOLERANCE, Leaf, Op
from lakeprobe.mapping.tensors import Matches, Tensor, is_evidence

_MASKED = -5e3
"""A number as low as this in a tensor of scores is a mask's."""

INSIDE, STRUCTURE = "inside", "structure"
"""How a row without counterpart ends that has its reason: a step on the way, or what computes nothing."""


@dataclass(frozen=True, slots=True)
class Left:
    """A row of an op, or all rows of it that are not named (`row` None), with how it ends and why."""

    seq: int
    row: int | None
    outcome: str
    reason: str


def explain(
    ops: Sequence[Op], side: int, matches: Matches, partners: dict[int, tuple[Op, Leaf]], notes: Mapping[Tensor, str]
) -> Iterator[Left]:
    """The reasons of what is left of one side.

    `partners` has its paired rows, each with its counterpart; `notes` what is known of tensors (mapping/layouts.py).
    """
    tensors = matches.by_row[side]
    known: dict[Tensor, tuple[Op, Leaf]] = {}
    for row, partner in partners.items():
        if row in tensors:
            known.setdefault(tensors[row], partner)
    reached, leading = _reached(ops, tensors, known), _leading(ops, tensors, known)
    between = _between(ops, side, matches, partners)
    for op in ops:
        counterpart = next((partners[leaf.row][0] for leaf in op.leaves if leaf.row in partners), None)
        if counterpart is not None:
            why: tuple[str, str] | None = _of_paired(op, counterpart)
        else:
            why = _of_alone(op, op in reached, op in leading) or between.get(op)
        if why is not None:
            yield Left(op.seq, None, *why)
        for leaf in op.leaves:
            tensor = tensors.get(leaf.row)
            if leaf.row not in partners and tensor is not None and tensor in notes:
                yield Left(op.seq, leaf.row, INSIDE, notes[tensor])
            elif leaf.row not in partners and tensor in known and not op.is_view:
                other, sight = known[tensor]
                yield Left(op.seq, leaf.row, INSIDE, f"the tensor that is compared with {other.name}.{sight.slot}")


def are_masked_otherwise(leaf: Leaf, other: Leaf) -> bool:
    """Whether the two are the same but for the number that a mask puts in: -1e9, -10000, the dtype's least, -inf."""
    if leaf.min is None or other.min is None or leaf.max is None or other.max is None:
        return False
    if leaf.kind != "float" or leaf.min == other.min or max(leaf.min, other.min) > _MASKED:
        return False
    return abs(leaf.max - other.max) <= TOLERANCE * max(abs(leaf.max), abs(other.max))


def masks(leaf: Leaf, other: Leaf) -> str:
    """What the two masks put in."""
    return f"masked with {leaf.min:.4g} here and with {other.min:.4g} there, and equal but for that"


def _of_paired(op: Op, partner: Op) -> tuple[str, str]:
    """Why a paired op has a row over: an argument or a tensor that the other's call does not have."""
    outcome = STRUCTURE if op.is_view else INSIDE
    return outcome, f"an argument or output that {partner.name} does not have"


def _of_alone(op: Op, is_reached: bool, is_leading: bool) -> tuple[str, str] | None:
    """Why an op has no counterpart; None if there is no reason known."""
    if op.is_view or op.is_query:
        return STRUCTURE, "a view, or a query of a shape"
    if not any(is_evidence(leaf) for leaf in op.leaves):
        return STRUCTURE, "holds one number throughout, or no tensor"
    if is_reached and is_leading:
        return INSIDE, "a step between tensors that are compared"
    if is_leading:
        return INSIDE, "made here only; what is made of it is compared"
    return None


def _between(
    ops: Sequence[Op], side: int, matches: Matches, partners: dict[int, tuple[Op, Leaf]]
) -> dict[Op, tuple[str, str]]:
    """The ops without counterpart that stand between ops that are compared, unless a difference begins there.

    A part of a tensor and a sum of gradients leave no trace in a dump, so that no way of tensors need lead to them.
    """
    found: dict[Op, tuple[str, str]] = {}
    for direction in dict.fromkeys(op.direction for op in ops):
        calls = [op for op in ops if op.direction == direction]
        ends = [_agreement(op, side, matches, partners) for op in calls]
        before: tuple[Op, bool] | None = None
        waiting: list[Op] = []
        for op, agrees in zip(calls, ends, strict=True):
            if agrees is None:
                waiting.append(op)
                continue
            if agrees or (before is not None and not before[1]):
                start = f"between {before[0].name} and {op.name}" if before else f"before {op.name}"
                found |= dict.fromkeys(waiting, (INSIDE, f"stands {start}, compared"))
            before, waiting = (op, agrees), []
        if before is not None:
            why = f"stands behind {before[0].name}, compared, and nothing that is recorded comes of it"
            found |= dict.fromkeys(waiting, (INSIDE, why))
    return found


def _agreement(op: Op, side: int, matches: Matches, partners: dict[int, tuple[Op, Leaf]]) -> bool | None:
    """Whether what `op` puts out is in both runs; None if it is not compared."""
    compared = [leaf for leaf in op.leaves if leaf.row in partners and leaf.role in ("output", "parameters_grad")]
    if not compared:
        return None
    return any(matches.of(leaf, side) is not None or not is_evidence(leaf) for leaf in compared)


def _reached(ops: Sequence[Op], tensors: dict[int, Tensor], known: Collection[Tensor]) -> set[Op]:
    """The ops that take in a tensor that is compared, or what was made of one."""
    derived: set[Tensor] = set()
    found = set()
    for op in ops:
        taken, made = _taken_and_made(op, tensors)
        if any(tensor in known or tensor in derived for tensor in taken):
            found.add(op)
            derived |= made
    return found


def _leading(ops: Sequence[Op], tensors: dict[int, Tensor], known: Collection[Tensor]) -> set[Op]:
    """The ops that put out a tensor that is compared, or of which one is made."""
    wanted: set[Tensor] = set()
    found = set()
    for op in reversed(ops):
        taken, made = _taken_and_made(op, tensors)
        if any(tensor in known or tensor in wanted for tensor in made):
            found.add(op)
            wanted |= taken
    return found


def _taken_and_made(op: Op, tensors: dict[int, Tensor]) -> tuple[set[Tensor], set[Tensor]]:
    taken: set[Tensor] = set()
    made: set[Tensor] = set()
    for leaf in op.leaves:
        tensor = tensors.get(leaf.row)
        if tensor is not None:
            (made if leaf.role in ("output", "parameters_grad") else taken).add(tensor)
    return taken, made
