"""Searches for the rows of two units that belong together: tensors by values, ops by tensors, rows by ops.

Nothing here knows an implementation. Recorded values decide, and names only propose (docs/rules.md).
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe.lake.layout import UnitPlace
from lakeprobe.mapping import layouts
from lakeprobe.mapping.align import Pair, align
from lakeprobe.mapping.descent import presume_places
from lakeprobe.mapping.fused import compare_fused
from lakeprobe.mapping.gathered import compare_gathered
from lakeprobe.mapping.left_over import INSIDE, LeftOver, are_masked_otherwise, explain, masks
from lakeprobe.mapping.ops import Op
from lakeprobe.mapping.row_pairs import RowPair, pair_rows
from lakeprobe.mapping.skipped import find_skipped
from lakeprobe.mapping.tensors import match_tensors
from lakeprobe.mapping.units import Words, read_unit

if TYPE_CHECKING:
    import duckdb


class Found(Struct, frozen=True):
    """The result of a search: the ops of both sides, the pairs of ops and of rows, and why other rows are unpaired."""

    target: Sequence[Op]
    golden: Sequence[Op]
    ops: Sequence[Pair]
    rows: Sequence[RowPair]
    target_left: LeftOver
    golden_left: LeftOver


def search(connection: duckdb.DuckDBPyConnection, target: UnitPlace, golden: UnitPlace) -> Found:
    """Return what belongs together in two units. Raises duckdb.Error if one cannot be read."""
    enabled = gc.isenabled()
    gc.disable()  # it creates many objects and no cycles
    try:
        return _search(connection, target, golden)
    finally:
        if enabled:
            gc.enable()


def _search(connection: duckdb.DuckDBPyConnection, target: UnitPlace, golden: UnitPlace) -> Found:
    words = Words()
    ours, theirs = read_unit(connection, target, words), read_unit(connection, golden, words)
    matches = match_tensors(ours, theirs)
    presume_places(ours, theirs, matches)
    pairs = align(ours, theirs, matches)
    found = pair_rows(pairs, ours, theirs, matches, ours.framework == theirs.framework)
    gathered, notes = compare_gathered(pairs, ours, theirs, matches)
    fused, fused_notes = compare_fused(ours, theirs, matches)
    notes |= fused_notes | layouts.of_padded(ours, theirs, matches)
    found = _with_others(found, [*gathered, *fused])
    skipped = find_skipped(pairs, ours, theirs, matches)
    found = [row for row in found if row.target.op not in skipped[0] and row.golden.op not in skipped[1]]
    shown = [row.target for row in found], [row.golden for row in found]
    left = [
        explain(unit, tensors, partner, own, others, notes, missing)
        for unit, tensors, partner, own, others, missing in zip(
            (ours, theirs), matches.sides, matches.partner, shown, shown[::-1], skipped, strict=True
        )
    ]
    masked = [row for row in found if are_masked_otherwise(row.target, row.golden)]
    for row in masked:
        left[0].add(row.target.op.seq, row.target.row, INSIDE, masks(row.target, row.golden))
        left[1].add(row.golden.op.seq, row.golden.row, INSIDE, masks(row.golden, row.target))
    if masked:
        excluded = {row.target.row for row in masked}
        found = [row for row in found if row.target.row not in excluded]
    return Found(ours.ops, theirs.ops, pairs, found, *left)


def _with_others(rows: list[RowPair], others: Sequence[RowPair]) -> list[RowPair]:
    """Return the pairs with those of `others` whose rows are free, in the target's order."""
    taken = {row.target.row for row in rows}, {row.golden.row for row in rows}
    added = [row for row in others if row.target.row not in taken[0] and row.golden.row not in taken[1]]
    return sorted([*rows, *added], key=lambda row: row.target.row) if added else rows
