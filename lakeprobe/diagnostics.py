"""Owns stderr and the exit codes: everything that is not data is written here.

stdout carries results only. A message is one line. stderr does not repeat what stdout says.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from itertools import pairwise
from typing import TYPE_CHECKING

from lakeprobe.errors import LakeprobeError, UsageError
from lakeprobe.shown import shown
from lakeprobe.table_text import fold, stream_width

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress as Display

    from lakeprobe.work import Progress


class ExitCode(IntEnum):
    """What a command's exit code means."""

    CLEAN = 0
    """Success: nothing suspicious, or --fail-on was not asked for."""
    FINDINGS = 1
    """Findings at or above --fail-on, or found by verify, perturb, watch, signs or check."""
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
        _say(text)


def detail(text: str) -> None:
    """Write a message that only --verbose shows."""
    if _volume is Volume.VERBOSE:
        _say(text)


def _say(text: str) -> None:
    """Write a message; on a terminal it is folded between words, and a command to copy stays whole."""
    message, colon, command = shown(text).partition(": lakeprobe ")
    lines = fold(message, stream_width(sys.stderr))
    print("\n".join(lines) + colon + command, file=sys.stderr)


def in_one_line(error: BaseException | str) -> str:
    """Return what an error says, or its class if it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__


def fail(error: LakeprobeError) -> int:
    """Write an error in one line. Returns the exit code."""
    print("lakeprobe: " + shown(in_one_line(error)), file=sys.stderr)
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

    The bar appears after a second, with what is done, the seconds, and as soon as a part is done the rate and the time
    left.
    """
    if not _is_watched():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(what),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[pace]}"),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=None, pace="")
    begun, parts = time.monotonic(), 0

    def move(done: int, total: int) -> None:
        nonlocal begun, parts
        if total != parts and parts:  # dumps were read, and units are compared now
            begun = time.monotonic()
        parts = total
        bar.update(task, completed=done, total=total, pace=pace(done, total, time.monotonic() - begun))

    with _shown_later(bar):
        yield move


def pace(done: int, total: int, seconds: float) -> str:
    """Return the rate and the time left as text, once a part is done: 0.5/s, about 10 s left."""
    if not 0 < done < total or not seconds:
        return ""
    left = (total - done) * seconds / done
    return f"{done / seconds:.3g}/s, about {duration(left)} left"


@contextmanager
def working(what: str, share: Callable[[], float] | None = None) -> Iterator[None]:
    """Say on stderr what is being done, with the seconds, if it takes more than one; --verbose says it in any case.

    `share` returns how much is done, from 0 to 1. While it moves steadily, it is shown, with the time left.
    """
    begun = time.monotonic()
    if not _is_watched():
        yield
    else:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        seen: deque[tuple[float, float]] = deque(maxlen=_LOOKS)

        def line() -> Text:
            seconds = time.monotonic() - begun
            if share is not None:
                seen.append((seconds, share()))
            return Text(f"{what}: {duration(seconds)}{estimate(seen)}", no_wrap=True, overflow="ellipsis")

        with _shown_later(
            Live(get_renderable=line, console=Console(stderr=True), transient=True, refresh_per_second=_LOOKS_A_SECOND)
        ):
            yield
    detail(f"{what}: {time.monotonic() - begun:.2f} s")


_LOOKS_A_SECOND = 4
_LOOKS = 4 * _LOOKS_A_SECOND
"""The last looks at the share that is done, from which the time left is estimated."""


def estimate(seen: Sequence[tuple[float, float]]) -> str:
    """Return the share that is done and the time left as text, from (seconds, share) in the last seconds.

    DuckDB's share rests and jumps. The text is empty unless the share has grown all the time, and not mostly at once:
    nothing can be told from it then.
    """
    if len(seen) < _LOOKS // 2:
        return ""
    steps = [later - sooner for (_, sooner), (_, later) in pairwise(seen)]
    (first, before), (last, now) = seen[0], seen[-1]
    gained = now - before
    if min(steps) < 0 or steps.count(0) > len(steps) // 2 or max(steps) > gained / 2 or not 0 < now < 1:
        return ""
    return f", about {100 * now:.0f} % done, {duration((1 - now) * (last - first) / gained)} left"


def duration(seconds: float) -> str:
    """Return seconds as people say them: 8 s, 2 min 5 s, 3 h 20 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _is_watched() -> bool:
    """Return whether a line that moves can be shown: TERM=dumb has no way back to the beginning of a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and _volume is not Volume.QUIET


@contextmanager
def _shown_later(bar: Display | Live) -> Iterator[None]:
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
