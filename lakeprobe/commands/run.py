"""lakeprobe run: run a training script and collect from it, without changing it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    command: Annotated[list[str], typer.Argument(help="The command, after --.")],
    config: Annotated[Path, typer.Option("--config", help="msprobe's config.json: what to collect.")],
) -> None:
    """Run a PyTorch training unchanged, and collect from it what a config.json asks for.

    The script's first call of a module begins the first step, and that module is the model. A step ends after an
    optimizer's step. Launchers such as torchrun pass this on to every rank. Exits with the command's exit code.

    Example: lakeprobe run --config config.json -- python train.py
    """
    from lakeprobe.collect import config as configuration
    from lakeprobe.collect import running

    configuration.load(config)  # report mistakes before anything runs
    raise typer.Exit(running.launched(command, {running.CONFIG: str(config.absolute())}))
