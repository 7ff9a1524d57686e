"""Bounds what a rule may take: time, memory and disk.

DuckDB stops a query when it is asked to, but looks between two batches of rows only, and does not count what a function
makes of one value. So there are two lines: `guarded` and the limits of a connection, which hold for almost every rule
and may be used anywhere; and `process_limits`, which the system enforces, for a process that does nothing else.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe.errors import LakeprobeError, RuleError, UsageError
from lakeprobe.resources import quote_text

if TYPE_CHECKING:
    import duckdb

_AGAIN_AFTER = 0.05
"""Seconds between two interrupts: one that comes between two statements is lost."""

_GRACE = 5.0
"""Seconds that a query has to heed its interrupt before the system ends the process."""

_UNCOUNTED = 2
"""A process may have so many times the memory that DuckDB may count: the rest is for single values."""

_OTHERS = 512 * 2**20
"""Bytes of memory for what is no query: stacks of threads, numpy, Arrow."""

_LEAST = 32 * 2**20
"""Bytes of memory without which not even a small comparison can be made."""

_SHARE_OF_DISK = 10
"""A comparison may spill one part in so many of the free disk, as several may run side by side."""

_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*(%|[kmgt]i?b)", re.IGNORECASE)

_KEYBOARD = "Query interrupted"
"""What DuckDB's RuntimeError says for Ctrl-C."""


@contextmanager
def guarded(connection: duckdb.DuckDBPyConnection, seconds: float | None, origin: str) -> Iterator[None]:
    """Let the block work on `connection` for `seconds`, or as long as it likes if that is None.

    Raises RuleError, which begins with `origin`, when the time is over, also where the block was done by then; and
    KeyboardInterrupt for Ctrl-C, of which DuckDB makes a RuntimeError.
    """
    import duckdb

    over, ended = threading.Event(), threading.Event()
    watch = threading.Thread(target=_interrupt_when_over, args=(connection, seconds, over, ended), daemon=True)
    if seconds is not None:
        watch.start()
    try:
        yield
    except RuntimeError as error:
        if str(error) == _KEYBOARD:
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
    connection: duckdb.DuckDBPyConnection, seconds: float, over: threading.Event, ended: threading.Event
) -> None:
    if ended.wait(seconds):
        return
    over.set()
    while not ended.is_set():
        connection.interrupt()
        ended.wait(_AGAIN_AFTER)


def _too_long(origin: str, seconds: float | None) -> RuleError:
    return RuleError(
        f"{origin}: the comparison took longer than {seconds:g} seconds (--timeout); "
        "give it more time, or a rule that does less"
    )


def memory_bytes(text: str) -> int:
    """How many bytes a text such as 4GB, 512MiB or 50% (of the machine's memory) means. Raises UsageError."""
    parsed = _MEMORY.fullmatch(text)
    if not parsed:
        raise UsageError(f"{text!r} is no amount of memory; write for example 4GB, 512MiB or 50%")
    number, unit = float(parsed[1]), parsed[2].lower()
    if unit == "%":
        return int(number / 100 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return int(number * (1024 if "i" in unit else 1000) ** (1 + "kmgt".index(unit[0])))


def set_memory_limit(connection: duckdb.DuckDBPyConnection, limit: int | str) -> None:
    """Let DuckDB take `limit`: bytes, or a text as in `memory_bytes`. Raises UsageError if nothing can run in that."""
    most = memory_bytes(limit) if isinstance(limit, str) else limit
    if most < _LEAST:
        raise UsageError(f"in {most} bytes of memory nothing can be compared; give {_LEAST} at least")
    connection.execute(f"SET memory_limit = '{most}B'")


def set_spill_folder(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Let queries that lack memory put it into `folder`, which DuckDB makes when it must and removes in the end.

    Without this, DuckDB makes a folder .tmp in the working directory. The parent of `folder` must exist.
    """
    most = shutil.disk_usage(folder.parent).free // _SHARE_OF_DISK
    connection.execute(f"SET temp_directory = {quote_text(str(folder))}")
    connection.execute(f"SET max_temp_directory_size = '{most}B'")


@contextmanager
def process_limits(seconds: float | None, memory: int | None) -> Iterator[None]:
    """Have the system hold this process to `seconds` and to `memory` bytes, while the block runs in its main thread.

    For a worker process only. One that takes longer, and does not heed its interrupt (see `guarded`), is killed by
    SIGALRM. Memory beyond the limit is refused, and DuckDB ends the query with an OutOfMemoryException. `memory` is
    DuckDB's own limit; the process may have twice that beside what it has already and 512 MiB.
    """
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + _OTHERS + _UNCOUNTED * memory, before[1]))
    if seconds is not None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE)
    try:
        yield
    finally:
        if seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _data_bytes() -> int:
    """The memory of this process that RLIMIT_DATA counts, in bytes; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.is_file() else []
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmData:"))
