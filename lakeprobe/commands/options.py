"""Options that several commands share, each defined once."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lakeprobe.errors import UsageError


class Format(StrEnum):
    """The forms rows can be written in."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


LakeOption = Annotated[
    Path | None, typer.Option("--lake", envvar="LAKEPROBE_LAKE", help="The lake.", show_default="./lake")
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Processes to work with.", show_default="all cores")
]
TensorsOption = Annotated[
    str, typer.Option("--tensors", help="Tensor contents: copy into the lake, link to the dump's files, or none.")
]
RanksOption = Annotated[
    str | None, typer.Option("--rank", metavar="R,R", help="Only these ranks: 0,1,8-15.", show_default="all")
]
StepsOption = Annotated[
    str | None, typer.Option("--step", metavar="S,S", help="Only these steps: 0,1,8-15.", show_default="all")
]
NoiseOption = Annotated[
    str | None,
    typer.Option("--noise", metavar="NAME", help="What repeats of golden differ by, too, is noise (lakeprobe noise)."),
]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="Read again what is in the lake already.")]
NoSyncOption = Annotated[
    bool,
    typer.Option("--no-sync", help="Leave it to the system when files reach the disk: for scratch."),
]

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_MOST_NUMBERS = 1_000_000


def numbers(text: str | None) -> tuple[int, ...]:
    """The numbers that `text` lists: "0,1,8-11" gives 0, 1, 8, 9, 10, 11; none for None. Raises UsageError."""
    listed: list[int] = []
    for part in text.split(",") if text is not None else ():
        match = _RANGE.fullmatch(part.strip())
        if not match:
            raise UsageError(f"{text!r} is no list of numbers; write it as 0,1,8-15")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + _MOST_NUMBERS:
            raise UsageError(f"{part.strip()} is no range of numbers; write the lower one first, as in 8-15")
        listed += range(first, last + 1)
    return tuple(dict.fromkeys(listed))
