"""Ctrl-C ends a query at once.

DuckDB looks for signals between the tasks of a query, and Python handles them when DuckDB returns. One task of a cross
product may take hours, so a thread hears of the signal and asks DuckDB to stop.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    import duckdb

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
    while signals := os.read(reads, 1):
        if signals[0] == signal.SIGINT:
            for connection in list(_connections):
                connection.interrupt()
