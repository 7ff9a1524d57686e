"""What is a lake and what is not, and where the paths of one lead."""

from __future__ import annotations

from pathlib import Path

import pytest
from plain_dumps import files, write_run

from lakeprobe.errors import LakeError
from lakeprobe.ingest import ingest
from lakeprobe.lake import layout, store
from lakeprobe.lake.layout import UnitKey


def refused(path: Path, says: str) -> None:
    for function in (store.create, store.check):
        with pytest.raises(LakeError, match=says) as caught:
            function(path)
        assert caught.value.exit_code == 3
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_new_lake(tmp_path: Path) -> None:
    path = tmp_path / "a" / "lake"
    assert store.create(path) == store.check(path) == store.create(path) == path
    assert (path / "lake.yaml").read_text() == "format: 3\n"
    assert {str(child.relative_to(path)) for child in path.rglob("*")} == {
        "lake.yaml", "log", "log/0000000001.json", ".staging",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("format", "advice"), [(1, "ingest the dumps into a new one"), (4, "install a newer lakeprobe")]
)
def test_a_lake_of_another_format(tmp_path: Path, format: int, advice: str) -> None:
    run = write_run(tmp_path / "gpu", ops=1, steps=1, ranks=1)
    ingest(run, lake=tmp_path / "lake")
    (tmp_path / "lake" / "lake.yaml").write_text(f"format: {format}\n")
    before = files(tmp_path / "lake")
    refused(tmp_path / "lake", f"format {format}, this lakeprobe 3; {advice}")
    with pytest.raises(LakeError, match=f"format {format}"):
        ingest(run, lake=tmp_path / "lake", replace=True)
    assert files(tmp_path / "lake") == before


@pytest.mark.parametrize(
    "content", [b"", b"format", b"[1]", b"{}", b"format: [", b"\xff\xfe", b"other: 1", b"format:\t1: 2"]
)
def test_a_damaged_lake(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lake.yaml").write_bytes(content)
    refused(tmp_path, "lake.yaml is damaged; it should read 'format: 3'")


@pytest.mark.parametrize("content", [b"format: one", b"format: 1.5", b"format:", b"format: 99"])
def test_a_format_that_is_none_of_ours(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lake.yaml").write_bytes(content)
    refused(tmp_path, "has the format")


def test_a_folder_that_is_no_lake(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(LakeError, match="is not a lake and not empty; choose another folder with --lake"):
        store.create(tmp_path)
    with pytest.raises(LakeError, match=r"is not a lake; name one with --lake or \$LAKEPROBE_LAKE, or ingest a dump"):
        store.check(tmp_path)
    assert [child.name for child in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_is_no_lake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file", "lake")
    refused(tmp_path / "file" / "below", "lake")


def test_a_lake_that_was_begun_and_not_finished(tmp_path: Path) -> None:
    (tmp_path / ".staging").mkdir()
    (tmp_path / "log").mkdir()
    (tmp_path / ".staging" / "lake.yaml.0123.01234567-4711-99").write_text("form")
    store.create(tmp_path)
    store.check(tmp_path)


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/job")
    monkeypatch.delenv("LAKEPROBE_LAKE", raising=False)
    assert store.choose(None) == tmp_path / "lake"
    assert store.choose("x") == tmp_path / "x"
    assert store.choose("~/x") == Path("/job/x")
    monkeypatch.setenv("LAKEPROBE_LAKE", "/data/lake")
    assert store.choose(None) == Path("/data/lake")
    assert store.choose("x") == tmp_path / "x"


def test_units_and_runs(tmp_path: Path) -> None:
    for name in ("run=b/step=10/rank=2", "run=b/step=9/rank=11", "run=a b/step=0/rank=0", "run=b/step=x/rank=0",
                 "run=c/step=1", "comparisons/comparison=x", "comparisons/comparison=b",
                 ".staging/x/run=d/step=0/rank=0"):  # fmt: skip
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / ("comparison.yaml" if "comparison" in name else "dumps.parquet")).touch()
    assert layout.units(tmp_path) == [UnitKey("a b", 0, 0), UnitKey("b", 9, 11), UnitKey("b", 10, 2)]
    assert layout.units(tmp_path, "b") == [UnitKey("b", 9, 11), UnitKey("b", 10, 2)]
    assert layout.runs(tmp_path) == ["a b", "b"]
    assert layout.comparisons(tmp_path) == ["b", "x"]
    assert layout.unit_folder(tmp_path, UnitKey("b", 9, 11)) == tmp_path / "run=b" / "step=9" / "rank=11"
