"""ptdbg_ascend's .pkl of every release: names, leaves, stacks, calls that lie apart or come again, and damage."""

from __future__ import annotations

import json
import math
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import Read, listing, read_source

from lakeprobe.errors import DumpError
from lakeprobe.readers import ptdbg, ptdbg_names
from lakeprobe.readers.source import Listing, Source, Summary

PAIR = Path(__file__).resolve().parents[1] / "data" / "ptdbg" / "pair.tar.xz"
FLOATS = [2.5, -1.0, 0.25]
FRAMES = [["/m/train.py", "12", "forward", "y = self.fc(x)"], ["/m/train.py", "40", "<module>", None]]


def find(folder: Path) -> list[Source]:
    return ptdbg.find(listing(folder))


def text(lines: list[Any]) -> str:
    """A .pkl as the tool writes it; a line that is text stands there as it is."""
    return "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)


def read(folder: Path, *lines: Any, files: bool = False) -> Read:
    """Read a .pkl of these lines."""
    (folder / "dump.pkl").write_text(text(list(lines)))
    if files:
        (folder / "dump").mkdir()
    (source,) = find(folder)
    return read_source(ptdbg, source)


def line(name: str, statistics: Any = FLOATS, dtype: str = "torch.float32", shape: Any = (2, 3), md5: Any = ()) -> Any:
    return [name, 1, list(md5) if isinstance(md5, tuple) else md5, dtype, shape, statistics]


def refused(folder: Path, *lines: Any) -> str:
    with pytest.raises(DumpError) as caught:
        read(folder, *lines)
    message = str(caught.value)
    assert "dump.pkl" in message
    assert "\n" not in message
    return message


# ---- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "op", "what", "indexes"),
    [
        ("Functional_conv2d_1_forward_input.0", "Functional.conv2d.1.forward", "input", "0"),
        ("Functional_conv2d_1_forward_output", "Functional.conv2d.1.forward", "output", "0"),
        ("Functional_conv2d_1_forward_stack_info", "Functional.conv2d.1.forward", "stack_info", "0"),
        ("Tensor___add___0_backward_output.1", "Tensor.__add__.0.backward", "output", "1"),
        ("Tensor_add__12_forward_input.0", "Tensor.add_.12.forward", "input", "0"),
        ("Tensor___getitem___3_forward_input.1.0", "Tensor.__getitem__.3.forward", "input", "1.0"),
        ("Torch__foreach_norm_0_forward_output.7", "Torch._foreach_norm.0.forward", "output", "7"),
        ("Functional_adaptive_avg_pool2d_0_forward_input.0", "Functional.adaptive_avg_pool2d.0.forward", "input", "0"),
        ("Torch_log1p_2_forward_output", "Torch.log1p.2.forward", "output", "0"),
        ("Torch_split_input_0_forward_input.0", "Torch.split_input.0.forward", "input", "0"),
        ("NPU_npu_scaled_masked_softmax_0_forward_output", "NPU.npu_scaled_masked_softmax.0.forward", "output", "0"),
        ("Aten_add.Tensor_0_forward_input.0", "Aten.add.Tensor.0.forward", "input", "0"),
        ("1478_Tensor_permute_forward_input.0", "Tensor.permute.1478.forward", "input", "0"),
        ("1479_Torch_log1p_output", "Torch.log1p.1479.forward", "output", "0"),
        ("Tensor_add__0_pre_forward_stack_info", "Tensor.add_.0.forward", "stack_info", "0"),
        ("Torch.add.0.forward.input.0", "Torch.add.0.forward", "input", "0"),
        ("Torch.add.0.backward.output", "Torch.add.0.backward", "output", "0"),
        ("Module.layers.0.fc.Linear.forward.2.input.0", "Module.layers.0.fc.Linear.forward.2", "input", "0"),
        ("fc1_forward_output.0", "fc1_forward", "output", "0"),
        ("loss", "loss", "output", "0"),
        ("Torch_add_0_forward_input.01", "Torch_add_0_forward_input.01", "output", "0"),
    ],
)
def test_names_become_todays(name: str, op: str, what: str, indexes: str) -> None:
    assert ptdbg_names.split(name) == (op, what, indexes)


def test_names_of_the_accuracy_checker() -> None:
    assert ptdbg_names.today("Functional*conv2d*1", "backward") == "Functional.conv2d.1.backward"


# ---- leaves -----------------------------------------------------------------------------------------------


def test_a_tensor(tmp_path: Path) -> None:
    result = read(tmp_path, line("Torch_add_0_forward_output"), files=True)
    row = result.leaf("Torch.add.0.forward.output.0")
    expected = {
        "kind": "tensor", "type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "max": 2.5, "min": -1.0,
        "mean": 0.25, "norm": None, "role": "output", "digest": None, "data_name": "Torch_add_0_forward_output.npy",
        "extra": None,
    }  # fmt: skip
    assert expected.items() <= row.items()
    summary = result.summary
    assert (summary.framework, summary.task, summary.level) == ("pytorch", "tensor", "L1")
    (op,) = result.ops
    assert (op["kind"], op["api_type"], op["api"], op["call"], op["direction"]) == ("api", "Torch", "add", 0, "forward")


@pytest.mark.parametrize(
    ("statistics", "expected"),
    [
        ([2.5, -1.0, 0.25, 4.0], (2.5, -1.0, 0.25, 4.0)),
        ([2.5, -1.0, 0.25, "Nan"], (2.5, -1.0, 0.25, None)),
        ([[], [], []], (None, None, None, None)),
        ([[], [], [], "Nan"], (None, None, None, None)),
        ([], (None, None, None, None)),
        ([math.inf, -math.inf, -math.inf], (math.inf, -math.inf, -math.inf, None)),
        ([3, 0, 1.5, 2**60], (3.0, 0.0, 1.5, float(2**60))),
    ],
)
def test_statistics(tmp_path: Path, statistics: Any, expected: Any) -> None:
    row = read(tmp_path, line("Torch_add_0_forward_output", statistics)).leaf("Torch.add.0.forward.output.0")
    assert (row["max"], row["min"], row["mean"], row["norm"]) == expected


def test_nan_is_a_statistic(tmp_path: Path) -> None:
    row = read(tmp_path, line("Torch_add_0_forward_output", [math.nan] * 3)).leaf("Torch.add.0.forward.output.0")
    assert all(math.isnan(row[statistic]) for statistic in ("max", "min", "mean"))


@pytest.mark.parametrize(
    ("dtype", "value", "type_", "text_"),
    [
        ("<class 'int'>", 3, "int", "3"),
        ("<class 'float'>", 0.5, "float", "0.5"),
        ("<class 'bool'>", True, "bool", "true"),
        ("<class 'float'>", math.inf, "float", "Infinity"),
    ],
)
def test_scalars_are_values(tmp_path: Path, dtype: str, value: Any, type_: str, text_: str) -> None:
    result = read(tmp_path, line("Torch_add_0_forward_input.1", [value] * 3, dtype, "[]"), files=True)
    row = result.leaf("Torch.add.0.forward.input.1")
    assert (row["kind"], row["type"], row["value"], row["data_name"]) == ("scalar", type_, text_, None)


def test_a_slice_has_no_value(tmp_path: Path) -> None:
    result = read(tmp_path, line("Tensor___getitem___0_forward_input.1", [[], [], []], "<class 'slice'>", "[]"))
    row = result.leaf("Tensor.__getitem__.0.forward.input.1")
    assert (row["kind"], row["type"], row["value"]) == ("object", "slice", None)


def test_md5_is_the_digest(tmp_path: Path) -> None:
    md5 = "0cc175b9c0f1b6a831c399e269772661"
    result = read(tmp_path, line("Torch.add.0.forward.input.0", [], md5=md5), line("Torch.add.0.forward.output", []))
    assert [row["digest"] for row in result.tensors] == [md5, None]
    assert result.summary.digests == 1


def test_sampled_tensors_say_so(tmp_path: Path) -> None:
    result = read(tmp_path, ["Torch_add_0_forward_output", 2, [], "torch.float32", [9], FLOATS])
    assert json.loads(result.tensors[0]["extra"]) == {"dump_step": 2}


def test_an_overflow_check(tmp_path: Path) -> None:
    result = read(
        tmp_path,
        ["Torch_mul_4_backward_stack_info", FRAMES],
        ["Torch_mul_4_backward_output.0", 101, [], "torch.float16", [4]],
        "",
        ["Torch_mul_4_backward_input.0", 101, [], "torch.float16", [4]],
    )
    assert result.names() == ["Torch.mul.4.backward"]
    assert [(row["slot"], row["section"], row["shape"], row["max"]) for row in result.tensors] == [
        ("input.0", "input", [4], None),
        ("output.0", "output", [4], None),
    ]
    assert result.ops[0]["stack"] == 0
    assert result.tensors[0]["extra"] is None


def test_stacks_are_as_msprobe_writes_them(tmp_path: Path) -> None:
    result = read(
        tmp_path,
        line("Torch_add_0_forward_output"), ["Torch_add_0_forward_stack_info", FRAMES],
        line("Torch_add_1_forward_output"), ["Torch_add_1_forward_stack_info", [*FRAMES, ""]],
        ["Torch_add_2_forward_stack_info", [["/m/loss.py", "1", "f", "g()"]]],
    )  # fmt: skip
    first = ["File /m/train.py, line 12, in forward, \n y = self.fc(x)", "File /m/train.py, line 40, in <module>, \n "]
    assert [row["frames"] for row in result.stacks] == [first, ["File /m/loss.py, line 1, in f, \n g()"]]
    assert [(op["op"], op["stack"]) for op in result.ops] == [
        ("Torch.add.0.forward", 0), ("Torch.add.1.forward", 0), ("Torch.add.2.forward", 1),
    ]  # fmt: skip


# ---- calls ------------------------------------------------------------------------------------------------


def test_lines_of_an_in_place_op_stand_around_those_of_calls_inside_it(tmp_path: Path) -> None:
    result = read(
        tmp_path,
        line("Functional_relu__0_forward_input.0"),
        line("Torch_relu__0_forward_input.0"),
        line("Torch_relu__0_forward_output.0"),
        line("Functional_relu__0_forward_output.0"),
        ["Functional_relu__0_forward_stack_info", FRAMES],
    )
    assert result.names() == ["Functional.relu_.0.forward", "Torch.relu_.0.forward"]
    assert [row["name"] for row in result.tensors] == [
        f"{op}.{slot}" for op in result.names() for slot in ("input.0", "output.0")
    ]
    assert result.ops[0]["stack"] == 0
    assert result.summary.notes == []


def test_what_is_dumped_twice_is_kept_twice(tmp_path: Path) -> None:
    result = read(
        tmp_path,
        line("Tensor_add__0_forward_input.0", [1.0, 1.0, 1.0]),
        line("Tensor_add__0_forward_input.0", [3.0, 3.0, 3.0]),
        line("Tensor_add__0_forward_output", [3.0, 3.0, 3.0]),
        line("Tensor_add__0_forward_input.0", [4.0, 4.0, 4.0]),
        line("Tensor_mul_0_forward_output"),
        files=True,
    )
    assert [(row["name"], row["max"], row["data_name"]) for row in result.tensors] == [
        ("Tensor.add_.0.forward.input.0", 1.0, None),  # its file was overwritten
        ("Tensor.add_.0.forward.output.0", 3.0, "Tensor_add__0_forward_output.npy"),
        ("Tensor.add_.0.forward#2.input.0", 3.0, None),
        ("Tensor.add_.0.forward#3.input.0", 4.0, "Tensor_add__0_forward_input.0.npy"),
        ("Tensor.mul.0.forward.output.0", 2.5, "Tensor_mul_0_forward_output.npy"),
    ]
    (note,) = result.summary.notes
    assert note.startswith("2 lines have the name of an earlier line")


def test_output_and_output_0_are_two_files(tmp_path: Path) -> None:
    """6.0 writes both of an in-place op if its inputs are not asked for."""
    lines = [line("Tensor.add_.0.forward.output.0", [1.0] * 4), line("Tensor.add_.0.forward.output", [2.0] * 4)]
    result = read(tmp_path, *lines, files=True)
    assert [(row["op"], row["max"], row["data_name"]) for row in result.tensors] == [
        ("Tensor.add_.0.forward", 1.0, "Tensor.add_.0.forward.output.0.npy"),
        ("Tensor.add_.0.forward#2", 2.0, "Tensor.add_.0.forward.output.npy"),
    ]


def test_a_second_backward_pass(tmp_path: Path) -> None:
    first = [line(f"Torch_add_{call}_backward_{what}.0") for call in (1, 0) for what in ("input", "output")]
    stacks = [["Torch_add_0_backward_stack_info", FRAMES]]
    result = read(tmp_path, *first, *stacks, *first, *stacks, *stacks)
    assert result.names() == [
        "Torch.add.1.backward", "Torch.add.0.backward", "Torch.add.1.backward#2", "Torch.add.0.backward#2",
    ]  # fmt: skip
    assert [op["stack"] for op in result.ops] == [None, 0, None, 0]
    assert len(result.tensors) == 8
    assert result.summary.notes[1] == "1 further stacks of calls that have one were left out"


def test_a_line_that_comes_after_its_call_was_written_is_an_op_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ptdbg, "_WINDOW", 500)
    calls = [line(f"Torch_add_{call}_forward_output") for call in range(20)]
    late = [line("Torch_add_0_forward_input.0"), line("Torch_add_0_forward_output")]
    result = read(tmp_path, *calls, *late, files=True)
    assert result.names() == [*(f"Torch.add.{call}.forward" for call in range(20)), "Torch.add.0.forward#2"]
    assert [row["slot"] for row in result.tensors[-2:]] == ["input.0", "output.0"]


def test_the_window_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptdbg, "_WINDOW", 2000)
    held = []
    original = ptdbg._Calls.write

    def spy(self: Any, beyond: int) -> None:
        original(self, beyond)
        held.append((self._size, len(self._queue), len(self._open)))

    monkeypatch.setattr(ptdbg._Calls, "write", spy)
    read(tmp_path, *(line(f"Torch_add_{call}_forward_output") for call in range(500)))
    assert max(size for size, *_ in held) <= 2000
    assert max(queue for _, queue, _ in held) < 30
    assert held[-1] == (0, 0, 0)


def test_unknown_names_are_kept(tmp_path: Path) -> None:
    result = read(tmp_path, line("layer1.conv_forward_input.0"), line("some thing"), line("x.input.2.1"))
    assert [(row["op"], row["slot"]) for row in result.tensors] == [
        ("layer1.conv_forward", "input.0"), ("some thing", "output.0"), ("x", "input.2.1"),
    ]  # fmt: skip
    assert {op["kind"] for op in result.ops} == {"other"}


# ---- folders ----------------------------------------------------------------------------------------------

LINE = text([line("Torch_add_0_forward_output")])


def tree(root: Path, *files: str) -> None:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        else:
            path.write_text(LINE)


@pytest.mark.parametrize(
    ("file", "root", "step", "rank", "process"),
    [
        ("npu/ptdbg_dump_v2.2/rank3/npu_dump.pkl", "npu", 0, 3, None),
        ("npu/ptdbg_dump_v6.0.T1/step7/rank12/dump.pkl", "npu", 7, 12, None),
        ("npu/mine_v1_v4.0/step7/rank0/dump.pkl", "npu", 7, 0, None),
        ("npu/ptdbg_dump_v2.2/rank104321/dump.pkl", "npu", 0, 0, 4321),
        ("npu/rank1/dump.pkl", "npu", 0, 1, None),
        ("model_v2/rank1/dump.pkl", "model_v2", 0, 1, None),
        ("npu/npu_dump.pkl", "npu", 0, 0, None),
    ],
)
def test_layouts(tmp_path: Path, file: str, root: str, step: int, rank: int, process: int | None) -> None:
    tree(tmp_path, file)
    (source,) = find((tmp_path / file).parent)
    assert source.root == tmp_path / root
    assert (source.step, source.rank, source.process, source.part) == (step, rank, process, "")
    assert source.files == (tmp_path / file,)
    assert source.format == "ptdbg dump"


def test_modes_are_parts(tmp_path: Path) -> None:
    names = ["npu_dump", "api_stack_npu_dump", "list_npu_dump", "range_npu_dump", "Overflow_info_20230601120000_1"]
    tree(tmp_path, *(f"{name}.pkl" for name in names), "npu_dump/", "list_npu_dump/", "other/")
    found = find(tmp_path)
    assert {(source.files[0].stem, source.part, source.tensors and source.tensors.name) for source in found} == {
        ("npu_dump", "", "npu_dump"),
        ("api_stack_npu_dump", "api_stack", None),
        ("list_npu_dump", "list", "list_npu_dump"),
        ("range_npu_dump", "range", None),
        ("Overflow_info_20230601120000_1", "overflow 1", None),
    }  # fmt: skip


def test_two_of_a_mode_are_called_by_their_names(tmp_path: Path) -> None:
    tree(tmp_path, "a_dump.pkl", "b_dump.pkl", "list_dump.pkl", "Torch_add_0_forward_1.pkl")
    assert [source.part for source in find(tmp_path)] == ["overflow", "a_dump", "b_dump", "list"]


def test_a_single_file_has_no_part(tmp_path: Path) -> None:
    tree(tmp_path, "api_stack_dump.pkl", "api_stack_dump/")
    (source,) = find(tmp_path)
    assert (source.part, source.tensors) == ("", tmp_path / "api_stack_dump")


def test_folder_of_1_0_has_the_time_in_its_name(tmp_path: Path) -> None:
    tree(tmp_path, "npu_dump.pkl", "npu_dump_20230301120000/", "npu_dump_20230401120000/", "npu_dump_x/")
    (source,) = find(tmp_path)
    assert source.tensors == tmp_path / "npu_dump_20230401120000"


@pytest.mark.parametrize(
    "content",
    [b"\x80\x04\x95\x0b", b'{"a": 1}\n', b"[1, 2]\n", b"(lp0\n.", b"[[1]]\n", b"\xff\xfe["],
    ids=["pickle", "object", "numbers", "old pickle", "nested", "utf-16"],
)
def test_other_pickles_are_none_of_ours(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "npu_dump.pkl").write_bytes(content)
    assert find(tmp_path) == []


def test_a_folder_called_pkl_is_no_dump(tmp_path: Path) -> None:
    tree(tmp_path, "dump.pkl/")
    assert find(tmp_path) == []
    assert ptdbg.find(Listing(tmp_path, ["dump.pkl", "gone.pkl"], [], tmp_path)) == []


# ---- arguments of calls that overflowed -------------------------------------------------------------------

TENSOR = {"type": "torch.Tensor", "dtype": "torch.float16", "shape": [2], "Max": 6.0, "Min": 1.0, "requires_grad": True}


def test_infos_of_an_overflow_check(tmp_path: Path) -> None:
    forward = {
        "Torch_mul_0_forward": {"args": [TENSOR, [TENSOR, None]], "kwargs": {"p": {"type": "float", "value": 1.5}}}
    }
    backward = {"Torch*mul*0": [TENSOR]}
    stack = {"Torch_mul_0_forward": ["File a.py, line 1, in f, \n g()"]}
    for kind, content in (("forward", forward), ("backward", backward), ("stack", stack)):
        (tmp_path / f"{kind}_info_4711.json").write_text(json.dumps(content, indent=1))
    (tmp_path / "backward_info_99.json").write_text(json.dumps(backward))
    (tmp_path / "stack_info_12.json").write_text("{}")
    one, other = find(tmp_path)
    assert (one.process, other.process, one.part, one.root) == (4711, 99, "overflow info", tmp_path)
    assert [file.name for file in one.files] == [f"{kind}_info_4711.json" for kind in ("forward", "backward", "stack")]
    result = read_source(ptdbg, one)
    assert [(row["name"], row["max"], row["value"]) for row in result.tensors] == [
        ("Torch.mul.0.forward.input.0", 6.0, None),
        ("Torch.mul.0.forward.input.1.0", 6.0, None),
        ("Torch.mul.0.forward.input.1.1", None, None),
        ("Torch.mul.0.forward.input.p", None, "1.5"),
        ("Torch.mul.0.backward.input.0", 6.0, None),
    ]
    assert [op["stack"] for op in result.ops] == [0, None]
    assert read_source(ptdbg, other).names() == ["Torch.mul.0.backward"]


def test_saved_arguments_of_an_overflow_check(tmp_path: Path) -> None:
    folder = tmp_path / "forward_real_data"
    folder.mkdir()
    np.save(folder / "Torch_mul_0_forward.0.npy", np.array([[3.0, -1.0]], np.float32))
    leaves = [
        {"type": "torch.Tensor", "datapath": f"/there/forward_real_data/Torch_mul_0_forward.{index}.npy"}
        for index in (0, 1)
    ]
    info = {"Torch_mul_0_forward": {"args": [leaves], "kwargs": {}}}
    (tmp_path / "forward_info_7.json").write_text(json.dumps(info))
    result = read_source(ptdbg, find(tmp_path)[0])
    first, second = result.tensors
    expected = {"name": "Torch.mul.0.forward.input.0.0", "kind": "tensor", "dtype": "torch.float32", "shape": [1, 2],
                "max": 3.0, "min": -1.0, "mean": 1.0, "data_name": "Torch_mul_0_forward.0.npy"}  # fmt: skip
    assert expected.items() <= first.items()
    assert (second["kind"], second["dtype"]) == ("object", None)
    assert json.loads(second["extra"])["datapath"].endswith("Torch_mul_0_forward.1.npy")
    assert result.summary.task == "tensor"
    assert result.summary.notes == [f"1 tensors of forward_info_7.json are not in {folder}, or not readable"]


def test_infos_nested_too_deep(tmp_path: Path) -> None:
    (tmp_path / "backward_info_7.json").write_text('{"Torch_mul_0": ' + "[" * 700 + "]" * 700 + "}")
    with pytest.raises(DumpError, match="deep"):
        read_source(ptdbg, find(tmp_path)[0])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("forward_info_1.json", ""),
        ("forward_info_1.json", "[1]"),
        ("forward_info_1.json", '{"Torch_mul_0": [1]}'),
        ("forward_info_1.json", '{"Torch_mul_0": {"args": [{"type": "torch.Tensor", "dtype": 1, "shape": []}]}}'),
        ("backward_info_1.json", '{"Torch_mul_0": [1'),
    ],
)
def test_broken_infos(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    (source,) = find(tmp_path)
    with pytest.raises(DumpError, match=name):
        read_source(ptdbg, source)


# ---- damage -----------------------------------------------------------------------------------------------

GOOD = line("Torch_add_0_forward_output")


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ('["Torch_add_1_forward_output", 1, [], "torch.fl', "line 2 is not complete JSON; the file is damaged"),
        ("{}", "line 2 is not a line of ptdbg_ascend"),
        ('"text"', "line 2 is not a line of ptdbg_ascend"),
        (["a", 1, []], "line 2 is not a line of ptdbg_ascend"),
        ([1, 1, [], "torch.float32", [1], []], "line 2 is not a line of ptdbg_ascend"),
        (["", 1, [], "torch.float32", [1], []], "line 2 is not a line of ptdbg_ascend"),
        (line("Torch_add_1\n_forward_output"), "line 2 is not a line of ptdbg_ascend"),
        (["Torch_add_1_forward_stack_info", [["\ud800", "1", "f", ""]]], "not valid Unicode"),
        (["Torch_add_1_forward_output", []], "line 2: Torch_add_1_forward_output has 2 fields"),
        (line("Torch_add_1_forward_stack_info"), "line 2: Torch_add_1_forward_stack_info has 6 fields"),
        (["Torch_add_1_forward_stack_info", 5], "is not a list of frames"),
        (["Torch_add_1_forward_stack_info", [5]], "is not a list of frames"),
        (line("Torch_add_1_forward_output", dtype=5), "has no dtype"),  # type: ignore[arg-type]
        (line("Torch_add_1_forward_output", 5), "has no dtype"),
        (line("Torch_add_1_forward_output", [1.0] * 5), "list of up to 4 statistics"),
        (line("Torch_add_1_forward_output", ["much"]), "a statistic that is not a number"),
        (line("Torch_add_1_forward_output", [10**400]), "which is not a number"),
        (line("Torch_add_1_forward_output", shape="[]"), "a shape that is not a list of integers"),
        (line("Torch_add_1_forward_output\ud800"), "line 2 is not a line of ptdbg_ascend"),
    ],
)
def test_damage_is_told(tmp_path: Path, bad: Any, says: str) -> None:
    assert says in refused(tmp_path, GOOD, bad)


def test_a_last_line_that_was_cut(tmp_path: Path) -> None:
    (tmp_path / "dump.pkl").write_text(LINE + LINE[:30])
    (source,) = find(tmp_path)
    with pytest.raises(DumpError, match=r"line 2 is not complete JSON; leave that line out to read the rest$"):
        read_source(ptdbg, source)


def test_an_empty_dump(tmp_path: Path) -> None:
    assert "is empty" in refused(tmp_path)


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptdbg, "_LONGEST_LINE", 64)
    assert "a line of more than 64 bytes" in refused(tmp_path, GOOD)


def test_a_name_that_leaves_the_folder(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    assert "leaves the folder of the tensors" in refused(tmp_path, line("../../etc/x_0_forward_output"))


def test_a_vanished_file(tmp_path: Path) -> None:
    tree(tmp_path, "dump.pkl")
    (source,) = find(tmp_path)
    (tmp_path / "dump.pkl").unlink()
    with pytest.raises(DumpError, match="cannot be read"):
        read_source(ptdbg, source)


# ---- a real dump ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real")
    with tarfile.open(PAIR) as archive:
        archive.extractall(folder, filter="data")
    return folder / "golden" / "ptdbg_dump_v2.2" / "rank0"


def test_every_line_of_a_real_dump_is_a_row(real: Path) -> None:
    (source,) = find(real)
    assert (source.root.name, source.rank, source.tensors) == ("golden", 0, real / "npu_dump")
    result = read_source(ptdbg, source)
    lines = [json.loads(raw) for raw in (real / "npu_dump.pkl").read_text().splitlines()]
    assert len(result.tensors) == len(lines) == 329
    by_file = {row["data_name"]: row for row in result.tensors}
    assert len(by_file) == 329
    for name, _, _, dtype, shape, (maximum, minimum, mean) in lines:
        row = by_file[f"{name}.npy"]
        assert (row["dtype"], row["shape"], row["max"], row["min"], row["mean"]) == (
            dtype, shape, maximum, minimum, mean,
        )  # fmt: skip
        assert (real / "npu_dump" / row["data_name"]).is_file()
        plain = row["name"].removesuffix(".0") if name.endswith("output") else row["name"]
        assert plain.replace(".", "_") == name.replace(".", "_")
    assert result.summary.notes == []
    assert {op["kind"] for op in result.ops} == {"api"}


# ---- any damage -------------------------------------------------------------------------------------------

VALID = text(
    [
        ["Functional_relu__0_forward_stack_info", FRAMES],
        line("Functional_relu__0_forward_input.0"),
        line("Torch_max_0_forward_input.1.0", [math.inf, -math.inf, math.nan, "Nan"]),
        line("Torch_max_0_forward_output", [[], [], []], "torch.bool", [0]),
        line("Functional_relu__0_forward_output.0", md5="0cc175b9c0f1b6a831c399e269772661"),
        line("Torch.add.0.forward.input.1", [3, 3, 3, 3], "<class 'int'>", "[]"),
        line("Functional_relu__0_forward_input.0"),
        "",
        ["Torch_add_0_backward_output.0", 101, [], "torch.float16", [4]],
        line("loss"),
    ]
).encode()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["torch.float32", "<class 'int'>", "<class '", "x_stack_info", "Nan", "..", "a/b", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """VALID with bytes flipped, cut out or put in, or with fields of its lines replaced."""
    content = bytearray(VALID)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, max(len(content) - 1, 0)))
        match draw(st.sampled_from(["flip", "cut", "insert", "repeat", "field", "end"])):
            case "flip" if content:
                content[start] = draw(st.integers(0, 255))
            case "cut":
                del content[start : start + draw(st.integers(1, 60))]
            case "insert":
                content[start:start] = draw(st.binary(max_size=8) | st.sampled_from([b"[" * 3000, b"9" * 5000, b"\n"]))
            case "repeat":
                content[start:start] = content[start : start + draw(st.integers(1, 200))]
            case "field":
                lines = VALID.decode().splitlines()
                number = draw(st.sampled_from([number for number, kept in enumerate(lines) if kept]))
                fields = json.loads(lines[number])
                fields[draw(st.integers(0, len(fields) - 1))] = draw(VALUES)
                lines[number] = json.dumps(fields)
                content = bytearray("\n".join(lines).encode("utf-8", "surrogatepass"))
            case "end":
                del content[start:]
    return bytes(content)


class OpNames:
    """Stands for Tables: keeps the names of ops only, and takes any body."""

    def __init__(self) -> None:
        self.summary = Summary()
        self.leaves = 0

    def stack(self, frames: list[str]) -> int:
        assert all(isinstance(frame, str) for frame in frames)
        return 0

    def add(self, op: str, name: Any, body: Any, *, stack: int | None) -> None:
        self.leaves += sum(len(section) for section in body.values())


def tried(read_it: Callable[[], Any]) -> Any:
    """What reading gives; None if it raises a DumpError, which is one line."""
    try:
        return read_it()
    except DumpError as error:
        return None if "\n" not in str(error) else pytest.fail(repr(str(error)))


@given(content=damaged())
def test_any_damage_gives_rows_or_an_error(content: bytes) -> None:
    """No line with a tensor is lost, whatever its name."""
    tables: Any = OpNames()
    lines = [raw + b"\n" for raw in content.split(b"\n")]

    def read_all() -> bool:
        ptdbg.read_lines(iter(lines), Path("dump.pkl"), tables, True)
        return True

    if tried(read_all):
        fields = [json.loads(raw.decode("utf-8", "surrogatepass")) for raw in lines if raw.strip()]
        assert tables.leaves == sum(len(found) != 2 for found in fields)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


@given(content=damaged())
def test_any_damage_of_a_file_gives_tables_or_an_error(folder: Path, content: bytes) -> None:
    (folder / "dump.pkl").write_bytes(content)
    for source in find(folder):
        if result := tried(partial(read_source, ptdbg, source)):
            assert len(result.ops) == result.summary.ops
            assert len(result.tensors) == result.summary.tensor_rows
