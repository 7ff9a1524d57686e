"""lakeprobe unmatched: how the rows of a comparison were paired, and which ops have no counterpart."""

from __future__ import annotations

from shlex import quote
from typing import Annotated

import typer

from lakeprobe import hints
from lakeprobe.commands.complete import comparison_names
from lakeprobe.commands.options import LakeOption


def unmatched(
    comparison: Annotated[str, typer.Argument(help="Name of the comparison.", autocompletion=comparison_names)],
    most: Annotated[int, typer.Option("--most", min=1, help="Ops to list per side, step and rank.")] = 20,
    lake: LakeOption = None,
) -> None:
    """Show how the rows of a comparison were paired, and the ops without counterpart with those most similar to them.

    Example: lakeprobe unmatched ms_vs_pt
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.lake import store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.session import Lake

    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        result = opened.comparison(comparison)
        with diagnostics.working("looking for ops without counterpart"):
            paired, alone = result.coverage(), result.unmatched(most)
            kinds, ops = paired.fetchall(), alone.fetchall()
        is_structure = all(unit.is_structure for unit in result.stored.units)
        if not is_structure:
            output.text(output.aligned(paired.columns, kinds) + "\n")
        if not ops:
            begins = hints.command("first-diff", quote(comparison))
            equal = f"Every op has a counterpart.\n\nWhere it begins: {begins}"
            output.text("Both dumps name the same ops." if is_structure else equal)
            return
        output.rows(alone.columns, ops, "table")
        without = paired.filter("paired_by = 'without counterpart'").project("target_ops + golden_ops").fetchall()
        left_out = sum(count for (count,) in without) - len({op[:4] for op in ops})
        if left_out > 0:
            output.text(f"… and {left_out} more ops: raise --most to see them\n")
        if not is_structure:
            sides = f"{quote(result.stored.target)} {quote(result.stored.golden)}"
            output.text(f"\nA mapping of the names that differ: {hints.command('map', sides)}")
