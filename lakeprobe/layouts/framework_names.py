"""Says how parameters lie by the names that known frameworks give them (`schemas/data/placements.csv`).

This is the last source. It counts where no golden run has the shape of the whole, and only along axes along which the
ranks' tensors are not equal: parts that are equal are copies, whatever they are called.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from functools import cache

from lakeprobe import resources
from lakeprobe.layouts.mesh import Axis
from lakeprobe.layouts.placements import SHARD, Leaf, Said, Way

_COLUMNS, _ROWS = 0, 1
"""The dimension of a product's weight that is cut: that of its results, or that of what it is given."""

_CUT_SLOT = {
    (_COLUMNS, "forward"): "output.0",
    (_COLUMNS, "backward"): "input.0",
    (_ROWS, "forward"): "input.0",
    (_ROWS, "backward"): "output.0",
}
"""Which slot of a product's module is cut along its last axis; backward, `input` is the gradient of the result."""


def said(leaf: Leaf, axes: Sequence[Axis]) -> Said | None:
    """What the name of a leaf says of its layout: of a parameter, its gradient, and what its module takes and gives."""
    if leaf.whole is not None or leaf.kind != "tensor" or leaf.shape is None or "." not in leaf.key.op:
        return None
    path = leaf.key.op.partition(".")[2]
    if leaf.role in ("parameters", "parameters_grad"):
        found = [(axis, dimension) for axis, dimension, _ in _named(_parameter(path, leaf))]
    else:
        module = re.sub(r"\.[^.]+\.(forward|backward)\.\d+$", "", path)
        found = [
            (axis, len(leaf.shape) - 1)
            for axis, dimension, is_product in _named(f"{module}.weight")
            if is_product and module != path and _CUT_SLOT.get((dimension, leaf.direction)) == leaf.key.slot
        ]
    ways = {
        number: Way(SHARD, dimension)
        for axis, dimension in found
        for number, own in enumerate(axes)
        if own.name.startswith(axis) and not leaf.equal[number] and dimension < len(leaf.shape)
    }
    return Said(ways, "names", certainty="assumed") if ways else None


def _parameter(path: str, leaf: Leaf) -> str:
    """The name of a parameter, as a checkpoint has it."""
    module = re.sub(r"\.[^.]+\.(forward\.\d+|parameters_grad(\.\d+)?)$", "", path)
    slot = leaf.key.slot.removeprefix("parameters.")
    return f"{module}.{re.sub(r'[.][0-9]+$', '', slot)}"


def _named(name: str) -> Iterator[tuple[str, int, bool]]:
    """The axis and dimension that the tables give a parameter, and whether it is the weight of a product."""
    for pattern, axis, dimension, meaning in _tables():
        if pattern.search(name):
            yield axis, dimension, "vocabulary" not in meaning and axis == "tp"
            return


@cache
def _tables() -> tuple[tuple[re.Pattern[str], str, int, str], ...]:
    with resources.data("placements").open(encoding="utf-8", newline="") as file:
        return tuple(
            (re.compile(row["pattern"]), row["axis"], int(row["dimension"]), row["meaning"])
            for row in csv.DictReader(file)
        )
