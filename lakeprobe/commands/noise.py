"""lakeprobe noise: measure how repeats of a golden run differ from it."""

from __future__ import annotations

from shlex import quote
from typing import Annotated

import typer

from lakeprobe import hints
from lakeprobe.commands.complete import run_names
from lakeprobe.commands.options import JobsOption, LakeOption, RanksOption, StepsOption, numbers


def noise(
    golden: Annotated[
        str,
        typer.Argument(help="The trusted run: its name in the lake, or a path with dumps.", autocompletion=run_names),
    ],
    repeats: Annotated[
        list[str], typer.Argument(help="Repeats of the trusted run: names or paths.", autocompletion=run_names)
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the noise.", show_default="that of the golden run")
    ] = None,
    rank: RanksOption = None,
    step: StepsOption = None,
    lake: LakeOption = None,
    jobs: JobsOption = None,
) -> None:
    """Measure how repeats of a golden run differ from it, so that comparisons know what is noise.

    A repeat is golden's program on another chip, with another number of threads, or with its parameters perturbed by
    one rounding (lakeprobe.collect(…, perturb=1e-7)). Differences that repeats show too do not stand out in a
    comparison that is made or queried with --noise.

    Example: lakeprobe noise gpu gpu_again gpu_8_threads --name gpu_noise
    """
    from lakeprobe import diagnostics
    from lakeprobe.compare.repeats import measure
    from lakeprobe.work import default_jobs

    with diagnostics.progress("comparing") as progress:
        report = measure(
            golden, repeats, lake=lake, name=name, steps=numbers(step) or (), ranks=numbers(rank) or (),
            jobs=jobs or default_jobs(), progress=progress,
        )  # fmt: skip
    diagnostics.note(
        f"noise {report.name}: {report.tensors} tensors of {report.golden}, from {', '.join(report.comparisons)}"
    )
    diagnostics.note(
        f"use it: {hints.command('compare', 'TARGET', quote(report.golden), '--noise', quote(report.name))}"
    )
