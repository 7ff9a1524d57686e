"""Owns stderr and the exit codes: everything that is not data is written here.

stdout carries results only. A message is one line. stderr does not repeat what stdout says.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING

from lakeprobe.errors import LakeprobeError, UsageError
from lakeprobe.output import shown

if TYPE_CHECKING:
    from lakeprobe.work import Progress


class ExitCode(IntEnum):
    """What a command's exit code means."""

    CLEAN = 0
    """Nothing suspicious."""
    FINDINGS = 1
    """Findings at or above --fail-on, or violations of an audit."""
    USAGE = 2
    """Wrong usage, or input that cannot be read."""
    LAKE = 3
    """The lake cannot be read or written."""
    BUG = 70
    """An error of lakeprobe itself; please report it. There is no answer."""
    INTERRUPTED = 130
    """Ctrl-C."""


def note(text: str) -> None:
    """Write a message that is not an error."""
    print(shown(text), file=sys.stderr)


def fail(error: LakeprobeError) -> int:
    """Write an error in one line. Returns the exit code."""
    print("lakeprobe: " + shown(" ".join(str(error).split())), file=sys.stderr)
    return error.exit_code


def agreed(question: str) -> bool:
    """Ask on stderr. Raises UsageError if stdin is not a terminal."""
    if not sys.stdin.isatty():
        raise UsageError(f"{question} stdin is not a terminal; confirm with --yes")
    print(f"{shown(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def crash(error: BaseException) -> int:
    """Write an unexpected error with its traceback. Returns the exit code."""
    import traceback

    traceback.print_exception(error)
    print(
        f"lakeprobe: unexpected {type(error).__name__}; this is a bug of lakeprobe, please report it", file=sys.stderr
    )
    return ExitCode.BUG


@contextmanager
def progress(what: str) -> Iterator[Progress | None]:
    """Yield a function that moves a progress bar on stderr, or None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
