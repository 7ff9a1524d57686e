"""Options that several commands share, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

LakeOption = Annotated[
    Path | None, typer.Option("--lake", envvar="LAKEPROBE_LAKE", help="The lake.", show_default="./lake")
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Processes to work with.", show_default="all cores")
]
TensorsOption = Annotated[
    str, typer.Option("--tensors", help="Tensor contents: copy into the lake, link to the dump's files, or none.")
]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="Read again what is in the lake already.")]
