"""lakeprobe export: write a run of the lake as the files of another tool."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lakeprobe.commands.complete import run_names
from lakeprobe.commands.options import JobsOption, LakeOption, RanksOption, StepsOption, numbers


class Format(StrEnum):
    """The formats that a run can be exported in."""

    MSPROBE = "msprobe"


def export(
    run: Annotated[str, typer.Argument(help="Name of the run.", autocompletion=run_names)],
    out: Annotated[Path, typer.Argument(help="Folder to write; it must be new or empty.")],
    format: Annotated[Format, typer.Option("--format", help="Whose files to write.")] = Format.MSPROBE,
    step: StepsOption = None,
    rank: RanksOption = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an earlier export.")] = False,
    jobs: JobsOption = None,
    lake: LakeOption = None,
) -> None:
    """Write a run as msprobe's dump folders, so that msprobe's own compare and viewer can read it.

    Each step and rank becomes OUT/stepN/rankR with dump.json (debug.json for saved values), stack.json, construct.json
    and the tensor files. A dump that was ingested is written as it was. OUT appears when everything is written.

    Example: lakeprobe export npu ./npu_dump --format msprobe
    """
    from lakeprobe import diagnostics
    from lakeprobe.export import export as run_export
    from lakeprobe.work import default_jobs

    with diagnostics.progress("writing") as progress:
        report = run_export(
            lake,
            run,
            out,
            steps=numbers(step),
            ranks=numbers(rank),
            replace=replace,
            jobs=jobs or default_jobs(),
            progress=progress,
        )
    ops, files = (sum(getattr(unit, count) for unit in report.units) for count in ("ops", "tensor_files"))
    diagnostics.note(f"written: {report.folder}: {len(report.units)} units, {ops} ops, {files} tensor files")
    for note in report.notes:
        diagnostics.note(note)
