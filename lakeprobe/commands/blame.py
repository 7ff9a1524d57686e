"""lakeprobe blame: which op is the cause of a difference, why, and how it came to the loss."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeprobe.commands.options import Format, LakeOption, NoiseOption


def blame(
    comparison: Annotated[str, typer.Argument(help="Name of the comparison.")],
    step: Annotated[
        int | None, typer.Option("--step", help="Only this step.", show_default="the first that has a suspect")
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Ops to list.")] = 5,
    repeat: Annotated[
        str | None,
        typer.Option("--repeat", metavar="RUN", help="Another run of golden's program; it was compared with golden."),
    ] = None,
    noise: NoiseOption = None,
    format: Annotated[
        Format, typer.Option("--format", help="An answer to read; csv: the list; json: all.")
    ] = Format.TABLE,
    lake: LakeOption = None,
) -> None:
    """Name the op that is the cause of what differs, say why, and show the path from there to the loss.

    The cause is an op that works on what agrees and gives what does not, that was called with other arguments, or
    that took what no recorded op made. Only the error counts that it adds; what came from an op before it, or from
    another rank through a collective, is not its doing.

    Example: lakeprobe blame npu_vs_gpu --step 0
    """
    from lakeprobe import output
    from lakeprobe.lake import store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.reports.blame_text import blame_json, blame_text
    from lakeprobe.session import Lake

    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        found = opened.comparison(comparison).blame(step=step, most=most, repeat=repeat, noise=noise)
        if format is Format.CSV:
            output.rows(found.suspects.columns, found.suspects.fetchall(), format.value)
        else:
            output.text(blame_json(found) if format is Format.JSON else blame_text(found))
