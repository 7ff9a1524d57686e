"""lakeprobe reproduce: write a script that runs one op as a run called it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeprobe.commands.options import LakeOption
from lakeprobe.errors import UsageError


def reproduce(
    run: Annotated[str | None, typer.Argument(help="The run.")] = None,
    op: Annotated[str | None, typer.Argument(help="The op: Functional.gelu.3.")] = None,
    no_backward: Annotated[
        bool, typer.Option("--no-backward", help="Only the forward, even if the backward was recorded.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--output", "-o", help="The script.", show_default="OP.py, here")] = None,
    step: Annotated[int | None, typer.Option("--step", help="The step.", show_default="the first")] = None,
    rank: Annotated[int | None, typer.Option("--rank", help="The rank.", show_default="the first")] = None,
    random: Annotated[
        bool,
        typer.Option("--random", help="Random arguments with the recorded statistics, even if there are contents."),
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of random numbers.")] = 1234,
    config: Annotated[
        Path | None, typer.Option("--config", "-i", help="A config_op.json of msprobe, in place of RUN and OP.")
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Write a script that runs one op as a run called it, and says whether it is right.

    The script needs torch and numpy, and nothing of lakeprobe. Its arguments are beside it, as .npz. It runs the op on
    the device that its option names, compares with higher precision, prints a table, and exits with 1 if the op is
    wrong. Existing files are not overwritten.

    Example: lakeprobe reproduce npu Functional.gelu.3 -o gelu.py
    """
    from lakeprobe import diagnostics
    from lakeprobe.checks.reproduce import reproduce as write_script
    from lakeprobe.checks.reproduce import reproduce_config

    with diagnostics.working("writing the script"):
        if config is not None:
            script = reproduce_config(config, out)
        elif run is None or op is None:
            raise UsageError("name a run and an op, or a file with --config")
        else:
            script = write_script(
                run, op, out, lake=lake, step=step, rank=rank, backward=not no_backward, random=random, seed=seed
            )
    diagnostics.note(f"wrote {script.path} and {script.data}; run it: python {script.path} --device cpu")
