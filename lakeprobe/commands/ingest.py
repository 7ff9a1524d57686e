"""lakeprobe ingest: read dumps and result tables into the lake."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeprobe import hints
from lakeprobe.commands.options import (
    EngineOption,
    Format,
    JobsOption,
    LakeOption,
    NoSyncOption,
    RanksOption,
    ReplaceOption,
    ShardOption,
    StepsOption,
    Tensors,
    TensorsOption,
    numbers,
    path_given,
)


def ingest(
    path: Annotated[
        Path,
        typer.Argument(
            help="A dump's file or folder, a folder with dumps at any depth, or a tar or zip of one.",
            parser=path_given,
        ),
    ],
    run: Annotated[str | None, typer.Option("--run", help="Name of the run.", show_default="the folder's")] = None,
    lake: LakeOption = None,
    tensors: TensorsOption = Tensors.COPY,
    replace: ReplaceOption = False,
    jobs: JobsOption = None,
    rank: RanksOption = None,
    step: StepsOption = None,
    shard: ShardOption = None,
    engine: EngineOption = None,
    no_sync: NoSyncOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be read, and in which format, without reading it.")
    ] = False,
    format: Annotated[Format, typer.Option("--format", help="Format of the list of --dry-run.")] = Format.TABLE,
) -> None:
    """Read dumps and result tables into the lake. Each dump's folder becomes a run of its name.

    The formats are recognised; docs/formats.md lists them. Reading the same dump again does nothing. If one dump cannot
    be read, the lake stays as it was.

    Example: lakeprobe ingest ./npu_dump --run npu
    """
    if dry_run:
        _list(path, run, numbers(step), numbers(rank), format)
        return
    from lakeprobe import diagnostics
    from lakeprobe.ingest import ingest as run_ingest
    from lakeprobe.lake import store
    from lakeprobe.reports.terminal import ingest_lines, shard_line
    from lakeprobe.system import files
    from lakeprobe.work import default_jobs, use_engine

    if engine:
        use_engine(engine)
    if no_sync:
        files.leave_sync_to_the_system()
    with diagnostics.progress("reading") as progress:
        report = run_ingest(
            path,
            lake=lake,
            run=run,
            tensors=tensors.value,
            replace=replace,
            steps=numbers(step),
            ranks=numbers(rank),
            shard=shard,
            jobs=jobs or default_jobs(),
            progress=progress,
        )
    for line in (*report.remarks, *ingest_lines(report)):
        diagnostics.note(line)
    for unit in report.units:
        diagnostics.detail(f"  {unit.key} ({', '.join(unit.formats)}): {unit.ops} ops, {unit.dump_bytes} bytes")
    if report.pending:
        diagnostics.note(shard_line(report.pending))
    elif report.read:
        diagnostics.note(_next(store.choose(lake)))


def _next(lake: Path) -> str:
    """Return what to do with what was read."""
    from shlex import quote

    from lakeprobe.lake import layout

    runs = layout.runs(lake)
    if len(runs) < 2:
        return f"next, read the run to compare it with: {hints.command('ingest', 'PATH')}"
    sides = f"{quote(runs[1])} {quote(runs[0])}" if len(runs) == 2 else "TARGET GOLDEN"
    return f"next, compare two runs: {hints.command('compare', sides)}"


def _list(path: Path, run: str | None, steps: tuple[int, ...], ranks: tuple[int, ...], format: Format) -> None:
    from lakeprobe import diagnostics, output
    from lakeprobe.ingest.survey import survey

    columns = ("name", "step", "rank", "part", "format", "files", "bytes", "path")
    items = survey(path, run, steps, ranks)
    output.rows(columns, ([getattr(item, column) for column in columns] for item in items), format.value)
    for note in dict.fromkeys(note for item in items for note in item.notes):
        diagnostics.note(note)
