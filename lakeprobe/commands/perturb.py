"""lakeprobe perturb: run the ops of a run with changed inputs, and name those that are unstable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeprobe.commands.options import Format, JobsOption, LakeOption, RanksOption, StepsOption, numbers
from lakeprobe.commands.verify import (
    DeviceOption,
    ImportOption,
    LimitOption,
    MostOption,
    OfOption,
    OpsArgument,
    RandomOption,
)


def perturb(
    run: Annotated[str, typer.Argument(help="The run.")],
    ops: OpsArgument = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(
            "--mode",
            help="improve_precision, add_noise, bit_noise, change_value, no_change or to_cpu. Repeatable.",
            show_default="all but change_value",
        ),
    ] = None,
    of: OfOption = None,
    most: MostOption = 20,
    rank: RanksOption = None,
    step: StepsOption = None,
    device: DeviceOption = "cpu",
    random: RandomOption = False,
    limit: LimitOption = 60.0,
    modules: ImportOption = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the perturbation.", show_default="that of the run")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write msprobe's free_benchmark.csv here.")
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="The form of the findings.")] = Format.TABLE,
    lake: LakeOption = None,
    jobs: JobsOption = None,
) -> None:
    """Run the ops of a run with changed inputs, and name those whose results change too much.

    random: not the same bits each time. differs: not what the CPU gives in higher precision. unstable: a change of the
    last bit, a little noise or more precision moves the result further than its dtype allows. Exits with 1 for random
    and differs.

    Example: lakeprobe perturb npu --mode bit_noise --mode no_change
    """
    from lakeprobe import diagnostics
    from lakeprobe import output as results
    from lakeprobe.changes import USUAL_MODES
    from lakeprobe.checks.perturb import perturb as run_perturb
    from lakeprobe.lake import outputs
    from lakeprobe.lake.connection import query_errors, records
    from lakeprobe.reports.verification_files import write_free_benchmark
    from lakeprobe.session import Lake
    from lakeprobe.work import default_jobs

    if output is not None:
        outputs.file_at(output)
    with diagnostics.progress("perturbing") as progress:
        report = run_perturb(
            run, ops or (), lake=lake, name=name, modes=mode or USUAL_MODES, device=device, random=random,
            steps=numbers(step) or (), ranks=numbers(rank) or (), of=of, most=most, imports=modules or (), limit=limit,
            jobs=jobs or default_jobs(), progress=progress,
        )  # fmt: skip
    with query_errors(), Lake(report.lake) as opened:
        found = opened.perturbation(report.name)
        rows = found.fetchall()
        if rows or format is not Format.TABLE:
            results.rows(found.columns, rows, format.value)
        else:
            results.text("No op that ran is random, is unstable, or differs from the CPU.")
        counts = ", ".join(f"{count} {status}" for status, count in sorted(report.statuses.items()))
        diagnostics.note(f"{report.name}: {report.calls} calls, {report.distinct} distinct; results: {counts}")
        if output is not None:
            every = opened.sql("FROM perturbations WHERE perturbation = $name ORDER BY place", {"name": report.name})
            write_free_benchmark(records(every), output)
            diagnostics.note(f"wrote {output}")
    if {"random", "differs"} & set(report.statuses):
        raise typer.Exit(diagnostics.ExitCode.FINDINGS)
