"""lakeprobe comm: who spoke to whom in a run, and whether what came out is what went in."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from lakeprobe.commands.options import LakeOption
from lakeprobe.commands.sql import Format


class FailOn(StrEnum):
    """What makes the exit code 1."""

    BROKEN = "broken"


def comm(
    name: Annotated[str, typer.Argument(metavar="RUN_OR_COMPARISON", help="Name of a run or comparison.")],
    laws: Annotated[bool, typer.Option("--laws", help="List every result by every law, not only broken ones.")] = False,
    step: Annotated[int | None, typer.Option("--step", help="Only this step.", show_default="all")] = None,
    format: Annotated[Format, typer.Option("--format", help="Form of the rows.")] = Format.TABLE,
    fail_on: Annotated[FailOn | None, typer.Option("--fail-on", help="End with 1 if a law is broken.")] = None,
    lake: LakeOption = None,
) -> None:
    """Show the collectives, sends and receives of a run, and those that break a law of theirs.

    Of a comparison it also shows which of them carry a difference, and from which ranks to which. As csv or json it
    gives the results by law with --laws, else the meetings of a comparison that carry a difference, or a run's summary.

    Example: lakeprobe comm npu_vs_gpu --step 0
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.lake import store
    from lakeprobe.session import Lake, query_errors

    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        found = opened.communication(name, step=step)
        if format is Format.TABLE:
            judged = (found.laws,) if laws else (found.verdicts, found.broken)
            for table in (found.summary, *judged, found.changed):
                if table is not None and len(table):
                    output.text(output.aligned(table.columns, table.fetchall()) + "\n")
        else:
            one = found.laws if laws else found.changed or found.summary
            output.rows(one.columns, one.fetchall(), format.value)
        broken = len(found.broken)
    diagnostics.note(f"{broken} results that break a law" if broken else "no law is seen to be broken")
    if broken and fail_on is not None:
        raise typer.Exit(diagnostics.ExitCode.FINDINGS)
