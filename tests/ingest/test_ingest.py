"""Ingest: what lies in the lake afterwards, seen by other tools; and what reading again does."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tensor_dumps import OP, files, leaf, query, snapshot, table, write_dump

from lakeprobe.errors import DumpError, LakeError, UsageError
from lakeprobe.ingest import IngestReport, ingest, unit
from lakeprobe.ingest.unit import fingerprint_of
from lakeprobe.lake import layout
from lakeprobe.lake.layout import UnitKey
from lakeprobe.readers.source import Source
from lakeprobe.schema import UNIT_TABLES, arrow_schema
from lakeprobe.tensors import TensorReference, read_tensor

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([True, False])


@pytest.fixture
def gpu(tmp_path: Path) -> Path:
    """Two steps of two ranks."""
    for step in (0, 10):
        for rank in (0, 1):
            write_dump(tmp_path / "gpu" / f"step{step}" / f"rank{rank}", {"a.npy": A + rank, "b.npy": B})
    return tmp_path / "gpu"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def units(report: IngestReport) -> list[tuple[str, int, int]]:
    return [(unit.key.run, unit.key.step, unit.key.rank) for unit in report.units]


# ---- layout -----------------------------------------------------------------------------------------------


def test_any_tool_reads_the_units(gpu: Path, lake: Path) -> None:
    report = ingest(gpu, lake=lake)
    assert units(report) == [("gpu", 0, 0), ("gpu", 0, 1), ("gpu", 10, 0), ("gpu", 10, 1)]
    assert (report.run, len(report.read), report.notes) == ("gpu", 4, [])
    rows = query(f"SELECT run, step, rank, name, kind, dtype FROM {table(lake, 'tensors')} ORDER BY ALL")
    names = [f"{OP}.input.0", f"{OP}.input.1", f"{OP}.output.0"]
    assert rows == [("gpu", s, r, name, "tensor", "Float32") for s in (0, 10) for r in (0, 1) for name in names]
    ops = query(f"SELECT step, rank, seq, op, kind, call, stack FROM {table(lake, 'ops')} ORDER BY ALL")
    assert ops == [(s, r, 0, OP, "api", 0, 0) for s in (0, 10) for r in (0, 1)]
    assert query(f"SELECT DISTINCT stack, frames FROM {table(lake, 'stacks')}") == [
        (0, ["File a.py, line 1, in f, \n x"])
    ]
    assert query(f"SELECT DISTINCT file FROM {table(lake, 'contents')}") == [("values-0.parquet",)]
    assert {path.name for path in lake.iterdir()} == {"lake.yaml", "log", "run=gpu", ".staging"}
    assert (lake / "lake.yaml").read_text() == "format: 3\n"
    assert list((lake / ".staging").iterdir()) == []


def test_files_have_the_columns_of_their_schemas(gpu: Path, lake: Path) -> None:
    ingest(gpu, lake=lake)
    unit = layout.unit_folder(lake, UnitKey("gpu", 10, 1))
    assert {path.stem.partition("-")[0] for path in unit.iterdir()} == set(UNIT_TABLES)
    # Columns of values are never NULL, and Parquet itself has no texts and bytes with offsets of 64 bits.
    values = [pa.field("content", pa.string(), nullable=False), pa.field("data", pa.binary(), nullable=False)]
    for path in unit.iterdir():
        name = path.stem.partition("-")[0]
        assert pq.read_schema(path).equals(pa.schema(values) if name == "values" else arrow_schema(name)), path


def test_the_dumps_row(gpu: Path, lake: Path) -> None:
    ingest(gpu, lake=lake)
    folder = gpu / "step10" / "rank1"
    ((row,),) = query(f"SELECT d FROM {table(lake, 'dumps')} d WHERE step = 10 AND rank = 1")
    size = sum((folder / name).stat().st_size for name in ("dump.json", "stack.json", "construct.json"))
    expected = {
        "framework": "mindspore", "task": "tensor", "level": "L1", "ops": 1, "tensor_rows": 3, "digests": 0, "files": 2,
        "unreadable": 0, "contents": 2, "content_bytes": 24 + 2, "dump_bytes": size, "tensor_storage": "copy",
        "source": str(gpu), "notes": [],
    }  # fmt: skip
    assert {key: row[key] for key in expected} == expected
    assert json.loads(row["head"])["dump_data_dir"] == "/elsewhere"


@pytest.mark.parametrize("run", ["a b", "größe+1", "v1.2-x_y", "张量", "0"])
def test_names_of_runs(tmp_path: Path, lake: Path, run: str) -> None:
    write_dump(tmp_path / "dump")
    ingest(tmp_path / "dump", lake=lake, run=run)
    assert query(f"SELECT DISTINCT run::VARCHAR FROM {table(lake, 'ops')}") == [(run,)]


@pytest.mark.parametrize("run", ["a/b", "..", ".a", "a=b", "a%20b", "x" * 201, "a\n", "*", "-x", "--help", "a-"])
def test_names_that_are_refused(tmp_path: Path, lake: Path, run: str) -> None:
    with pytest.raises(UsageError, match="cannot name a run"):
        ingest(write_dump(tmp_path / "dump"), lake=lake, run=run)
    assert not lake.exists()


@pytest.mark.parametrize(("folder", "run"), [
    ("exp lr=1e-3", "exp lr_1e-3"), ("npu@2024", "npu_2024"), ("a,b(1)", "a_b_1_"), (".hid", "_hid"), ("-x", "_x"),
    ("x.", "x_"), ("=", "_"), ("x" * 210, "x" * 200),
])  # fmt: skip
def test_folders_that_no_run_can_be_called_like(tmp_path: Path, lake: Path, folder: str, run: str) -> None:
    report = ingest(write_dump(tmp_path / folder), lake=lake)
    assert report.run == run
    assert report.notes == [f"{tmp_path / folder} is the run {run}: a name has {layout.NAME_RULE}"]
    assert ingest(tmp_path / folder, lake=lake).read == ()
    assert layout.check_name(run, "run") == run


def test_two_folders_never_become_one_run(tmp_path: Path, lake: Path) -> None:
    """Not even with other ranks, which would share a run."""
    write_dump(tmp_path / "a,b" / "step0" / "rank0")
    write_dump(tmp_path / "a_b" / "step0" / "rank1")
    with pytest.raises(
        UsageError, match=r"a,b and .*a_b would both be the run a_b; ingest them one by one, with --run"
    ):
        ingest(tmp_path, lake=lake)
    assert not lake.exists()
    ingest(tmp_path / "a_b", lake=lake)
    with pytest.raises(UsageError, match=r"a,b would be the run a_b, which .*lake has from .*a_b; give it another"):
        ingest(tmp_path / "a,b", lake=lake)
    ingest(tmp_path / "a,b", lake=lake, run="other")
    assert [(key.run, key.rank) for key in layout.units(lake)] == [("a_b", 1), ("other", 0)]


def test_the_lake_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dump(tmp_path / "dump")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEPROBE_LAKE", raising=False)
    ingest("dump")
    assert layout.runs(tmp_path / "lake") == ["dump"]
    monkeypatch.setenv("LAKEPROBE_LAKE", str(tmp_path / "other"))
    ingest("dump")
    assert (tmp_path / "other" / "run=dump").is_dir()


# ---- again ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tensors", ["copy", "link", "none"])
def test_again_is_a_no_op(gpu: Path, lake: Path, tensors: str) -> None:
    ingest(gpu, lake=lake, tensors=tensors)
    before = snapshot(lake)
    report = ingest(gpu, lake=lake, tensors=tensors)
    assert len(report.units) == 4
    assert report.read == ()
    assert snapshot(lake) == before


def test_a_new_step_is_added_beside_the_old_ones(gpu: Path, lake: Path) -> None:
    ingest(gpu, lake=lake)
    before = snapshot(lake)
    write_dump(gpu / "step11" / "rank0")
    report = ingest(gpu, lake=lake)
    assert [(unit.key.step, unit.key.rank) for unit in report.read] == [(11, 0)]
    after = {path: state for path, state in snapshot(lake).items() if "step=11" not in path}
    assert {path: after[path] for path in before} == before
    assert [path for path in after if path not in before] == ["log/0000000003.json"]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "change",
    [
        lambda folder: write_dump(folder, {"a.npy": A, "b.npy": B}, {}),
        lambda folder: (folder / "stack.json").unlink(),
        lambda folder: np.save(folder / "dump_tensor_data" / "a.npy", A[:1]),
        lambda folder: np.save(folder / "dump_tensor_data" / "c.npy", A),
        lambda folder: os.utime(folder / "dump_tensor_data" / "a.npy", ns=(1, 1)),
    ],
)
def test_a_changed_dump_is_refused_unless_replaced(gpu: Path, lake: Path, change: object) -> None:
    ingest(gpu, lake=lake)
    before = snapshot(lake)
    change(gpu / "step10" / "rank0")  # type: ignore[operator]
    with pytest.raises(LakeError, match="--replace") as caught:
        ingest(gpu, lake=lake)
    assert "run gpu step 10 rank 0" in str(caught.value)
    assert snapshot(lake) == before
    report = ingest(gpu, lake=lake, replace=True)
    assert len(report.read) == 4
    fresh = lake.with_name("fresh")
    ingest(gpu, lake=fresh)
    assert files(lake) == files(fresh)


def test_another_storage_is_refused_unless_replaced(gpu: Path, lake: Path) -> None:
    ingest(gpu, lake=lake, tensors="none")
    before = snapshot(lake)
    with pytest.raises(LakeError, match="--replace"):
        ingest(gpu, lake=lake, tensors="copy")
    assert snapshot(lake) == before
    ingest(gpu, lake=lake, tensors="copy", replace=True)
    assert query(f"SELECT DISTINCT tensor_storage FROM {table(lake, 'dumps')}") == [("copy",)]
    assert list((lake / ".staging").iterdir()) == []


@pytest.mark.parametrize("damage", ["missing", "short", "empty"])
def test_a_damaged_unit_is_refused_unless_replaced(gpu: Path, lake: Path, damage: str) -> None:
    ingest(gpu, lake=lake)
    whole = files(lake)
    path = layout.unit_folder(lake, UnitKey("gpu", 0, 0)) / "dumps.parquet"
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[:200] if damage == "short" else b"")
    with pytest.raises(LakeError, match=r"dumps\.parquet is missing or damaged; .*--replace"):
        ingest(gpu, lake=lake)
    ingest(gpu, lake=lake, replace=True)
    assert files(lake) == whole


def test_little_memory_is_no_damage(gpu: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    ingest(gpu, lake=lake)
    monkeypatch.setattr(pq, "ParquetFile", no_memory)
    with pytest.raises(MemoryError):
        ingest(gpu, lake=lake)


def test_a_moved_dump_is_the_same_dump(gpu: Path, lake: Path) -> None:
    ingest(gpu, lake=lake)
    moved = gpu.rename(gpu.with_name("elsewhere"))
    assert ingest(moved, lake=lake, run="gpu").read == ()


# ---- the same for any number of workers -------------------------------------------------------------------


def test_jobs_do_not_show(gpu: Path, lake: Path) -> None:
    seen: dict[int, list[tuple[int, int]]] = {1: [], 2: []}
    for jobs in (1, 2):
        report = ingest(
            gpu, lake=lake / str(jobs), jobs=jobs, progress=lambda done, of, jobs=jobs: seen[jobs].append((done, of))
        )
        assert units(report) == [("gpu", 0, 0), ("gpu", 0, 1), ("gpu", 10, 0), ("gpu", 10, 1)]
    assert files(lake / "1") == files(lake / "2")
    assert len(files(lake / "1")) == 1 + 4 * len(UNIT_TABLES)
    assert seen[1] == seen[2] == [(done, 4) for done in range(5)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_one_bad_dump_and_none_is_put_in_place(gpu: Path, lake: Path, jobs: int) -> None:
    write_dump(lake.with_name("other"))
    ingest(lake.with_name("other"), lake=lake)
    before = snapshot(lake)
    bad = gpu / "step10" / "rank1" / "dump.json"
    bad.write_bytes(bad.read_bytes()[:-20])
    with pytest.raises(DumpError, match="truncated") as caught:
        ingest(gpu, lake=lake, jobs=jobs)
    assert str(bad) in str(caught.value)
    assert snapshot(lake) == before
    assert list((lake / ".staging").iterdir()) == []


# ---- a dump that is written while it is read --------------------------------------------------------------


def overwritten(path: Path, old: bytes, new: bytes) -> None:
    """Write into the file `path`, which keeps its inode, as a program does that dumps again."""
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


@pytest.mark.parametrize(("old", "new"), [(b'"Norm": 1.0', b'"Norm": 9.0'), (b'"Norm": 1.0', b'"Norm":')])
def test_a_dump_that_changes_while_it_is_read(
    gpu: Path, lake: Path, monkeypatch: pytest.MonkeyPatch, old: bytes, new: bytes
) -> None:
    """Whatever is read of it, a whole dump or half of one, is not in the lake."""
    ingest(write_dump(lake.with_name("other")), lake=lake)
    before = snapshot(lake)
    changing = gpu / "step10" / "rank0" / "dump.json"

    def hashed_before(sources: tuple[Source, ...], tensors: str) -> str:
        fingerprint = fingerprint_of(sources, tensors)
        if changing in sources[0].files:
            overwritten(changing, old, new)
        return fingerprint

    with monkeypatch.context() as patch:
        patch.setattr(unit, "fingerprint_of", hashed_before)
        with pytest.raises(DumpError) as caught:
            ingest(gpu, lake=lake)
    message = f"{changing} changed while it was read; wait until it is written, and read it again"
    assert (str(caught.value), caught.value.exit_code) == (message, 2)
    assert snapshot(lake) == before
    assert list((lake / ".staging").iterdir()) == []
    if new != b'"Norm":':
        assert len(ingest(gpu, lake=lake).read) == 4


@pytest.mark.parametrize("storage", ["copy", "link"])
def test_a_tensor_file_that_changes_while_the_dump_is_read(
    gpu: Path, lake: Path, monkeypatch: pytest.MonkeyPatch, storage: str
) -> None:
    changing = gpu / "step0" / "rank1" / "dump_tensor_data" / "a.npy"
    bystander = changing.with_name("training.log")  # which the dump does not name
    bystander.write_text("")

    def read_before(path: Path) -> TensorReference:
        reference = read_tensor(path)
        if path.name == "b.npy" and path.parent == changing.parent:
            np.save(changing, A + 7)
        bystander.write_text(str(path))
        return reference

    with monkeypatch.context() as patch:
        patch.setattr("lakeprobe.tensors.read_tensor", read_before)
        with pytest.raises(DumpError) as caught:
            ingest(gpu, lake=lake, tensors=storage)
    assert str(caught.value) == f"{changing} changed while it was read; wait until it is written, and read it again"
    assert layout.runs(lake) == []
    assert len(ingest(gpu, lake=lake, tensors=storage).read) == 4


# ---- notes and refusals -----------------------------------------------------------------------------------


def test_notes_name_the_unit(tmp_path: Path, lake: Path) -> None:
    folder = write_dump(tmp_path / "gpu" / "step3" / "proc77", {"a.npy": A})
    (folder / "stack.json").unlink()
    report = ingest(tmp_path / "gpu", lake=lake, tensors="none")
    assert report.notes == [
        "run gpu step 3 rank 0: stack.json is missing",
        "run gpu step 3 rank 0: the dump does not record its rank (proc77); taken as rank 0",
        "run gpu step 3 rank 0: 1 tensor files were left out (--tensors none)",
    ]
    assert query(f"SELECT notes FROM {table(lake, 'dumps')}") == [([note.split(": ", 1)[1] for note in report.notes],)]


def test_an_unknown_storage(gpu: Path, lake: Path) -> None:
    with pytest.raises(UsageError, match="--tensors move does not exist; use one of copy, link, none"):
        ingest(gpu, lake=lake, tensors="move")


def test_no_dump_leaves_no_lake(tmp_path: Path, lake: Path) -> None:
    with pytest.raises(DumpError, match="holds no dump"):
        ingest(tmp_path, lake=lake)
    assert not lake.exists()


def test_a_data_name_that_leaves_its_folder(tmp_path: Path, lake: Path) -> None:
    ingest(write_dump(tmp_path / "good"), lake=lake)
    before = snapshot(lake)
    np.save(tmp_path / "secret.npy", A)
    for name in ("../../secret.npy", str(tmp_path / "secret.npy"), "..\\secret.npy", ".."):
        bad = write_dump(tmp_path / "bad", data={OP: {"input_args": [leaf(name)]}})
        with pytest.raises(DumpError, match="data_name") as caught:
            ingest(bad, lake=lake)
        assert f"{OP}.input.0" in str(caught.value)
        assert snapshot(lake) == before
    shutil.rmtree(tmp_path / "bad")
