"""lakeprobe compare: two runs held against each other."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lakeprobe.commands.options import JobsOption, LakeOption, ReplaceOption, TensorsOption


class FailOn(StrEnum):
    """The findings that make the command end with 1."""

    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    """The forms a comparison can be written in."""

    CSV = "csv"
    XLSX = "xlsx"
    JSON = "json"
    PARQUET = "parquet"


def compare(
    target: Annotated[str, typer.Argument(help="The suspect run: its name in the lake, or a path with dumps.")],
    golden: Annotated[str, typer.Argument(help="The trusted run, likewise.")],
    sql: Annotated[
        str | None, typer.Option("--sql", help="The rule: a bundled one or a file.", show_default="same_framework")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for result files.")] = None,
    format: Annotated[Format, typer.Option("--format", help="Form of the result files.")] = Format.CSV,
    fail_on: Annotated[
        FailOn | None, typer.Option("--fail-on", help="End with 1 if there are findings of this weight.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the comparison.", show_default="TARGET_vs_GOLDEN")
    ] = None,
    lake: LakeOption = None,
    tensors: TensorsOption = "copy",
    replace: ReplaceOption = False,
    jobs: JobsOption = None,
) -> None:
    """Hold a target run against a golden run and name the first op that differs.

    Sides that are paths are ingested first. The result is kept in the lake: the table results, and a table of the
    comparison's name. A warning is also a row that has no counterpart or cannot be read.

    Example: lakeprobe compare npu_dump gpu_dump -o out --format xlsx
    """
    from concurrent.futures import ThreadPoolExecutor

    from lakeprobe import diagnostics
    from lakeprobe import output as stdout
    from lakeprobe.analysis.summary import summarise
    from lakeprobe.compare.run import compare as run_compare
    from lakeprobe.lake import comparison, store
    from lakeprobe.reports import files, terminal
    from lakeprobe.work import default_jobs

    with diagnostics.progress("comparing") as progress:
        report = run_compare(
            target, golden, lake=lake, rule=sql, name=name, tensors=tensors, replace=replace,
            jobs=jobs or default_jobs(), progress=progress,
        )  # fmt: skip
    for ingested in report.ingested:
        for line in terminal.ingest_lines(ingested):
            diagnostics.note(line)
    stored = comparison.load(store.choose(lake), report.name)
    with ThreadPoolExecutor(1) as beside:
        writing = beside.submit(files.write, stored, output, format.value) if output is not None else None
        summary = summarise(stored)
        stdout.text(terminal.comparison_text(stored, summary))
    for path in writing.result() if writing else ():
        diagnostics.note(f"written: {path}")
    if fail_on is not None and summary.count(*_FAILING[fail_on]):
        raise typer.Exit(diagnostics.ExitCode.FINDINGS)


_FAILING = {FailOn.ERROR: ("error",), FailOn.WARNING: ("error", "warning", "unmatched", "unreadable")}
