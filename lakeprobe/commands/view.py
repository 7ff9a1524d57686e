"""lakeprobe view: a comparison or a run as a page for the browser, or as a database for TensorBoard."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeprobe import forms
from lakeprobe.commands.options import LakeOption, RanksOption, StepsOption, numbers

if TYPE_CHECKING:
    Format = StrEnum
else:
    Format = forms.choices(forms.VIEW)


def view(
    name: Annotated[str, typer.Argument(help="Name of the comparison, or of a run.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write.", show_default="NAME.html")
    ] = None,
    format: Annotated[
        Format, typer.Option("--format", help="A page for the browser, or the database of tb-graph-ascend.")
    ] = "html",  # type: ignore[assignment]
    step: StepsOption = None,
    rank: RanksOption = None,
    most: Annotated[
        int, typer.Option("--most", min=1, help="Steps and ranks that a page has with all of their ops.")
    ] = 8,
    all_units: Annotated[
        bool, typer.Option("--all", help="Write a page for each other step and rank too, which the page links to.")
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Show the model as a tree with the differences in it: one HTML file that needs no network and no server.

    The page opens at the op that causes the differences. It has the path to the loss, every op with its tensors and
    call stack, the error along the program, heat maps of ranks and steps, and what ranks carried to each other.

    With many steps and ranks, the page has those that matter most with all of their ops, and an overview of all.

    Example: lakeprobe view npu_vs_gpu -o npu_vs_gpu.html
    """
    from lakeprobe import diagnostics
    from lakeprobe import output as shown
    from lakeprobe.lake import store
    from lakeprobe.session import Lake

    with Lake(store.check(store.choose(lake))) as opened, diagnostics.progress("drawing") as progress:
        path = opened.view(
            name, output, format=str(format), steps=numbers(step), ranks=numbers(rank), most=most,
            all_units=all_units, progress=progress,
        )  # fmt: skip
    shown.text(str(path))
