"""Dump to lake to dump is the identity: for the bundled dumps, and for whatever a dump may hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from round_trips import (
    assert_same_main_file,
    assert_same_side_files,
    assert_same_tensors,
    data_names,
    exact,
    load,
    through_lake,
)
from sampling import examples

from lakeprobe.export import export
from lakeprobe.ingest import ingest

BUNDLED = Path(__file__).parents[1] / "data" / "dumps"
LEAF = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "Max": 1.5, "Min": -0.0, "Mean": 1e-9,
        "Norm": 3.0, "requires_grad": True}  # fmt: skip
FRAMES = ["File /a.py, line 1, in f, \n x = é", "File /b.py, line 2, in <module>, \n f()"]


def bundled() -> list[Path]:
    return sorted(path.parent for path in BUNDLED.rglob("dump.json"))


def write(folder: Path, data: Any, file: str = "dump.json", **head: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    head = {"task": "tensor", "level": "mix", "framework": "pytorch", "dump_data_dir": "/elsewhere", **head}
    (folder / file).write_text(json.dumps({**head, "data": data}, indent=1))
    return folder


@pytest.mark.sampled
@pytest.mark.parametrize("folder", bundled(), ids=lambda folder: str(folder.relative_to(BUNDLED)))
def test_bundled_dumps_come_out_as_they_were(folder: Path, tmp_path: Path) -> None:
    through_lake(folder, tmp_path)
    [exported] = (path.parent for path in (tmp_path / "out").rglob("dump.json"))
    assert_same_main_file(folder / "dump.json", exported / "dump.json")
    assert_same_tensors(folder, exported, data_names(load(folder / "dump.json")))


@pytest.mark.sampled
@pytest.mark.parametrize("folder", bundled(), ids=lambda folder: str(folder.relative_to(BUNDLED)))
def test_side_files_of_bundled_dumps_come_out_as_they_were(folder: Path, tmp_path: Path) -> None:
    through_lake(folder, tmp_path)
    [exported] = (path.parent for path in (tmp_path / "out").rglob("dump.json"))
    assert_same_side_files(folder, exported)


# ---- what a dump may hold ---------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
KEYS = TEXTS.filter(lambda key: key not in ("type", "class_type", "tensor", "content"))
NUMBERS = st.none() | st.booleans() | st.integers() | st.floats()
PLAIN = st.recursive(
    NUMBERS | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=4
)
STATISTICS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats()


@st.composite
def tensors(draw: st.DrawFn) -> dict[str, Any]:
    leaf: dict[str, Any] = {
        "type": draw(TEXTS),
        "dtype": draw(st.none() | TEXTS),
        "shape": draw(st.lists(st.integers(0, 9), max_size=3)),
        **draw(st.dictionaries(st.sampled_from(["Max", "Min", "Mean", "Norm"]), STATISTICS)),
        **draw(st.fixed_dictionaries({}, optional={
            "requires_grad": st.none() | st.booleans(), "md5": st.none() | TEXTS | st.floats(),
            "placements": PLAIN, "Max_except_inf_nan": PLAIN,
        })),
    }  # fmt: skip
    return {key: leaf[key] for key in draw(st.permutations(list(leaf)))}


@st.composite
def points(draw: st.DrawFn) -> dict[str, Any]:
    holder = {"class_type": draw(TEXTS), "tensor": draw(tensors()), "op": draw(TEXTS), "peer": draw(st.integers())}
    return {key: holder[key] for key in draw(st.permutations(list(holder)))}


SCALARS = st.builds(
    lambda type, value: {"type": type, **value},
    st.sampled_from(["int", "float", "str", "bool", "slice", "torch.Size", "torch.device"]),
    st.fixed_dictionaries({}, optional={"value": PLAIN, "format": PLAIN}),
)
VALUES = st.recursive(
    st.none() | tensors() | points() | SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
BODIES = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("input_args", "input_kwargs", "output", "parameters"), VALUES)
    | {"is_recompute": st.booleans(), "is_nan": st.booleans()},
)  # fmt: skip
GRADIENTS = st.dictionaries(st.sampled_from(["weight", "bias", "a.b"]), st.lists(tensors(), min_size=1, max_size=1))


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(bodies=st.lists(BODIES, max_size=3), gradients=GRADIENTS, saved=st.lists(VALUES, max_size=2))
def test_anything_comes_out_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[Any], gradients: Any, saved: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("round")
    data = {f"Torch.add.{call}.forward": body for call, body in enumerate(bodies)}
    data["Module.fc.Linear.parameters_grad"] = gradients
    write(folder / "run" / "step0" / "rank0", data)
    points = {f"x.{number}.debug": value for number, value in enumerate(saved)}
    write(folder / "run" / "step1" / "rank0", points, "debug.json", level="debug")
    through_lake(folder / "run", folder)
    for name in ("step0/rank0/dump.json", "step1/rank0/debug.json"):
        assert_same_main_file(folder / "run" / name, folder / "out" / name)


def test_deep_nesting(tmp_path: Path) -> None:
    value: Any = [LEAF]
    for level in range(395):
        value = [value] if level % 2 else {"k": value}
    write(tmp_path / "run", {"Torch.add.0.forward": {"input_args": [value]}})
    through_lake(tmp_path / "run", tmp_path)
    assert_same_main_file(tmp_path / "run" / "dump.json", tmp_path / "out/step0/rank0/dump.json")


def test_a_file_that_was_not_there_is_named_and_not_written(tmp_path: Path) -> None:
    leaves = [LEAF | {"data_name": name} for name in ("here.npy", "gone.npy")]
    run = write(tmp_path / "run", {"Torch.add.0.forward": {"input_args": leaves}})
    (run / "dump_tensor_data").mkdir()
    np.save(run / "dump_tensor_data" / "here.npy", np.zeros((2, 3), np.float32))
    report = through_lake(run, tmp_path)
    exported = tmp_path / "out/step0/rank0"
    assert_same_main_file(run / "dump.json", exported / "dump.json")
    assert_same_tensors(run, exported, {"here.npy", "gone.npy"})
    assert [(unit.tensor_files, unit.absent) for unit in report.units] == [(1, 1)]
    assert "1 tensor files are named but not written: they were missing" in report.notes[0]


def test_contents_that_were_left_out_are_told(tmp_path: Path) -> None:
    run = write(tmp_path / "run", {"Torch.add.0.forward": {"input_args": [LEAF | {"data_name": "a.npy"}]}})
    (run / "dump_tensor_data").mkdir()
    np.save(run / "dump_tensor_data" / "a.npy", np.zeros((2, 3), np.float32))
    report = through_lake(run, tmp_path, tensors="none")
    assert_same_main_file(run / "dump.json", tmp_path / "out/step0/rank0/dump.json")
    assert "--tensors none" in report.notes[0]
    assert not (tmp_path / "out/step0/rank0/dump_tensor_data").exists()


# ---- side files -------------------------------------------------------------------------------------------

OPS = ["Module.a.A.forward.0", "Torch.add.0.forward", "Torch.add.1.forward"]
CONSTRUCTS = {
    "ops that were not dumped": {
        "Module.a.A.forward.0": None, "Torch.arange.0.forward": "Module.a.A.forward.0",
        "Torch.add.0.forward": "Module.a.A.forward.0", "optimizer": None, "Torch.add.1.forward": "optimizer",
    },
    "micro steps": {
        "Module.a.A.forward.0": [None, 0], "Torch.add.0.forward": ["Module.a.A.forward.0", 0],
        "Torch.add.1.forward": ["Module.a.A.forward.0", 1], "megatron_micro_step_number": 2,
    },
    "nothing": {}, "no file": None, "no byte": "",
}  # fmt: skip
STACKS = {
    "grouped": {
        "0": [[OPS[1], OPS[2]], FRAMES], "1": [["Torch.arange.0.forward"], FRAMES[1:]], "2": [[OPS[0]], FRAMES[:1]]
    },
    "by op": {OPS[2]: FRAMES, OPS[0]: FRAMES[1:], "Torch.arange.0.forward": FRAMES},
    "nothing": {}, "no file": None, "no byte": "",
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("construct", CONSTRUCTS)
@pytest.mark.parametrize("ops", [OPS, []], ids=["dumped", "structure only"])
def test_side_files_come_out_as_they_were(ops: list[str], construct: str, stack: str, tmp_path: Path) -> None:
    folders = [tmp_path / "run" / part / "step0" / "rank0" for part in ("graph", "pynative")]
    for folder in folders:
        write(folder, {op: {"input_args": [LEAF]} for op in ops})
        for name, value in (("stack.json", STACKS[stack]), ("construct.json", CONSTRUCTS[construct])):
            if value is not None:
                (folder / name).write_text(json.dumps(value, indent=1) if value != "" else "")
    through_lake(tmp_path / "run", tmp_path)
    for folder in folders:
        exported = tmp_path / "out" / folder.relative_to(tmp_path / "run")
        assert_same_main_file(folder / "dump.json", exported / "dump.json")
        assert_same_side_files(folder, exported)
        if construct in ("ops that were not dumped", "micro steps"):
            assert list(load(exported / "construct.json")) == list(CONSTRUCTS[construct])


def test_units_that_do_not_know_when_ops_began(tmp_path: Path) -> None:
    """Those of an older lakeprobe, and collected ones: construct.json has what ops says of parents."""
    [folder] = (path.parent for path in (BUNDLED / "demo" / "target").rglob("dump.json"))
    ingest(folder, lake=tmp_path / "lake", run="run")
    [unit] = (tmp_path / "lake").glob("run=*/step=*/rank=*/*")
    (unit / "undumped.parquet").unlink(missing_ok=True)
    for table, column in (("ops", "began"), ("dumps", "layout")):
        read = pq.ParquetFile(unit / f"{table}.parquet").read()
        kept = [name for name in read.column_names if name != column]
        pq.write_table(read.select(kept), unit / f"{table}.parquet")
    export(tmp_path / "lake", "run", tmp_path / "out")
    exported = tmp_path / "out" / "step0" / "rank0"
    assert_same_main_file(folder / "dump.json", exported / "dump.json")
    assert exact(load(exported / "stack.json")) == exact(load(folder / "stack.json"))
    ops, before, after = (load(folder / "dump.json")["data"], load(folder / "construct.json"),
                          load(exported / "construct.json"))  # fmt: skip
    parents = {parent for op, parent in before.items() if op in ops and parent}
    assert parents - set(ops) == {"clip_grad", "optimizer"}
    assert after == {op: parent for op, parent in before.items() if op in ops or op in parents}


def test_an_exported_run_is_the_same_run(tmp_path: Path) -> None:
    """The law the other way: what is read from an export is what is read from the dump."""
    source = BUNDLED / "demo" / "target"
    through_lake(source, tmp_path)
    ingest(tmp_path / "out", lake=tmp_path / "lake", run="again")

    def rows(run: str, table: str) -> list[tuple[Any, ...]]:
        files = f"{tmp_path}/lake/run={run}/step=*/rank=*/*/{table}.parquet"
        found = duckdb.sql(f"SELECT * EXCLUDE (run) FROM read_parquet('{files}', hive_partitioning = true)").fetchall()
        return [tuple(map(exact, row)) for row in found]

    for table in ("ops", "tensors", "stacks"):
        assert rows("again", table) == rows("run", table)
