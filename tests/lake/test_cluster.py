"""Work on a Ray cluster of this machine: the same lake byte for byte, whatever happens to workers."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from msgspec import Struct
from plain_dumps import leftovers, without_publication, write_run

from lakeprobe import work
from lakeprobe.cluster import _attempt, _remove_attempts
from lakeprobe.compare import run as comparing
from lakeprobe.compare.batch import compare_batch
from lakeprobe.errors import DumpError, LakeError, UsageError
from lakeprobe.ingest import ingest
from lakeprobe.ingest import run as reading
from lakeprobe.ingest.unit import ingest_unit
from lakeprobe.lake import layout, log
from lakeprobe.version import __version__

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cluster for all tests: it takes seconds to start."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import ray

    try:
        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80 << 20, log_to_driver=False,
                 logging_level="ERROR", _node_ip_address="127.0.0.1")  # fmt: skip
    except (ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
        pytest.skip(f"Ray starts no cluster on this machine: {error}")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file
    yield
    ray.shutdown()


@pytest.fixture
def on_ray(cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(work.ENGINE, "ray")


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("dumps")
    for run, ops in (("npu", 2), ("gpu", 3)):
        write_run(top / run, ops=ops, steps=1, ranks=3)
    return top


@pytest.fixture(scope="module")
def alone(dumps: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake made by one process."""
    lake = tmp_path_factory.mktemp("lakes") / "alone"
    ingest(dumps / "npu", lake=lake)
    ingest(dumps / "gpu", lake=lake)
    comparing.compare("npu", "gpu", lake=lake)
    return lake


def once(task: Any) -> bool:
    """Whether this is the first attempt at a task of rank 1."""
    key = task.key if hasattr(task, "key") else task.target
    marker = task.lake.parent / f"died-{type(task).__name__}"
    if key.rank != 1 or marker.exists():
        return False
    marker.touch()
    return True


def killed_while_reading(task: Any) -> Any:
    if once(task):
        task.staged.mkdir(parents=True)
        (task.staged / "ops.parquet").write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    return ingest_unit(task)


def killed_while_comparing(tasks: tuple[Any, ...]) -> Any:
    if once(tasks[-1]):
        tasks[-1].staged.mkdir(parents=True)
        (tasks[-1].staged / "results.parquet").write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    return compare_batch(tasks)


class Written(Struct, frozen=True):
    """A task that writes a file into a folder."""

    staged: Path


def write(tasks: tuple[Written, ...]) -> int:
    for task in tasks:
        task.staged.mkdir()
        (task.staged / "file").write_text(task.staged.name)
    return len(tasks)


def interrupted_after_writing(tasks: tuple[Written, ...]) -> int:
    write(tasks)
    raise KeyboardInterrupt


def test_what_a_killed_attempt_at_a_batch_left_is_in_nobodys_way(tmp_path: Path) -> None:
    tasks = tuple(Written(tmp_path / name) for name in "ab")
    with pytest.raises(KeyboardInterrupt), patch.object(shutil, "rmtree"):  # a killed worker removes nothing
        _attempt(interrupted_after_writing, tasks, {}, __version__)
    assert len(list(tmp_path.iterdir())) == 2
    assert _attempt(write, tasks, {}, __version__) == 2
    _remove_attempts(tasks)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def interrupted(tasks: tuple[Written, ...]) -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_task_is_cancelled_where_interrupts_are_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a job that a shell runs in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            _attempt(interrupted, (), {}, __version__)
    finally:
        signal.signal(signal.SIGINT, before)


@needs_ray
def test_a_killed_worker_changes_nothing(
    on_ray: None, dumps: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    monkeypatch.setattr(reading, "ingest_unit", killed_while_reading)
    monkeypatch.setattr(comparing, "batches", lambda tasks, jobs: [tuple(tasks[:2]), tuple(tasks[2:])])
    monkeypatch.setattr(comparing, "compare_batch", killed_while_comparing)
    seen: list[tuple[int, int]] = []
    report = ingest(dumps / "npu", lake=lake, progress=lambda done, total: seen.append((done, total)))
    assert [unit.key.rank for unit in report.read] == [0, 1, 2]
    assert seen == [(done, 3) for done in range(4)]
    ingest(dumps / "gpu", lake=lake)
    compared = comparing.compare("npu", "gpu", lake=lake)
    assert [pair.rows for pair in compared.pairs] == [3, 3, 3]
    assert {path.name for path in tmp_path.glob("died-*")} == {"died-UnitTask", "died-PairTask"}
    assert without_publication(lake) == without_publication(alone)
    assert log.read(lake).number == log.read(alone).number  # one publication each
    assert leftovers(lake) == []


def fails_at_1(task: int) -> int:
    if task == 1:
        raise DumpError("1 cannot be read")
    return task * task


def always_killed(task: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return task


@needs_ray
def test_a_task_that_always_loses_its_worker(on_ray: None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LakeError, match="a task was lost 4 times on the Ray cluster"):
        work.run_all(always_killed, [0, 1], jobs=1)
    assert capsys.readouterr().out == ""  # Ray would say there which workers died


def process(task: int) -> int:
    return os.getpid()


@needs_ray
def test_the_error_of_a_task_is_raised_as_it_is(on_ray: None) -> None:
    with pytest.raises(DumpError, match=r"^1 cannot be read$"):
        work.run_all(fails_at_1, [0, 1, 2], jobs=1)
    assert work.run_all(fails_at_1, [5, 4, 3, 2], jobs=1) == [25, 16, 9, 4]


def fails_or_goes_on(folder: Path) -> None:
    begun = folder.parent / "begun"
    if folder.name == "goes on":
        try:
            begun.touch()
            for _ in range(600):  # each is begun in Python, which hears of it that the task is cancelled
                time.sleep(0.1)
        finally:
            time.sleep(0.5)
            begun.unlink(missing_ok=True)
    while not begun.exists():
        time.sleep(0.02)
    raise DumpError(f"{folder.name} cannot be read")


@needs_ray
def test_no_task_goes_on_after_an_error(on_ray: None, tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="fails cannot be read"):
        work.run_all(fails_or_goes_on, [tmp_path / "goes on", tmp_path / "fails"], jobs=1)
    assert not (tmp_path / "begun").exists()


@needs_ray
def test_tasks_with_limits_run_there_too(on_ray: None, alone: Path) -> None:
    report = comparing.compare("npu", "gpu", lake=alone, timeout=60.0, memory="1GB", replace=True)
    assert [pair.rows for pair in report.pairs] == [3, 3, 3]


@needs_ray
def test_a_lake_with_an_error_stays_as_it_was(
    on_ray: None, dumps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dumps / "npu/step0/rank3").mkdir()
    (dumps / "npu/step0/rank3/dump.json").write_text('{"task": "statistics", "data": {"a": 1')
    try:
        with pytest.raises(DumpError, match=r"rank3/dump\.json"):
            ingest(dumps / "npu", lake=tmp_path / "lake")
    finally:
        (dumps / "npu/step0/rank3/dump.json").unlink()
        (dumps / "npu/step0/rank3").rmdir()
    assert layout.units(tmp_path / "lake") == []
    assert leftovers(tmp_path / "lake") == []


@pytest.mark.parametrize("engine", ["rays", "slurm", "http://there"])
def test_an_engine_that_does_not_exist(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(work.ENGINE, engine)
    with pytest.raises(UsageError, match=r"does not exist; use local, ray, or ray://ADDRESS:PORT"):
        work.run_all(fails_at_1, [0, 2], jobs=1)


def test_local_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(work.ENGINE, "local")
    assert work.run_all(process, [0, 1], jobs=1) == [os.getpid()] * 2


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(work.ENGINE, "ray")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"Ray is not installed; install it with: pip install 'lakeprobe\[ray\]'"):
        work.run_all(fails_at_1, [0, 2], jobs=1)
