"""Owns stderr and the exit codes: everything that is not data is written here.

stdout carries results only. A message is one line. stderr does not repeat what stdout says.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING

from lakeprobe.errors import LakeprobeError, UsageError
from lakeprobe.output import shown

if TYPE_CHECKING:
    from rich.progress import Progress as Display

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


class Volume(IntEnum):
    """How much is said on stderr besides errors."""

    QUIET = 0
    """Nothing."""
    USUAL = 1
    """What was done, and progress."""
    VERBOSE = 2
    """Also what was read, by which rule, and how long it took."""


_volume = Volume.USUAL


def speak(volume: Volume) -> None:
    """Set how much is said from now on."""
    global _volume
    _volume = volume


def note(text: str) -> None:
    """Write a message that is not an error, unless the user wants none (--quiet)."""
    if _volume is not Volume.QUIET:
        print(shown(text), file=sys.stderr)


def detail(text: str) -> None:
    """Write a message that only --verbose shows."""
    if _volume is Volume.VERBOSE:
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


_PATIENCE = 1.0
"""The seconds after which a command says what it is doing."""


@contextmanager
def progress(what: str) -> Iterator[Progress | None]:
    """Yield a function that moves a progress bar on stderr, or None if nobody watches.

    The bar appears after a second, with what is done, the rate and the time left.
    """
    if not _is_watched():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate, left = TextColumn("{task.fields[rate]}"), TimeRemainingColumn(elapsed_when_finished=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), rate, left)
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=None, rate="")
    begun = time.monotonic()

    def move(done: int, total: int) -> None:
        seconds = time.monotonic() - begun
        bar.update(task, completed=done, total=total, rate=f"{done / seconds:.3g}/s" if done and seconds else "")

    with _shown_later(bar):
        yield move


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say on stderr what is being done, with the seconds, if it takes more than one; --verbose says it in any case."""
    begun = time.monotonic()
    if not _is_watched():
        yield
    else:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        bar = Progress(
            SpinnerColumn(), TextColumn(what), TimeElapsedColumn(), console=Console(stderr=True), transient=True
        )
        bar.add_task(what, total=None)
        with _shown_later(bar):
            yield
    detail(f"{what}: {time.monotonic() - begun:.2f} s")


def _is_watched() -> bool:
    return sys.stderr.isatty() and _volume is not Volume.QUIET


@contextmanager
def _shown_later(bar: Display) -> Iterator[None]:
    """Show `bar` from now + _PATIENCE to the end of the block."""
    timer = threading.Timer(_PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
