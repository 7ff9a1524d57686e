"""The log of a lake: one publication at a time, read by whoever comes at any moment, and rebuilt from the folders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from plain_dumps import leftovers, write_run

import lakeprobe
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.ingest import ingest
from lakeprobe.lake import audits, layout, log, staging, store
from lakeprobe.lake.connection import query_errors
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.log import Place
from lakeprobe.system import files


def put(lake: Path, *names: str) -> None:
    log.append(lake, "test", {f"tables/table={name}": Place(f"tables/table={name}/p", ("x",)) for name in names})


def names(lake: Path) -> list[str]:
    return layout.tables(lake)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return store.create(tmp_path / "lake")


def fresh(lake: Path) -> list[str]:
    """The names as a process reads them that has not read before."""
    log._known.clear()
    return names(lake)


def test_states_stand_for_what_came_before(lake: Path) -> None:
    for number in range(150):
        put(lake, f"{number:03d}")
        if number % 3 == 0:
            log.append(lake, "test", {}, [f"tables/table={number:03d}"])
    expected = [f"{number:03d}" for number in range(150) if number % 3]
    assert names(lake) == fresh(lake) == expected
    states = sorted(path.name for path in log.folder_of(lake).glob("*.state.json"))
    assert states == ["0000000192.state.json"]
    for number in range(1, 192):
        log._file(lake, number).write_text("never read again")
    assert fresh(lake) == expected


def test_writers_at_once_lose_nothing(lake: Path) -> None:
    def write(writer: int) -> None:
        for number in range(20):
            put(lake, f"{writer}-{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert len(fresh(lake)) == 80
    assert len(list(log.folder_of(lake).glob("*[0-9].json"))) == 81


def test_a_publication_is_refused_by_what_came_just_before(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = files.create_whole

    def overtaken(draft: Path, path: Path) -> bool:
        monkeypatch.setattr(files, "create_whole", usual)
        put(lake, "theirs")
        return usual(draft, path)

    def refuse(there: log.Snapshot) -> None:
        if there.places:
            raise LakeError("taken")

    monkeypatch.setattr(files, "create_whole", overtaken)
    with pytest.raises(LakeError, match="taken"):
        log.append(lake, "test", {"tables/table=ours": Place("tables/table=ours/p", ())}, before=refuse)
    assert fresh(lake) == ["theirs"]


@pytest.mark.parametrize("end", [0, 1, 40, -2])
def test_a_publication_that_was_not_written_to_its_end_is_none(lake: Path, end: int) -> None:
    """Where the file system has no links; elsewhere nobody can see such a one."""
    put(lake, "first")
    put(lake, "torn")
    torn = log._file(lake, 3)
    torn.write_bytes(torn.read_bytes()[:end])
    assert fresh(lake) == ["first"]
    put(lake, "third")
    assert fresh(lake) == ["first", "third"]
    assert log.damaged(lake) == [torn]


def test_a_lake_that_was_made_anew_is_another(tmp_path: Path) -> None:
    put(store.create(tmp_path / "lake"), "old")
    assert names(tmp_path / "lake") == ["old"]
    shutil.rmtree(tmp_path / "lake")
    store.create(tmp_path / "lake")
    assert names(tmp_path / "lake") == []


def test_a_log_that_cannot_be_read_is_told(lake: Path) -> None:
    shutil.rmtree(log.folder_of(lake))
    log.folder_of(lake).mkdir()
    (log.folder_of(lake) / "0000000001.json").mkdir()
    with pytest.raises(LakeError, match="Is a directory; the log of the lake cannot be read"):
        log.read(lake)


# ---- repair -----------------------------------------------------------------------------------------------


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A lake with two runs, one of them read twice, and a comparison."""
    with lakeprobe.open(tmp_path / "lake", create=True) as opened:
        for run, ops in (("npu", 4), ("gpu", 2), ("npu", 3)):
            opened.ingest(write_run(tmp_path / f"{run}{ops}", ops, steps=1), run=run, replace=ops == 3)
        opened.compare("npu", "gpu", name="both")
    return tmp_path / "lake"


def answers(lake: Path) -> list[Any]:
    log._known.clear()
    with lakeprobe.open(lake, create=True) as opened:
        assert audits.run(opened.sql) == []
        rows = opened.sql("SELECT run, step, rank, count(*) FROM ops GROUP BY ALL ORDER BY ALL").fetchall()
        return [*rows, *opened.sql('SELECT count(*) FROM "both"').fetchall()]


def test_the_log_is_rebuilt_from_the_folders(full: Path) -> None:
    expected = answers(full)
    assert expected[-3:-1] == [("npu", 0, 0, 3), ("npu", 0, 1, 3)]
    shutil.rmtree(log.folder_of(full))
    assert answers(full) == expected
    assert staging.repair(full) == []
    assert answers(full) == expected
    last = sorted(log.folder_of(full).iterdir())[-1]
    last.write_text("{")
    log._known.clear()
    assert len(staging.repair(full)) == 5
    assert answers(full) == expected
    assert staging.repair(full) == []


def test_what_was_removed_by_hand_is_taken_out(full: Path) -> None:
    shutil.rmtree(full / "run=gpu")
    orphan = full / "run=npu" / "step=0" / "rank=0" / "20200101T000000-01234567"
    orphan.mkdir()
    says = "run lakeprobe check to see what is missing"
    with lakeprobe.open(full, create=True) as opened, pytest.raises(LakeError, match=says), query_errors():
        opened.sql("FROM ops").fetchall()
    assert log.missing(log.read(full)) == ["run=gpu/step=0/rank=0", "run=gpu/step=0/rank=1"]
    assert [line.partition(":")[0] for line in staging.repair(full)] == [
        "no longer there", "no longer there", "removed, since nothing names it",
    ]  # fmt: skip
    assert answers(full) == [("npu", 0, 0, 3), ("npu", 0, 1, 3), answers(full)[-1]]
    assert not orphan.exists()


# ---- a lake of the release before -------------------------------------------------------------------------


def as_before(lake: Path) -> None:
    """Make `lake` what the release before would have made: no log, and things in the folders of their names."""
    there = log.read(lake)
    for name, place in there.places.items():
        folder = lake / place.path
        if name.startswith("tables/"):
            (folder / "table.parquet").replace(lake / "tables" / f"{name.rpartition('=')[2]}.parquet")
            shutil.rmtree(lake / name)
            continue
        for child in list(folder.iterdir()):
            child.rename(lake / name / child.name)
        folder.rmdir()
    shutil.rmtree(log.folder_of(lake))
    (lake / "lake.yaml").write_text("format: 2\n")
    log._known.clear()


def test_an_older_lake_is_read_and_gets_a_log_when_it_is_written_to(full: Path, tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    headers = "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench Tensor Shape,Cosine,Result,Err_message"
    (tmp_path / "tables" / "compare_result_20260101000000.csv").write_text(f"{headers}\na,a,f,f,[],[],1,pass,\n")
    ingest(tmp_path / "tables", lake=full)
    expected = answers(full)
    as_before(full)
    assert not list(full.glob("run=*/step=*/rank=*/*/"))
    assert answers(full) == expected
    assert layout.tables(full) == ["compare_result_20260101000000"]
    with lakeprobe.open(full, create=True) as opened:
        assert opened.sql("SELECT count(*) FROM compare_result_20260101000000").fetchall() == [(1,)]
        assert len(opened.comparison("both").rows.fetchall()) == expected[-1][0]
        opened.note("npu", "kept")
        opened.ingest(tmp_path / "npu4", run="npu", replace=True)
        assert yaml.safe_load((full / "lake.yaml").read_text()) == {"format": 3}
        assert opened.sql("SELECT run, rank, count(*) FROM ops GROUP BY ALL ORDER BY ALL").fetchall() == [
            ("gpu", 0, 2), ("gpu", 1, 2), ("npu", 0, 4), ("npu", 1, 4),
        ]  # fmt: skip
        opened.compare("npu", "gpu", name="both", replace=True)
        opened.rename("gpu", "cuda")
        assert opened.comparison("both").stored.golden == "cuda"
        assert opened.note("npu") == "kept"
    assert not (full / "run=gpu").exists()
    assert [path.name for path in (full / "run=npu" / "step=0" / "rank=0").iterdir() if path.is_file()] == []
    assert [path.name for path in (full / "comparisons" / "comparison=both").glob("step=*")] == []
    assert leftovers(full) == []
    assert staging.repair(full) == []


def test_a_newer_and_an_older_reader_of_one_lake(full: Path) -> None:
    """Who opened before sees what was there then; who opens later what is there now."""
    with staging.reading(full) as before:
        with lakeprobe.open(full, create=True) as opened:
            opened.rm("npu")
            assert opened.sql("SELECT DISTINCT run FROM ops").fetchall() == [("gpu",)]
        assert layout.runs(before) == ["gpu", "npu"]
        assert (layout.unit_folder(before, UnitKey("npu", 0, 1)) / "ops.parquet").is_file()
    with staging.staged(full, "next"):
        pass
    assert not (full / "run=npu").exists()


MANY = """
import resource, sys
import numpy as np
from lakeprobe.ingest import ingest
for number in range(400):
    np.save(f"{sys.argv[1]}/{number}.npy", np.full(3, number, np.float32))
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
print(ingest(sys.argv[1], lake=sys.argv[2], run="many").units[0].contents)
"""


def test_many_small_tensors_need_few_descriptors(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", MANY, tmp_path / "many", tmp_path / "lake"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "400\n"), done.stderr


def test_an_address_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UsageError, match=r"s3://bucket/lake/lake\.yaml cannot be reached: .*pip install s3fs"):
        store.check(store.choose("s3://bucket/lake"))


def test_what_the_disk_is_asked_to_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file of a unit, its folder and those above it, before the log says that it is there."""
    run = write_run(tmp_path / "gpu", ops=2, steps=1, ranks=1)
    synced: list[str] = []
    usual = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        usual(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    ingest(run, lake=tmp_path / "lake", jobs=1)
    unit = layout.unit_folder(tmp_path / "lake", UnitKey("gpu", 0, 0))
    before_log = synced[: max(i for i, path in enumerate(synced) if "/log/.draft" in path)]
    assert {Path(path).name for path in before_log if path.endswith(".parquet")} == {
        path.name for path in unit.iterdir()
    }
    for folder in unit.parents[:4]:
        assert str(folder) in before_log
    assert synced[-1] == str(log.folder_of(tmp_path / "lake"))
    synced.clear()
    monkeypatch.setenv(files.NO_SYNC, "1")
    ingest(run, lake=tmp_path / "lake", replace=True)
    assert synced == []


def test_the_entries_of_the_log_say_what_was_done(full: Path) -> None:
    what = [json.loads(path.read_text())["what"] for path in sorted(log.folder_of(full).glob("*.json"))]
    assert [text.split()[0] for text in what] == ["new", "ingest", "ingest", "ingest", "compare"]
