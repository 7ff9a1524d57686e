"""Runs one function over many independent units of work, on a pool of processes where that helps."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.synchronize import Event
from typing import TypeVar

from lakeprobe.errors import LakeError

Task = TypeVar("Task")
Report = TypeVar("Report")
Progress = Callable[[int, int], None]
"""Told how many units of work are done, and how many there are."""


def default_jobs() -> int:
    """As many processes as there are cores to run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    function: Callable[[Task], Report],
    tasks: Sequence[Task],
    jobs: int,
    progress: Progress | None = None,
    apart: bool = False,
    meanwhile: Callable[[], object] | None = None,
) -> list[Report]:
    """`function` of every task, in the order of `tasks`: here if there is one or `jobs` is 1, else in other processes.

    `apart` has it in other processes always: what may be killed must not run here. While others work, `meanwhile` is
    called here, once.

    The first exception of a task ends the work and is raised. Other processes give back all of their memory at their
    end, so that what a command does next starts with none of it taken.
    """
    if progress:
        progress(0, len(tasks))
    if min(jobs, len(tasks)) <= 1 and not apart:
        reports = []
        for task in tasks:
            reports.append(function(task))
            if progress:
                progress(len(reports), len(tasks))
        return reports
    context = multiprocessing.get_context("fork" if _can_fork() else "spawn")
    stop = context.Event()
    with ProcessPoolExecutor(min(jobs, len(tasks)), context, _begin, (stop,)) as pool:
        futures = [pool.submit(_unless_stopped, function, task) for task in tasks]
        try:
            if meanwhile:
                meanwhile()
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                if progress:
                    progress(done, len(tasks))
        except BrokenProcessPool:
            raise LakeError("a worker process was killed, by --timeout or lack of memory; try fewer --jobs") from None
        finally:
            stop.set()  # what waits in a worker's queue already cannot be cancelled
            pool.shutdown(wait=True, cancel_futures=True)
        return [future.result() for future in futures]


_stop: Event | None = None
"""In a worker process: set when the others' work is of no use any more."""


def _begin(stop: Event) -> None:
    global _stop
    _stop = stop


def _unless_stopped(function: Callable[[Task], Report], task: Task) -> Report:
    if _stop is not None and _stop.is_set():
        raise CancelledError
    return function(task)


def _can_fork() -> bool:
    """Whether a copy of this process would work: not with threads, nor with libraries that run some of their own.

    A copy starts a third of a second sooner than a new process, which reads all modules anew.
    """
    threaded = {"duckdb", "mindspore", "numpy", "pyarrow", "torch"}
    return sys.platform == "linux" and threading.active_count() == 1 and threaded.isdisjoint(sys.modules)
