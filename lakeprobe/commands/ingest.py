"""lakeprobe ingest: dumps into the lake."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeprobe.commands.options import JobsOption, LakeOption, ReplaceOption, TensorsOption


def ingest(
    path: Annotated[Path, typer.Argument(help="A dump.json, a rank or step folder, or a folder of steps.")],
    run: Annotated[str | None, typer.Option("--run", help="Name of the run.", show_default="the folder's")] = None,
    lake: LakeOption = None,
    tensors: TensorsOption = "copy",
    replace: ReplaceOption = False,
    jobs: JobsOption = None,
) -> None:
    """Read dumps of msprobe into a run of the lake.

    Reading the same dump again does nothing. If one dump cannot be read, the lake stays as it was.

    Example: lakeprobe ingest ./npu_dump --run npu
    """
    from lakeprobe import diagnostics
    from lakeprobe.ingest import ingest as run_ingest
    from lakeprobe.reports.terminal import ingest_lines
    from lakeprobe.work import default_jobs

    with diagnostics.progress("reading") as progress:
        report = run_ingest(
            path, lake=lake, run=run, tensors=tensors, replace=replace, jobs=jobs or default_jobs(), progress=progress
        )
    for line in ingest_lines(report):
        diagnostics.note(line)
