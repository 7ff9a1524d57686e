"""Processes that run calls: one that cannot start ends the others, and only the reason is told."""

from __future__ import annotations

import pytest

from lakeprobe.checks.calls import Answer, Call, Setup
from lakeprobe.checks.pool import _Worker, run_all
from lakeprobe.errors import UsageError


def test_a_worker_that_is_killed_while_it_starts_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker could not start: that one tells why."""
    worker = _Worker(Setup("pytorch", "cpu", 0), 1)
    monkeypatch.setattr(worker, "_received", lambda process, limit: worker.kill())
    with pytest.raises(UsageError, match="interrupted"):
        worker._started()


@pytest.mark.parametrize("error", [OverflowError("timestamp out of range"), OSError(24, "too many"), MemoryError()])
def test_whatever_ends_a_thread_reaches_the_caller(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def answer(worker: _Worker, call: Call) -> Answer:
        if call.key == "bad":
            raise error
        return Answer(call.key)

    monkeypatch.setattr(_Worker, "answer", answer)
    calls = [Call(key, "Torch", "add", []) for key in ("good", "bad")]
    taken: list[Answer] = []
    with pytest.raises(type(error)) as raised:
        run_all(calls, Setup("pytorch", "cpu", 0), jobs=2, limit=1, taken=taken.append)
    assert raised.value is error
