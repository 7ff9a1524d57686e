"""Options that several commands share, each defined once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lakeprobe import hints
from lakeprobe.commands.complete import noise_names
from lakeprobe.errors import UsageError
from lakeprobe.system.files import expanded


def _given(context: typer.Context, parameter: typer.CallbackParam, lake: Path | None) -> Path | None:
    """Let what this command tells to type next name the lake too, if its line did; the environment needs no words."""
    source = context.get_parameter_source(str(parameter.name))
    if lake is not None and source is not None and source.name == "COMMANDLINE":
        context.call_on_close(hints.name_lake(str(expanded(lake))))
    return lake


def path_given(text: str) -> Path:
    """Return the path that an argument is. Raises UsageError for an empty text, which Path takes for the folder here.

    A variable of the shell that has no value is such a text.
    """
    if not text:
        raise UsageError("the path is empty; give one, or . for the current folder")
    return Path(text)


class Format(StrEnum):
    """The formats of rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class Tensors(StrEnum):
    """Where the contents of tensors are."""

    COPY = "copy"
    LINK = "link"
    NONE = "none"


LakeOption = Annotated[
    Path | None,
    typer.Option("--lake", envvar="LAKEPROBE_LAKE", help="The lake.", show_default="./lake", callback=_given),
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Number of processes.", show_default="all cores")
]
TensorsOption = Annotated[
    Tensors, typer.Option("--tensors", help="Tensor contents: copy into the lake, link to the dump's files, or none.")
]
RanksOption = Annotated[
    list[str] | None,
    typer.Option("--rank", metavar="R,R", help="Only these ranks: 0,1,8-15; may be repeated.", show_default="all"),
]
StepsOption = Annotated[
    list[str] | None,
    typer.Option("--step", metavar="S,S", help="Only these steps: 0,1,8-15; may be repeated.", show_default="all"),
]
NoiseOption = Annotated[
    str | None,
    typer.Option(
        "--noise",
        metavar="NAME",
        help="Differences between repeats of golden are noise too.",
        autocompletion=noise_names,
    ),
]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="Do again what the lake already has.")]
ShardOption = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Do the I-th of N shares, counted from 0; the last to finish publishes all.",
        show_default="all of it",
    ),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        envvar="LAKEPROBE_ENGINE",
        metavar="ENGINE",
        help="Where the work is done: local, or a Ray cluster: ray, ray://ADDRESS:PORT.",
        show_default="local",
    ),
]
NoSyncOption = Annotated[
    bool,
    typer.Option("--no-sync", help="Let the system decide when files reach the disk. For scratch lakes."),
]

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_MOST_NUMBERS = 1_000_000


def numbers(texts: Sequence[str] | None) -> tuple[int, ...]:
    """Return the numbers that `texts` list: "0,1,8-11" gives 0, 1, 8, 9, 10, 11; none for None. Raises UsageError."""
    listed: list[int] = []
    for part in ",".join(texts).split(",") if texts else ():
        match = _RANGE.fullmatch(part.strip())
        if not match:
            raise UsageError(f"{','.join(texts or ())!r} is not a list of numbers; write it as 0,1,8-15")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + _MOST_NUMBERS:
            raise UsageError(f"{part.strip()} is not a range of numbers; write the lower number first, as in 8-15")
        listed += range(first, last + 1)
    return tuple(dict.fromkeys(listed))
