"""The tensors of all ranks under their names in the whole, and what the ranks have of each leaf of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lakeprobe.layouts import mesh as meshes
from lakeprobe.layouts.cut import Cut
from lakeprobe.layouts.mesh import MICRO, Axis, Mesh
from lakeprobe.layouts.names import Named
from lakeprobe.layouts.placements import ACROSS_STAGES, Key, Leaf

GOLDEN_ALONE = {"op": "VARCHAR", "place": "DOUBLE"}
"""The columns of golden_alone: ops that golden alone has, and where they stand in golden."""

_LEAF_AXES = {
    "leaf": "INTEGER", "axis": "INTEGER", "equal": "BOOLEAN", "ragged": "BOOLEAN", "present": "INTEGER",
    "first_place": "INTEGER", "last_place": "INTEGER",
}  # fmt: skip


def axes_of(mesh: Mesh, named: Sequence[Sequence[Named]]) -> tuple[Axis, ...]:
    """The axes along which the members of a leaf lie: those that cut tensors, and micro-batches if there are any."""
    batches = 1 + max(op.micro for ops in named for op in ops)
    return (*mesh.cutting, *((Axis(MICRO, batches, "calls"),) if batches > 1 else ()))


def keep_members(
    cut: Cut, mesh: Mesh, axes: Sequence[Axis], piece_of: Mapping[int, int], named: Sequence[Sequence[Named]]
) -> dict[Key, Leaf]:
    """Keep the tables of the ranks' tensors and of the sums over them. Returns the leaves of the whole."""
    cut.register(
        "cut_names",
        [(piece, *op[:4]) for piece, ops in enumerate(named) for op in ops],
        {"piece": "INTEGER", "op": "VARCHAR", "whole": "VARCHAR", "micro": "INTEGER", "reason": "VARCHAR"},
    )
    cut.register(
        "cut_ranks",
        [(rank, piece_of[rank], [mesh.at(rank, axis.name) for axis in mesh.cutting]) for rank in cut.ranks],
        {"rank": "INTEGER", "piece": "INTEGER", "coordinates": "INTEGER[]"},
    )
    cut.keep("cut_leaves", "leaf_numbers", cut.run_and_step)
    cut.keep("cut_members", "members", cut.run_and_step)
    cut.keep("golden_leaves", "golden_leaves", cut.golden_unit)
    cut.register(
        "axis_lines", list(_lines(cut, mesh, axes)), dict.fromkeys(("axis", "rank", "line", "place"), "INTEGER")
    )
    cut.register("leaf_axes", [], _LEAF_AXES)
    keep_axes(cut, axes)
    cut.register("golden_alone", [], GOLDEN_ALONE)
    cut.keep("alone_leaves", "alone_leaves", cut.golden_unit)
    _keep_reductions(cut, mesh, axes)
    return {leaf.key: leaf for leaf in map(_leaf, cut.records("leaves"))}


def keep_axes(cut: Cut, axes: Sequence[Axis]) -> None:
    """Add what the members of each leaf have along each axis to leaf_axes, for the leaves that it lacks."""
    for number in range(len(axes)):
        cut.add("leaf_axes", "leaf_axes", {"axis": number + 1})


def _lines(cut: Cut, mesh: Mesh, axes: Sequence[Axis]) -> Iterator[tuple[int, int, int, int | None]]:
    """For each axis and rank the line of ranks that differ along this axis only, and the rank's place on it."""
    for number, axis in enumerate(axes, 1):
        lines: dict[tuple[int, ...], int] = {}
        for rank in cut.ranks:
            others = tuple(mesh.at(rank, other.name) for other in mesh.cutting if other.name != axis.name)
            line = lines.setdefault(others, len(lines))
            yield number, rank, line, None if axis.name == MICRO else mesh.at(rank, axis.name)


def _keep_reductions(cut: Cut, mesh: Mesh, axes: Sequence[Axis]) -> None:
    """Create reductions: the values that collectives add up over an axis, and what they give."""
    groups = [(list(spanned), sorted(group)) for group, spanned in meshes.spans(mesh, axes, cut.ranks).items()]
    groups += [([ACROSS_STAGES], sorted(group)) for group in meshes.across_stages(mesh, cut.ranks)]
    cut.register("axis_groups", groups, {"axes": "INTEGER[]", "members": "INTEGER[]"})
    cut.keep("reductions_single", "reductions", cut.run_and_step)
    cut.keep("reductions", "reductions_in_turn")


def _leaf(row: dict[str, Any]) -> Leaf:
    key = Key(row.pop("op"), row.pop("slot"), row.pop("repeat"))
    return msgspec.convert(row | {"key": key}, Leaf)
