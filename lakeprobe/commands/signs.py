"""lakeprobe signs: how many signs of the gradients of two monitored trainings are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeprobe.commands.complete import run_names
from lakeprobe.commands.options import Format, LakeOption


def signs(
    golden: Annotated[str, typer.Argument(help="Name of the trusted run.", autocompletion=run_names)],
    run: Annotated[str, typer.Argument(help="Name of the run to compare with it.", autocompletion=run_names)],
    parameters: Annotated[
        bool, typer.Option("--parameters", help="List each parameter, and not only all together.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="New folder for msprobe's files: rankR/similarities.csv.")
    ] = None,
    pictures: Annotated[bool, typer.Option("--pictures", help="With --out, a picture for each parameter.")] = False,
    format: Annotated[Format, typer.Option("--format", help="Format of the table.")] = Format.TABLE,
    lake: LakeOption = None,
) -> None:
    """Compare the signs of gradients of two runs that were monitored with the metric signs.

    This is msprobe's grad_probe. The similarity of a step is the share of elements whose sign is the same, of all
    parameters together. Exits with 1 if it is below 97 % in the first step or falls by more than 3 % in one step, for
    all parameters together or one of them.

    Example: lakeprobe signs gpu npu --out similarities
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.lake import store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.session import Lake

    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        with diagnostics.working("comparing the signs"):
            found = opened.signs(golden, run)
            table = (
                found.rows.project("rank, step, name, elements, same, similarity, change")
                if parameters
                else found.summary
            )
            rows = table.fetchall()
        output.rows(table.columns, rows, format)
        if out is not None:
            from lakeprobe.reports import signs as files

            diagnostics.note(f"written: {files.write(found, out, pictures=pictures)}")
    for problem in found.problems[:20]:
        diagnostics.note(str(problem))
    if len(found.problems) > 20:
        diagnostics.note(f"{len(found.problems) - 20} more")
    if found.problems:
        raise typer.Exit(diagnostics.ExitCode.FINDINGS)
