"""Finds tensors that hold some rows of a tensor of the other run.

One program may gather the rows that it computes on, while the other computes on all rows and masks the unwanted ones,
as two mixtures of experts do. Their statistics differ, but the range of some rows is within the range of all. Results
computed row by row keep this property. Where it breaks, the two programs differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy

from lakeprobe.mapping.align import Pair
from lakeprobe.mapping.ops import Leaf, Op, relation, tolerances
from lakeprobe.mapping.row_pairs import RowPair
from lakeprobe.mapping.tensors import Matches, Tensor
from lakeprobe.mapping.units import OUTPUT, Unit

_ACROSS_ROWS = frozenset({
    "batchnorm", "cumprod", "cumsum", "dropout", "flip", "indexadd", "logsoftmax", "roll", "softmax", "sort",
})  # fmt: skip
"""Kinds of op whose output rows depend on more than one input row, or on chance."""


def compare_gathered(
    pairs: Sequence[Pair], target: Unit, golden: Unit, matches: Matches
) -> tuple[list[RowPair], dict[Tensor, str]]:
    """Return the pairs in which some rows leave the range of all rows, and notes on tensors in which they do not."""
    if not _may_differ_in_rows(pairs, target, golden):
        return [], {}
    found: list[RowPair] = []
    notes: dict[Tensor, str] = {}
    partners = {op: other for pair in pairs for op, other in ((pair.target, pair.golden), (pair.golden, pair.target))}
    for unit in (target, golden):
        gathered = _Gathered(partners)
        for part, whole in filter(None, map(gathered.follow, unit.ops)):
            ours, theirs = (part, whole) if unit is target else (whole, part)
            found.append(RowPair(ours, theirs, 0.8, (f"some rows of {whole.name}, outside their range",)))
        notes |= gathered.notes()
    return found, notes


def _may_differ_in_rows(pairs: Sequence[Pair], target: Unit, golden: Unit) -> bool:
    """Return whether two paired forward calls have outputs with different numbers of elements."""
    sizes = []
    pairs = [pair for pair in pairs if pair.target.direction == "forward"]
    for unit, places in (
        (target, [pair.target.place for pair in pairs]),
        (golden, [pair.golden.place for pair in pairs]),
    ):
        is_output = unit.columns.role == OUTPUT
        size = numpy.bincount(
            unit.columns.op[is_output], unit.columns.elements[is_output].astype(numpy.float64), len(unit.ops)
        )
        sizes.append(size[places])
    return bool((sizes[0] != sizes[1]).any())


class _Gathered:
    """Tracks the tensors of one run that hold some rows of the other run's."""

    def __init__(self, partners: Mapping[Op, Op]) -> None:
        self.partners = partners
        self.wholes: dict[Tensor, Tensor] = {}  # per tensor that holds some rows, the other run's tensor with all rows
        self.counts: set[tuple[int, int]] = set()  # numbers of some rows and of all rows
        self.used: set[Op] = set()
        self.behind: set[Tensor] = set()  # tensors that leave the range, and what is made of them

    def follow(self, op: Op) -> tuple[Leaf, Leaf] | None:
        """Track the rows from the inputs of `op` to its outputs.

        Returns the two leaves if some rows leave the range of all.
        """
        taken = _alone(op, "input") if _goes_by_row(op) else []
        if not self.behind.isdisjoint(taken):
            self.behind.update(_alone(op, "output"))
            return None
        self.begin(op, taken)
        other = self.counterpart(op, [self.wholes[tensor] for tensor in taken if tensor in self.wholes])
        if other is None or other in self.used:
            return None
        self.used.add(other)
        for role in ("input", "output"):
            parts = [tensor for tensor in _alone(op, role) if tensor not in self.wholes]
            others = [tensor for tensor in _alone(other, role) if tensor not in self.wholes.values()]
            if not parts and not others:
                continue
            if len(parts) != 1 or len(others) != 1 or not self.may_be_rows(parts[0].leaf, others[0].leaf):
                return None
            if not is_within(parts[0].leaf, others[0].leaf):
                self.behind.update(parts, _alone(op, "output"))
                return parts[0].leaf, others[0].leaf
            self.wholes[parts[0]] = others[0]
        return None

    def begin(self, op: Op, taken: Sequence[Tensor]) -> None:
        """Note inputs of an op that are some rows of its counterpart's inputs, if both use the same weights."""
        other = self.partners.get(op)
        if not taken or other is None or not _weights(op) & {leaf.tensor for leaf in other.leaves}:
            return
        slots = {
            leaf.slot: leaf for leaf in other.leaves if leaf.tensor is not None and leaf.tensor.partner is not None
        }
        for leaf in op.leaves:
            whole = slots.get(leaf.slot)
            if whole is None or whole.tensor is None or leaf.tensor is None or leaf.tensor not in taken:
                continue
            if _has_rows_of(leaf, whole) and is_within(leaf, whole):
                self.wholes.setdefault(leaf.tensor, whole.tensor)
                self.counts.add((_rows(leaf), _rows(whole)))

    def counterpart(self, op: Op, wholes: Sequence[Tensor]) -> Op | None:
        """Return the op of the same kind that takes all rows where `op` takes some, and the same weights."""
        weights = _weights(op)
        if weights and op in self.partners:
            others = [self.partners[op]]
        else:
            sights = wholes[0].sights if wholes else []
            others = list(dict.fromkeys(sight.op for sight in sights if sight.role == "input"))
        found = [
            other
            for other in others
            if _goes_by_row(other)
            and relation(op, other)
            and {*wholes, *weights} <= {leaf.tensor for leaf in other.leaves}
            and self.partners.get(other, op) is op
        ]
        return found[0] if len(found) == 1 else None

    def may_be_rows(self, part: Leaf, whole: Leaf) -> bool:
        """Return whether `part` has as many rows of `whole` as were gathered."""
        return _has_rows_of(part, whole) and (_rows(part), _rows(whole)) in self.counts

    def notes(self) -> dict[Tensor, str]:
        """Return what each tensor that only one run has holds."""
        notes = {}
        for part, whole in self.wholes.items():
            notes[part] = f"holds some rows of {whole.leaf.name}, within their range"
            if whole.partner is None:
                notes[whole] = f"some rows of it are {part.leaf.name}, within its range"
        return notes


def _goes_by_row(op: Op) -> bool:
    """Return whether each output row of `op` depends on one input row only."""
    is_call = op.kind == "api" and op.direction == "forward"
    return is_call and not (op.is_view or op.is_query or op.family in _ACROSS_ROWS)


def _weights(op: Op) -> set[Tensor]:
    """Return the other run's tensors that `op` takes in too."""
    return {leaf.tensor.partner for leaf in op.leaves if leaf.tensor is not None and leaf.tensor.partner is not None}


def _alone(op: Op, role: str) -> list[Tensor]:
    shown = (leaf.tensor for leaf in op.leaves if leaf.role == role and leaf.kind == "float")
    return list(dict.fromkeys(tensor for tensor in shown if tensor is not None and tensor.partner is None))


def _has_rows_of(part: Leaf, whole: Leaf) -> bool:
    """Return whether `part` has rows of the same length as `whole`, and fewer elements. Vectors have no rows."""
    if not part.shape or not whole.shape or len(part.shape) < 2 or part.kind != whole.kind:
        return False
    return part.shape[-1] == whole.shape[-1] and part.elements < whole.elements


def _rows(leaf: Leaf) -> int:
    return leaf.elements // max(leaf.shape[-1], 1) if leaf.shape else 1


def is_within(part: Leaf, whole: Leaf) -> bool:
    """Return whether the range of `part` is within the range of `whole`."""
    if part.max is None or part.min is None or whole.max is None or whole.min is None:
        return True
    slack = tolerances(part, whole)[1] * max(abs(whole.max), abs(whole.min))
    return not (part.max > whole.max + slack or part.min < whole.min - slack)
