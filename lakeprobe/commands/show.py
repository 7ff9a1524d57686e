"""lakeprobe show: ops with their tensors and call stack, target and golden side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeprobe.commands.complete import comparison_names, op_names, run_names
from lakeprobe.commands.options import LakeOption, RanksOption, StepsOption, numbers


def show(
    op: Annotated[
        str,
        typer.Argument(
            help="A name, a part of one, a module's path, or a glob such as '*norm*'.", autocompletion=op_names
        ),
    ],
    run: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            help="Only this run; may be repeated.",
            show_default="both sides of a comparison, else all",
            autocompletion=run_names,
        ),
    ] = None,
    comparison: Annotated[
        str | None,
        typer.Option(
            "--comparison", help="Its two sides.", show_default="the last one made", autocompletion=comparison_names
        ),
    ] = None,
    step: StepsOption = None,
    rank: RanksOption = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Ops to show.")] = 4,
    stack: Annotated[bool, typer.Option("--stack", help="The whole call stack, with the framework's frames.")] = False,
    lake: LakeOption = None,
) -> None:
    """Show ops: their tensors and values in each run side by side, module and call stack.

    The ops appear in the order of the program. Tensors stand beside each other as the comparison paired them. The last
    column says how far the first run is from the second: a share of the second's tensor.

    Example: lakeprobe show layer_norm.3
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.lake import store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.session import Lake

    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        with diagnostics.working("looking for the ops"):
            text = opened.show(
                op, runs=run or (), comparison=comparison, steps=numbers(step), ranks=numbers(rank), most=most,
                whole_stack=stack,
            )  # fmt: skip
        output.text(text)
