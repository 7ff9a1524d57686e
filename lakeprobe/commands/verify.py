"""lakeprobe verify: run the ops of a run again, and say which are wrong."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from lakeprobe import hints
from lakeprobe.commands.options import (
    Format,
    JobsOption,
    LakeOption,
    RanksOption,
    ReplaceOption,
    StepsOption,
    numbers,
)

OpsArgument = Annotated[
    list[str] | None,
    typer.Argument(help="Only these ops: names, APIs, or patterns with * and ?.", show_default="all"),
]
OfOption = Annotated[
    str | None, typer.Option("--of", metavar="COMPARISON", help="Only the ops of this comparison that differ most.")
]
MostOption = Annotated[int, typer.Option("--most", min=1, help="How many ops --of takes.")]
RandomOption = Annotated[
    bool, typer.Option("--random", help="Random inputs with the recorded statistics, even if there are contents.")
]
LimitOption = Annotated[float, typer.Option("--limit", min=0.1, help="Seconds that one op may take.")]
StandardOption = Annotated[
    str,
    typer.Option(
        "--standard",
        help="The precision standard: rounding; msprobe's table, benchmark, pre_check; or one of absolute, binary, "
        "ulp, thousandth, accumulative.",
    ),
]
DeviceOption = Annotated[str, typer.Option("--device", "-d", help="Where to run the ops: cpu, cuda:0, npu:0.")]
ImportOption = Annotated[
    list[str] | None, typer.Option("--import", metavar="MODULE", help="Import MODULE first. Repeatable.")
]


_TWO = {"rounding": "benchmark", "pre_check": "benchmark"}
"""Standards for one device, and the one that takes their place where two are held against each other."""


def verify(
    run: Annotated[str, typer.Argument(help="The run.")],
    ops: OpsArgument = None,
    skip: Annotated[
        list[str] | None,
        typer.Option("--skip", metavar="OP", help="Skip these ops: names, APIs, or patterns. Repeatable."),
    ] = None,
    module: Annotated[
        list[str] | None, typer.Option("--module", help="Only ops in modules whose name has this part. Repeatable.")
    ] = None,
    of: OfOption = None,
    most: MostOption = 20,
    rank: RanksOption = None,
    step: StepsOption = None,
    device: DeviceOption = "cpu",
    standard: StandardOption = "rounding",
    random: RandomOption = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random inputs.")] = 1234,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", metavar="VERIFICATION", help="Judge by the errors of another device, verified before."
        ),
    ] = None,
    limit: LimitOption = 60.0,
    modules: ImportOption = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the verification.", show_default="that of the run")
    ] = None,
    replace: ReplaceOption = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write msprobe's two csv files into this folder.")
    ] = None,
    save_errors: Annotated[
        Path | None, typer.Option("--save-errors", help="Keep inputs and results of wrong ops in this folder, as .npy.")
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="Text; csv and json have every finding.")] = Format.TABLE,
    lake: LakeOption = None,
    jobs: JobsOption = None,
) -> None:
    """Run the ops of a run again, forward and backward, and say which are wrong whatever their inputs were.

    Each result is measured against a reference in higher precision on the CPU, and so is the result that the dump has.
    Inputs are what was dumped, or random values with the same statistics. Equal calls run once. An op that crashes or
    hangs costs its own row. What was verified before under this name is not run again. Exits with 1 if an op is wrong.

    Example: lakeprobe verify npu --of npu_vs_gpu --most 20
    """
    from lakeprobe import diagnostics
    from lakeprobe import output as results
    from lakeprobe.checks.verify import verify as run_verify
    from lakeprobe.lake import outputs
    from lakeprobe.lake.connection import query_errors, records
    from lakeprobe.reports.verification_text import verification_text
    from lakeprobe.session import Lake
    from lakeprobe.work import default_jobs

    outputs.check_folder(output)
    with diagnostics.progress("verifying") as progress:
        report = run_verify(
            run, ops or (), lake=lake, name=name, device=device, standard=standard, random=random, seed=seed,
            skip=skip or (), modules=module or (), steps=numbers(step) or (), ranks=numbers(rank) or (), of=of,
            most=most, imports=modules or (), limit=limit, replace=replace, save_errors=save_errors,
            jobs=jobs or default_jobs(), progress=progress,
        )  # fmt: skip
    with query_errors(), Lake(report.lake) as opened:
        made = opened.verification(report.name)
        relation = made.findings if against is None else made.against(against, _TWO.get(standard, standard))
        rows = records(relation)
        wrong = any(row["status"] == "error" for row in rows)
        if format is Format.TABLE and against is None:
            results.text(verification_text(report, rows))
            if wrong:
                op = next(row["op"] for row in rows if row["status"] == "error")
                alone = hints.command("reproduce", quote(run), quote(op))
                results.text(f"\nThe op as a script of its own: {alone}")
        else:
            results.rows(relation.columns, [list(row.values()) for row in rows], format.value)
        for path in made.write(output) if output is not None else ():
            diagnostics.note(f"wrote {path}")
    if wrong:
        raise typer.Exit(diagnostics.ExitCode.FINDINGS)
