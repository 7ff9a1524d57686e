"""Which steps are collected: every n-th, while a file is there, and few enough to stay below a limit on cost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from memory import Memory, capture

import lakeprobe
from lakeprobe.collect.watching import pace
from lakeprobe.errors import UsageError

torch = pytest.importorskip("torch")


def collected(memory: Memory, steps: int, before: Any = None, **settings: Any) -> list[int]:
    watched = capture(memory, **settings)
    for step in range(steps):
        if before is not None:
            before(step)
        watched.start()
        torch.relu(torch.ones(2))
        watched.stop()
        watched.step()
    watched.close()
    return [step.number for step in memory.steps]


def test_every_third_step(memory: Memory) -> None:
    assert collected(memory, 8, every=3) == [0, 3, 6]


def test_every_third_of_the_steps_that_were_asked_for(memory: Memory) -> None:
    assert collected(memory, 8, every=3, step=(3, 4, 5, 6)) == [3, 6]


def test_a_file_switches_collecting_on_and_off_with_the_next_step(memory: Memory, tmp_path: Path) -> None:
    switch = tmp_path / "on"

    def before(step: int) -> None:
        if step == 2:
            switch.touch()
        if step == 4:
            switch.unlink()

    assert collected(memory, 6, before, switch=str(switch)) == [2, 3]


@pytest.fixture
def users_handler() -> Iterator[list[int]]:
    """The signals that the training's own handler of SIGUSR1 was told of."""
    told: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: told.append(number))
    yield told
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_switches_collecting_on_and_off_with_the_next_step(memory: Memory, users_handler: list[int]) -> None:
    def before(step: int) -> None:
        if step in (2, 4, 7):
            os.kill(os.getpid(), signal.SIGUSR1)

    assert collected(memory, 8, before, switch="SIGUSR1") == [2, 3, 7]
    assert users_handler == [signal.SIGUSR1] * 3, "the training's own handler is called as before"


def test_a_signal_that_comes_when_collecting_is_over_does_not_end_the_training(memory: Memory) -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    try:
        assert collected(memory, 1, switch="SIGUSR1") == []
        os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_that_cannot_be_handled_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="collect: switch SIGKILL cannot be handled: Invalid argument"):
        lakeprobe.collect(run="npu", lake=tmp_path, switch="SIGKILL")
    with ThreadPoolExecutor() as threads:
        begun = threads.submit(lakeprobe.collect, run="npu", lake=tmp_path, switch="SIGUSR1")
        with pytest.raises(UsageError, match="collect: switch SIGUSR1 needs the main thread"):
            begun.result()


def test_a_step_that_has_begun_is_not_switched_on(memory: Memory, tmp_path: Path) -> None:
    switch = tmp_path / "on"
    watched = capture(memory, switch=str(switch))
    watched.start()
    switch.touch()
    watched.start()
    assert not watched.running
    watched.step()
    assert watched.running
    watched.close()


@pytest.mark.parametrize(("most", "dearer"), [(0.5, 2.0), (0.1, 2.0), (0.5, 0.25)])
def test_steps_are_left_out_to_stay_below_a_limit(
    most: float, dearer: float, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, steps = 0.0, 100
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    monkeypatch.setattr(pace.time, "perf_counter", lambda: now)
    watched = capture(memory, most=most)
    for _ in range(steps):
        watched.start()
        now += 1.0 + dearer * watched.running
        watched.stop()
        watched.step()
    watched.close()
    cost = dearer * len(memory.steps) / steps
    assert cost <= most
    assert cost >= 0.8 * min(most, dearer), "more steps could have been collected"
    assert 0 not in [step.number for step in memory.steps]


@pytest.mark.parametrize("options", [{"every": 0}, {"every": True}, {"most": -1}, {"most": "much"}])
def test_mistakes_are_told(options: dict[str, Any], tmp_path: Path) -> None:
    (name,) = options
    with pytest.raises(UsageError, match=f"collect: {name} should be a"):
        lakeprobe.collect(run="npu", lake=tmp_path, **options)


def test_a_run_whose_switch_was_never_there_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with lakeprobe.collect(run="npu", lake=tmp_path / "lake", switch=tmp_path / "on"):
        torch.relu(torch.ones(2))
    assert capfd.readouterr().err == (
        f"lakeprobe: nothing was collected: {tmp_path / 'on'} was not there when a step began\n"
    )
