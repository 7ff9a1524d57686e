"""SingleSave's folders: what msprobe itself wrote, made ones with their oddities, and damaged ones."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading import Damages, damaged, damages, listing, read_source

from lakeprobe.errors import DumpError
from lakeprobe.readers import single_save
from lakeprobe.readers.source import Source, Summary

REAL = Path(__file__).parents[1] / "data" / "single_save"
Rows = list[dict[str, Any]]


def found(top: Path) -> list[Source]:
    return single_save.find(listing(top / "data", top))


def no_content(tensor: object) -> tuple[None, None]:
    return None, None


def read(source: Source, content_of: Callable[[Any], Any] = no_content) -> tuple[Rows, Rows, Summary]:
    result = read_source(single_save, source, content_of)
    return result.ops, result.tensors, result.summary


def save(top: Path, place: str, recorded: Any = None, **arrays: Any) -> Path:
    """Write `arrays`, __ for a dot in their names, and the json of the tag that `place` begins with."""
    folder = top / "data" / place
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name.replace('__', '.')}.npy", array)
    if recorded is not None:
        (folder / f"{place.split('/')[0]}.json").write_text(json.dumps({"data": recorded}, indent=4))
    return top


def recorded(value: float, shape: list[int]) -> dict[str, Any]:
    return {"max": value, "min": -value, "mean": value / 2, "norm": value * 2, "shape": shape}


# ---- what msprobe wrote -------------------------------------------------------------------------------------


def test_a_real_tree_is_a_unit_for_each_step() -> None:
    sources = found(REAL / "golden")
    assert [(source.root, source.step, source.rank, source.part) for source in sources] == [
        (REAL / "golden", 0, 0, ""),
        (REAL / "golden", 1, 0, ""),
    ]
    for source in sources:
        expected = (REAL / "golden").rglob(f"step{source.step}/rank0/**/*.*")
        assert sorted(source.files) == sorted(path for path in expected if path.is_file())


@pytest.mark.parametrize("step", [0, 1])
def test_a_real_tree_is_read_as_msprobe_wrote_it(step: int) -> None:
    asked = []
    source = found(REAL / "golden")[step]
    ops, tensors, summary = read(source, lambda tensor: (asked.append(tensor), (None, None))[1])
    names = [op["op"] for op in ops]
    only = ["only.0.debug"] if step == 0 else []
    first, second = ([f"{tag}.{call}.debug" for tag in ("loss", "pair", "parts")] for call in (0, 1))
    assert names == [first[0], *only, *first[1:], *second]
    assert [op["micro_step"] for op in ops] == [0, *([None] if only else []), 0, 0, 1, 1, 1]
    assert {op["kind"] for op in ops} == {"debug"}
    expected = {}
    for path in (REAL / "golden").rglob(f"step{step}/rank0/**/*.json"):
        call = path.parent.name.removeprefix("micro_step") if "micro" in path.parent.name else "0"
        data = json.loads(path.read_text())["data"]
        slots = {"": data} if "shape" in data else dict(enumerate(data)) if isinstance(data, list) else data
        for slot, statistics in slots.items():
            name = f"{path.stem}.{call}.debug" + (f".{slot}" if slot != "" else "")
            file = f"{path.stem}.{slot}.npy" if slot != "" else f"{path.stem}.npy"
            expected[name] = statistics, path.parent.relative_to(REAL / "golden" / "data") / file
    assert {row["name"] for row in tensors} == expected.keys()
    assert sorted(asked) == sorted(str(file) for _, file in expected.values())
    for row in tensors:
        statistics, file = expected[row["name"]]
        for column in ("max", "min", "mean", "norm"):
            assert row[column] == statistics[column] or math.isnan(row[column]) is math.isnan(statistics[column])
        assert (row["shape"], row["dtype"], row["type"]) == (statistics["shape"], "torch.float32", "torch.Tensor")
        assert row["data_name"] == file.name
        assert (REAL / "golden" / "data" / file).is_file()
    assert (summary.framework, summary.task) == ("pytorch", "tensor")
    assert summary.notes == [
        "the framework is not recorded; taken as pytorch, as no tensor is of another dtype than float32",
        "the order of the values is not recorded; they stand by micro step and name",
    ]


# ---- where one is -------------------------------------------------------------------------------------------


def test_ranks_and_steps_are_in_order_of_their_numbers(tmp_path: Path) -> None:
    for step, rank in ((10, 0), (2, 11), (2, 3)):
        for tag in ("b", "a"):
            save(tmp_path / "gpu", f"{tag}/step{step}/rank{rank}", recorded(1, []), **{tag: 1.0})
    sources = found(tmp_path / "gpu")
    assert [(source.step, source.rank, len(source.files)) for source in sources] == [(2, 3, 4), (2, 11, 4), (10, 0, 4)]
    assert {(source.root, source.folder, source.tensors) for source in sources} == {
        (tmp_path / "gpu", tmp_path / "gpu" / "data", tmp_path / "gpu" / "data")
    }


def test_the_folder_of_the_tags_may_be_given_itself(tmp_path: Path) -> None:
    save(tmp_path / "gpu", "a/step0/rank0", recorded(1, []), a=1.0)
    data = tmp_path / "gpu" / "data"
    assert [source.root for source in single_save.find(listing(data))] == [tmp_path / "gpu"]
    renamed = data.rename(tmp_path / "gpu" / "values")
    assert [source.root for source in single_save.find(listing(renamed))] == [renamed]
    assert single_save.find(listing(renamed, tmp_path)) == []
    assert single_save.find(listing(tmp_path / "gpu", tmp_path)) == []


@pytest.mark.parametrize(
    "path",
    [
        "run/step0/rank0/dump.json",
        "run/step0/rank0/dump_tensor_data/run.npy",
        "run/step0/rank0/other.npy",
        "run/step0/rank0/runs.json",
        "run/step0/rank0/micro_step/run.npy",
        "run/step0/rank00/run.npy",
        "run/step/rank0/run.npy",
        "run/rank0/run.npy",
        "run/run.npy",
        "run.npy",
    ],
)
def test_other_folders_are_none(tmp_path: Path, path: str) -> None:
    (tmp_path / "data" / path).parent.mkdir(parents=True)
    (tmp_path / "data" / path).write_bytes(b"x")
    assert found(tmp_path) == []


# ---- values -------------------------------------------------------------------------------------------------


def one(top: Path, content_of: Callable[[Any], Any] = no_content) -> tuple[Rows, Rows, Summary]:
    [source] = found(top)
    return read(source, content_of)


def test_a_dtype_that_pytorch_never_saves_tells_mindspore(tmp_path: Path) -> None:
    save(tmp_path, "a/step0/rank0", recorded(1, [2]), a=np.ones(2, np.float32))
    for dtype in ("bool", "uint8", "int64", "float16", "complex64"):
        save(tmp_path, f"{dtype}/step0/rank0", recorded(1, [2]), **{dtype: np.ones(2, dtype)})
    _, tensors, summary = one(tmp_path)
    assert summary.framework == "mindspore"
    assert {row["name"].split(".")[0]: row["dtype"] for row in tensors} == {
        "a": "Float32", "bool": "Bool", "complex64": "Complex64", "float16": "Float16", "int64": "Int64",
        "uint8": "UInt8",
    }  # fmt: skip
    assert {row["type"] for row in tensors} == {"mindspore.Tensor"}


def test_without_a_json_the_statistics_are_measured_and_the_files_tell_the_form(tmp_path: Path) -> None:
    array = np.array([[3, -4], [0, 1]], np.float32)
    save(tmp_path, "one/step0/rank0", one=array)
    save(tmp_path, "list/step0/rank0", **{f"list__{index}": array + index for index in range(11)})
    save(tmp_path, "dict/step0/rank0", dict__q=array, dict__k__w=array * 2, dict__7=array)
    _, tensors, _ = one(tmp_path)
    assert [row["name"] for row in tensors] == [
        "dict.0.debug.7", "dict.0.debug.k.w", "dict.0.debug.q",
        *(f"list.0.debug.{index}" for index in range(11)), "one.0.debug",
    ]  # fmt: skip
    for row in tensors:
        file = tmp_path / "data" / row["name"].split(".")[0] / "step0" / "rank0" / row["data_name"]
        saved = np.load(file).astype(np.float64)
        assert row["shape"] == [2, 2]
        assert (row["max"], row["min"], row["mean"]) == (saved.max(), saved.min(), saved.mean())
        assert row["norm"] == pytest.approx(np.linalg.norm(saved), rel=1e-15)


def test_an_empty_list_and_an_empty_object_are_kept(tmp_path: Path) -> None:
    save(tmp_path, "a/step0/rank0", [])
    save(tmp_path, "b/step0/rank0", {})
    ops, tensors, _ = one(tmp_path)
    assert [(op["op"], op["empties"]) for op in ops] == [
        ("a.0.debug", '[[null, "[]"]]'),
        ("b.0.debug", '[[null, "{}"]]'),
    ]
    assert tensors == []


def test_keys_that_are_called_like_statistics_are_keys(tmp_path: Path) -> None:
    save(tmp_path, "a/step0/rank0", {"shape": recorded(1, [2]), "max": recorded(2, [2]), "type": recorded(3, [2])})
    _, tensors, _ = one(tmp_path)
    assert [(row["slot"], row["max"]) for row in tensors] == [("shape", 1), ("max", 2), ("type", 3)]


def test_files_that_are_no_part_of_the_value_are_told(tmp_path: Path) -> None:
    save(tmp_path, "a/step0/rank0", [recorded(1, [])], a__0=1.0, a__1=2.0)
    save(tmp_path, "b/step0/rank0/micro_step2", b=1.0, b__0=2.0)
    _, tensors, summary = one(tmp_path)
    assert [row["data_name"] for row in tensors] == ["a.0.npy", "b.npy"]
    assert summary.notes[:2] == [
        "left out, as it is not a part of a.0.debug: a/step0/rank0/a.1.npy",
        "left out, as it is not a part of b.2.debug: b/step0/rank0/micro_step2/b.0.npy",
    ]


def test_values_with_and_without_micro_step_stand_beside_each_other(tmp_path: Path) -> None:
    for place, value in (("a/step0/rank0", 1), ("a/step0/rank0/micro_step0", 2), ("a/step0/rank0/micro_step3", 3)):
        save(tmp_path, place, recorded(value, []), a=float(value))
    ops, tensors, _ = one(tmp_path)
    assert [(op["op"], op["micro_step"]) for op in ops] == [("a.debug", None), ("a.0.debug", 0), ("a.3.debug", 3)]
    assert [row["max"] for row in tensors] == [1, 2, 3]


def test_a_tensor_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    save(tmp_path, "a/step0/rank0", recorded(1, [2, 3]))
    save(tmp_path, "b/step0/rank0", recorded(2, [4]), b=np.ones(4, np.int32))
    (tmp_path / "data/b/step0/rank0/b.npy").write_bytes(b"damaged")

    def content_of(name: str) -> tuple[None, str]:
        return None, f"no tensor in {name}"

    _, tensors, summary = one(tmp_path, content_of)
    assert [(row["shape"], row["max"], row["content_problem"]) for row in tensors] == [
        ([2, 3], 1, "no tensor in a/step0/rank0/a.npy"),
        ([4], 2, "no tensor in b/step0/rank0/b.npy"),
    ]
    assert summary.unreadable == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.json is empty; dump again, or leave this file out"),
        ("[1]", "a.json is not a JSON object; it is not a dump's file"),
        ("{}", "a.json has no data; it is not SingleSave's, or the run was killed before it wrote it"),
        ('{"data": 3}', "a.json has no data; it is not SingleSave's, or the run was killed before it wrote it"),
        ('{"data": [3]}', "a.json has 3 for a.0.npy; write its statistics again"),
        ('{"data": {"max": 1}}', "a.json has 1 for a.max.npy; write its statistics again"),
        ('{"data": {"max": 1, "shape": 7}}', "a.0.debug has a shape that is not a list of integers"),
        ('{"data": {"max": [], "shape": []}}', "a.0.debug has a statistic that is neither a number nor null"),
        ('{"data": {"a/../../b": {"max": 1}}}', "which leaves the folder"),
        ('{"data": [{"max": 1}', "truncated"),
    ],
)
def test_a_damaged_json_is_told(tmp_path: Path, text: str, message: str) -> None:
    folder = tmp_path / "data" / "a" / "step0" / "rank0"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text(text)
    with pytest.raises(DumpError) as raised:
        one(tmp_path)
    assert message in str(raised.value)
    assert str(raised.value).startswith(str(tmp_path))


# ---- any damage ---------------------------------------------------------------------------------------------

JSON = (REAL / "golden/data/parts/step0/rank0/micro_step1/parts.json").read_bytes()
NPY = (REAL / "golden/data/parts/step0/rank0/micro_step1/parts.q.npy").read_bytes()
DAMAGES = damages(1000)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["max", "min", "mean", "norm", "shape", "type", "md5", "q"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def to_damage(tmp_path_factory: pytest.TempPathFactory) -> Source:
    top = tmp_path_factory.mktemp("single_save")
    shutil.copytree(REAL / "golden/data/parts/step0/rank0/micro_step1", top / "data/parts/step0/rank0/micro_step1")
    [source] = found(top)
    return source


def check_rows_or_error(source: Source) -> None:
    try:
        ops, tensors, summary = read(source)
    except DumpError as error:
        assert str(error).startswith(str(source.folder))  # noqa: PT017 either outcome is right
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert [op["op"] for op in ops] == ["parts.1.debug"]
        assert summary.tensor_rows == len(tensors) < 100


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(json_damages=DAMAGES, npy_damages=DAMAGES)
def test_any_damage_gives_rows_or_an_error(to_damage: Source, json_damages: Damages, npy_damages: Damages) -> None:
    folder = to_damage.folder / "parts/step0/rank0/micro_step1"
    (folder / "parts.json").write_bytes(damaged(JSON, json_damages))
    (folder / "parts.q.npy").write_bytes(damaged(NPY, npy_damages))
    check_rows_or_error(to_damage)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES)
def test_any_json_gives_rows_or_an_error(to_damage: Source, value: Any) -> None:
    (to_damage.folder / "parts/step0/rank0/micro_step1/parts.json").write_text(json.dumps({"data": value}))
    check_rows_or_error(to_damage)
