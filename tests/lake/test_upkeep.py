"""Removing, renaming and notes: all or nothing, and never without being asked."""

from __future__ import annotations

import gc
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plain_dumps import write_run

import lakeprobe
from lakeprobe import strict_yaml
from lakeprobe.checks import stored
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import comparison, layout, log, staging
from lakeprobe.schema import arrow_schema
from lakeprobe.session import Lake


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with two runs and their comparison, which tests copy."""
    folder = tmp_path_factory.mktemp("compared")
    with lakeprobe.open(folder / "lake", create=True) as opened:
        for run in ("npu", "gpu"):
            opened.ingest(write_run(folder / run, 2))
        opened.compare("npu", "gpu")
    return folder / "lake"


@pytest.fixture
def lake(tmp_path: Path, compared: Path) -> Lake:
    return lakeprobe.open(shutil.copytree(compared, tmp_path / "lake"))


def test_removing(lake: Lake) -> None:
    lake.rm("npu_vs_gpu")
    assert (lake.runs, lake.comparisons) == (["gpu", "npu"], [])
    with pytest.raises(UsageError, match="has no run or comparison npu_vs_gpu"):
        lake.rm("npu_vs_gpu")
    lake.compare("npu", "gpu")
    lake.rm("npu")
    assert (lake.runs, lake.comparisons) == (["gpu"], ["npu_vs_gpu"])
    assert lake.comparison("npu_vs_gpu").rows.fetchall() != []
    assert lake.sql("SELECT DISTINCT run FROM tensors").fetchall() == [("gpu",)]
    assert [path for path in layout.staging_folder(lake.path).iterdir() if path.is_dir()] == []
    assert not (lake.path / "run=npu").exists()


@pytest.mark.sampled
@pytest.mark.parametrize("act", ["rm", "rename"])
@pytest.mark.parametrize("deed", ["replace", "rm", "rename", "compare"])
def test_what_another_process_did_meanwhile_is_not_lost(
    tmp_path: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch, act: str, deed: str
) -> None:
    dump = write_run(tmp_path / "npu", 3)
    deeds = {
        "replace": lambda: lake.ingest(dump, replace=True),
        "rm": lambda: lake.rm("npu"),
        "rename": lambda: lake.rename("npu", "other"),
        "compare": lambda: lake.compare("npu", "gpu", replace=True),
    }
    publish, state = staging.publish, []

    def late(*arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(staging, "publish", publish)
        deeds[deed]()
        state.append(log.read(lake.path).places)
        publish(*arguments, **options)

    monkeypatch.setattr(staging, "publish", late)
    with pytest.raises(LakeError, match="the run npu was changed by another process meanwhile; try again"):
        lake.rm("npu") if act == "rm" else lake.rename("npu", "cpu")
    assert log.read(lake.path).places == state[0]
    lake.rm("gpu")  # the next writer removes what was kept for a reader
    assert lake.check() == []


def test_a_removal_that_is_interrupted_leaves_all_or_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(lake.path.glob("run=*/**/*"))

    def refuse(path: Path, target: Path) -> None:
        raise OSError(5, "Input/output error", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refuse)
        with pytest.raises(LakeError, match=r"Input/output error; .* is as it was before"):
            lake.rm("npu")
    assert sorted(lake.path.glob("run=*/**/*")) == before
    with monkeypatch.context() as patch:  # killed behind the publication: the files are not deleted
        patch.setattr(staging.shutil, "rmtree", lambda *_, **__: None)
        lake.rm("npu")
    assert lake.runs == ["gpu"]
    assert lake.sql("SELECT DISTINCT run FROM ops").fetchall() == [("gpu",)]


def test_renaming_a_run_takes_its_comparisons_along(lake: Lake) -> None:
    lake.rename("npu", "suspect")
    assert lake.runs == ["gpu", "suspect"]
    stored = comparison.load(lake.path, "npu_vs_gpu")
    assert (stored.target, stored.golden) == ("suspect", "gpu")
    assert lake.comparison("npu_vs_gpu").first_difference() is not None
    lake.rename("npu_vs_gpu", "first")
    assert lake.comparisons == ["first"]
    assert lake.sql("SELECT count(*) > 0 FROM first").fetchall() == [(True,)]
    assert lake.sql("SELECT DISTINCT comparison FROM results").fetchall() == [("first",)]


@pytest.mark.parametrize(
    ("name", "new", "says"),
    [
        ("npu", "gpu", "gpu is the name of a run already"),
        ("npu", "a/b", "'a/b' cannot name a run"),
        ("npu_vs_gpu", "results", "results is the name of a view already"),
        ("npu_vs_gpu", "NPU", "NPU is the name of a run already"),
        ("nothing", "new", "has no run or comparison nothing"),
    ],
)
def test_names_that_do_not_go(lake: Lake, name: str, new: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        lake.rename(name, new)
    assert (lake.runs, lake.comparisons) == (["gpu", "npu"], ["npu_vs_gpu"])


def test_notes(lake: Lake) -> None:
    assert lake.note("npu") == ""
    assert lake.note("npu", "after the driver update") == "after the driver update"
    assert lake.note("npu_vs_gpu", "looked at") == "looked at"
    lake.compare("npu", "gpu")
    assert lake.note("npu_vs_gpu") == "looked at"
    lake.rename("npu", "suspect")
    assert lake.note("suspect") == "after the driver update"
    assert lake.note("suspect", "") == ""
    assert not layout.note_file(lake.path, "run=suspect").exists()


def test_a_noise_is_listed_renamed_and_removed(lake: Lake) -> None:
    lake.measure_noise("npu", "gpu", name="apart")
    lake.compare("gpu", "npu", noise="apart", name="weighed")
    assert re.search(r"^noise +apart$", lake.ls(), re.MULTILINE)
    lake.rename("apart", "rounding")
    assert re.search(r"^noise +rounding$", lake.ls(), re.MULTILINE)
    assert lake.comparison("weighed").stored.noise == "rounding"
    lake.rename("npu", "suspect")
    assert lake.sql("select distinct noise, golden from noise").fetchall() == [("rounding", "suspect")]
    lake.rm("rounding")
    assert (lake.sql("from noise").fetchall(), "rounding" in lake.ls()) == ([], False)
    assert lake.sql("select count(*) > 0 from results where comparison = 'weighed'").fetchall() == [(True,)]


def test_a_noise_goes_with_the_run_that_it_was_measured_of(lake: Lake) -> None:
    lake.measure_noise("npu", "gpu", name="apart")
    lake.rm("gpu")  # a repeat
    assert lake.sql("select count(*) > 0 from noise").fetchall() == [(True,)]
    lake.rm("npu")
    assert lake.sql("from noise").fetchall() == []


class Killed(BaseException):
    """Stands for a process that ends here."""


CHANGES = ("rename", "replace", "unlink", "mkdir", "touch", "write_text")
"""What changes a lake while a run is renamed."""


@pytest.mark.parametrize("name", ["npu", "npu_vs_gpu"])
def test_a_rename_that_is_killed_anywhere_leaves_one_name(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    lake.measure_noise("npu", "gpu", name="apart")
    gc.collect()  # a lake of another test that is closed meanwhile would be struck
    usual = {change: getattr(Path, change) for change in CHANGES}
    is_done, moment = False, -1
    while not is_done:
        old, new = (name, "suspect") if name in (*lake.runs, *lake.comparisons) else ("suspect", name)
        moment += 2  # every other moment; tests/faults strikes all of them
        left = moment
        with monkeypatch.context() as patch:
            for change in CHANGES:

                def counted(path: Path, *to: Path, _change: str = change, **how: Any) -> Any:
                    nonlocal left
                    left -= 1
                    if left == 0:
                        raise Killed
                    return usual[_change](path, *to, **how)

                patch.setattr(Path, change, counted)
            try:
                lake.rename(old, new)
                is_done = True
            except Killed:
                pass
            except LakeError:  # killed where it removes what is left over
                pass
        names = names_of(lake.path)
        assert names in (expected(name, old), expected(name, new)), moment
    assert moment > (5 if name == "npu" else 1)


def names_of(path: Path) -> tuple[list[str], list[tuple[str, str, str]], set[str]]:
    """The runs, the comparisons with their sides, and whose noise is there, for one who opens the lake now."""
    with lakeprobe.open(path, create=True) as opened:
        stored = [comparison.load(path, name) for name in opened.comparisons]
        noise = log.read(path).files("noise/", lambda name: name == layout.NOISE_FILE)
        golden = {name for file in noise for name in pq.read_table(file, columns=["golden"])["golden"].to_pylist()}
        return opened.runs, [(one.name, one.target, one.golden) for one in stored], golden


def expected(what: str, name: str) -> tuple[list[str], list[tuple[str, str, str]], set[str]]:
    run, first = (name, "npu_vs_gpu") if what == "npu" else ("npu", name)
    sides = sorted([(first, run, "gpu"), ("apart_gpu", "gpu", run)])
    return sorted(["gpu", run]), sides, {run}


def test_a_rename_that_the_system_refuses_changes_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, target: Path) -> None:
        raise OSError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        with pytest.raises(LakeError, match=r"Permission denied; .* is as it was before"):
            lake.rename("npu", "suspect")
    with lakeprobe.open(lake.path, create=True) as again:
        assert again.runs == ["gpu", "npu"]
        assert comparison.load(lake.path, "npu_vs_gpu").target == "npu"


def test_what_cannot_be_read_now_stops_a_rename(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison would keep the old name of its side."""

    def refuse(path: Path) -> None:
        raise OSError(5, "Input/output error", str(path))

    usual = strict_yaml.read_record

    def refuse_comparisons(path: Path) -> Any:
        return refuse(path) if path.name == "comparison.yaml" else usual(path)

    with monkeypatch.context() as patch:
        patch.setattr(strict_yaml, "read_record", refuse_comparisons)
        with pytest.raises(LakeError, match=r"comparison\.yaml: Input/output error; nothing was changed"):
            lake.rename("npu", "suspect")
    check_rows(lake, "own", "verifications", layout.verification_name("npu"), "npu")
    with monkeypatch.context() as patch:
        patch.setattr(pq, "ParquetFile", refuse)
        for act in (lambda: lake.rename("npu", "suspect"), lambda: lake.rm("npu")):
            with pytest.raises(LakeError, match=r"verifications\.parquet: Input/output error; nothing was changed"):
                act()
    assert lake.runs == ["gpu", "npu"]
    lake.rename("npu", "suspect")
    assert comparison.load(lake.path, "npu_vs_gpu").target == "suspect"


def check_rows(lake: Lake, name: str, table: str, thing: str, run: str) -> None:
    """Put a verification or a perturbation of one row into the lake."""
    schema = arrow_schema(table)
    row = dict.fromkeys(schema.names) | {"place": 0, "run": run, "step": 0, "rank": 0, "op": name}
    stored.publish(lake.path, table, thing, pa.Table.from_pylist([row], schema=schema))


def names(lake: Lake, table: str) -> list[tuple[Any, ...]]:
    kind = table.removesuffix("s")
    return lake.sql(f"SELECT {kind}, run, op FROM {table} ORDER BY ALL").fetchall()


def test_what_belongs_to_a_run_shares_its_fate(lake: Lake, tmp_path: Path) -> None:
    for run in ("npu.preflight", "npu.weights"):
        lake.ingest(write_run(tmp_path / run, 1), run=run)
    check_rows(lake, "own", "verifications", layout.verification_name("npu"), "npu")
    check_rows(lake, "named", "verifications", layout.verification_name("on_npu"), "npu")
    check_rows(lake, "other", "verifications", layout.verification_name("gpu"), "gpu")
    live = layout.live_perturbation_name(layout.UnitKey("npu", 3, 0))
    check_rows(lake, "live", "perturbations", live, "npu")
    lake.rename("npu", "suspect")
    assert set(lake.runs) == {"gpu", "suspect", "suspect.preflight", "suspect.weights"}
    moved = [("gpu", "gpu", "other"), ("on_npu", "suspect", "named"), ("suspect", "suspect", "own")]
    assert names(lake, "verifications") == moved
    assert names(lake, "perturbations") == [("suspect", "suspect", "live")]
    lake.rename("on_npu", "second")
    assert names(lake, "verifications")[1] == ("second", "suspect", "named")
    lake.rm("second")
    lake.rm("suspect")
    assert lake.runs == ["gpu"]
    assert names(lake, "verifications") == [("gpu", "gpu", "other")]
    assert names(lake, "perturbations") == []


def test_a_follower_takes_no_other_name(lake: Lake) -> None:
    check_rows(lake, "own", "verifications", layout.verification_name("npu"), "npu")
    check_rows(lake, "other", "verifications", layout.verification_name("suspect"), "gpu")
    with pytest.raises(UsageError, match="the lake has verifications/verification=suspect already"):
        lake.rename("npu", "suspect")
    assert lake.runs == ["gpu", "npu"]


def test_a_perturbation_replaces_the_live_one_of_its_name(lake: Lake) -> None:
    check_rows(lake, "live", "perturbations", layout.live_perturbation_name(layout.UnitKey("npu", 0, 0)), "npu")
    check_rows(lake, "later", "perturbations", layout.perturbation_name("npu"), "npu")
    assert names(lake, "perturbations") == [("npu", "npu", "later")]
