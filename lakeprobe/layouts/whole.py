"""The whole of a step: its leaves, where they lie, and the numbers that their members have together.

Statistics merge exactly over shards: max and min, the mean by counts, the norm by squares. Those of a partial sum are
taken from the collective that adds it up; without one, and without contents, the mean alone is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from msgspec import Struct

from lakeprobe.lake.connection import set_variable
from lakeprobe.layouts.cut import Cut
from lakeprobe.layouts.mesh import Axis
from lakeprobe.layouts.names import Named
from lakeprobe.layouts.placements import COPY, SHARD, Key, Leaf, Placement

_DECIDED = {
    "leaf": "INTEGER", "ways": "VARCHAR[]", "dimensions": "INTEGER[]", "layout": "VARCHAR", "source": "VARCHAR",
    "certainty": "VARCHAR", "problem": "VARCHAR", "reason": "VARCHAR", "number": "VARCHAR", "reduced": "INTEGER[]",
    "repeats": "BOOLEAN", "blocks": "INTEGER[]", "unknown": "VARCHAR", "is_reordered": "BOOLEAN",
}  # fmt: skip


class Whole(Struct):
    """The axes along which leaves lie, the leaves, the place of each op, and the placement of each leaf."""

    axes: tuple[Axis, ...]
    leaves: dict[Key, Leaf]
    order: dict[str, float]
    placements: dict[Key, Placement]


def by_op(leaves: Mapping[Key, Leaf], order: Mapping[str, float]) -> list[list[Leaf]]:
    """The leaves of each op, in the order of the whole."""
    ops: dict[str, list[Leaf]] = {}
    for key, leaf in leaves.items():
        ops.setdefault(key.op, []).append(leaf)
    for own in ops.values():
        own.sort(key=lambda leaf: ({"input": 0, "parameters": 1}.get(leaf.role, 2), leaf.key.slot, leaf.key.repeat))
    return [ops[op] for op in sorted(ops, key=lambda op: (order.get(op, 0.0), op))]


def modules_of(named: Sequence[Sequence[Named]]) -> dict[str, str]:
    """The path of the module that makes each call of the whole."""
    paths = {}
    for ops in named:
        whole_of = {op.op: op.whole for op in ops}
        for op in ops:
            parent = whole_of.get(op.parent, op.parent) if op.parent else None
            if op.whole is not None and parent is not None and parent.startswith(("Module.", "Cell.")):
                paths[op.whole] = parent.rsplit(".", 3)[0]
    return paths


def keep_merged(cut: Cut, whole: Whole) -> None:
    """Create merged: each leaf of the whole with the statistics of its members together."""
    rows = [
        (whole.leaves[key].id, placed.merged_ways, placed.dimensions, placed.text(whole.axes) or None, placed.source,
         placed.certainty, placed.problem, placed.reason, placed.number, placed.added if placed.resolved else None,
         placed.repeats(whole.leaves[key]), placed.blocks, placed.unknown, placed.is_reordered)
        for key, placed in whole.placements.items()
    ]  # fmt: skip
    cut.register("decided", rows, _DECIDED)
    set_variable(cut.connection, "backward_scale", _backward_scale(cut, whole))
    cut.define("placed_members")
    cut.keep("farthest", "farthest")
    cut.keep("carriers", "carriers")
    cut.keep("picks", "picks")
    cut.define("picked_members")
    cut.keep("chosen", "chosen")
    cut.keep("merged", "merged")


def _backward_scale(cut: Cut, whole: Whole) -> float:
    """What backward values are multiplied by: 1/n where each of n ranks averages its loss over its own data."""
    if cut.golden is None:
        return 1.0
    shards = [
        (whole.order.get(key.op, 0.0), key)
        for key, leaf in whole.leaves.items()
        if leaf.direction == "backward" and leaf.kind == "tensor" and SHARD in whole.placements[key].ways
    ]
    for _, key in sorted(shards)[:20]:
        leaf, ways = whole.leaves[key], whole.placements[key].ways
        copies = prod(size for size, way in zip(leaf.present, ways, strict=True) if way == COPY)
        [(ratio,)] = cut.rows("ratio", {"leaf": leaf.id, "copies": copies})
        if ratio is not None:
            along = zip(whole.axes, leaf.present, ways, strict=True)
            return _scale_of(
                ratio, [size for axis, size, way in along if axis.name[:2] in ("dp", "cp") and way == SHARD]
            )
    return 1.0


def _scale_of(ratio: float, sizes: Sequence[int]) -> float:
    """1 through the product of some of `sizes` that is as large as the ratio of two norms; 1 if there is none."""
    for most in range(1 << len(sizes)):
        product = prod(size for nth, size in enumerate(sizes) if most >> nth & 1)
        if abs(ratio / product - 1) < 0.2:
            return 1.0 / product
    return 1.0
