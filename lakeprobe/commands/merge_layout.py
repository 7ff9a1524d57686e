"""lakeprobe merge-layout: make one whole run of the ranks of a cut one."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from lakeprobe import hints
from lakeprobe.commands.complete import run_names
from lakeprobe.commands.options import LakeOption, StepsOption, numbers


def merge_layout(
    run: Annotated[str, typer.Argument(help="The run to merge, of several ranks.", autocompletion=run_names)],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Name of the merged run.")],
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="GOLDEN",
            help="A run of one rank with the names and shapes of the whole.",
            autocompletion=run_names,
        ),
    ] = None,
    layout: Annotated[
        Path | None, typer.Option("--layout", help="A layout file: the axes, and how tensors lie over them.")
    ] = None,
    step: StepsOption = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a run of that name.")] = False,
    lake: LakeOption = None,
) -> None:
    """Merge the ranks of a job into one run: tensor, pipeline, data, context and expert parallel parts make a whole.

    How each tensor was cut is inferred and checked (docs/cuts.md); the table layouts has it, with the ranks that each
    row was made of. The merged run is a run like any other: compare, first-diff and blame work on it.

    Example: lakeprobe merge-layout eight_gpus --as whole --like one_gpu
    """
    from lakeprobe import diagnostics
    from lakeprobe.lake import store
    from lakeprobe.reports.layout_text import merged_lines
    from lakeprobe.session import Lake

    with Lake(store.check(store.choose(lake))) as opened, diagnostics.working("merging the ranks"):
        report = opened.merge_layout(run, name, like=like, layout=layout, steps=numbers(step) or (), replace=replace)
    for line in merged_lines(report):
        diagnostics.note(line)
    asked = hints.command("compare", quote(name), quote(like or "GOLDEN"))
    diagnostics.note(f"compare it with a whole run: {asked}")
