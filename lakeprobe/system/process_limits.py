"""Limits the memory of a worker process, and the time that it has to end, as the operating system enforces them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_GRACE, _LONGEST_GRACE = 3.0, 60.0
"""Seconds of processor time, and of any time, that a query has to react to its interrupt before the system kills the
process. On a busy machine hardly any of the one passes while much of the other does."""

_UNCOUNTED = 2
"""A process may use this many times DuckDB's memory limit, because DuckDB does not count single values."""

_OTHERS = 512 * 2**20
"""Bytes of memory for everything but queries: stacks of threads, numpy, Arrow."""


@contextmanager
def process_limits(memory: int | None) -> Iterator[None]:
    """Limit this process to `memory` bytes while the block runs in its main thread, which may call `end_soon`.

    Use it in worker processes only. The system refuses memory beyond the limit, and DuckDB then ends the query with an
    OutOfMemoryException. `memory` is DuckDB's own limit; the process may allocate twice that, plus what it has already
    and 512 MiB.
    """
    import resource  # Windows has none

    before = resource.getrlimit(resource.RLIMIT_DATA)
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + _OTHERS + _UNCOUNTED * memory, before[1]))
    for kills in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(kills, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_DATA, before)


def end_soon() -> None:
    """Let the system kill this process, unless the block of `process_limits` ends before it has computed for 3 seconds.

    That is for a query that ignores its interrupt (see `lakeprobe.compare.limits`).
    """
    signal.setitimer(signal.ITIMER_PROF, _GRACE)
    signal.setitimer(signal.ITIMER_REAL, _LONGEST_GRACE)


def _data_bytes() -> int:
    """Return the bytes of memory that RLIMIT_DATA counts for this process; 0 where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.is_file() else []
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmData:"))
