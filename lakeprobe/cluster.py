"""Runs the tasks of `lakeprobe.work` on a Ray cluster. All machines see the lake and the dumps at the same paths.

A task writes under a name of its own, which it gives up for the real one when it has finished. So a task that Ray runs
twice, because it lost sight of a worker, leaves the result of one of them. Nothing is published by a worker.
"""

from __future__ import annotations

import glob
import logging
import os
import shutil
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from lakeprobe.errors import LakeError, UsageError
from lakeprobe.version import __version__

Task = TypeVar("Task")
Report = TypeVar("Report")

_MOST_RETRIES = 3
"""How often a task is run again after its worker was lost. An error of the task itself ends the work at once."""
_SECONDS_TO_END = 30.0
"""How long a cancelled task may go on. A statement of DuckDB ends before its worker hears of it."""
_PASSED_ON = "LAKEPROBE_"
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no report to anybody
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # leaves CUDA_VISIBLE_DEVICES as it is, as later releases do
}


def run_all(
    function: Callable[[Task], Report],
    tasks: Sequence[Task],
    address: str,
    *,
    memory: Callable[[Task], int],
    progress: Callable[[int, int], None],
    meanwhile: Callable[[], object],
) -> list[Report]:
    """Return `function` of every task, in the order of `tasks`, from the cluster at `address` (`ray`, `ray://…`).

    A task gets one core and the bytes of `memory(task)`. Raises the first error of a task, and LakeError if the cluster
    fails.
    """
    # Ray prints what it thinks of workers to stdout, where results go
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), _connected(address) as ray:
        attempt = ray.remote(num_cpus=1, max_retries=_MOST_RETRIES, retry_exceptions=False)(_attempt)
        settings = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
        places = {
            attempt.options(memory=memory(task)).remote(function, task, settings, __version__): place
            for place, task in enumerate(tasks)
        }
        meanwhile()
        reports: dict[int, Report] = {}
        left = list(places)
        try:
            while left:
                done, left = ray.wait(left)
                for reference in done:
                    reports[places[reference]] = _report(ray, reference)
                progress(len(reports), len(tasks))
        finally:
            _end(ray, left)
            for task in tasks:
                _remove_attempts(task)
    return [reports[place] for place in range(len(tasks))]


def _end(ray: Any, references: Sequence[Any]) -> None:
    """Cancel tasks, and wait until none of them holds a lock or writes. Those that do not end lose their workers."""
    for force, seconds in ((False, _SECONDS_TO_END), (True, None)):
        for reference in references:
            ray.cancel(reference, force=force)
        if references:
            _, references = ray.wait(references, num_returns=len(references), timeout=seconds)


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Yield ray, connected to a cluster: the one at `address`, or $RAY_ADDRESS, or a new one on this machine."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise UsageError("Ray is not installed; install it with: pip install 'lakeprobe[ray]'") from None
    if ray.is_initialized():  # by the caller of the library, who shuts it down too
        yield ray
        return
    try:
        ray.init(
            None if address == "ray" else address,
            log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False,
        )  # fmt: skip
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise LakeError(f"{address}: there is no Ray cluster ({str(error).splitlines()[0]})") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _report(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[0]
        raise LakeError(f"a task was lost {_MOST_RETRIES + 1} times on the Ray cluster ({reason})") from error


def _attempt(function: Callable[[Any], Report], task: Any, settings: Mapping[str, str], version: str) -> Report:
    """Run one task in a worker."""
    if version != __version__:
        raise LakeError(f"the Ray cluster has lakeprobe {__version__}, and this is {version}; install the same on both")
    os.environ.update(settings)
    os.environ.pop("LAKEPROBE_ENGINE", None)
    # Ray cancels a task by an interrupt, which workers ignore where the command does: a shell starts jobs that way
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parts = _parts(task)
    places = [(part.staged, part.staged.with_name(f".{part.staged.name}.{uuid.uuid4().hex}")) for part in parts]
    if not places:
        return function(task)
    moved = tuple(replace(part, staged=own) for part, (_, own) in zip(parts, places, strict=True))
    try:
        report = function(moved if isinstance(task, tuple) else moved[0])
        for staged, own in places:
            if own.exists():  # a unit that the lake has is not written again
                _give_name(own, staged)
    finally:
        for _, own in places:
            shutil.rmtree(own, ignore_errors=True)
    return report


def _parts(task: Any) -> tuple[Any, ...]:
    """Return the tasks that a batch has, or a task by itself; none if they write no files."""
    parts = task if isinstance(task, tuple) else (task,)
    return tuple(part for part in parts if getattr(part, "staged", None))


def _remove_attempts(task: Any) -> None:
    """Remove what workers that were killed have left of a task."""
    for part in _parts(task):
        for own in part.staged.parent.glob(f".{glob.escape(part.staged.name)}.*"):
            shutil.rmtree(own, ignore_errors=True)


def _give_name(own: Path, staged: Path) -> None:
    """Rename `own` to `staged`, unless another attempt has done so."""
    try:
        own.rename(staged)
    except OSError:
        if not staged.exists():
            raise
