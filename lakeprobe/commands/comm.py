"""lakeprobe comm: the communication between ranks, and whether the results of collectives fit their inputs."""

from __future__ import annotations

from enum import StrEnum
from shlex import quote
from typing import Annotated

import typer

from lakeprobe import hints
from lakeprobe.commands.complete import run_or_comparison_names
from lakeprobe.commands.options import Format, LakeOption, StepsOption, numbers


class FailOn(StrEnum):
    """What makes the command exit with 1."""

    BROKEN = "broken"


def comm(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN_OR_COMPARISON", help="Name of a run or comparison.", autocompletion=run_or_comparison_names
        ),
    ],
    laws: Annotated[bool, typer.Option("--laws", help="In csv and json: every result, by law.")] = False,
    step: StepsOption = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Rows to show of each table.")] = 20,
    format: Annotated[Format, typer.Option("--format", help="Text, or rows.")] = Format.TABLE,
    fail_on: Annotated[FailOn | None, typer.Option("--fail-on", help="Exit with 1 if a law is broken.")] = None,
    lake: LakeOption = None,
) -> None:
    """Show the collectives, sends and receives of a run, and those that break a law.

    For a comparison it also shows which of them carry a difference, and between which ranks. csv and json have the
    meetings of a comparison that carry a difference, or the summary of a run; with --laws, they have every result by
    law.

    Example: lakeprobe comm npu_vs_gpu --step 0
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.lake import store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.reports.communication_text import communication_text
    from lakeprobe.session import Lake

    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        with diagnostics.working("following the communication"):
            found = opened.communication(name, steps=numbers(step), laws=laws)
        if format is Format.TABLE:
            output.text(communication_text(found, most))
            if found.changed is not None and len(found.changed):
                output.text(f"\nWhich rank it came from: {hints.command('first-diff', quote(name))}")
        else:
            listed = found.summary if found.changed is None else found.changed
            rows = listed if found.laws is None else found.laws
            output.rows(rows.columns, rows.fetchall(), format.value)
        broken = len(found.broken)
    if broken and fail_on is not None:
        raise typer.Exit(diagnostics.ExitCode.FINDINGS)
