"""lakeprobe compact: put the units of a run into few files."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeprobe.commands.complete import run_names
from lakeprobe.commands.options import LakeOption


def compact(
    runs: Annotated[list[str], typer.Argument(help="Runs.", metavar="RUN...", autocompletion=run_names)],
    split: Annotated[bool, typer.Option("--split", help="Undo it: give each step and rank its own files.")] = False,
    by: Annotated[str, typer.Option("--by", help="step: all ranks of a step. rank: all steps of a rank.")] = "step",
    lake: LakeOption = None,
) -> None:
    """Put all ranks of a step into one file per table, so that many ranks and steps are read fast. No answer changes.

    With --by rank, all steps of a rank share files instead, which suits many small steps without copied contents.

    Example: lakeprobe compact npu
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.lake import store
    from lakeprobe.session import Lake

    with Lake(store.check(store.choose(lake))) as opened:
        for run in runs:
            with diagnostics.working("splitting" if split else "compacting"):
                report = opened.compact(run, split=split, by=by)
            diagnostics.note(
                f"{run}: {output.counted(report.units, 'unit')} of {output.counted(report.steps, 'step')} in "
                f"{output.counted(report.files, 'file')}, {report.files_before} before"
            )
