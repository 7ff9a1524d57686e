"""Where an export writes, what it refuses, and that nothing half written is ever left."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from round_trips import data_names, load
from typer.testing import CliRunner

from lakeprobe.commands.export import export as command
from lakeprobe.errors import LakeError, TensorError, UsageError
from lakeprobe.export import export
from lakeprobe.ingest import ingest
from lakeprobe.lake import layout
from lakeprobe.lake.layout import UnitKey
from lakeprobe.readers.locate import locate
from lakeprobe.tensors import content_hash, read_tensor

DATA = Path(__file__).parents[1] / "data"
OP = "Torch.add.0.forward"


def write_run(root: Path, parts: tuple[str, ...] = ("",), steps: int = 2, ranks: int = 2) -> Path:
    """A run with one tensor of its own in each dump."""
    for part in parts:
        for step in range(steps):
            for rank in range(ranks):
                folder = root / part / f"step{step}" / f"rank{rank}"
                (folder / "dump_tensor_data").mkdir(parents=True)
                leaf = {"type": "mindspore.Tensor", "dtype": "Int64", "shape": [3], "data_name": "a.npy"}
                head = {"task": "tensor", "level": "L1", "framework": "mindspore", "dump_data_dir": part}
                text = json.dumps(head | {"data": {OP: {"input_args": [leaf]}}}, indent=1)
                (folder / "dump.json").write_text(text)
                np.save(folder / "dump_tensor_data" / "a.npy", np.array([len(part), step, rank]))
    return root


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    ingest(write_run(tmp_path / "run"), lake=tmp_path / "lake")
    return tmp_path / "lake"


# ---- where ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [("",), ("graph", "pynative")], ids=["one", "mixed"])
@pytest.mark.parametrize("tensors", ["copy", "link"])
def test_a_folder_per_part_step_and_rank(parts: tuple[str, ...], tensors: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", parts)
    ingest(run, lake=tmp_path / "lake", tensors=tensors)
    report = export(tmp_path / "lake", "run", tmp_path / "out")
    before, after = files(run), files(tmp_path / "out")
    side = {f"{Path(name).parent}/{other}" for name in before for other in ("stack.json", "construct.json")
            if name.endswith("dump.json")}  # fmt: skip
    assert set(after) - side == set(before)
    assert {name: after[name] for name in before} == before
    assert [unit.key for unit in report.units] == layout.units(tmp_path / "lake")
    assert sum(unit.tensor_files for unit in report.units) == len(parts) * 4


def test_only_what_is_asked_for(lake: Path, tmp_path: Path) -> None:
    report = export(lake, "run", tmp_path / "out", steps=[1], ranks=[0])
    assert [unit.key for unit in report.units] == [UnitKey("run", 1, 0)]
    assert {path.parent.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("dump.json")} == {
        "step1/rank0"
    }


def test_processes_share_the_work(lake: Path, tmp_path: Path) -> None:
    export(lake, "run", tmp_path / "one")
    export(lake, "run", tmp_path / "two", jobs=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_debug_points_beside_a_dump(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=1, ranks=1) / "step0" / "rank0"
    points = {"task": "tensor", "level": "debug", "framework": "mindspore", "dump_data_dir": None, "data": {
        "loss.0.debug": {"type": "float", "value": 0.5}, "loss_grad.0.debug": None, "pair.0.debug": [None, []],
    }}  # fmt: skip
    (folder / "debug.json").write_text(json.dumps(points, indent=1))
    ingest(tmp_path / "run", lake=tmp_path / "lake")
    export(tmp_path / "lake", "run", tmp_path / "out")
    exported = tmp_path / "out" / "step0" / "rank0"
    assert load(exported / "debug.json") == points
    assert load(exported / "dump.json") == load(folder / "dump.json")


# ---- what is refused, and what is left --------------------------------------------------------------------


def test_what_is_not_there(lake: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no run walk; it has run"):
        export(lake, "walk", tmp_path / "out")
    with pytest.raises(UsageError, match=r"no such step and rank; it has \(step, rank\) \(0, 0\), \(0, 1\)"):
        export(lake, "run", tmp_path / "out", steps=[7])
    assert not (tmp_path / "out").exists()


def test_a_folder_with_files_is_left_alone(lake: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    export(lake, "run", out)  # empty: fine
    (out / "step0" / "rank0" / "dump.json").write_text("mine")
    before = files(out)
    with pytest.raises(UsageError, match="is not empty; choose another folder, or --replace"):
        export(lake, "run", out)
    assert files(out) == before
    export(lake, "run", out, steps=[1], replace=True)
    assert sorted(path.name for path in out.iterdir()) == ["step1"]
    (out / "notes.txt").write_text("mine")
    before = files(out)
    with pytest.raises(UsageError, match=r"notes\.txt is not a file of an export, so .* is not replaced"):
        export(lake, "run", out, replace=True)
    assert files(out) == before


def test_neither_a_file_nor_the_lake_nor_the_dump_is_overwritten(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="is a file; name a folder"):
        export(lake, "run", tmp_path / "file", replace=True)
    with pytest.raises(UsageError, match="is in the lake"):
        export(lake, "run", lake / "out")
    before = files(tmp_path / "run")
    for place in ("run", "run/step0"):
        with pytest.raises(UsageError, match=r"is where run .* was read from"):
            export(lake, "run", tmp_path / place, replace=True)
    assert files(tmp_path / "run") == before


@pytest.mark.parametrize("replace", [False, True])
def test_a_failure_leaves_what_was_there(replace: bool, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    ingest(run, lake=tmp_path / "lake", tensors="link")
    if replace:
        export(tmp_path / "lake", "run", tmp_path / "out")
    before = files(tmp_path / "out") if replace else {}
    (run / "step1" / "rank1" / "dump_tensor_data" / "a.npy").unlink()
    with pytest.raises(TensorError, match=r"cannot open .*a\.npy"):
        export(tmp_path / "lake", "run", tmp_path / "out", replace=replace)
    assert (files(tmp_path / "out") if replace else {}) == before
    assert (tmp_path / "out").exists() == replace
    assert not list(tmp_path.glob(".out*"))


def test_damaged_unit(lake: Path, tmp_path: Path) -> None:
    unit = layout.unit_folder(lake, UnitKey("run", 0, 0))
    (unit / "tensors.parquet").write_bytes(b"PAR1")
    with pytest.raises(LakeError, match=r"tensors\.parquet is missing or damaged; read the dump again with --replace"):
        export(lake, "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_lake_from_elsewhere_cannot_write_outside(lake: Path, tmp_path: Path) -> None:
    path = layout.unit_folder(lake, UnitKey("run", 0, 0)) / "tensors.parquet"
    rows = pq.ParquetFile(path).read()
    named = pa.array(["../../../../mine.npy"] * len(rows))
    pq.write_table(rows.set_column(rows.column_names.index("data_name"), "data_name", named), path)
    with pytest.raises(LakeError, match=r"data_name '\.\./\.\./\.\./\.\./mine\.npy', which is not a file name"):
        export(lake, "run", tmp_path / "out")
    assert not list(tmp_path.rglob("mine.npy"))


def test_a_place_that_cannot_be_written(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(LakeError, match="nothing was exported"):
        export(lake, "run", tmp_path / "file" / "out")


# ---- other tools' dumps -----------------------------------------------------------------------------------


def test_ptdbg(tmp_path: Path) -> None:
    """Ops keep their names, tensors become .pt under msprobe's names; what was not dumped is null in its place."""
    with tarfile.open(DATA / "ptdbg" / "pair.tar.xz") as archive:
        archive.extractall(tmp_path / "pair", filter="data")
    [run] = (run for run in locate(tmp_path / "pair").runs if run.sources[0].format == "ptdbg dump")
    ingest(run.root, lake=tmp_path / "lake", run="run")
    report = export(tmp_path / "lake", "run", tmp_path / "out")
    assert "this is a ptdbg dump; files have msprobe's names" in report.notes[0]
    exported = tmp_path / "out" / "step0" / "rank0"
    dump = load(exported / "dump.json")
    assert (dump["task"], dump["level"], dump["framework"]) == ("tensor", "L1", "pytorch")
    names = data_names(dump)
    assert names == {file.name for file in (exported / "dump_tensor_data").iterdir()}
    assert all(file.endswith(".pt") for file in names)
    places = {
        leaf["data_name"]: f"{op}.input.{place}.pt"
        for op, body in dump["data"].items()
        for place, leaf in enumerate(body.get("input_args") or [])
        if leaf and "data_name" in leaf
    }
    assert list(places) == list(places.values())
    assert any(None in body.get("input_args", []) for body in dump["data"].values())
    before, after = (
        {content_hash(read_tensor(path)) for path in folder.rglob(pattern)}
        for folder, pattern in ((run.root, "*.npy"), (exported, "*.pt"))
    )
    assert after <= before


def test_saved_values_are_debug_points(tmp_path: Path) -> None:
    """SingleSave names the file of each micro step alike; here each has a name, and its content."""
    root = DATA / "single_save" / "golden"
    ingest(root, lake=tmp_path / "lake", run="saved")
    report = export(tmp_path / "lake", "saved", tmp_path / "out")
    before = {content_hash(read_tensor(path)) for path in root.rglob("*.npy")}
    after = {content_hash(read_tensor(path)) for path in (tmp_path / "out").rglob("dump_tensor_data/*")}
    assert after == before
    for path in (tmp_path / "out").rglob("debug.json"):
        dump = load(path)
        assert dump["level"] == "debug"
        assert data_names(dump) == {file.name for file in (path.parent / "dump_tensor_data").iterdir()}
    assert not list((tmp_path / "out").rglob("stack.json"))
    assert all(unit.absent == 0 for unit in report.units)


def test_a_folder_of_tensors_is_debug_points(tmp_path: Path) -> None:
    (tmp_path / "run" / "inner").mkdir(parents=True)
    np.save(tmp_path / "run" / "x.npy", np.arange(4))
    np.save(tmp_path / "run" / "inner" / "x.npy", np.arange(5))
    ingest(tmp_path / "run", lake=tmp_path / "lake", run="run")
    export(tmp_path / "lake", "run", tmp_path / "out")
    found = {path.parent.relative_to(tmp_path / "out").as_posix(): load(path)
             for path in (tmp_path / "out").rglob("debug.json")}  # fmt: skip
    assert sorted(found) == ["inner/step0/rank0", "step0/rank0"]
    [leaf] = found["inner/step0/rank0"]["data"].values()
    assert (leaf["shape"], leaf["Max"]) == ([5], 4)


def test_kernels_have_no_form_there(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    name = "Add.Default_Add-op0.0.0.1700000000000000.output.0.DefaultFormat.Float32.npy"
    np.save(tmp_path / "run" / name, np.zeros(3, np.float32))
    ingest(tmp_path / "run", lake=tmp_path / "lake", run="kernels")
    with pytest.raises(UsageError, match="kernels have no form in msprobe's dumps, so it cannot be exported"):
        export(tmp_path / "lake", "kernels", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# ---- the command ------------------------------------------------------------------------------------------


def run_command(*words: Any) -> Any:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_command(lake: Path, tmp_path: Path) -> None:
    done = run_command("run", tmp_path / "out", "--format", "msprobe", "--step", "0", "--lake", lake, "--jobs", "1")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"written: {tmp_path}/out: 2 units, 2 ops, 2 tensor files\n"
    again = run_command("run", tmp_path / "out", "--replace", "--lake", lake, "--jobs", "1")
    assert "4 units" in again.stderr
    assert run_command("run", tmp_path / "x", "--format", "csv", "--lake", lake).exit_code == 2
