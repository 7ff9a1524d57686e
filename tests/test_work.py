"""Work on several processes: in order, the first failure wins, and a worker that dies is told."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from lakeprobe.errors import DumpError, LakeError
from lakeprobe.work import default_jobs, run_all


def slow_first(number: int) -> int:
    time.sleep(0.3 if number == 0 else 0)
    return number * number


def fails_at_odd(number: int) -> int:
    if number % 2:
        raise DumpError(f"{number} is odd")
    return number


def dies_at_zero(number: int) -> int:
    if number == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("jobs", [1, 2, 8])
def test_reports_come_in_the_order_of_the_tasks(jobs: int) -> None:
    seen: list[tuple[int, int]] = []
    reports = run_all(slow_first, range(5), jobs, lambda done, total: seen.append((done, total)))
    assert reports == [0, 1, 4, 9, 16]
    assert seen == [(done, 5) for done in range(6)]


def slow(number: int) -> int:
    if number == 0:
        raise DumpError("0 fails at once")
    time.sleep(1)
    Path(os.environ["WORKED"], str(number)).touch()
    return number


def test_what_waits_is_not_begun_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKED", str(tmp_path))
    with pytest.raises(DumpError, match="fails at once"):
        run_all(slow, range(8), 2)
    assert len(list(tmp_path.iterdir())) <= 1  # what had begun


def test_one_process_stops_at_the_first_failure() -> None:
    seen: list[int] = []
    with pytest.raises(DumpError, match=r"^1 is odd$"):
        run_all(fails_at_odd, [0, 1, 2, 3], 1, lambda done, total: seen.append(done))
    assert seen == [0, 1]


@pytest.mark.parametrize("tasks", [[0, 1, 2, 4], [0, 2, 4, 5], [1]])
def test_a_failure_in_any_process_is_raised(tasks: list[int]) -> None:
    with pytest.raises(DumpError, match=r"is odd$"):
        run_all(fails_at_odd, tasks, 2)


@pytest.mark.parametrize(("jobs", "times"), [(1, 0), (2, 1)])
def test_meanwhile_is_called_once_and_here_where_others_work(jobs: int, times: int) -> None:
    called: list[int] = []
    assert run_all(slow_first, [0, 1, 2], jobs, meanwhile=lambda: called.append(os.getpid())) == [0, 1, 4]
    assert called == [os.getpid()] * times


def test_a_worker_that_is_killed() -> None:
    with pytest.raises(LakeError, match=r"a worker process was killed, .* try fewer --jobs") as caught:
        run_all(dies_at_zero, [0, 1, 2], 2)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("jobs", [1, 4])
def test_no_work(jobs: int) -> None:
    seen: list[tuple[int, int]] = []
    assert run_all(slow_first, [], jobs, lambda done, total: seen.append((done, total))) == []
    assert seen == [(0, 0)]


def test_default_jobs() -> None:
    assert 1 <= default_jobs() <= (os.cpu_count() or 1)
