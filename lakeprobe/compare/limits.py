"""Limits the time, memory and disk that a rule may use.

DuckDB stops an interrupted query, but only between two batches of rows, and its memory limit does not count what a
function allocates for a single value. So there are two kinds of limits. `guarded` and the settings of a connection stop
almost every rule and work in any process. `lakeprobe.system.process_limits` is enforced by the operating system, for a
process that does nothing else.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakeprobe.errors import LakeprobeError, RuleError, UsageError
from lakeprobe.lake.connection import KEYBOARD

if TYPE_CHECKING:
    import duckdb

_AGAIN_AFTER = 0.05
"""Seconds between two interrupts. DuckDB loses an interrupt that arrives between two statements."""

_LEAST = 32 * 2**20
"""Bytes of memory that the smallest comparison needs."""

_LONGEST_WAIT = 1_000_000_000
"""Seconds that every thread and process can wait; for ten times as many, Python raises OverflowError."""

WhenOver = Callable[[], object]

_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*(%|[kmgt]i?b)", re.IGNORECASE)


@contextmanager
def guarded(
    connection: duckdb.DuckDBPyConnection, seconds: float | None, origin: str, when_over: WhenOver = lambda: None
) -> Iterator[None]:
    """Let the block use `connection` for `seconds`, or without limit if that is None. Calls `when_over` after these.

    Raises RuleError, which begins with `origin`, when the time is over, even if the block has finished by then. Turns
    the RuntimeError that DuckDB raises on Ctrl-C into KeyboardInterrupt.
    """
    import duckdb

    over, ended = threading.Event(), threading.Event()
    watch = threading.Thread(
        target=_interrupt_when_over, args=(connection, seconds, when_over, over, ended), daemon=True
    )
    if seconds is not None:
        watch.start()
    try:
        yield
    except RuntimeError as error:
        if str(error) == KEYBOARD:
            raise KeyboardInterrupt from error
        raise
    except (duckdb.Error, LakeprobeError) as error:
        if over.is_set():
            raise _too_long(origin, seconds) from error
        raise
    finally:
        ended.set()
        if seconds is not None:
            watch.join()
    if over.is_set():
        raise _too_long(origin, seconds)


def _interrupt_when_over(
    connection: duckdb.DuckDBPyConnection,
    seconds: float,
    when_over: WhenOver,
    over: threading.Event,
    ended: threading.Event,
) -> None:
    if ended.wait(seconds):
        return
    over.set()
    when_over()
    while not ended.is_set():
        connection.interrupt()
        ended.wait(_AGAIN_AFTER)


def check_seconds(option: str, seconds: float | None) -> None:
    """Raise UsageError unless `seconds`, the value of `option`, can be waited for; None is no limit."""
    if seconds is not None and not 0 <= seconds <= _LONGEST_WAIT:  # NaN is not
        raise UsageError(f"{option} is {seconds:g} seconds; give a number from 0 to {_LONGEST_WAIT}")


def _too_long(origin: str, seconds: float | None) -> RuleError:
    return RuleError(
        f"{origin}: the comparison took longer than {seconds:g} seconds (--timeout); "
        "allow more time, or simplify the rule"
    )


def memory_bytes(text: str) -> int:
    """Return the number of bytes that a text such as 4GB, 512MiB or 50% (of the machine's memory) means.

    Raises UsageError for another text.
    """
    parsed = _MEMORY.fullmatch(text)
    if not parsed:
        raise UsageError(f"{text!r} is not an amount of memory; write for example 4GB, 512MiB or 50%")
    number, unit = float(parsed[1]), parsed[2].lower()
    if unit == "%":
        return int(number / 100 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return int(number * (1024 if "i" in unit else 1000) ** (1 + "kmgt".index(unit[0])))


def set_memory_limit(connection: duckdb.DuckDBPyConnection, limit: int | str) -> None:
    """Limit the memory of DuckDB to `limit`: bytes, or a text as in `memory_bytes`.

    Raises UsageError if no query could run with so little.
    """
    most = memory_bytes(limit) if isinstance(limit, str) else limit
    if most < _LEAST:
        raise UsageError(f"{most} bytes of memory are too few for a comparison; give at least {_LEAST}")
    connection.execute(f"SET memory_limit = '{most}B'")
