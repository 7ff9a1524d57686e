"""Checkpoints of every format are read to the last bit; damaged and hostile ones end in one line, and run nothing."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch")

import lakeprobe  # noqa: E402
from lakeprobe.errors import DumpError, TensorError  # noqa: E402
from lakeprobe.tensors import TensorReference, open_tensor  # noqa: E402
from lakeprobe.tensors.merged import merged  # noqa: E402
from lakeprobe.tensors.mindspore_ckpt import read_ckpt  # noqa: E402
from lakeprobe.tensors.safetensors import read_safetensors  # noqa: E402
from lakeprobe.tensors.saved import Saved, Whole  # noqa: E402
from lakeprobe.tensors.state_dict import is_state_dict, read_state_dict  # noqa: E402
from lakeprobe.tensors.torch_distributed import read_distributed  # noqa: E402
from tests.readers import checkpoints  # noqa: E402

STATE = checkpoints.state()


def holds(saved: Saved, tensors: dict[str, torch.Tensor], prefix: str = "") -> bool:
    for name, tensor in tensors.items():
        found = saved.tensors[prefix + name]
        if isinstance(found, Whole):
            with merged(found) as reference:
                if not checkpoints.same(open_tensor(reference), tensor):
                    return False
        elif not checkpoints.same(open_tensor(found), tensor):
            return False
    return len(saved.tensors) == len(tensors)


# ---- formats ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_state_dict_in_both_formats_of_torch(tmp_path: Path, is_zip: bool) -> None:
    torch.save(
        {"model": STATE, "epoch": 3, "note": "x", "at": None}, tmp_path / "x.pt", _use_new_zipfile_serialization=is_zip
    )
    saved = read_state_dict(tmp_path / "x.pt")
    assert holds(saved, STATE, "model.")
    assert saved.values == {"epoch": 3, "note": "x", "at": None}
    assert saved.shared == {"model.head.weight": "model.embed.weight"}
    assert is_state_dict(tmp_path / "x.pt")


def test_views_keep_their_strides(tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    tensors = {"transposed": base.t(), "column": base[:, 2], "expanded": base[:, :1].expand(4, 3)}
    torch.save(tensors, tmp_path / "x.pt")
    assert holds(read_state_dict(tmp_path / "x.pt"), tensors)


def test_what_is_no_tensor_is_named(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2), "s": torch.ones(2).to_sparse(), "f": {1, 2}}, tmp_path / "x.pt")
    saved = read_state_dict(tmp_path / "x.pt")
    assert list(saved.tensors) == ["w"]
    assert saved.left_out.keys() == {"s", "f"}


@pytest.mark.filterwarnings("ignore:.*quantize.* deprecated")
def test_quantized_tensors_and_unknown_element_types_are_known_by_their_shape(tmp_path: Path) -> None:
    scales = torch.tensor([0.1, 0.2]), torch.tensor([0, 0])
    whole = torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.qint8)
    torch.save(
        {
            "whole": whole,
            "w": torch.ones(2),
            "rows": torch.quantize_per_channel(torch.ones(2, 3), *scales, 0, torch.quint8),
            "parameter": torch.nn.Parameter(whole, requires_grad=False),
            "packed": torch.ones(2, 4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
            "last": torch.ones(3),
        },
        tmp_path / "x.pt",
    )
    saved = read_state_dict(tmp_path / "x.pt")
    assert holds(saved, {"w": torch.ones(2), "last": torch.ones(3)})
    assert saved.left_out == {}
    assert {name: (tensor.dtype, tensor.shape) for name, tensor in saved.unread.items()} == {
        "whole": ("torch.qint8", (2, 3)),
        "rows": ("torch.quint8", (2, 3)),
        "parameter": ("torch.qint8", (2, 3)),
        "packed": ("torch.float4_e2m1fn_x2", (2, 4)),
    }


@pytest.mark.parametrize("value", [torch.ones(2), torch.nn.Parameter(torch.ones(2)), [torch.ones(2)]])
def test_a_tensor_alone_is_no_checkpoint(tmp_path: Path, value: Any) -> None:
    torch.save(value, tmp_path / "x.pt")
    assert not is_state_dict(tmp_path / "x.pt")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_safetensors(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {
        "a": torch.arange(6).reshape(2, 3).to(dtype),
        "scalar": torch.ones((), dtype=dtype),
        "none": torch.ones(0, 2, dtype=dtype),
    }
    assert holds(read_safetensors(checkpoints.safetensors(tmp_path / "x.safetensors", tensors)), tensors)


@pytest.mark.parametrize("slice_bytes", [1 << 29, 64])
def test_mindspore_in_one_value_or_in_slices(tmp_path: Path, slice_bytes: int) -> None:
    tensors = {**STATE, "epoch": torch.tensor(3), "half": torch.ones(3, dtype=torch.bfloat16)}
    assert holds(read_ckpt(checkpoints.ckpt(tmp_path / "x.ckpt", tensors, slice_bytes)), tensors)


@pytest.mark.parametrize("write", [checkpoints.distributed, checkpoints.in_chunks])
def test_torch_distributed(tmp_path: Path, write: Callable[[Path, Any], Path]) -> None:
    saved = read_distributed(write(tmp_path / "x", {**STATE, "step": 5}))
    assert holds(saved, STATE)
    assert list(saved.left_out) == ["step"]


@pytest.mark.parametrize(("tensor_ranks", "stages"), [(2, 1), (1, 2), (2, 2)])
def test_megatron_shards_are_the_model(tmp_path: Path, tensor_ranks: int, stages: int) -> None:
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        one, many = (
            checkpoints.megatron(tmp_path / "one", 1, 1),
            checkpoints.megatron(tmp_path / "many", tensor_ranks, stages),
        )
        lake.ingest(one)
        lake.ingest(many, tensors="link")
        query = "select op, content, norm from tensors where run = $run and kind = 'tensor' order by op"
        rows = {run: lake.sql(query, {"run": run}).fetchall() for run in ("one", "many")}
    assert rows["many"] == rows["one"]
    assert len(rows["one"]) == 23


def test_a_replicated_parameter_that_differs_stands_by_its_rank(tmp_path: Path) -> None:
    folder = checkpoints.megatron(tmp_path / "x", 2, 1)
    path = folder / "mp_rank_01/model_optim_rng.pt"
    saved = torch.load(path)
    saved["model"]["decoder.final_layernorm.weight"][0] += 1
    torch.save(saved, path)
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        lake.ingest(folder)
        assert lake.sql("select op from ops where op like '%@%'").fetchall() == [
            ("decoder.final_layernorm.weight@tp1",)
        ]
        ((note,),) = lake.sql("select notes[1] from dumps").fetchall()
    assert note == (
        "parameters differ between ranks that should hold the same: decoder.final_layernorm.weight@tp1; "
        "training let them drift apart"
    )


@pytest.mark.parametrize(
    ("size", "taken", "says"),
    [
        ((2, 1), ["mp_rank_00"], "lacks mp_rank_00; copy the checkpoint of all ranks into it"),
        ((1, 3), ["mp_rank_00_001"], "lacks mp_rank_00_001; copy"),
        ((2, 3), ["mp_rank_00_001", "mp_rank_01_000"], "lacks mp_rank_00_001 and 1 more; copy"),
    ],
)
def test_a_rank_that_is_missing_is_named(tmp_path: Path, size: tuple[int, int], taken: list[str], says: str) -> None:
    """Else what is split would be joined of the others, and later layers would have other numbers."""
    folder = checkpoints.megatron(tmp_path / "x", *size)
    for name in taken:
        shutil.rmtree(folder / name)
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        with pytest.raises(DumpError, match=re.escape(f"{folder} {says}")):
            lake.ingest(folder)
        assert lake.runs == []


def test_a_rank_of_any_number_costs_no_time(tmp_path: Path) -> None:
    folder = checkpoints.megatron(tmp_path / "x", 1, 1)
    (folder / "mp_rank_00").rename(folder / "mp_rank_9999_9999")
    with (
        lakeprobe.open(tmp_path / "lake", create=True) as lake,
        pytest.raises(DumpError, match="lacks mp_rank_00_000 and 99999998 more"),
    ):
        lake.ingest(folder)


# ---- hostile and damaged ----------------------------------------------------------------------------------


class Bomb:
    """Unpickled by pickle, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_pickle_that_runs_code_runs_nothing(tmp_path: Path, is_zip: bool) -> None:
    mark = tmp_path / "ran"
    torch.save({"w": torch.ones(2), "x": Bomb(mark)}, tmp_path / "x.pt", _use_new_zipfile_serialization=is_zip)
    saved = read_state_dict(tmp_path / "x.pt")
    assert list(saved.tensors) == ["w"]
    assert list(saved.left_out) == ["x"]
    assert not mark.exists()
    torch.load(tmp_path / "x.pt", weights_only=False)
    assert mark.exists()


def test_metadata_that_run_code_run_nothing(tmp_path: Path) -> None:
    folder, mark = tmp_path / "x", tmp_path / "ran"
    checkpoints.distributed(folder, STATE)
    (folder / ".metadata").write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(TensorError, match=r"is not metadata of torch\.distributed"):
        read_distributed(folder)
    assert not mark.exists()


def test_stand_ins_of_one_file_do_not_change_the_next(tmp_path: Path) -> None:
    state = b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n}X\x0c\x00\x00\x00__defaults__K\x01sbs."
    legacy = tmp_path / "bad.pt"
    torch.save({"w": torch.ones(2)}, tmp_path / "good.pt", _use_new_zipfile_serialization=False)
    good = (tmp_path / "good.pt").read_bytes()
    start = good.index(b"\x80\x02}q\x00X\x01\x00\x00\x00w")
    legacy.write_bytes(good[:start] + state + b"\x80\x02].")
    with pytest.raises(TensorError, match="refused object with a state of its own"):
        read_state_dict(legacy)
    assert holds(read_state_dict(tmp_path / "good.pt"), {"w": torch.ones(2)})


def test_storages_whose_keys_are_no_texts(tmp_path: Path) -> None:
    path = tmp_path / "bad.pt"
    torch.save({"w": torch.ones(2)}, path, _use_new_zipfile_serialization=False)
    good = path.read_bytes()
    keys = good.rindex(b"\x80\x02]q\x00")
    path.write_bytes(
        good[:keys] + pickle.dumps([[], *pickle.loads(good[keys:])], 2) + good[good.index(b".", keys) + 1 :]
    )
    with pytest.raises(TensorError, match="does not list its storages"):
        read_state_dict(path)


def test_a_storage_whose_key_has_a_line_break(tmp_path: Path) -> None:
    path = tmp_path / "bad.pt"
    torch.save({"w": torch.ones(2)}, path, _use_new_zipfile_serialization=False)
    good = path.read_bytes()
    keys = good.rindex(b"\x80\x02]q\x00")
    rest = good[good.index(b".", keys) + 1 :]
    path.write_bytes(good[:keys] + pickle.dumps(["a\nb", *pickle.loads(good[keys:])], 2) + rest)
    with pytest.raises(TensorError, match=r"ends before its storage a\\nb, or names it in no tensor"):
        read_state_dict(path)


def test_containers_that_name_each_other_end(tmp_path: Path) -> None:
    tree: Any = [1]
    for _ in range(40):
        tree = [tree, tree]
    torch.save({"a": tree}, tmp_path / "x.pt")
    with pytest.raises(TensorError, match="has more than 1000000 parameters"):
        read_state_dict(tmp_path / "x.pt")
    around: list[Any] = []
    around.append(around)
    torch.save({"a": around}, tmp_path / "y.pt")
    with pytest.raises(TensorError, match="nested deeper than 64 levels"):
        read_state_dict(tmp_path / "y.pt")


HEADER = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"a": HEADER, "b": {**HEADER, "data_offsets": [4, 12]}}, "does not follow the tensor before it"),
        ({"a": {**HEADER, "shape": [3]}}, "8 bytes do not fit F32"),
        ({"a": {**HEADER, "shape": [2**62, 2**62, 0]}}, "8 bytes do not fit F32"),
        ({"a": {**HEADER, "shape": [-2, -1]}}, "is not a tensor"),
        ({"a": {**HEADER, "dtype": "F4"}}, "of the element type F4"),
        ({"a": {**HEADER, "dtype": "F5", "shape": [1] * 65}}, "of the element type F5"),
        ({"a": {**HEADER, "data_offsets": [0, 8], "shape": [True, 2]}}, "is not a tensor"),
        ({"a": 5}, "is not a tensor"),
        ({"a": {**HEADER, "shape": [2000], "data_offsets": [0, 8000]}}, "truncated tensor"),
        ([], "is not a JSON object"),
        ({"a": HEADER}, "names no tensor for the last 4 bytes"),
        ({}, "names no tensor for the last 12 bytes"),
    ],
)  # fmt: skip
def test_forged_safetensors(tmp_path: Path, header: Any, message: str) -> None:
    text = json.dumps(header).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(12))
    with pytest.raises(TensorError, match=message) as caught:
        read_safetensors(tmp_path / "x.safetensors")
    assert "x.safetensors" in str(caught.value)
    assert "\n" not in str(caught.value)


class Forged:
    """Pickles as a quantized tensor of a forged shape."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape

    def __reduce__(self) -> Any:
        return torch._utils._rebuild_qtensor, (torch.UntypedStorage(2), 0, self.shape, (1,), (), False, {})


@pytest.mark.parametrize("shape", [(-1,), (True,), "ab", ("a",), 5, None])
def test_a_forged_quantized_tensor(tmp_path: Path, shape: Any) -> None:
    torch.save({"a": Forged(shape)}, tmp_path / "x.pt")
    with pytest.raises(TensorError, match=r"(forged tensor|unreadable pickle).*x\.pt; save it again"):
        read_state_dict(tmp_path / "x.pt")


def test_a_name_twice_in_safetensors(tmp_path: Path) -> None:
    entry = json.dumps(HEADER)
    text = f'{{"a": {entry}, "a": {entry}}}'.encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(TensorError, match="a name occurs twice"):
        read_safetensors(tmp_path / "x.safetensors")


def files(folder: Path) -> dict[str, Path]:
    folder.mkdir()
    small = {"w": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2)}
    torch.save(small, folder / "zip.pt")
    torch.save(small, folder / "legacy.pt", _use_new_zipfile_serialization=False)
    return {
        "zip": folder / "zip.pt",
        "legacy": folder / "legacy.pt",
        "safetensors": checkpoints.safetensors(folder / "x.safetensors", small),
        "ckpt": checkpoints.ckpt(folder / "x.ckpt", small),
    }


READERS = {"zip": read_state_dict, "legacy": read_state_dict, "safetensors": read_safetensors, "ckpt": read_ckpt}


@pytest.mark.parametrize("kind", READERS)
def test_damage_is_refused_or_harmless(tmp_path: Path, kind: str) -> None:
    path = files(tmp_path / "good")[kind]
    data = path.read_bytes()
    bad = tmp_path / f"bad{path.suffix}"
    step, refused = max(1, len(data) // 150), 0
    for place in range(0, len(data), step):
        for damaged in (data[:place], data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]):
            bad.write_bytes(damaged)
            try:
                for found in READERS[kind](bad).tensors.values():
                    assert isinstance(found, TensorReference)
                    open_tensor(found)
            except TensorError:
                refused += 1
    assert refused > 50


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = checkpoints.sharded(tmp_path / "x", STATE)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with (
        lakeprobe.open(tmp_path / "lake", create=True) as lake,
        pytest.raises(DumpError, match=r"in model-00002-of-00002.safetensors, which is missing"),
    ):
        lake.ingest(folder)


@pytest.mark.parametrize("left", ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"])
def test_a_missing_shard_is_noticed_without_an_index(tmp_path: Path, left: str) -> None:
    folder = checkpoints.sharded(tmp_path / "x", STATE)
    for path in folder.iterdir():
        if path.name != left:
            path.unlink()
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        for path in (folder, folder / left):
            with pytest.raises(DumpError, match=rf"{left} is one of 2 shards, and 1 are here"):
                lake.ingest(path)


def test_shards_of_two_checkpoints_are_not_mixed(tmp_path: Path) -> None:
    folder = checkpoints.sharded(tmp_path / "x", STATE)
    (folder / "model.safetensors.index.json").unlink()
    (folder / "model-00002-of-00002.safetensors").rename(folder / "model-00002-of-00003.safetensors")
    with (
        lakeprobe.open(tmp_path / "lake", create=True) as lake,
        pytest.raises(DumpError, match="remove those of another checkpoint"),
    ):
        lake.ingest(folder)


def test_a_chunk_that_is_missing_or_outside(tmp_path: Path) -> None:
    folder = checkpoints.in_chunks(tmp_path / "x", STATE)
    (folder / "__2_0.distcp").rename(tmp_path / "__2_0.distcp")
    with pytest.raises(TensorError, match=r"__2_0.distcp.: No such file"):
        read_distributed(folder)
    data = (folder / ".metadata").read_bytes()
    (folder / ".metadata").write_bytes(data.replace(b"__2_0.distcp", b"../_0.distcp"))
    with pytest.raises(TensorError, match="which leaves the folder"):
        read_distributed(folder)


def test_a_damaged_type_is_named_in_one_line(tmp_path: Path) -> None:
    path = checkpoints.ckpt(tmp_path / "x.ckpt", {"a": torch.ones(4), "b": torch.ones(2)})
    path.write_bytes(path.read_bytes().replace(b"Float32", b"\nloat32", 1))
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        report = lake.ingest(path)
    assert report.notes == [
        "run x.ckpt step 0 rank 0: not read, as they are not tensors, numbers or texts: a ( loat32)"
    ]


def test_a_damaged_checkpoint_is_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    path = checkpoints.safetensors(tmp_path / "x.safetensors", STATE)
    path.write_bytes(path.read_bytes()[:-1])
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        with pytest.raises(DumpError, match="truncated tensor"):
            lake.ingest(path)
        assert lake.runs == []


def test_names_that_collide_are_told_apart(tmp_path: Path) -> None:
    odd: dict[Any, Any] = {("x", 0): torch.ones(3), frozenset("y"): torch.ones(4), frozenset("z"): torch.ones(5)}
    tensors = {"a.b": torch.ones(1), "a": {"b": torch.ones(2), "c": odd}, "a.b#2": torch.ones(6)}
    torch.save(tensors, tmp_path / "x.pt")
    saved = read_state_dict(tmp_path / "x.pt")
    assert {name: reference.shape for name, reference in saved.tensors.items()} == {
        "a.b": (1,), "a.b#2": (2,), "a.c.('x', 0)": (3,), "a.c.Inert": (4,), "a.c.Inert#2": (5,), "a.b#2#2": (6,),
    }  # fmt: skip


def floats_of_4_bits(path: Path, shape: list[int]) -> Path:
    """A safetensors file with a tensor of an element type that is not read between two that are."""
    tensors = {
        "w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "q": {"dtype": "F4", "shape": shape, "data_offsets": [8, 12]},
        "last": {"dtype": "F32", "shape": [1], "data_offsets": [12, 16]},
    }
    text = json.dumps(tensors).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(16))
    return path


def test_a_row_without_values_has_its_shape(tmp_path: Path) -> None:
    files = [
        floats_of_4_bits(tmp_path / f"{name}.safetensors", shape)
        for name, shape in {"npu": [2, 4], "gpu": [2, 4], "other": [4, 2]}.items()
    ]
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        for file in files:
            assert lake.ingest(file).notes == [
                f"run {file.name} step 0 rank 0: these have no values, as their element types are not read: q (F4)"
            ]
        rows = lake.sql(
            "SELECT op, dtype, shape, max FROM tensors WHERE run = 'npu.safetensors' AND op = 'q'"
        ).fetchall()
        assert rows == [("q", "F4", [2, 4], None)]
        lake.compare("npu.safetensors", "gpu.safetensors", name="same")
        lake.compare("npu.safetensors", "other.safetensors", name="reshaped")
        query = "SELECT target_op, outcome, difference FROM results WHERE comparison = $name ORDER BY row"
        assert lake.sql(query, {"name": "same"}).fetchall() == [
            ("w", "equal", "equal"), ("last", "equal", "equal"), ("q", "unrecorded", None),
        ]  # fmt: skip
        assert lake.sql(query, {"name": "reshaped"}).fetchall()[-1] == ("q", "compared", "different")


def test_a_shard_with_a_tensor_that_is_not_read(tmp_path: Path) -> None:
    floats_of_4_bits(tmp_path / "model-00001-of-00001.safetensors", [2, 4])
    index = {"weight_map": dict.fromkeys(("w", "q", "last"), "model-00001-of-00001.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        lake.ingest(tmp_path, run="npu")
        assert lake.sql("SELECT op FROM tensors ORDER BY row").fetchall() == [("w",), ("last",), ("q",)]


def test_what_cannot_be_read_is_not_called_equal(tmp_path: Path) -> None:
    for name, value in (("npu", 1.0), ("gpu", 5.0)):
        sparse, random_state = torch.full((2,), value).to_sparse(), numpy.full(3, value)
        torch.save({"w": torch.ones(2), "s": sparse, "f": {1}, "r": random_state}, tmp_path / f"{name}.pt")
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        for _ in range(2):  # as files, and when the lake has them
            result = lake.compare(tmp_path / "npu.pt", tmp_path / "gpu.pt", replace=True)
            rows = lake.sql("SELECT target_op, outcome, difference FROM results ORDER BY row").fetchall()
            assert rows == [("w", "equal", "equal"), *((name, "unrecorded", None) for name in ("s", "f", "r"))]
            assert "Verdict: partly compared" in str(result)
