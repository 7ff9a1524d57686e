"""Compacted runs: no answer depends on the form of a unit, and every change of form is all or nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from plain_dumps import files, write_run

import lakeprobe
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import layout, log, staging
from lakeprobe.lake.layout import UnitKey
from lakeprobe.session import Lake

TABLES = ("dumps", "ops", "tensors", "stacks", "undumped", "contents", '"values"')


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the dumps npu and gpu, of two steps and three ranks each, and a lake with both."""
    folder = tmp_path_factory.mktemp("compaction")
    write_run(folder / "npu", 3, ranks=3)
    write_run(folder / "gpu", 2, ranks=3)
    with lakeprobe.open(folder / "lake", create=True) as opened:
        for run in ("npu", "gpu"):
            opened.ingest(folder / run)
    return folder


@pytest.fixture
def lake(tmp_path: Path, home: Path) -> Lake:
    return lakeprobe.open(shutil.copytree(home / "lake", tmp_path / "lake"))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, home: Path) -> dict[str, Any]:
    """The answers of the lake as it was ingested."""
    return answers(lakeprobe.open(shutil.copytree(home / "lake", tmp_path_factory.mktemp("ingested") / "lake")))


def answers(lake: Lake) -> dict[str, Any]:
    """What views and commands say of the units of a lake."""
    said: dict[str, Any] = {table: sorted(map(repr, lake.sql(f"FROM {table}").fetchall())) for table in TABLES}
    said["one rank"] = sorted(lake.sql("SELECT name, max FROM tensors WHERE step = 1 AND rank = 2").fetchall())
    said["ls"] = lake.ls()
    said["show"] = lake.show("add.1")
    said["tensor"] = lake.tensor("npu", "Torch.add.1.forward", "input.0", step=1, rank=2).tolist()
    lake.compare("npu", "gpu", name="c", replace=True, steps=(1,), ranks=(1, 2))  # one that acts replace, and one not
    said["results"] = lake.sql("SELECT * EXCLUDE (comparison) FROM results ORDER BY ALL").fetchall()
    lake.export("npu", lake.path.parent / "exported", replace=True)
    said["export"] = files(lake.path.parent / "exported")
    said["check"] = lake.check()
    lake.rm("c")
    return said


def replace(lake: Lake, home: Path, ranks: tuple[int, ...]) -> None:
    lake.ingest(home / "npu", replace=True, ranks=ranks)


def rename_twice(lake: Lake) -> None:
    lake.rename("npu", "other")
    lake.rename("other", "npu")


ACTS: dict[str, Callable[[Lake, Path], object]] = {
    "compact": lambda lake, home: lake.compact("npu"),
    "compact both": lambda lake, home: (lake.compact("npu"), lake.compact("gpu")),
    "split": lambda lake, home: lake.compact("npu", split=True),
    "replace one": lambda lake, home: replace(lake, home, (1,)),
    "replace all": lambda lake, home: replace(lake, home, ()),
    "rename": lambda lake, home: rename_twice(lake),
}


@pytest.mark.sampled
@pytest.mark.parametrize(
    "acts",
    [
        ("compact both",),
        ("compact", "split"),
        ("compact", "replace one", "rename"),
        ("compact", "replace one", "compact"),
        ("compact", "replace one", "split"),
        ("compact", "replace all"),
    ],
    ids="-".join,
)
def test_no_answer_depends_on_the_form(lake: Lake, home: Path, expected: dict[str, Any], acts: tuple[str, ...]) -> None:
    assert expected["check"] == []
    assert expected["tensor"] == [201.0] * 1000
    for act in acts:
        ACTS[act](lake, home)
    found = answers(lake)
    for question, answer in expected.items():
        assert found[question] == answer, question
    assert log.from_folders(lake.path) == dict(log.read(lake.path).places)


def test_the_files_of_a_compacted_run(lake: Lake) -> None:
    report = lake.compact("npu")
    assert (report.steps, report.units, report.files_before) == (2, 6, 6 * 7)
    assert report.files == 2 * (6 + 1 + 3)  # tables, held.json, and the contents of each rank
    for step in range(2):
        [folder] = lake.path.glob(f"run=npu/step={step}/*")
        rows = duckdb.execute(f"SELECT step, rank, row FROM '{folder}/tensors.parquet'").fetchall()
        assert rows == [(step, rank, row) for rank in range(3) for row in range(3)]
    assert lake.compact("npu").files == lake.compact("npu").files_before == report.files
    split = lake.compact("npu", split=True)
    assert (split.files, split.files_before) == (report.files_before, report.files)
    assert lake.compact("npu", split=True).files == report.files_before


def test_no_answer_depends_on_whether_a_rank_is_compacted(tmp_path: Path, home: Path) -> None:
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        for run in ("npu", "gpu"):
            lake.ingest(home / run, tensors="none")

        def said() -> dict[str, Any]:
            rows: dict[str, Any] = {table: sorted(map(repr, lake.sql(f"FROM {table}").fetchall())) for table in TABLES}
            rows["one unit"] = lake.sql(
                "SELECT name, max FROM tensors WHERE step = 1 AND rank = 2 ORDER BY 1"
            ).fetchall()
            return rows | {"ls": lake.ls(), "check": lake.check()}

        def results() -> list[tuple[Any, ...]]:
            lake.compare("npu", "gpu", name="c", replace=True, ranks=(0, 1))
            found = lake.sql("SELECT * EXCLUDE (comparison) FROM results ORDER BY ALL").fetchall()
            lake.rm("c")
            return found

        expected, compared = said(), results()
        report = lake.compact("npu", by="rank")
        assert (report.steps, report.units, report.files) == (2, 6, 3 * 7)  # tables and held.json of each rank
        assert {name for name in log.read(lake.path).places if "npu" in name} == {f"run=npu/rank={r}" for r in range(3)}
        assert said() == expected
        lake.ingest(home / "npu", tensors="none", replace=True, ranks=(1,))
        lake.rename("npu", "other")
        lake.rename("other", "npu")
        lake.compact("npu")
        assert {name for name in log.read(lake.path).places if "npu" in name} == {f"run=npu/step={s}" for s in range(2)}
        lake.compact("npu", by="rank")
        lake.ingest(home / "npu", tensors="none", replace=True, ranks=(0,))
        assert said() == expected
        assert results() == compared != []
        assert log.from_folders(lake.path) == dict(log.read(lake.path).places)
        lake.compact("npu", split=True)
        assert [place.held for place in log.read(lake.path).places.values()] == [()] * 12
        assert said() == expected
        with pytest.raises(UsageError, match="--by op does not exist; use step or rank"):
            lake.compact("npu", by="op")


def test_units_with_contents_stay_out_of_a_compacted_rank(lake: Lake) -> None:
    before = log.read(lake.path).places
    assert lake.compact("npu", by="rank").files == 6 * 7
    assert log.read(lake.path).places == before


def test_a_unit_that_comes_later_lies_beside_the_compacted_ones(lake: Lake, home: Path) -> None:
    lake.rm("npu")
    lake.ingest(home / "npu", ranks=[0, 2])
    lake.compact("npu")
    lake.ingest(home / "npu", ranks=[1])
    rows = lake.sql("SELECT rank, count(*) FROM tensors WHERE run = 'npu' AND step = 0 GROUP BY rank ORDER BY rank")
    assert rows.fetchall() == [(0, 3), (1, 3), (2, 3)]
    assert [key.rank for key in layout.units(lake.path, "npu")] == [0, 1, 2] * 2
    lake.compact("npu")
    assert [place.held for name, place in log.read(lake.path).places.items() if "npu" in name] == [(0, 1, 2)] * 2


def test_a_run_that_changes_meanwhile_is_not_compacted(lake: Lake, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish, other = staging.publish, lakeprobe.open(lake.path)

    def late(*arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(staging, "publish", publish)
        replace(other, home, (1,))
        publish(*arguments, **options)

    monkeypatch.setattr(staging, "publish", late)
    with pytest.raises(LakeError, match="the run npu changed meanwhile, and is as it was before; compact it again"):
        lake.compact("npu")
    assert lake.check() == []
    assert lake.compact("npu").units == 6


def test_a_reader_keeps_what_it_reads(lake: Lake) -> None:
    with staging.reading(lake.path) as before:
        lake.compact("npu")
        place = layout.unit_place(before, UnitKey("npu", 0, 1))
        assert place.held is None
        assert (place.folder / "tensors.parquet").is_file()
        assert layout.unit_place(lake.path, UnitKey("npu", 0, 1)).held == UnitKey("npu", 0, 1)
    lake.compact("npu")
    lake.note("npu", "the next writer removes what nobody reads")
    lake.rename("gpu", "cuda")
    assert not place.folder.exists()


def test_what_was_kept_for_a_reader_is_no_damage(lake: Lake) -> None:
    """The reader ends after the writer, so that the next writer removes it."""
    with staging.reading(lake.path):
        lake.compact("npu")
    [kept] = staging.left_over(lake.path)
    assert kept.name.startswith("ended.")
    assert staging.unfit(lake.path) == []
    staging.sweep(lake.path)
    assert staging.left_over(lake.path) == []


def test_a_damaged_log_is_made_again_of_the_folders(lake: Lake, home: Path) -> None:
    lake.compact("npu")
    replace(lake, home, (1,))
    places = dict(log.read(lake.path).places)
    for file in (lake.path / "log").glob("*.json"):
        file.write_text("{")
    log._known.clear()
    staging.repair(lake.path)
    assert dict(log.read(lake.path).places) == places
    with lakeprobe.open(lake.path) as opened:
        assert opened.check() == []


def test_the_time_of_reading_stays(lake: Lake) -> None:
    old = 1_700_000_000
    for folder in lake.path.glob("run=npu/step=*/rank=*/*"):
        os.utime(folder, (old, old))
    lake.compact("npu")
    assert layout.unit_folder(lake.path, UnitKey("npu", 1, 2)).stat().st_mtime == old


def test_a_run_that_does_not_exist(lake: Lake) -> None:
    before = files(lake.path)
    with pytest.raises(UsageError, match=r"has no run xpu; it has gpu, npu"):
        lake.compact("xpu")
    assert files(lake.path) == before


def test_values_of_compacted_units_are_mapped(lake: Lake) -> None:
    lake.compact("npu")
    found = lake.sql(
        "SELECT tensor_metrics(reference, reference).cosine FROM tensor_references WHERE run = 'npu' AND rank = 2"
    ).fetchall()
    assert np.allclose(found, 1)
    assert len(found) == 6


@pytest.mark.parametrize("file", ["tensors.parquet", "dumps.parquet", "values-0.parquet"])
@pytest.mark.parametrize("by", ["step", "rank"])
def test_a_unit_that_lacks_a_file_stays_as_it_is(lake: Lake, file: str, by: str) -> None:
    next(lake.path.glob(f"run=npu/step=0/rank=2/*/{file}")).unlink()
    before, found = files(lake.path), lake.check()
    with pytest.raises(LakeError, match=rf"rank=2/.*/{file} is missing, so the run stays as it is"):
        lake.compact("npu", by=by)
    assert files(lake.path) == before
    assert lake.check() == found != []
