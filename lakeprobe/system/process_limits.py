"""Limits the time and memory of a worker process, as the operating system enforces them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_GRACE = 5.0
"""Seconds that a query has to react to its interrupt before the system kills the process."""

_UNCOUNTED = 2
"""A process may use this many times DuckDB's memory limit, because DuckDB does not count single values."""

_OTHERS = 512 * 2**20
"""Bytes of memory for everything but queries: stacks of threads, numpy, Arrow."""


@contextmanager
def process_limits(seconds: float | None, memory: int | None) -> Iterator[None]:
    """Limit this process to `seconds` and to `memory` bytes while the block runs in its main thread.

    Use it in worker processes only. The system kills the process with SIGALRM if it takes longer and ignores its
    interrupt (see `lakeprobe.compare.limits`). It refuses memory beyond the limit, and DuckDB then ends the query with
    an OutOfMemoryException. `memory` is DuckDB's own limit; the process may allocate twice that, plus what it has
    already and 512 MiB.
    """
    import resource  # Windows has none

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
    """Return the bytes of memory that RLIMIT_DATA counts for this process; 0 where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.is_file() else []
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmData:"))
