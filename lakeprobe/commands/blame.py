"""lakeprobe blame: the op that causes a difference, the evidence, and the path to the loss."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeprobe.commands.complete import comparison_names
from lakeprobe.commands.options import Format, LakeOption, NoiseOption


def blame(
    comparison: Annotated[str, typer.Argument(help="Name of the comparison.", autocompletion=comparison_names)],
    step: Annotated[
        int | None, typer.Option("--step", help="Only this step.", show_default="the first that has a suspect")
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Ops to list.")] = 5,
    repeat: Annotated[
        str | None,
        typer.Option("--repeat", metavar="RUN", help="Another run of golden's program, already compared with golden."),
    ] = None,
    noise: NoiseOption = None,
    format: Annotated[Format, typer.Option("--format", help="Text; csv has the list, json everything.")] = Format.TABLE,
    lake: LakeOption = None,
) -> None:
    """Name the op that causes the differences, the evidence, and the path from it to the loss.

    The cause is an op whose inputs agree and whose outputs do not, an op called with other arguments, or an op with an
    input that no recorded op made. Only the error that an op adds counts, not the error that reaches it from an earlier
    op, or from another rank through a collective.

    Example: lakeprobe blame npu_vs_gpu --step 0
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.analysis.summary import summarise
    from lakeprobe.lake import store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.reports.blame_text import blame_json, blame_text
    from lakeprobe.reports.layout_text import carried_lines
    from lakeprobe.reports.terminal import noise_line, unordered_text
    from lakeprobe.session import Lake

    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        compared = opened.comparison(comparison)
        if format is Format.TABLE and compared.stored.is_unordered:
            output.text(unordered_text(compared.stored, summarise(compared.stored)))
            return
        with diagnostics.working("weighing the evidence"):
            found = compared.blame(step=step, most=most, repeat=repeat, noise=noise)
        if format is Format.CSV:
            output.rows(found.suspects.columns, found.suspects.fetchall(), format.value)
        elif format is Format.JSON:
            output.document(blame_json(found))
        else:
            output.text(blame_text(found, compared.beginnings()))
            causes = found.suspects.select("op").limit(1).fetchall()
            shards = compared.shards(causes[0][0], step=found.step) if causes and causes[0][0] else None
            output.text("\n".join(carried_lines(shards)))
        if hint := noise_line(compared.stored, noise):
            diagnostics.note(hint)
