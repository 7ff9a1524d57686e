"""lakeprobe first-diff: the op at which two runs begin to differ, on each rank and over all."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeprobe import hints
from lakeprobe.commands.complete import comparison_names
from lakeprobe.commands.options import Format, LakeOption, NoiseOption, RanksOption, StepsOption, numbers

if TYPE_CHECKING:
    from lakeprobe.analysis.first_difference import FirstDifference


class FailOn(StrEnum):
    """What ends with 1. One option has one name in all commands; what it takes is what the command finds."""

    DIFFERENCE = "difference"


def first_diff(
    comparison: Annotated[str, typer.Argument(help="Name of the comparison.", autocompletion=comparison_names)],
    step: StepsOption = None,
    rank: RanksOption = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            help="Error above which a leaf differs: 1 is as large as the tensor, 0 finds everything.",
            show_default="beyond float noise",
        ),
    ] = None,
    paired: Annotated[bool, typer.Option("--paired", help="Skip ops without counterpart.")] = False,
    fail_on: Annotated[
        FailOn | None, typer.Option("--fail-on", help="Exit with 1 unless both sides are equal as a whole.")
    ] = None,
    fail: Annotated[bool, typer.Option("--fail", hidden=True, help="The same as --fail-on difference.")] = False,
    diff_analyze: Annotated[
        Path | None, typer.Option("--diff-analyze", help="Also write msprobe's JSON: a .json file, or a folder.")
    ] = None,
    noise: NoiseOption = None,
    format: Annotated[Format, typer.Option("--format", help="Text, or a row per step and rank.")] = Format.TABLE,
    lake: LakeOption = None,
) -> None:
    """Name the op at which the runs begin to differ: on each rank, and the one that explains the other ranks.

    A difference travels only through ops that connect ranks. It began where neither the same rank nor another rank
    explains it.

    Example: lakeprobe first-diff npu_vs_gpu --step 0 --diff-analyze out
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.analysis.summary import summarise
    from lakeprobe.lake import outputs, store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.reports.diff_analyze import write
    from lakeprobe.reports.terminal import noise_line, unordered_text
    from lakeprobe.session import Lake

    outputs.refuse_lake(diff_analyze)
    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        result = opened.comparison(comparison)
        with diagnostics.working("looking for the first difference"):
            found = result.first_difference(
                steps=numbers(step), ranks=numbers(rank), threshold=threshold, paired=paired, noise=noise
            )
        if format is Format.TABLE and result.stored.is_unordered:
            output.text(unordered_text(result.stored, summarise(result.stored)))
        else:
            _show(comparison, found, format)
        if hint := noise_line(result.stored, noise):
            diagnostics.note(hint)
        if diff_analyze is not None:
            diagnostics.note(f"written: {write(result.stored, found, diff_analyze)}")
        if (fail or fail_on is FailOn.DIFFERENCE) and not found.is_equal:
            raise typer.Exit(diagnostics.ExitCode.FINDINGS)


def _show(comparison: str, found: FirstDifference, format: Format) -> None:
    import shlex

    from lakeprobe import output
    from lakeprobe.reports.first_difference_text import first_difference_text, with_leaves

    if format is Format.TABLE:
        output.text(first_difference_text(found))
        if found.differs:
            output.text(f"\nThe cause and its path to the loss: {hints.command('blame', shlex.quote(comparison))}")
    elif format is Format.CSV:
        output.rows(found.ranks.columns, found.ranks.fetchall(), "csv")
    else:
        columns, rows = with_leaves(found)
        output.rows(columns, rows, "json")
