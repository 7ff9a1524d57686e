"""lakeprobe preflight: what a run begins with, written down and compared."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from lakeprobe.commands.layout import Command, Commands
from lakeprobe.commands.options import LakeOption

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Write down what a run begins with, and compare it: environment, packages, devices, switches, random "
    "generators, settings, first batches, weights.\n\n"
    "Example: lakeprobe preflight pack -o gpu_start -- python train.py",
)


@app.command("pack", cls=Command)
def pack(
    out: Annotated[Path, typer.Option("--output", "-o", help="Folder for rankR/preflight.json.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="A launch command, after --: it is run, and each rank packs itself.")
    ] = None,
) -> None:
    """Write down what a process begins with: this one, or each rank of a command that is run.

    For a PyTorch script the wrapper also packs the model's weights and the arguments of its first call, just before
    that call. Launchers such as torchrun pass this on to every rank. Exits with the command's exit code.

    Example: lakeprobe preflight pack -o gpu_start -- python train.py
    """
    from lakeprobe import diagnostics
    from lakeprobe.collect import preflight

    if not command:
        diagnostics.note(f"written: {preflight.write(preflight.gather(), out.absolute())}")
        diagnostics.note(f"compare it with another: lakeprobe preflight compare TARGET {quote(str(out))}")
        return
    from lakeprobe.collect.running import launched

    code = launched(command, {preflight.FOLDER: str(out.absolute())})
    if not out.exists():
        diagnostics.note(f"{out} was not written: the command called no module of torch, or a line above says why")
    raise typer.Exit(code)


@app.command("compare", cls=Command)
def compare(
    target: Annotated[
        str,
        typer.Argument(help="What the suspect run begins with: a folder of pack, or a run collected with a preflight."),
    ],
    golden: Annotated[str, typer.Argument(help="What the trusted run begins with.")],
    fail_on: Annotated[
        str | None, typer.Option("--fail-on", help="warning or error: exit with 1 if there is one.")
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Compare what two runs begin with, and name each difference, the worst first.

    The same as `lakeprobe compare` of two preflights, whose rule is preflight.

    Example: lakeprobe preflight compare npu_start gpu_start
    """
    from lakeprobe.commands.compare import FailOn
    from lakeprobe.commands.compare import compare as compare_runs
    from lakeprobe.errors import UsageError
    from lakeprobe.lake import layout, store

    if fail_on not in (None, *FailOn):
        raise UsageError(f"--fail-on is {' or '.join(FailOn)}, not {fail_on}")
    path = store.choose(lake)
    known = layout.runs(path) if store.exists(path) else []
    target, golden = (
        side + layout.PREFLIGHT if side + layout.PREFLIGHT in known else side for side in (target, golden)
    )
    compare_runs(target, golden, sql="preflight", fail_on=None if fail_on is None else FailOn(fail_on), lake=lake)
