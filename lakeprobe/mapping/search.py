"""Searches which rows of two units belong together: tensors by their values, ops by tensors, rows by ops.

Nothing here knows an implementation: what pairs was recorded, and names only propose (docs/rules.md).
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe.mapping import layouts
from lakeprobe.mapping.align import Pair, align
from lakeprobe.mapping.descent import presume_places
from lakeprobe.mapping.left_over import INSIDE, Left, are_masked_otherwise, explain, masks
from lakeprobe.mapping.ops import Op
from lakeprobe.mapping.row_pairs import RowPair, pair_rows
from lakeprobe.mapping.tensors import match_tensors
from lakeprobe.mapping.units import Words, read_unit

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
    words = Words()
    ours, theirs = read_unit(connection, target, words), read_unit(connection, golden, words)
    matches = match_tensors(ours, theirs)
    presume_places(ours, theirs, matches)
    pairs = align(ours, theirs, matches)
    found = pair_rows(pairs, ours, theirs, matches, ours.framework == theirs.framework)
    notes = layouts.of_parameters(ours.ops, theirs.ops)
    masked = [row for row in found if are_masked_otherwise(row.target_leaf, row.golden_leaf)]
    apart = {row.target_leaf.row for row in masked}
    target_left = [
        *(Left(row.target.seq, row.target_leaf.row, INSIDE, masks(row.target_leaf, row.golden_leaf)) for row in masked),
        *explain(
            ours, matches.sides[0], matches.partner[0],
            [row.target_leaf for row in found], [(row.golden, row.golden_leaf) for row in found], notes,
        ),
    ]  # fmt: skip
    golden_left = [
        *(Left(row.golden.seq, row.golden_leaf.row, INSIDE, masks(row.golden_leaf, row.target_leaf)) for row in masked),
        *explain(
            theirs, matches.sides[1], matches.partner[1],
            [row.golden_leaf for row in found], [(row.target, row.target_leaf) for row in found], notes,
        ),
    ]  # fmt: skip
    rows = [row for row in found if row.target_leaf.row not in apart] if apart else found
    return Found(ours.ops, theirs.ops, pairs, rows, target_left, golden_left)
