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
    import os
    import subprocess

    from lakeprobe.collect import config as configuration
    from lakeprobe.collect import running
    from lakeprobe.errors import UsageError

    configuration.load(config)  # report mistakes before anything runs
    inject = str(Path(running.__file__).parent / "inject")
    path = os.pathsep.join(filter(None, (inject, os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": path, running.CONFIG: str(config.absolute())}
    try:
        done = subprocess.run(command, env=environment, check=False)  # noqa: S603 what the user asks for
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be run: {error.strerror}") from error
    raise typer.Exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)
