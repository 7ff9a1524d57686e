"""Gives the whole golden's ops: leaves out calls that only the cut makes, and adds those that it makes in parts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from lakeprobe.layouts import parts
from lakeprobe.layouts.cut import Cut
from lakeprobe.layouts.members import GOLDEN_ALONE, keep_axes
from lakeprobe.layouts.names import Named, Op, Piece
from lakeprobe.layouts.placements import COPY, DIFFER, OWN_BOUNDS, SUM, Key, Leaf, Placement
from lakeprobe.layouts.whole import Whole

_OWN_TO_RANKS = frozenset((DIFFER, SUM))


def fit(cut: Cut, whole: Whole, named: Sequence[Sequence[Named]], golden: Piece) -> list[Named]:
    """Give the whole golden's ops. Returns those that golden alone has, under their names."""
    scopes = parts.Scopes(named)
    _leave_out(cut, whole, _added({op.op for op in golden.ops}, whole, scopes), "the cut adds it")
    _leave_out(cut, whole, parts.in_parts(whole.placements, scopes), parts.REASON)
    alone = parts.golden_alone(golden.ops, whole.order, scopes)
    if alone:
        _add_alone(cut, whole, alone, golden)
    return [Named(op.op, op.op, 0, None, op.parent) for op in alone]


def _added(theirs: Collection[str], whole: Whole, scopes: parts.Scopes) -> set[str]:
    """The calls that golden does not make and that belong to the cut: they are given a rank's own, or part of a sum.

    So do calls without a value, by which DTensor finds out shapes, and calls beside those that exchange tensors. Any
    other call whose result alone differs is a finding.
    """
    fresh: dict[str, list[Key]] = {}
    for key in whole.placements:
        if key.op not in theirs:
            fresh.setdefault(key.op, []).append(key)
    has_mesh = any('"device_mesh"' in (leaf.record or "") for leaf in whole.leaves.values())
    added = set()
    for op, keys in fresh.items():
        tensors = [whole.leaves[key] for key in keys if whole.leaves[key].kind == "tensor"]
        forward = op.removesuffix("backward") + "forward"
        is_beside = (has_mesh and scopes.of.get(op) == "") or scopes.has_parts(op) or scopes.has_parts(forward)
        is_without_value = bool(tensors) and all(leaf.is_unknown for leaf in tensors)
        if is_beside or is_without_value or any(_is_own(whole, key) for key in keys):
            added |= {op, op.removesuffix("forward") + "backward"} & set(fresh)
    return added


def _is_own(whole: Whole, key: Key) -> bool:
    """Whether a call is given what a rank has for itself, or part of a sum."""
    placed = whole.placements[key]
    return whole.leaves[key].role == "input" and (
        placed.reason is not None or placed.unknown == OWN_BOUNDS or not _OWN_TO_RANKS.isdisjoint(placed.ways)
    )


def _leave_out(cut: Cut, whole: Whole, ops: Collection[str], reason: str) -> None:
    """Leave out calls that have no place in the whole."""
    for key in [key for key in whole.placements if key.op in ops]:
        del whole.placements[key], whole.leaves[key]
    for op in ops:
        del whole.order[op]
    cut.connection.execute(
        "UPDATE cut_names SET whole = NULL, reason = $reason WHERE list_contains($ops, whole)",
        {"ops": sorted(ops), "reason": reason},
    )


def _add_alone(cut: Cut, whole: Whole, alone: Sequence[Op], golden: Piece) -> None:
    """Add ops that golden alone has: what another op has as well is known, the rest is not."""
    places = {op.op: float(place) for place, op in enumerate(golden.ops)}
    cut.register("golden_alone", [(op.op, places[op.op]) for op in alone], GOLDEN_ALONE)
    cut.keep("alone_leaves", "alone_leaves", cut.golden_unit)
    by_id = {leaf.id: key for key, leaf in whole.leaves.items()}
    known = [whole.leaves[key].id for key, placed in whole.placements.items() if parts.is_known(placed)]
    cut.keep("beside", "beside", cut.golden_unit | {"known": known})
    cut.add("cut_leaves", "alone_numbers")
    cut.add("cut_members", "alone_members")
    cut.keep("golden_leaves", "golden_leaves", cut.golden_unit)
    keep_axes(cut, whole.axes)
    for number, op, slot, repeat, role, kind, shape, source, same_shape in cut.rows("alone_beside"):
        key = Key(op, slot, repeat)
        other = None if source is None else whole.placements[by_id[source]]
        whole.placements[key] = _placement(len(whole.axes), other, kind, is_as_large=bool(same_shape))
        whole.leaves[key] = _leaf(len(whole.axes), key, role, kind, shape, number)
        whole.order[op] = places[op]


def _placement(axes: int, other: Placement | None, kind: str, *, is_as_large: bool) -> Placement:
    """Where a leaf lies that golden alone has: as `other`, which is the same in golden, or nobody knows where."""
    if other is None:
        placed = Placement([COPY] * axes, [None] * axes, "golden", "inferred")
        placed.unknown = parts.REASON if kind == "tensor" else None
        return placed
    placed = replace(other, source="golden", certainty="inferred")
    if not is_as_large:
        placed.dimensions = [None if one is None else 0 for one in placed.dimensions]
    return placed


def _leaf(axes: int, key: Key, role: str, kind: str, shape: Sequence[int] | None, number: int) -> Leaf:
    whole = None if shape is None else tuple(shape)
    direction = "backward" if key.op.endswith("backward") else "forward"
    equal, present = (True,) * axes, (1,) * axes
    return Leaf(key, role, kind, direction, whole, 1, None, 1, whole, equal, present, frozenset(), number, id=number)
