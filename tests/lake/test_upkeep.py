"""Removing, renaming and notes: all or nothing, and never without being asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from plain_dumps import write_run

import lakeprobe
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import comparison, layout, staging, upkeep
from lakeprobe.session import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    opened = lakeprobe.open(tmp_path / "lake")
    for run in ("npu", "gpu"):
        opened.ingest(write_run(tmp_path / run, 2))
    opened.compare("npu", "gpu")
    return opened


def test_removing(lake: Lake) -> None:
    lake.rm("npu_vs_gpu")
    assert (lake.runs, lake.comparisons) == (["gpu", "npu"], [])
    with pytest.raises(UsageError, match="npu_vs_gpu is neither a run nor a comparison"):
        lake.rm("npu_vs_gpu")
    lake.compare("npu", "gpu")
    lake.rm("npu")
    assert (lake.runs, lake.comparisons) == (["gpu"], ["npu_vs_gpu"])
    assert lake.comparison("npu_vs_gpu").rows.fetchall() != []
    assert lake.sql("SELECT DISTINCT run FROM tensors").fetchall() == [("gpu",)]
    assert [path for path in layout.staging_folder(lake.path).iterdir() if path.is_dir()] == []


def test_a_removal_that_is_interrupted_leaves_all_or_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(lake.path.glob("run=*/**/*"))

    def refuse(path: Path, target: Path) -> None:
        raise OSError(5, "Input/output error", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        with pytest.raises(LakeError, match=r"Input/output error; .* is as it was before"):
            lake.rm("npu")
    assert sorted(lake.path.glob("run=*/**/*")) == before
    with monkeypatch.context() as patch:  # killed behind the rename: the files are not deleted
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
        ("nothing", "new", "nothing is neither a run nor a comparison"),
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
    assert not (layout.run_folder(lake.path, "suspect") / upkeep.NOTE_FILE).exists()
