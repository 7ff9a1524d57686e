"""Gives calls to worker processes, one at a time each, and takes an answer for every call, whatever an op does.

A worker that dies or does not answer in time is replaced; its call has a row that says so.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, Any

from lakeprobe.checks.calls import Answer, Call, Setup
from lakeprobe.checks.worker import receive, send
from lakeprobe.errors import UsageError
from lakeprobe.work import Progress

_START_LIMIT = 300.0
"""Seconds in which a worker must have imported its framework."""

_END_LIMIT = 10.0
"""Seconds that a worker has to end by itself."""


def run_all(
    calls: Sequence[Call],
    setup: Setup,
    *,
    jobs: int,
    limit: float,
    progress: Progress | None = None,
    taken: Callable[[Answer], None],
) -> None:
    """Run `calls` in `jobs` processes, and hand each answer to `taken`, in this thread, as they come.

    An op that takes more than `limit` seconds ends its process. Raises UsageError if no worker can start.
    """
    queue = iter(calls)  # next() on a list's iterator is atomic
    answers: SimpleQueue[Answer | Future[None]] = SimpleQueue()
    workers = [_Worker(setup, limit) for _ in range(max(1, min(jobs, len(calls))))]
    threads = ThreadPoolExecutor(len(workers))
    try:
        for worker in workers:
            threads.submit(_drain, worker, queue, answers).add_done_callback(answers.put)
        done, running = 0, len(workers)
        while running:
            answer = answers.get()
            if isinstance(answer, Future):
                answer.result()  # raises what ended the thread, whatever it is
                running -= 1
            else:
                taken(answer)
                done += 1
                if progress:
                    progress(done, len(calls))
    finally:
        for worker in workers:
            worker.kill()
        threads.shutdown(wait=False)


def _drain(worker: _Worker, queue: Any, answers: SimpleQueue[Answer | Future[None]]) -> None:
    try:
        for call in queue:
            answers.put(worker.answer(call))
        worker.end()
    finally:
        worker.kill()


class _Worker:
    """A process that runs calls. It starts with its first call, and again after one that ended it."""

    def __init__(self, setup: Setup, limit: float) -> None:
        self._setup = setup
        self._limit = limit
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._closed = False

    def answer(self, call: Call) -> Answer:
        """The answer of the process, or the reason for which it gave none; then the next call gets a new process."""
        process = self._started()
        try:
            send(_stream(process.stdin), call)
            answer = self._received(process, self._limit)
        except BrokenPipeError:
            answer = None
        except TimeoutError:
            self._stop()
            return Answer(call.key, problem=f"it ran longer than {self._limit:g} seconds")
        if answer is None:
            answer = Answer(call.key, problem=f"its process ended: {self._end(process)}")
            self._stop()
        return answer

    def end(self) -> None:
        """Let the process end by itself, as no call follows: it gives back the memory of its device."""
        process = self._process
        if process is not None:
            with suppress(BrokenPipeError):
                _stream(process.stdin).close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_LIMIT)

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._closed = True
        self._stop()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        if self._closed:
            raise UsageError("interrupted")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 it is open as long as the process
        environment = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"} | dict(os.environ)
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", "lakeprobe.checks.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            send(_stream(process.stdin), self._setup)
            ready = self._received(process, _START_LIMIT)
        except (BrokenPipeError, TimeoutError, ValueError):  # ValueError: kill() has closed the streams
            ready = None
        if ready is None and self._closed:  # another worker cannot start, or the user interrupts
            raise UsageError("interrupted")
        if ready is None or ready.problem:
            reason = ready.problem if ready is not None else self._end(process)
            self._stop()
            raise UsageError(f"{self._setup.framework} cannot run ops on {self._setup.device}: {reason}")
        return process

    @staticmethod
    def _received(process: subprocess.Popen[bytes], limit: float) -> Answer | None:
        stream = _stream(process.stdout)
        if not select.select([stream], [], [], limit)[0]:
            raise TimeoutError
        return receive(stream, Answer)

    def _end(self, process: subprocess.Popen[bytes]) -> str:
        """How a process ended, with the last line that it wrote on stderr."""
        try:
            code = process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return "it closed its output"
        said = _last_line(self._errors)
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"{how}{f' ({said})' if said else ''}"

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, self._errors):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue
        self._errors = None


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _last_line(errors: IO[bytes] | None) -> str:
    if errors is None:
        return ""
    errors.seek(0, os.SEEK_END)
    errors.seek(max(0, errors.tell() - 2000))
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:200] if lines else ""
