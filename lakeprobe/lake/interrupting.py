"""Ctrl-C ends a query at once.

DuckDB looks for signals between the tasks of a query, and Python handles them when DuckDB returns. One task of a cross
product may take hours, so a thread hears of the signal and asks DuckDB to stop. DuckDB forgets what it was asked while
it planned a query, so the thread asks again.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    import duckdb

_PAUSE, _TIMES = 250, 20
"""Milliseconds until DuckDB is asked again, and how often."""

_connections: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()
_block: ExitStack | None = None
"""What ends with the block of `heeding_ctrl_c`, within it."""


@contextmanager
def heeding_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end the queries of all interruptible connections within the block. For the main thread only."""
    global _block
    try:
        with ExitStack() as _block:
            yield
    finally:
        _connections.clear()
        _block = None


def interruptible(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return `connection`; within `heeding_ctrl_c`, Ctrl-C ends its queries."""
    if _block is not None and threading.current_thread() is threading.main_thread():
        if not _connections:  # not sooner: a process with threads cannot be forked
            _block.enter_context(_listening())
        _connections.add(connection)
    return connection


@contextmanager
def _listening() -> Iterator[None]:
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    before = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    thread = threading.Thread(target=_interrupt_on_signal, args=(reads,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writes)  # which ends the thread
        thread.join()
        os.close(reads)


def _interrupt_on_signal(reads: int) -> None:
    poll = select.poll()
    poll.register(reads, select.POLLIN)
    times = 0
    while True:
        if poll.poll(_PAUSE if times else None):
            signals = os.read(reads, 1)
            if not signals:
                return
            if signals[0] == signal.SIGINT:
                times = _TIMES
        if times:
            times -= 1
            for connection in list(_connections):
                connection.interrupt()
