"""Searches which rows of two units belong together: tensors by their values, ops by tensors, rows by ops.

Nothing here knows an implementation: what pairs was recorded, and names only propose (docs/rules.md).
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe import resources
from lakeprobe.mapping import layouts
from lakeprobe.mapping.align import Leaf, Op, Pair, align
from lakeprobe.mapping.descent import presume
from lakeprobe.mapping.known import argument, family
from lakeprobe.mapping.left_over import INSIDE, Left, are_masked_otherwise, explain, masks
from lakeprobe.mapping.row_pairs import RowPair, pair_rows
from lakeprobe.mapping.tensors import match_tensors

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Found:
    """What a search found: the ops of both sides, the pairs of ops and of rows, and why the other rows are left."""

    target: Sequence[Op]
    golden: Sequence[Op]
    ops: Sequence[Pair]
    rows: Sequence[RowPair]
    target_left: Sequence[Left]
    golden_left: Sequence[Left]


def search(connection: duckdb.DuckDBPyConnection, target: Path, golden: Path) -> Found:
    """What belongs together in two units, given as their folders. Raises duckdb.Error if one cannot be read."""
    enabled = gc.isenabled()
    gc.disable()  # many objects, and none to collect
    try:
        return _search(connection, target, golden)
    finally:
        if enabled:
            gc.enable()


def _search(connection: duckdb.DuckDBPyConnection, target: Path, golden: Path) -> Found:
    ours, theirs = read_ops(connection, target), read_ops(connection, golden)
    one_framework = _framework(connection, target) == _framework(connection, golden)
    matches = match_tensors(ours, theirs)
    presume(ours, theirs, matches)
    pairs = align(ours, theirs, matches)
    found = pair_rows(pairs, ours, theirs, matches, one_framework)
    notes = layouts.of_parameters(ours, theirs, matches)
    rows = [row for row in found if not are_masked_otherwise(row.target_leaf, row.golden_leaf)]
    masked = [row for row in found if are_masked_otherwise(row.target_leaf, row.golden_leaf)]
    target_left = [
        *(Left(row.target.seq, row.target_leaf.row, INSIDE, masks(row.target_leaf, row.golden_leaf)) for row in masked),
        *explain(ours, 0, matches, {row.target_leaf.row: (row.golden, row.golden_leaf) for row in found}, notes),
    ]
    golden_left = [
        *(Left(row.golden.seq, row.golden_leaf.row, INSIDE, masks(row.golden_leaf, row.target_leaf)) for row in masked),
        *explain(theirs, 1, matches, {row.golden_leaf.row: (row.target, row.target_leaf) for row in found}, notes),
    ]
    return Found(ours, theirs, pairs, rows, target_left, golden_left)


def read_ops(connection: duckdb.DuckDBPyConnection, unit: Path) -> list[Op]:
    """The ops of a unit with their tensors and scalars, in the order of the dump."""
    unit_parameter = {"unit": str(unit)}
    framework = _framework(connection, unit)
    ops = [_op(framework, *row) for row in connection.execute(resources.sql("mapping/ops"), unit_parameter).fetchall()]
    by_seq = {op.seq: op for op in ops}
    for row, seq, slot, role, kind, shape, dtype, *numbers in connection.execute(
        resources.sql("mapping/leaves"), unit_parameter
    ).fetchall():
        is_tensor = kind == "tensor"
        op = by_seq[seq]
        leaf = Leaf(
            row, slot, role, dtype if is_tensor else kind, tuple(shape) if shape is not None else None, *numbers
        )
        if role == "input" and op.kind == "api":
            leaf.argument = argument(framework, op.name, slot)
        (op.leaves if is_tensor else op.scalars).append(leaf)
    return ops


def _op(
    framework: str,
    seq: int,
    name: str,
    kind: str,
    api: str | None,
    cls: str | None,
    direction: str,
    call: int,
    parent: str | None,
) -> Op:
    path = api or name
    return Op(seq, name, kind, path, family(cls or path, framework), direction, call, parent, cls or "")


def _framework(connection: duckdb.DuckDBPyConnection, unit: Path) -> str:
    """The framework that the unit's dump names; a dump from before it was named is PyTorch's."""
    query, unit_parameter = resources.sql("mapping/framework"), {"unit": str(unit)}
    return str(connection.execute(query, unit_parameter).fetchall()[0][0])
