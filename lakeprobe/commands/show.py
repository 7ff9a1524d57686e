"""lakeprobe show: one op with its tensors and call stack."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeprobe.commands.options import LakeOption


def show(
    op: Annotated[str, typer.Argument(help="Name of the op, or the beginning of it.")],
    run: Annotated[str | None, typer.Option("--run", help="Only this run.", show_default="all")] = None,
    step: Annotated[int | None, typer.Option("--step", help="Only this step.", show_default="all")] = None,
    rank: Annotated[int | None, typer.Option("--rank", help="Only this rank.", show_default="all")] = None,
    lake: LakeOption = None,
) -> None:
    """Show an op: its tensors and values, module and call stack, in every run that has it.

    Example: lakeprobe show Functional.layer_norm.3.forward --run npu
    """
    from lakeprobe import output
    from lakeprobe.errors import UsageError
    from lakeprobe.lake import store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.reports import terminal
    from lakeprobe.session import Lake

    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        if run is not None and run not in opened.runs:
            raise UsageError(f"{opened.path} has no run {run}; it has {', '.join(opened.runs) or 'none'}")
        shown = terminal.op_text(opened.sql, op, run, step, rank)
    if not shown:
        raise UsageError(f'no op begins with {op}; list them with: lakeprobe sql "select distinct op from ops"')
    output.text(shown)
