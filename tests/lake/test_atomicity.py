"""A unit is in the lake in full or not at all, whatever happens to the one who writes it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import untraced
from plain_dumps import files, leftovers, rows_of_units, without_publication, write_run

import lakeprobe
from lakeprobe.errors import LakeError
from lakeprobe.ingest import ingest
from lakeprobe.ingest import unit as unit_module
from lakeprobe.lake import audits, staging
from lakeprobe.lake.unit import UnitWriter


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "gpu", ops=20)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake that holds another run already."""
    ingest(write_run(tmp_path / "old", ops=5, steps=1), lake=tmp_path / "lake")
    return tmp_path / "lake"


def whole_units(lake: Path, ops: int, run: str = "gpu") -> set[tuple[str, int, int]]:
    """The run's units; every table must have all of each unit's rows."""
    counts = rows_of_units(lake)
    units = {unit for unit in counts["dumps"] if unit[0] == run}
    for table, rows in (
        ("dumps", 1),
        ("ops", ops),
        ("tensors", ops),
        ("stacks", 1),
        ("contents", ops),
        ("values-0", ops),
    ):
        assert {unit: count for unit, count in counts[table].items() if unit[0] == run} == dict.fromkeys(units, rows), (
            table
        )
    return units


# ---- failures within the process --------------------------------------------------------------------------


FULL_DISK = OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ("stacks", FULL_DISK),
        ("ops", KeyboardInterrupt()),
        ("tensors", FULL_DISK),
        ("contents", MemoryError()),
        ("dumps", FULL_DISK),
    ],
)
def test_a_unit_that_fails_midway_leaves_no_trace(
    run: Path, lake: Path, monkeypatch: pytest.MonkeyPatch, table: str, error: BaseException
) -> None:
    before = files(lake)
    written = 0
    write = UnitWriter.write

    def fail(writer: UnitWriter, name: str, batch: Any) -> None:
        nonlocal written
        write(writer, name, batch)
        written += name == table
        if written == 3:  # the third of four units
            raise error

    monkeypatch.setattr(UnitWriter, "write", fail)
    with pytest.raises(LakeError if isinstance(error, OSError) else type(error)) as caught:
        ingest(run, lake=lake)
    if isinstance(error, OSError):
        assert "No space left on device" in str(caught.value)
        assert "as it was before" in str(caught.value)
    assert files(lake) == before
    assert leftovers(lake) == []
    monkeypatch.undo()
    ingest(run, lake=lake)
    assert len(whole_units(lake, 20)) == 4


def test_a_failure_while_replacing_keeps_the_old_units(run: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(run, lake=lake)
    before = files(lake)
    write_run(run, ops=30)
    (run / "step1" / "rank1" / "dump.json").write_text("{")
    with pytest.raises(Exception, match=r"step1/rank1/dump\.json"):
        ingest(run, lake=lake, replace=True)
    assert files(lake) == before
    assert leftovers(lake) == []


@pytest.mark.parametrize("lacks", ["nothing", "links", "locks"])
def test_replacing(run: Path, lake: Path, monkeypatch: pytest.MonkeyPatch, lacks: str) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(95, "Operation not supported")

    if lacks != "nothing":  # as on some mounts
        monkeypatch.setattr(*{"links": (os, "link"), "locks": (fcntl, "flock")}[lacks], refuse)
    ingest(run, lake=lake)
    write_run(run, ops=30)
    ingest(run, lake=lake, replace=True)
    assert len(whole_units(lake, 30)) == 4
    assert leftovers(lake) == []


def test_a_rename_whose_reply_was_lost(run: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on NFS: asked again, the server does not find what it has moved already."""
    rename = Path.rename

    def rename_and_lose(folder: Path, target: Path) -> Path:
        moved = rename(folder, target)
        if "run=gpu" in target.parts:
            raise FileNotFoundError(2, "No such file or directory")
        return moved

    monkeypatch.setattr(Path, "rename", rename_and_lose)
    ingest(run, lake=lake)
    assert len(whole_units(lake, 20)) == 4
    assert leftovers(lake) == []


def test_a_reader_sees_all_or_nothing_while_units_are_replaced(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    sizes = {10: write_run(tmp_path / "small", ops=10, ranks=1), 300: write_run(tmp_path / "big", ops=300, ranks=1)}
    ingest(sizes[10], lake=lake, run="gpu")
    failures: list[BaseException] = []

    def replace() -> None:
        try:
            for _ in range(5):
                for folder in sizes.values():
                    ingest(folder, lake=lake, run="gpu", replace=True)
        except BaseException as error:  # noqa: BLE001 shown by the test, in its own thread
            failures.append(error)

    def counts() -> set[int]:
        seen = set()
        with lakeprobe.open(lake) as opened:
            for table in ("dumps", "stacks", "ops", "tensors", "contents", "values"):
                found = opened.sql(f'SELECT run, step, rank, count(*) FROM "{table}" GROUP BY ALL').fetchall()
                assert {row[:3] for row in found} == {("gpu", 0, 0), ("gpu", 1, 0)}
                now = {count for *_, count in found}
                assert now in ([{1}] if table in ("dumps", "stacks") else [{10}, {300}])  # never one of each
                seen |= now
        return seen

    writer = threading.Thread(target=replace)
    seen = counts()
    writer.start()
    while writer.is_alive():
        seen |= counts()
    writer.join()
    assert failures == []
    seen |= counts()
    assert seen == {1, 10, 300}


# ---- a killed process -------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from lakeprobe.ingest import ingest, run, unit
from lakeprobe.lake import log, staging
from lakeprobe.lake.unit import UnitWriter

dump, lake, point, count, replace = sys.argv[1:]
count = int(count)

def killing(function, before):
    def wrapped(*arguments):
        global count
        count -= 1
        if before and count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments)
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return wrapped

owner, name, before = {
    "table": (UnitWriter, "write", False),
    "close": (UnitWriter, "close", True),
    "closed": (UnitWriter, "close", False),
    "place": (staging, "_move", True),
    "placed": (staging, "_move", False),
    "publish": (log, "append", True),
    "published": (log, "append", False),
}[point]
setattr(owner, name, killing(getattr(owner, name), before))
ingest(dump, lake=lake, replace=replace == "replace")
"""


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("how", "point", "count", "is_new"),
    [
        ("new", "table", 9, False),
        ("new", "closed", 4, False),
        ("new", "placed", 1, False),
        ("new", "published", 1, True),
        ("replace", "close", 1, False),
        ("replace", "place", 1, False),
        ("replace", "placed", 3, False),
        ("replace", "publish", 1, False),
        ("replace", "published", 1, True),
    ],
)
def test_a_killed_ingest(tmp_path: Path, run: Path, lake: Path, how: str, point: str, count: int, is_new: bool) -> None:
    old = 0
    if how == "replace":
        ingest(run, lake=lake)
        write_run(run, ops=25)
        old = 20
    new = 25 if how == "replace" else 20
    child = subprocess.run([sys.executable, "-c", KILLED, run, lake, point, str(count), how], capture_output=True)
    assert child.returncode == -9, child.stderr
    with lakeprobe.open(lake, create=True) as opened:
        found = opened.sql("SELECT count(*) FROM ops WHERE run = 'gpu' GROUP BY step, rank").fetchall()
        assert found == ([(new,)] * 4 if is_new else [(old,)] * 4 if old else [])
        assert opened.sql("SELECT count(*) FROM ops WHERE run = 'old' GROUP BY step, rank").fetchall() == [(5,)] * 2
        assert audits.run(opened.sql) == []
    ingest(run, lake=lake, replace=how == "replace")
    ingest(run, lake=tmp_path / "fresh")
    assert len(whole_units(lake, new)) == 4
    assert leftovers(lake) == []
    ours, fresh = without_publication(lake), without_publication(tmp_path / "fresh")
    assert {path: content for path, content in ours.items() if "run=gpu" in path} == {
        path: content for path, content in fresh.items() if "run=gpu" in path
    }


# ---- a second writer --------------------------------------------------------------------------------------


@contextmanager
def held(lake: Path, label: str) -> Any:
    with (lake / ".staging" / f"{label}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_second_writer_is_turned_away_at_once(run: Path, lake: Path, jobs: int) -> None:
    before = files(lake)
    with held(lake, "run=gpu,step=1,rank=0"), pytest.raises(LakeError, match="another process is writing") as caught:
        ingest(run, lake=lake, jobs=jobs)
    assert "run=gpu,step=1,rank=0" in str(caught.value)
    assert caught.value.exit_code == 3
    assert files(lake) == before
    ingest(run, lake=lake, jobs=jobs)
    assert len(whole_units(lake, 20)) == 4


def test_writers_of_other_units_do_not_meet(run: Path, lake: Path) -> None:
    with held(lake, "run=other,step=0,rank=0"):
        ingest(run, lake=lake)
    assert len(whole_units(lake, 20)) == 4


def test_a_unit_that_came_meanwhile_is_kept(
    run: Path, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = write_run(tmp_path / "theirs", ops=7, steps=1, ranks=1)
    read = unit_module._read

    def overtaken(task: Any, *rest: Any) -> None:
        monkeypatch.setattr(unit_module, "_read", read)
        ingest(theirs, lake=lake, run="gpu", steps=())
        read(task, *rest)

    monkeypatch.setattr(unit_module, "_read", overtaken)
    monkeypatch.setattr(staging, "locked", lambda *_: nullcontext())
    with pytest.raises(LakeError, match="run gpu step 0 rank 0 was written by another process meanwhile"):
        ingest(run, lake=lake)
    assert rows_of_units(lake, "gpu")["ops"] == {("gpu", 0, 0): 7}


# ---- a full disk ------------------------------------------------------------------------------------------

FULL = """
import resource, signal, sys
from lakeprobe.errors import LakeError
from lakeprobe.ingest import ingest

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    ingest(sys.argv[1], lake=sys.argv[2])
except LakeError as error:
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize("room", [0, 500, 3000, 50_000])
def test_a_full_disk(run: Path, lake: Path, room: int) -> None:
    before = files(lake)
    command = [sys.executable, "-c", FULL, run, lake, str(room)]
    child = subprocess.run(command, capture_output=True, text=True, env=untraced.environment())
    assert child.returncode == 3, child.stderr
    assert child.stderr == ""
    assert child.stdout.count("\n") == 1
    assert "File too large" in child.stdout
    assert f"{lake} is as it was before" in child.stdout
    assert files(lake) == before
    assert leftovers(lake) == []


def test_no_room_for_a_new_lake(run: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, run, tmp_path / "new", "0"]
    child = subprocess.run(command, capture_output=True, text=True, env=untraced.environment())
    assert (child.returncode, child.stderr) == (3, "")
    assert "cannot be made a lake: File too large" in child.stdout
    ingest(run, lake=tmp_path / "new")  # what is left there does not stand in the way
    assert len(whole_units(tmp_path / "new", 20)) == 4
