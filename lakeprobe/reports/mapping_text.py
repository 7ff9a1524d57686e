"""Writes the result of a search for a mapping in three lines: what pairs, how certain that is, and what is left."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from lakeprobe.compare.searching import Counts


def search_lines(counts: Sequence[Counts], comparison: str) -> list[str]:
    """Return the lines for the searches in all pairs of units of a comparison; none if nothing was searched."""
    if not counts:
        return []
    total = Counts(*(sum(numbers) for numbers in zip(*map(astuple, counts), strict=True)))
    mapped = f", {total.mapped} by your mapping" if total.mapped else ""
    inside = total.golden_inside + total.golden_structure
    found = f"{total.paired} of golden's {total.golden_rows} rows have a counterpart{mapped}"
    return [
        f"searched for a mapping: {found}; {inside} are intermediate steps, views or shapes",
        f"  {total.sure} pairs follow from equal values or names, {total.likely} only from order, kind and shape",
        f"  {_left(total)}: see from pairs where comparison = '{comparison}'; skip the search with --no-search",
    ]


def _left(total: Counts) -> str:
    if not total.golden_left and not total.target_left:
        return "no row is left over"
    return f"{total.golden_left} rows of golden and {total.target_left} of the target are left over"
