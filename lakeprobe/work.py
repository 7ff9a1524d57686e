"""Runs one function over many independent tasks: here, on a pool of processes if that is faster, or on a cluster."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from lakeprobe.errors import LakeError, UsageError

if TYPE_CHECKING:
    from concurrent.futures import Future
    from multiprocessing.synchronize import Event

Task = TypeVar("Task")
Report = TypeVar("Report")
_MEMORY = 1 << 29
"""Bytes of memory of a task, unless its caller knows better."""
Progress = Callable[[int, int], None]
"""A callback that receives the number of tasks that are done, and of all tasks."""


ENGINE = "LAKEPROBE_ENGINE"
"""The environment variable that names the engine: local, ray, or ray://ADDRESS:PORT."""


def use_engine(engine: str) -> None:
    """Run tasks on `engine` from here on, also in child processes."""
    os.environ[ENGINE] = engine
    _cluster()


def _cluster() -> str | None:
    """Return the address of the cluster that $LAKEPROBE_ENGINE names. None for this machine. Raises UsageError."""
    engine = os.environ.get(ENGINE, "")
    if engine in ("", "local"):
        return None
    if engine == "ray" or engine.startswith("ray://"):
        return engine
    raise UsageError(f"the engine {engine!r} does not exist; use local, ray, or ray://ADDRESS:PORT")


def default_jobs() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    function: Callable[[Task], Report],
    tasks: Sequence[Task],
    jobs: int,
    progress: Progress | None = None,
    isolated: bool = False,
    meanwhile: Callable[[], object] | None = None,
    memory: Callable[[Task], int] = lambda _: _MEMORY,
) -> list[Report]:
    """Return `function` of every task, in the order of `tasks`.

    It runs here if there is one task or `jobs` is 1, otherwise in other processes. `isolated` forces other processes,
    for tasks that may be killed. While others work, `meanwhile` is called here, once. If $LAKEPROBE_ENGINE names a
    cluster, several tasks run there, each with as many bytes as `memory` says.

    The first exception of a task ends the work and is raised. Other processes return all of their memory when they end,
    so the next part of a command starts with all of it.
    """
    if progress:
        progress(0, len(tasks))
    if len(tasks) > 1 and (address := _cluster()):
        from lakeprobe import cluster

        return cluster.run_all(
            function, tasks, address, memory=memory, progress=progress or (lambda done, total: None),
            meanwhile=meanwhile or (lambda: None),
        )  # fmt: skip
    if min(jobs, len(tasks)) <= 1 and not isolated:
        reports = []
        for task in tasks:
            reports.append(function(task))
            if progress:
                progress(len(reports), len(tasks))
        return reports
    return _in_processes(function, tasks, jobs, progress or (lambda done, total: None), meanwhile or (lambda: None))


def _in_processes(
    function: Callable[[Task], Report],
    tasks: Sequence[Task],
    jobs: int,
    progress: Progress,
    meanwhile: Callable[[], object],
) -> list[Report]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("fork" if _can_fork() else "spawn")
    stop = context.Event()
    with ProcessPoolExecutor(min(jobs, len(tasks)), context, _begin, (stop,)) as pool:
        futures = [pool.submit(_unless_stopped, function, task) for task in tasks]
        try:
            meanwhile()
            for done, future in enumerate(filter(_has_run, as_completed(futures)), start=1):
                future.result()
                progress(done, len(tasks))
        except BrokenProcessPool:
            raise LakeError("a worker process was killed, by --timeout or lack of memory; try fewer --jobs") from None
        finally:
            stop.set()  # a task that is in a worker's queue cannot be cancelled
            pool.shutdown(wait=True, cancel_futures=True)
        return [future.result() for future in futures]


_stop: Event | None = None
"""In a worker process: set when results are no longer needed."""


def _begin(stop: Event) -> None:
    global _stop
    _stop = stop


def _unless_stopped(function: Callable[[Task], Report], task: Task) -> Report:
    from concurrent.futures import CancelledError

    if _stop is None:
        return function(task)
    if _stop.is_set():
        raise CancelledError
    try:
        return function(task)
    except BaseException:
        _stop.set()  # before this worker takes the next task
        raise


def _has_run(future: Future[Any]) -> bool:
    """Return whether a task was begun. If it was not, the failure that stopped it comes, too."""
    from concurrent.futures import CancelledError

    return not isinstance(future.exception(), CancelledError)


def _can_fork() -> bool:
    """Return whether this process can be forked: it has no threads, and no library that runs some.

    A fork starts a third of a second sooner than a new process, which imports all modules again.
    """
    threaded = {"duckdb", "mindspore", "numpy", "pyarrow", "torch"}
    return sys.platform == "linux" and threading.active_count() == 1 and threaded.isdisjoint(sys.modules)
