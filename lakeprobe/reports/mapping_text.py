"""What a search for a mapping found, in three lines: what pairs, how sure that is, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from lakeprobe.compare.searching import Counts


def search_lines(counts: Sequence[Counts], comparison: str) -> list[str]:
    """The lines for the searches of all pairs of units of a comparison; none where nothing was searched."""
    if not counts:
        return []
    total = Counts(*(sum(numbers) for numbers in zip(*map(astuple, counts), strict=True)))
    mapped = f", {total.mapped} by your mapping" if total.mapped else ""
    inside = total.golden_inside + total.golden_structure
    found = f"{total.paired} of golden's {total.golden_rows} rows have their counterpart{mapped}"
    return [
        f"searched for a mapping: {found}; {inside} are inside other steps, views or shapes",
        f"  {total.sure} pairs rest on equal values or names, {total.likely} on order, kind and shape alone",
        f"  {_left(total)}: see from pairs where comparison = '{comparison}'; leave the search out with --no-search",
    ]


def _left(total: Counts) -> str:
    if not total.golden_left and not total.target_left:
        return "nothing is left over"
    return f"left over are {total.golden_left} rows of golden and {total.target_left} of the target"
