"""The unpaired calls around a paired one that its tensors flow from and to: the parts that it is made of here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from lakeprobe.mapping.ops import Op

_WINDOW = 12
"""The number of unpaired ops before and after an op that may be parts of it."""


class Neighbours:
    """The calls of one side in order, and which unpaired calls are parts of a paired one."""

    def __init__(self, ops: Sequence[Op], paired: Sequence[int]) -> None:
        self.is_paired = bytearray(len(ops))
        for place in paired:
            self.is_paired[place] = 1
        self.calls: dict[str, list[Op]] = defaultdict(list)
        self.number = [-1] * len(ops)
        for op in ops:
            if op.kind == "api":
                calls = self.calls[op.direction]
                self.number[op.place] = len(calls)
                calls.append(op)
        self.known: dict[Op, list[Op]] = {}

    def parts(self, op: Op) -> list[Op]:
        """Return `op` and the unpaired calls next to it that its inputs come from or its outputs go to, in order."""
        if op not in self.known:
            self.known[op] = self._found(op) if self.number[op.place] >= 0 else [op]
        return self.known[op]

    def _found(self, op: Op) -> list[Op]:
        number = self.number[op.place]
        before = self._unpaired(op, range(number - 1, max(0, number - _WINDOW) - 1, -1))
        behind = self._unpaired(op, range(number + 1, min(len(self.calls[op.direction]), number + 1 + _WINDOW)))
        sources = _connected(op, before, "input", "output") if before else []
        return [*sources[::-1], op, *(_connected(op, behind, "output", "input") if behind else [])]

    def _unpaired(self, op: Op, numbers: Iterable[int]) -> list[Op]:
        """Return the calls of these numbers, up to the first that is paired or belongs to another module."""
        calls, parent, found = self.calls[op.direction], op.parent, []
        for number in numbers:
            other = calls[number]
            if self.is_paired[other.place] or other.parent != parent:
                break
            found.append(other)
        return found


def _connected(op: Op, others: Sequence[Op], role: str, opposite: str) -> list[Op]:
    """Return those of `others` that are reached by a path from the tensors that `op` has in `role`."""
    flowing, found = shown([op], role), []
    for other in others:
        if not flowing.isdisjoint(shown([other], opposite)):
            found.append(other)
            flowing |= shown([other], role)
    return found


def shown(ops: Iterable[Op], role: str) -> set[int]:
    """Return the tensors that `ops` have in `role`, if the dump identifies them."""
    return {leaf.view for op in ops for leaf in op.leaves if leaf.role == role} - {-1}
