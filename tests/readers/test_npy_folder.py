"""Folders of single tensors: which are one, where they stand, how files become points, and damaged files."""

from __future__ import annotations

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
from lakeprobe.readers import dump, npy_folder, single_save
from lakeprobe.readers.locate import locate
from lakeprobe.readers.source import Source, Summary

TENSORS = Path(__file__).parents[1] / "data" / "tensors"
Rows = list[dict[str, Any]]


def found(folder: Path, top: Path | None = None) -> list[Source]:
    return npy_folder.find(listing(folder, top))


def no_content(tensor: object) -> tuple[None, None]:
    return None, None


def read(folder: Path, content_of: Callable[[Any], Any] = no_content) -> tuple[Rows, Rows, Summary]:
    [source] = found(folder)
    return read_rows(source, content_of)


def read_rows(source: Source, content_of: Callable[[Any], Any] = no_content) -> tuple[Rows, Rows, Summary]:
    result = read_source(npy_folder, source, content_of)
    return result.ops, result.tensors, result.summary


def save(folder: Path, *names: str, array: Any = 1.0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        np.save(folder / name, array) if name.endswith(".npy") else (folder / name).write_bytes(b"")
    return folder


# ---- which folders are one, and where they stand ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "step", "rank", "part"),
    [
        (".", 0, 0, ""),
        ("step3/rank7", 3, 7, ""),
        ("rank_7/step_3", 3, 7, ""),
        ("rank", 0, 0, ""),
        ("attention/step1/mlp", 1, 0, "attention/mlp"),
        ("rankings/stepwise", 0, 0, "rankings/stepwise"),
    ],
)
def test_a_place_is_told_by_the_path(tmp_path: Path, path: str, step: int, rank: int, part: str) -> None:
    run = tmp_path / "run"
    folder = save(run / path, "b_float32_1.npy", "a.npy", "c.pt", "notes.txt", "w.npz", "._a.npy")
    [source] = found(folder, run)
    assert source == Source(
        npy_folder.NAME, run, folder, step, rank, tuple(folder / name for name in ("a.npy", "b_float32_1.npy", "c.pt")),
        folder, part,
    )  # fmt: skip


def test_the_folder_of_a_rank_may_be_given_itself(tmp_path: Path) -> None:
    folder = save(tmp_path / "run" / "step3" / "rank7", "a.npy")
    [source] = found(folder)
    assert (source.root, source.step, source.rank, source.part) == (tmp_path / "run", 3, 7, "")


@pytest.mark.parametrize(
    "path",
    [
        "rank0/dump_tensor_data/Functional.relu.0.forward.input.0.npy",
        "rank0/dump_tensor_data/Functional.relu.0.forward.input.0.pt",
        "rank0/npu_dump/Functional_relu_0_forward_input.0.npy",
        "TinyNet/0/1/Add.Default_Add-op5.0.0.1767225600123456.output.0.DefaultFormat.Float32.npy",
        "TinyNet/0/1/MatMul.Default_MatMul-op3.12.7.1767225600123456.input.1.ND.npy",
        "run/readme.txt",
        "run/weights.npz",
        "run/._a.npy",
    ],
)
def test_tensors_of_other_dumps_are_left_to_them(tmp_path: Path, path: str) -> None:
    save((tmp_path / path).parent, Path(path).name)
    (tmp_path / "rank0").mkdir(exist_ok=True)
    (tmp_path / "rank0" / "npu_dump.pkl").touch()
    assert found((tmp_path / path).parent, tmp_path) == []


# ---- how files become points ------------------------------------------------------------------------------------


def ops_of(folder: Path) -> list[tuple[str, str]]:
    """Each op with its file, in the order of the ops."""
    ops, tensors, _ = read(folder)
    assert [row["op"] for row in tensors] == [op["op"] for op in ops]
    assert [row["name"] for row in tensors] == [op["op"] for op in ops]
    return [(row["op"], row["data_name"]) for row in tensors]


def test_files_of_a_key_are_its_calls_in_order_of_their_numbers(tmp_path: Path) -> None:
    files = ("input_float32_10.npy", "input_float16_9.npy", "x_y_bool_8.npy", "input_float32_2.npy", "out_int64_11.npy")
    assert ops_of(save(tmp_path, *files)) == [
        ("input.0.debug", "input_float32_2.npy"),
        ("x_y.0.debug", "x_y_bool_8.npy"),
        ("input.1.debug", "input_float16_9.npy"),
        ("input.2.debug", "input_float32_10.npy"),
        ("out.0.debug", "out_int64_11.npy"),
    ]


def test_other_names_are_keys_as_they_stand_in_the_order_that_a_person_expects(tmp_path: Path) -> None:
    files = ("layer.10.npy", "layer.2.npy", "layer_w_1.npy", "loss.npy", "_float32_1.npy", "x_float32_1.npy")
    assert ops_of(save(tmp_path, *files)) == [
        ("_float32_1.0.debug", "_float32_1.npy"),
        ("layer.2.0.debug", "layer.2.npy"),
        ("layer.10.0.debug", "layer.10.npy"),
        ("layer_w_1.0.debug", "layer_w_1.npy"),
        ("loss.0.debug", "loss.npy"),
        ("x.0.debug", "x_float32_1.npy"),
    ]


def test_parts_of_the_name(tmp_path: Path) -> None:
    ops, _, _ = read(save(tmp_path, "a.b_float32_1.npy", "a.b_float32_2.npy"))
    assert [(op["kind"], op["api_type"], op["api"], op["call"], op["stem"]) for op in ops] == [
        ("debug", "debug", "a.b", 0, "a.b.debug"),
        ("debug", "debug", "a.b", 1, "a.b.debug"),
    ]


def test_every_dtype_is_measured(tmp_path: Path) -> None:
    values = np.array([[0, 1, 2], [3, 1, 0]])
    dtypes = ("float16", "float64", "int8", "uint64", "bool", ">f4", "complex64")
    arrays = [values.astype(dtype) for dtype in dtypes]
    for number, array in enumerate(arrays):
        np.save(tmp_path / f"x_float32_{number}.npy", array)
        np.save(tmp_path / f"y_float32_{number}.npy", np.asfortranarray(array))
    np.save(tmp_path / "z.npy", np.zeros((0, 3)))
    np.save(tmp_path / "t.npy", np.array(["text"]))
    _, tensors, summary = read(tmp_path)
    for row in tensors:
        saved = np.load(tmp_path / row["data_name"])
        assert row["shape"] == list(saved.shape)
        assert row["dtype"] == saved.dtype.newbyteorder("=").name
        assert row["type"] == "numpy.ndarray"
        measured = [row[column] for column in ("max", "min", "mean", "norm")]
        if saved.size == 0 or saved.dtype.kind == "U":
            assert measured == [None] * 4
        elif saved.dtype == bool:
            assert measured == [1, 0, None, None]
        else:
            plain = np.abs(saved).astype(np.float64)
            assert measured == pytest.approx([plain.max(), plain.min(), plain.mean(), np.sqrt((plain**2).sum())])
    assert (summary.framework, summary.task) == ("mindspore", "tensor")
    assert summary.notes == ["the framework is not recorded; taken as mindspore, as the files are .npy"]


def test_files_of_torch(tmp_path: Path) -> None:
    for name in ("dtype_bfloat16.pt", "dtype_float32.pt", "transposed.pt"):
        shutil.copy(TENSORS / name, tmp_path)
    np.save(tmp_path / "a.npy", np.float32(2))
    _, tensors, summary = read(tmp_path)
    assert [(row["type"], row["dtype"]) for row in tensors] == [
        ("numpy.ndarray", "float32"),
        ("torch.Tensor", "torch.bfloat16"),
        ("torch.Tensor", "torch.float32"),
        ("torch.Tensor", "torch.float32"),
    ]
    assert summary.framework == "pytorch"
    assert summary.notes == ["the framework is not recorded; taken as pytorch, as there are .pt files"]


# ---- damaged files ----------------------------------------------------------------------------------------------


def test_a_file_without_a_tensor_is_a_row_that_says_so(tmp_path: Path) -> None:
    save(tmp_path, "good_float32_1.npy", "bad.pt")
    (tmp_path / "bad_Int8_2.npy").write_bytes(b"x")
    problems = {"bad.pt": "no zip", "bad_Int8_2.npy": "no npy"}
    _, tensors, summary = read(tmp_path, lambda name: (None, problems.get(name)))
    assert [(row["op"], row["dtype"], row["shape"], row["max"], row["content_problem"]) for row in tensors] == [
        ("bad.0.debug", None, None, None, "no zip"),
        ("good.0.debug", "float64", [], 1, None),
        ("bad.1.debug", "int8", None, None, "no npy"),
    ]
    assert summary.unreadable == 2
    assert len(summary.notes) == 2
    assert summary.notes[1].startswith("2 of the files hold no tensor that can be read; ")
    assert str(tmp_path / "bad.pt") in summary.notes[1]


def test_names_that_are_no_text_and_no_file_names_of_a_dump(tmp_path: Path) -> None:
    save(tmp_path / "a", "x\udcff.npy")
    with pytest.raises(DumpError, match=r"holds text that is not valid Unicode; the file is damaged$"):
        read(tmp_path / "a")
    save(tmp_path / "b", "x\\y.npy")
    with pytest.raises(DumpError, match="which leaves the folder"):
        read(tmp_path / "b")


NPY = (TENSORS / "dtype_int16.npy").read_bytes()
PT = (TENSORS / "dtype_float16.pt").read_bytes()
DAMAGES = damages(1500)
NAMES = st.lists(
    st.tuples(
        st.text("ab._09 é", max_size=6),
        st.sampled_from(["", "_float32", "_int8", "_x"]),
        st.just("") | st.integers(0, 10**12).map("_{}".format),
        st.sampled_from([".npy", ".pt"]),
    ).map("".join),
    min_size=1,
    max_size=6,
    unique=True,
)


@pytest.fixture(scope="module")
def to_damage(tmp_path_factory: pytest.TempPathFactory) -> Source:
    folder = save(tmp_path_factory.mktemp("npy_folder"), "a_int16_1.npy", "b_float16_2.pt")
    [source] = found(folder)
    return source


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(npy_damages=DAMAGES, pt_damages=DAMAGES)
def test_any_damage_gives_rows(to_damage: Source, npy_damages: Damages, pt_damages: Damages) -> None:
    (to_damage.folder / "a_int16_1.npy").write_bytes(damaged(NPY, npy_damages))
    (to_damage.folder / "b_float16_2.pt").write_bytes(damaged(PT, pt_damages))
    ops, tensors, summary = read_rows(to_damage)
    assert [op["op"] for op in ops] == ["a.0.debug", "b.0.debug"]
    assert summary.tensor_rows == len(tensors) == 2
    if tensors[0]["max"] is not None:
        loaded = np.load(to_damage.folder / "a_int16_1.npy")
        assert tensors[0]["shape"] == list(loaded.shape)
        assert loaded.dtype.kind == "c" or np.array_equal(tensors[0]["max"], float(loaded.max()), equal_nan=True)


@given(names=NAMES)
def test_any_names_give_each_file_an_op_of_its_own(names: list[str]) -> None:
    folder = Path("nowhere")
    ops, _, _ = read_rows(Source(npy_folder.NAME, folder, folder, 0, 0, tuple(map(folder.joinpath, names)), folder))
    assert len({op["op"] for op in ops}) == len(ops) == len(names)
    for stem in {op["stem"] for op in ops}:
        assert [op["call"] for op in ops if op["stem"] == stem] == list(range(sum(op["stem"] == stem for op in ops)))


# ---- among other folders ----------------------------------------------------------------------------------------


def test_a_tree_is_searched_below_its_files(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for path in (".", "step1/rank2", "step1/rank2/mlp", "a/b/c"):
        save(run / path, "x.npy")
    [located] = locate(run).runs
    assert located.root == run
    assert [(source.step, source.rank, source.part) for source in located.sources] == [
        (0, 0, ""), (0, 0, "a/b/c"), (1, 2, ""), (1, 2, "mlp"),
    ]  # fmt: skip


def test_tensor_files_above_a_dump_are_left_out_and_told(tmp_path: Path) -> None:
    run = tmp_path / "run"
    save(run, "weights.npy", "model.pt")
    save(run / "step0" / "rank0" / "dump_tensor_data", "Torch.relu.0.forward.input.0.npy")
    save(run / "step0" / "rank0", "beside.npy")
    (run / "step0" / "rank0" / "dump.json").write_text('{"data": {}}')
    [located] = locate(run).runs
    [source] = located.sources
    assert source.format == dump.NAME
    assert source.notes == (f"left out, because they are of no dump: tensor files in {run}",)


def test_dumps_beside_a_folder_of_tensors_are_runs_of_their_own(tmp_path: Path) -> None:
    save(tmp_path / "tensors" / "step1", "x.npy")
    save(tmp_path / "saved" / "data" / "loss" / "step0" / "rank0", "loss.npy")
    (tmp_path / "gpu" / "rank0").mkdir(parents=True)
    (tmp_path / "gpu" / "rank0" / "dump.json").write_text('{"data": {}}')
    runs = {run.root: [source.format for source in run.sources] for run in locate(tmp_path).runs}
    assert runs == {
        tmp_path: [npy_folder.NAME],
        tmp_path / "gpu": [dump.NAME],
        tmp_path / "saved": [single_save.NAME],
    }
