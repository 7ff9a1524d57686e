"""Folders of single tensors against each other: by name, by a map of names, along a tree; plain numpy is the oracle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakeprobe
from lakeprobe.mapping import compare_json
from lakeprobe.mapping.files import Mappings, read

Row = dict[str, Any]
RANDOM = np.random.default_rng(0)
GOLDEN = {name: RANDOM.normal(size=(4, 8)).astype(np.float32) for name in ("a", "b", "c", "d")}


def save(folder: Path, **files: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in files.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def compared(lake_folder: Path, *sides: Path, **options: Any) -> dict[tuple[str | None, str | None], Row]:
    """The rows by the names of both sides."""
    with lakeprobe.open(lake_folder / "lake", create=True) as lake:
        rows = lake.compare(*sides, **options).rows
        return {(row["target_name"], row["golden_name"]): row for row in rows.arrow().read_all().to_pylist()}


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """input against x, in another order of numbers; out against out. The second input and out are off."""
    a, b, c, d = GOLDEN.values()
    ours = save(tmp_path / "npu", input_float32_3=a, input_float32_10=b + 0.5, out_float32_11=c * 1.5, mine_int64_0=[1])
    theirs = save(tmp_path / "gpu", x_float32_7=a, x_float32_8=b, out_float32_9=c, theirs_float32_1=d)
    return ours, theirs


def test_files_pair_by_name_and_order(sides: tuple[Path, Path], tmp_path: Path) -> None:
    rows = compared(tmp_path, *sides)
    assert {names: row["verdict"] for names, row in rows.items() if None not in names} == {
        ("out.0.debug", "out.0.debug"): "error"
    }
    assert {names for names in rows if None in names} == {
        ("mine.0.debug", None), ("input.0.debug", None), ("input.1.debug", None),
        (None, "theirs.0.debug"), (None, "x.0.debug"), (None, "x.1.debug"),
    }  # fmt: skip
    assert rows["out.0.debug", "out.0.debug"]["max_abs_error"] == pytest.approx(np.abs(GOLDEN["c"]).max() / 2, rel=1e-6)


def check_mapped(rows: dict[tuple[str | None, str | None], Row]) -> None:
    assert {names for names in rows if None not in names} == {
        ("input.0.debug", "x.0.debug"), ("input.1.debug", "x.1.debug"), ("out.0.debug", "out.0.debug"),
    }  # fmt: skip
    same, off = rows["input.0.debug", "x.0.debug"], rows["input.1.debug", "x.1.debug"]
    assert (same["verdict"], same["difference"], same["matched_by"]) == ("pass", "equal", "api")
    assert (off["verdict"], off["difference"]) == ("error", "different")
    ours, theirs = (array.astype(np.float64) for array in (GOLDEN["b"] + np.float32(0.5), GOLDEN["b"]))
    assert off["max_abs_error"] == pytest.approx(np.abs(ours - theirs).max(), rel=1e-6)
    assert off["max_relative_error"] == pytest.approx(np.abs((ours - theirs) / theirs).max(), rel=1e-6)
    assert off["cosine"] == pytest.approx(
        (ours * theirs).sum() / np.linalg.norm(ours) / np.linalg.norm(theirs), abs=1e-6
    )
    assert off["target_max"] == pytest.approx(ours.max())
    assert rows["out.0.debug", "out.0.debug"]["matched_by"] == "exact"


def test_map_dict_says_which_name_is_which(sides: tuple[Path, Path], tmp_path: Path) -> None:
    text = {"npu_path": str(sides[0]), "bench_path": str(sides[1]), "common": True, "map_dict": {"input": "x"}}
    (tmp_path / "compare.json").write_text(json.dumps(text))
    old = compare_json.read(tmp_path / "compare.json")
    check_mapped(compared(tmp_path, old.target, old.golden, mappings=Mappings(apis=old.apis)))


def test_an_api_mapping_says_the_same(sides: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "names.yaml").write_text("ms_api: debug.input\npt_api: debug.x\n")
    check_mapped(compared(tmp_path, *sides, mappings=read(api=tmp_path / "names.yaml")))


def test_a_data_mapping_pairs_single_files(sides: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "rows.yaml").write_text("input.1.debug: x.0.debug\n")
    rows = compared(tmp_path, *sides, mappings=read(data=tmp_path / "rows.yaml"))
    assert {names for names in rows if None not in names} == {
        ("input.1.debug", "x.0.debug"),
        ("out.0.debug", "out.0.debug"),
    }


def test_only_whole_names_are_mapped(tmp_path: Path) -> None:
    files = {"input_float32_1": 1.0, "input.w_float32_2": 2.0, "inputs_float32_3": 3.0, "x_float32_4": 4.0}
    ours = save(tmp_path / "npu", **files)
    theirs = save(tmp_path / "gpu", **{"y_float32_1": 1.0, "input.w_float32_2": 2.0, "inputs_float32_3": 3.0, "x": 4.0})
    rows = compared(
        tmp_path, ours, theirs, mappings=Mappings(apis=(("debug.input", "debug.y"), ("debug.x", "debug.z")))
    )
    assert set(rows) == {
        ("input.0.debug", "y.0.debug"), ("input.w.0.debug", "input.w.0.debug"), ("inputs.0.debug", "inputs.0.debug"),
        ("x.0.debug", None), (None, "x.0.debug"),
    }  # fmt: skip


def test_a_tree_is_one_run_by_step_rank_and_folder(tmp_path: Path) -> None:
    for run, difference in (("npu", 1.0), ("gpu", 0.0)):
        for step, rank, part in ((0, 0, ""), (0, 0, "attention"), (0, 1, "attention"), (3, 0, "mlp/up")):
            folder = tmp_path / run / f"step{step}" / f"rank{rank}" / part
            save(folder, out_float32_1=np.float32(10 * step + rank + difference * (part == "attention")))
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        result = lake.compare(tmp_path / "npu", tmp_path / "gpu")
        rows = [
            (row["step"], row["rank"], row["part"], row["target_name"], row["golden_name"], row["verdict"])
            for row in result.rows.arrow().read_all().to_pylist()
        ]
    assert rows == [
        (0, 0, "", "out.0.debug", "out.0.debug", "pass"),
        (0, 0, "attention", "out.0.debug", "out.0.debug", "error"),
        (0, 1, "attention", "out.0.debug", "out.0.debug", "error"),
        (3, 0, "mlp/up", "out.0.debug", "out.0.debug", "pass"),
    ]


def test_tensors_of_torch_and_of_numpy(tmp_path: Path) -> None:
    tensors = Path(__file__).parents[1] / "data" / "tensors"
    ours, theirs = tmp_path / "npu", tmp_path / "gpu"
    for folder, suffix in ((ours, "npy"), (theirs, "pt")):
        folder.mkdir()
        for name in ("dtype_float32", "dtype_int64", "transposed"):
            (folder / f"{name}.{suffix}").write_bytes((tensors / f"{name}.{suffix}").read_bytes())
    rows = compared(tmp_path, ours, theirs)
    assert {names: row["verdict"] for names, row in rows.items()} == {
        (name, name): "pass" for name in ("dtype_float32.0.debug", "dtype_int64.0.debug", "transposed.0.debug")
    }
    assert all(row["difference"] == "equal" for row in rows.values())


def test_a_damaged_file_is_unreadable_and_no_more(tmp_path: Path) -> None:
    ours = save(tmp_path / "npu", a_float32_1=GOLDEN["a"], b_float32_2=GOLDEN["b"])
    theirs = save(tmp_path / "gpu", a_float32_1=GOLDEN["a"], b_float32_2=GOLDEN["b"])
    (ours / "a_float32_1.npy").write_bytes(b"\x93NUMPY")
    rows = compared(tmp_path, ours, theirs)
    damaged, sound = rows["a.0.debug", "a.0.debug"], rows["b.0.debug", "b.0.debug"]
    assert (damaged["outcome"], damaged["target_max"], damaged["golden_max"]) == ("unreadable", None, GOLDEN["a"].max())
    assert damaged["messages"][-1].startswith(f"unreadable: not a .npy file: {ours / 'a_float32_1.npy'}")
    assert (sound["outcome"], sound["verdict"]) == ("equal", "pass")


# ---- the program ------------------------------------------------------------------------------------------------


def run_program(*words: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "lakeprobe", *map(str, words)]
    variables = {key: value for key, value in os.environ.items() if key != "LAKEPROBE_LAKE"}
    return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=120)


def test_the_program_takes_an_old_compare_json(sides: tuple[Path, Path], tmp_path: Path) -> None:
    map_dict = {"input": "x", "mine": "theirs", "absent": "nowhere"}
    text = {"npu_path": str(sides[0]), "bench_path": str(sides[1]), "common": True, "map_dict": map_dict}
    (tmp_path / "compare.json").write_text(json.dumps(text))
    done = run_program("compare", "-i", tmp_path / "compare.json", "--lake", tmp_path / "lake", "--fail-on", "error")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("npu against gpu, by the rule cell\n")
    assert "the API mapping names debug.absent, which the target run does not have" in done.stderr
    assert "the API mapping names debug.nowhere, which the golden run does not have" in done.stderr
    assert "debug.input" not in done.stderr
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        rows = lake.sql("SELECT target_name, golden_name, verdict FROM npu_vs_gpu ORDER BY row").fetchall()
    assert rows == [
        ("mine.0.debug", "theirs.0.debug", "error"),
        ("input.0.debug", "x.0.debug", "pass"),
        ("input.1.debug", "x.1.debug", "error"),
        ("out.0.debug", "out.0.debug", "error"),
    ]
