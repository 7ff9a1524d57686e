"""lakeprobe export: write a run of the lake as the files of another tool."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lakeprobe.commands.complete import run_names
from lakeprobe.commands.options import JobsOption, LakeOption, RanksOption, StepsOption, numbers


class Format(StrEnum):
    """The formats that a run can be exported in."""

    MSPROBE = "msprobe"
    CODE_MAPPING = "code-mapping"
    FREE_BENCHMARK = "free-benchmark"
    MONITOR = "monitor"
    """The csv files of msprobe's monitor."""
    GRAD_PROBE = "grad_probe"
    TENSORBOARD = "tensorboard"


def export(
    run: Annotated[str, typer.Argument(help="Name of the run.", autocompletion=run_names)],
    out: Annotated[
        Path, typer.Argument(help="Folder to write, new or empty; for code-mapping and free-benchmark a csv file.")
    ],
    format: Annotated[Format, typer.Option("--format", help="Format of the files.")] = Format.MSPROBE,
    step: StepsOption = None,
    rank: RanksOption = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an earlier export.")] = False,
    digits: Annotated[int, typer.Option("--digits", min=0, max=20, help="Format monitor: digits of a number.")] = 6,
    steps_in_file: Annotated[
        int, typer.Option("--steps-in-file", min=1, help="Format monitor: steps in one file.")
    ] = 1,
    jobs: JobsOption = None,
    lake: LakeOption = None,
) -> None:
    """Write a run as msprobe's dump folders, so that msprobe's own compare and viewer can read it, or as its csv.

    Each step and rank becomes OUT/stepN/rankR with dump.json (debug.json for saved values), stack.json, construct.json
    and the tensor files. A dump that was ingested is written as it was. OUT appears when everything is written.

    code-mapping has the lines of code of a static graph's kernels, free-benchmark what changed inputs did while the run
    was collected (task perturb) or later (lakeprobe perturb).

    The other formats are for runs of `lakeprobe.monitor`: the csv files of msprobe's monitor, the files of its
    grad_probe, and event files for TensorBoard.

    Example: lakeprobe export npu ./npu_dump --format msprobe
    """
    if format in (Format.CODE_MAPPING, Format.FREE_BENCHMARK):
        _write_table(run, out, format, numbers(step) or (), numbers(rank) or (), replace, lake)
        return
    from lakeprobe import diagnostics

    if format is not Format.MSPROBE:
        _export_series(lake, run, out, format, digits, steps_in_file)
        return
    from lakeprobe.export import export as run_export
    from lakeprobe.output import counted
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
    counts = ((len(report.units), "unit"), (ops, "op"), (files, "tensor file"))
    diagnostics.note(f"written: {report.folder}: {', '.join(counted(*count) for count in counts)}")
    for note in report.notes:
        diagnostics.note(note)


def _export_series(lake: Path | None, run: str, out: Path, format: Format, digits: int, steps_in_file: int) -> None:
    from lakeprobe import diagnostics
    from lakeprobe.lake import store
    from lakeprobe.session import Lake

    with Lake(store.check(store.choose(lake))) as opened, diagnostics.working("writing"):
        files = opened.export_series(run, out, format.value, digits=digits, steps_in_file=steps_in_file)
    diagnostics.note(f"written: {out}: {len(files)} files")


def _write_table(
    run: str, out: Path, format: Format, steps: Sequence[int], ranks: Sequence[int], replace: bool, lake: Path | None
) -> None:
    """Write a csv file of msprobe's. Raises UsageError if there is nothing to write, or a file is there already."""
    from lakeprobe import diagnostics
    from lakeprobe.errors import UsageError
    from lakeprobe.lake.connection import query_errors, records
    from lakeprobe.reports import verification_files
    from lakeprobe.session import Lake

    if out.is_dir() or (out.exists() and not replace):
        raise UsageError(f"{out} exists already; give the path of a new csv file, or --replace")
    with query_errors(), Lake(lake) as opened:
        if format is Format.CODE_MAPPING:
            found, write = opened.code_mapping(run), verification_files.write_code_mapping
            lack = f"{run} has no kernels of a static graph"
        else:
            found = opened.sql("FROM perturbations WHERE perturbation = $run ORDER BY step, rank, place", {"run": run})
            write = verification_files.write_free_benchmark
            lack = f"there is no perturbation {run}; collect with task perturb, or: lakeprobe perturb {run}"
        rows = [row for row in records(found) if row["step"] in (steps or (row["step"],))]
    rows = [row for row in rows if row["rank"] in (ranks or (row["rank"],))]
    if not rows:
        raise UsageError(lack)
    write(rows, out)
    diagnostics.note(f"written: {out}")
