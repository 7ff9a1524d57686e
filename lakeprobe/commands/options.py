"""Options that several commands share, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

# Optional[X], not X | None: typer evaluates these, and Python 3.10 must do so too
LakeOption = Annotated[
    Optional[Path], typer.Option("--lake", envvar="LAKEPROBE_LAKE", help="The lake.", show_default="./lake")  # noqa: UP045
]
JobsOption = Annotated[
    Optional[int], typer.Option("--jobs", "-j", min=1, help="Processes to work with.", show_default="all cores")  # noqa: UP045
]
TensorsOption = Annotated[
    str, typer.Option("--tensors", help="Tensor contents: copy into the lake, link to the dump's files, or none.")
]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="Read again what is in the lake already.")]
