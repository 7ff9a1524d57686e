"""Processes that run calls: one that cannot start ends the others, and only the reason is told."""

from __future__ import annotations

import pytest

from lakeprobe.checks.calls import Setup
from lakeprobe.checks.pool import _Worker
from lakeprobe.errors import UsageError


def test_a_worker_that_is_killed_while_it_starts_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker could not start: that one tells why."""
    worker = _Worker(Setup("pytorch", "cpu", 0), 1)
    monkeypatch.setattr(worker, "_received", lambda process, limit: worker.kill())
    with pytest.raises(UsageError, match="interrupted"):
        worker._started()
