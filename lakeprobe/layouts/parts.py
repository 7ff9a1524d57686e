"""Ops that the whole computes in one and a cut in parts, such as attention whose keys and values go round the ranks.

They lie in a module whose call exchanges tensors between ranks. What of them another op has as well, in golden, is
known: what they are given, and what they give. The rest is not compared, and the calls that the cut makes instead are
left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakeprobe.layouts.names import Named, Op
from lakeprobe.layouts.placements import UNEXPLAINED, Key, Placement

REASON = "the cut computes it in parts"

_EXCHANGES = ("Distributed.", "Functional.all_", "Functional.reduce_scatter")


class Scopes:
    """Where the ops of the whole are called, and in which of these places ranks exchange tensors.

    A place is the name of a module's forward call, or "" around modules until the last backward op.
    """

    def __init__(self, named: Sequence[Sequence[Named]]) -> None:
        self.of: dict[str, str] = {}
        self.exchanging: set[str] = set()
        for ops in named:
            by_op = {op.op: op for op in ops}
            last = max((place for place, op in enumerate(ops) if ".backward" in op.op), default=len(ops))
            for place, op in enumerate(ops):
                scope = _around(op.parent, by_op)
                if not scope and place > last:
                    continue
                if op.op.startswith(_EXCHANGES):
                    self.exchanging.add(scope)
                elif op.whole is not None:
                    self.of.setdefault(op.whole, scope)

    def has_parts(self, op: str) -> bool:
        """Whether an op of the whole is called where ranks exchange tensors."""
        return self.of.get(op) in self.exchanging


def _around(parent: str | None, by_op: Mapping[str, Named]) -> str:
    while parent is not None and parent in by_op:
        if (whole := by_op[parent].whole) is not None:
            return whole.replace(".backward.", ".forward.")
        parent = by_op[parent].parent
    return ""


def golden_alone(golden: Iterable[Op], known: Mapping[str, float], scopes: Scopes) -> list[Op]:
    """Golden's ops that no rank calls, in places where ranks exchange tensors, with their backward ops."""
    ops = list(golden)
    last = max((place for place, op in enumerate(ops) if op.direction == "backward"), default=len(ops))
    modules = {op.op for op in ops if op.kind == "module"}
    found: dict[str, Op] = {}
    for place, op in enumerate(ops):
        if op.kind != "api" or op.op in known or op.op.startswith(_EXCHANGES):
            continue
        if op.direction == "backward":
            is_part = op.op.removesuffix("backward") + "forward" in found
        else:
            scope = op.parent if op.parent in modules else ""
            is_part = place < last and (scope or "") in scopes.exchanging and (not scope or scope in known)
        if is_part:
            found[op.op] = op
    return list(found.values())


def in_parts(decided: Mapping[Key, Placement], scopes: Scopes) -> set[str]:
    """The ops of a part: they have extents that no axis explains, where ranks exchange tensors."""
    stems = {
        _stem(key.op)
        for key, placed in decided.items()
        if placed.problem is not None and UNEXPLAINED in placed.problem and scopes.has_parts(_stem(key.op) + "forward")
    }
    return {key.op for key in decided if _stem(key.op) in stems}


def is_known(placed: Placement) -> bool:
    """Whether a placement gives the value of the whole, even if copies differ."""
    return placed.unknown is None and placed.reason is None and UNEXPLAINED not in (placed.problem or "")


def _stem(op: str) -> str:
    return op.removesuffix("forward").removesuffix("backward")
