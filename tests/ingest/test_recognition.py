"""What a path contains is recognised, named and read: several formats together, and in parts."""

from __future__ import annotations

import csv
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakeprobe
from lakeprobe.errors import DumpError, LakeError, UsageError
from lakeprobe.ingest import ingest
from lakeprobe.ingest.survey import survey
from lakeprobe.lake import audits
from lakeprobe.readers import foreign_tables
from lakeprobe.readers.formats import FORMATS
from lakeprobe.session import Lake

CHECKOUT = Path(__file__).resolve().parents[2]
DATA = CHECKOUT / "tests" / "data"
KERNEL = "Add.Default_network-Net_Add-op0.0.0.{time}.{io}.0.DefaultFormat.Float32.npy"
TABLE = [["NPU Name", "Bench Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape",
          "Max diff", "Min diff", "Mean diff", "L2norm diff", "MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr",
          "NormRelativeErr", "NPU max", "NPU min", "NPU mean", "NPU l2norm", "Bench max", "Bench min", "Bench mean",
          "Bench l2norm", "Result", "Err_message"]]  # fmt: skip


def leaf(norm: float) -> dict[str, Any]:
    return {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5,
            "Norm": norm}  # fmt: skip


def dump(folder: Path, norm: float = 1.0, level: str = "L1") -> Path:
    folder.mkdir(parents=True)
    data = {"Mint.add.0.forward": {"input_args": [leaf(1.0)], "output": [leaf(norm)]}}
    head = {"task": "statistics", "level": level, "framework": "mindspore", "dump_data_dir": None}
    (folder / "dump.json").write_text(json.dumps({**head, "data": data}))
    frames = [f"File a.py, line 1, in {folder.parts[-3]}"]
    (folder / "stack.json").write_text(json.dumps({"Mint.add.0.forward": frames}))
    return folder


def mixed(root: Path, graph: float = 1.0, pynative: float = 1.0) -> Path:
    dump(root / "graph" / "step0" / "rank0", graph, "L0")
    dump(root / "pynative" / "step0" / "rank0", pynative)
    dump(root / "pynative" / "step1" / "rank", pynative)
    return root


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """A folder with one of every format side by side."""
    root = tmp_path / "zoo"
    dump(root / "plain" / "step0" / "rank0")
    mixed(root / "mixed")
    shutil.copytree(DATA / "single_save" / "golden", root / "saved")
    with tarfile.open(DATA / "ptdbg" / "pair.tar.xz") as archive:
        archive.extractall(root / "old", filter="data")
    kernels = root / "kernels" / "rank_3" / "Net" / "0" / "1"
    kernels.mkdir(parents=True)
    for io_, value in (("input", 1.0), ("output", 2.0)):
        np.save(kernels / KERNEL.format(time=100, io=io_), np.full((2, 3), value, np.float32))
    (root / "points").mkdir()
    np.save(root / "points" / "loss_float32_0.npy", np.float32(0.5))
    (root / "debugged" / "step0" / "rank0").mkdir(parents=True)
    head = {"task": "statistics", "level": "debug", "framework": "mindspore"}
    saved = {"loss.0.debug": leaf(3.0), "pack.0.debug": {"a": [leaf(1.0), {"type": "int", "value": 7}]}}
    (root / "debugged" / "step0" / "rank0" / "debug.json").write_text(json.dumps({**head, "data": saved}))
    with (root / "compare_result_20260101120000.csv").open("w", newline="") as file:
        csv.writer(file).writerows([*TABLE, ["a", "a", *["1"] * 20, "pass", "[]"]])
    return root


def test_a_folder_with_every_format_is_told_apart_and_read(zoo: Path, tmp_path: Path) -> None:
    items = {(item.name, item.step, item.rank, item.part): item.format for item in survey(zoo)}
    found = {name: {form for (run, *_), form in items.items() if run == name} for name in {run for run, *_ in items}}
    assert {name: formats for name, formats in found.items() if not name.startswith(("old", "compare"))} == {
        "plain": {"msprobe dump"},
        "mixed": {"msprobe dump"},
        "saved": {"msprobe SingleSave"},
        "kernels": {"MindSpore kernel dump"},
        "zoo": {"npy folder"},
        "debugged": {"msprobe debug points"},
    }
    assert {form for name, formats in found.items() if name.startswith("old") for form in formats} == {
        "msprobe dump", "ptdbg dump",
    }  # fmt: skip
    assert found["compare_result_20260101120000"] == {"compare"}
    assert items["kernels", 1, 3, "Net/0"] == "MindSpore kernel dump"
    assert items["zoo", 0, 0, "points"] == "npy folder"

    report = ingest(zoo, lake=tmp_path / "lake")
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        read = lake.sql("SELECT run, list_sort(list(DISTINCT format)) FROM dumps GROUP BY run").fetchall()
        assert dict(read) == {name: sorted(found[name]) for name in report.runs}
        units = lake.sql("SELECT DISTINCT run, step, rank, part FROM ops").fetchall()
        assert sorted(units) == sorted(key for key in items if key[0] in report.runs)
        assert lake.sql('SELECT "NPU Name", Result FROM compare_result_20260101120000').fetchall() == [("a", "pass")]
        assert audits.run(lake.sql) == []
    again = ingest(zoo, lake=tmp_path / "lake")
    assert (again.read, [table.read for table in again.tables]) == ((), [False])


def test_the_halves_of_a_mixed_dump_pair_with_their_own(tmp_path: Path) -> None:
    mixed(tmp_path / "target", graph=2.0)
    mixed(tmp_path / "golden")
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        result = lake.compare(tmp_path / "target", tmp_path / "golden", name="halves")
        query = "SELECT step, part, target_name, difference FROM halves WHERE role = 'output' ORDER BY ALL"
        assert lake.sql(query).fetchall() == [
            (0, "graph", "Mint.add.0.forward.output.0", "different"),
            (0, "pynative", "Mint.add.0.forward.output.0", "equal"),
            (1, "pynative", "Mint.add.0.forward.output.0", "equal"),
        ]
        assert [op for (op,) in result.first_difference().origins.project("op").fetchall()] == ["Mint.add.0.forward"]
        ops = lake.sql("SELECT part, seq, first_row, stack FROM ops WHERE run = 'golden' AND step = 0 ORDER BY seq")
        assert ops.fetchall() == [("graph", 0, 0, 0), ("pynative", 1, 2, 1)]
        frames = "SELECT frames[1] FROM stacks WHERE run = 'golden' AND step = 0 ORDER BY stack"
        assert lake.sql(frames).fetchall() == [("File a.py, line 1, in graph",), ("File a.py, line 1, in pynative",)]
        heads = lake.sql("SELECT head FROM dumps WHERE run = 'golden' ORDER BY step").fetchall()
        levels = {part: head["level"] for part, head in json.loads(heads[0][0]).items()}
        assert levels == {"graph": "L0", "pynative": "L1"}
        assert audits.run(lake.sql) == []


def test_debug_points_keep_values_apart_from_types(zoo: Path, tmp_path: Path) -> None:
    ingest(zoo / "debugged", lake=tmp_path / "lake")
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        rows = lake.sql("SELECT op, slot, name, role, norm, value FROM tensors ORDER BY row").fetchall()
    assert rows == [
        ("loss.0.debug", "", "loss.0.debug", "output", 3.0, None),
        ("pack.0.debug", "a.0", "pack.0.debug.a.0", "output", 1.0, None),
        ("pack.0.debug", "a.1", "pack.0.debug.a.1", "output", None, "7"),
    ]


def test_steps_and_ranks_are_chosen(tmp_path: Path) -> None:
    for step in range(3):
        for rank in range(2):
            dump(tmp_path / "run" / f"step{step}" / f"rank{rank}")
    report = ingest(tmp_path / "run", lake=tmp_path / "lake", steps=[0, 2], ranks=[1])
    assert [(unit.key.step, unit.key.rank) for unit in report.units] == [(0, 1), (2, 1)]
    with pytest.raises(DumpError, match=r"no such step and rank; it has \(step, rank\) \(0, 0\), \(0, 1\)"):
        ingest(tmp_path / "run", lake=tmp_path / "lake", steps=[7])


def test_one_name_for_several_runs_is_refused(tmp_path: Path) -> None:
    dump(tmp_path / "a" / "step0" / "rank0")
    dump(tmp_path / "b" / "step0" / "rank0")
    with pytest.raises(UsageError, match="holds 2 runs, which cannot all be called x; leave --run out"):
        ingest(tmp_path, lake=tmp_path / "lake", run="x")
    assert ingest(tmp_path, lake=tmp_path / "lake").runs == ("a", "b")


def test_if_one_of_several_is_damaged_none_is_read(zoo: Path, tmp_path: Path) -> None:
    (zoo / "plain" / "step0" / "rank0" / "dump.json").write_text('{"task": "statistics", "data": {"a": ')
    with pytest.raises(DumpError, match=r"dump\.json"):
        ingest(zoo, lake=tmp_path / "lake")
    with Lake(tmp_path / "lake") as lake:
        assert lake.runs == []
        assert lake.sql("SELECT count(*) FROM duckdb_views() WHERE view_name LIKE 'compare%'").fetchall() == [(0,)]


def test_another_table_of_that_name_is_refused(zoo: Path, tmp_path: Path) -> None:
    table = zoo / "compare_result_20260101120000.csv"
    ingest(table, lake=tmp_path / "lake")
    table.write_text(table.read_text().replace("pass", "error"))
    with pytest.raises(LakeError, match="--replace"):
        ingest(table, lake=tmp_path / "lake")
    ingest(table, lake=tmp_path / "lake", replace=True)
    with Lake(tmp_path / "lake") as lake:
        assert lake.sql("SELECT Result FROM compare_result_20260101120000").fetchall() == [("error",)]


@pytest.mark.parametrize("kind", ["x", "x:gz", "zip"])
def test_an_archive_is_read_as_its_folder(zoo: Path, tmp_path: Path, kind: str) -> None:
    if kind == "zip":
        packed = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", zoo / "mixed"))
    else:
        packed = tmp_path / f"packed.tar{kind[1:].replace(':', '.')}"
        with tarfile.open(packed, kind) as archive:
            archive.add(zoo / "mixed", arcname=".")
    assert ingest(packed, lake=tmp_path / "lake").runs == ("packed",)
    assert ingest(zoo / "mixed", lake=tmp_path / "lake").runs == ("mixed",)
    with Lake(tmp_path / "lake") as lake:
        rows = "SELECT * EXCLUDE (run) FROM tensors WHERE run = '{}' ORDER BY ALL"
        assert lake.sql(rows.format("packed")).fetchall() == lake.sql(rows.format("mixed")).fetchall()
    assert ingest(packed, lake=tmp_path / "lake").read == ()


def test_the_page_names_every_format() -> None:
    page = (CHECKOUT / "docs" / "formats.md").read_text(encoding="utf-8")
    assert [name for name in FORMATS if f"**{name}**" not in page] == []
    assert [kind.kind for kind in foreign_tables.kinds() if f"`{kind.kind}`" not in page] == []


def test_a_table_is_no_side_of_a_comparison(zoo: Path, tmp_path: Path) -> None:
    with (
        lakeprobe.open(tmp_path / "lake", create=True) as lake,
        pytest.raises(DumpError, match="not a file of a known format"),
    ):
        lake.compare(zoo / "compare_result_20260101120000.csv", zoo / "plain")


def test_csv_of_no_known_kind_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DumpError, match="no dump of a known format"):
        survey(tmp_path)
