"""The files of a dump: dump.json's own keys, stack.json in both layouts, construct.json with and without micro step."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dump_oracle import canonical, data_of, read, write

from lakeprobe.errors import DumpError
from lakeprobe.readers import tables

TENSOR = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5,
          "Norm": 1.0, "requires_grad": False}  # fmt: skip
NAMES = ["Torch.add.0.forward", "Torch.mul.0.forward", "Module.fc.Linear.forward.0"]
DATA: dict[str, Any] = {name: {"input_args": [TENSOR], "output": [TENSOR]} for name in NAMES}


def refused(folder: Path, file: str = "dump.json") -> str:
    with pytest.raises(DumpError) as caught:
        read(folder)
    assert str(folder / file) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- dump.json --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [{"indent": 1}, {"indent": 4}, {}])
def test_the_head(tmp_path: Path, layout: dict[str, Any]) -> None:
    head = {"task": "tensor", "level": "L1", "framework": "mindspore", "dump_data_dir": "/a/b", "version": {"x": [1.5]}}
    write(tmp_path, {})
    (tmp_path / "dump.json").write_text(json.dumps({**head, "data": DATA, "late": None}, **layout))
    result = read(tmp_path)
    summary = result.summary
    assert (summary.task, summary.level, summary.framework) == ("tensor", "L1", "mindspore")
    assert json.loads(summary.head) == {**head, "late": None}
    assert canonical(data_of(result)) == canonical(DATA)
    assert (summary.ops, summary.tensor_rows, summary.digests, summary.files, summary.unreadable) == (3, 6, 0, 0, 0)


@pytest.mark.parametrize("layout", [{"indent": 1}, {}])
def test_empty_data_is_a_dump(tmp_path: Path, layout: dict[str, Any]) -> None:
    (tmp_path / "dump.json").write_text(json.dumps({"task": "tensor", "level": "L2", "data": {}}, **layout))
    result = read(tmp_path)
    assert (result.ops, result.tensors, result.summary.ops, result.summary.level) == ([], [], 0, "L2")


@pytest.mark.parametrize(
    ("type", "framework"),
    [("torch.Tensor", "pytorch"), ("mindspore.Tensor", "mindspore"), ("numpy.ndarray", "pytorch")],
)
def test_a_dump_without_framework_is_told_by_its_first_tensor(tmp_path: Path, type: str, framework: str) -> None:
    write(tmp_path, {NAMES[0]: {"input_args": [None, {**TENSOR, "type": type}]}}, framework=None)
    summary = read(tmp_path).summary
    assert summary.framework == framework
    assert f"taken as {framework}" in summary.notes[-1]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"task": "statistics"}', "has no data"),
        ('{"data": [1]}', "data that is not an object"),
        ('{"data": null}', "data that is not an object"),
        ('{"data": {}, "task": 5}', "task is not text"),
        ('{"data": {}, "framework": "tensorflow"}', "'tensorflow' is none of"),
        ('{"data": {}, "framework": ["pytorch"]}', "framework is not text"),
        ('{"data": {"a": {}, "b": {}, "a": {}}}', "the entry a occurs twice"),
        ('{\n "data": {\n  "a": {},\n  "a": {}\n }\n}', "the entry a occurs twice"),
        ('{"data": {"a": {"output": [1, 2', "truncated"),
        ("", "is empty"),
    ],
)
def test_what_is_no_dump(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "dump.json").write_text(content)
    assert says in refused(tmp_path)


def test_a_folder_without_dump(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path)


@pytest.mark.parametrize("task", ["\ud800", "a\nb"])
def test_odd_text_in_the_head(tmp_path: Path, task: str) -> None:
    write(tmp_path, DATA, task=task)
    if task == "a\nb":
        assert read(tmp_path).summary.task == task
    else:
        assert "not valid Unicode" in refused(tmp_path)


def test_a_section_that_is_not_known_is_kept_and_noted(tmp_path: Path) -> None:
    plain = {"input_args": [TENSOR], "output": []}
    data = {
        NAMES[0]: plain,
        NAMES[1]: plain | {"weird": {"x": TENSOR}},
        NAMES[2]: plain | {"is_nan": False, "more": [TENSOR], "weird": {}},
    }
    first = f"not compared, as no section of its name is known: weird of {NAMES[1]}"
    assert first in read(write(tmp_path, {name: data[name] for name in NAMES[:2]})).summary.notes
    result = read(write(tmp_path, data))
    assert f"{first}, nor such sections of 1 more ops" in result.summary.notes
    assert canonical(data_of(result)) == canonical(data)
    known = read(write(tmp_path, {NAMES[0]: plain | {"is_nan": True}}))
    assert "not compared" not in str(known.summary.notes)


def test_sections_that_are_not_known_are_counted_however_they_are_read(tmp_path: Path) -> None:
    """Entries that resemble each other are read at once."""
    entry = {"input_args": [TENSOR], "output": [], "weird": {}}
    result = read(write(tmp_path, {f"Torch.f.{call}.forward": entry for call in range(500)}))
    first = "not compared, as no section of its name is known: weird of Torch.f.0.forward"
    assert f"{first}, nor such sections of 499 more ops" in result.summary.notes


def test_other_keys_of_an_entry(tmp_path: Path) -> None:
    data = {
        NAMES[0]: {"is_nan": True, "input_args": [], "is_recompute": True, "output": [TENSOR]},
        NAMES[1]: {"input_args": [TENSOR], "is_recompute": False},
        NAMES[2]: {"is_recompute": None, "output": []},
    }
    result = read(write(tmp_path, data))
    assert [op["is_recompute"] for op in result.ops] == [True, False, None]
    assert [op["extra"] for op in result.ops] == ['{"is_nan": true}', None, '{"is_recompute": null}']
    assert [op["sections"] for op in result.ops] == [
        "is_nan input_args is_recompute output", "input_args is_recompute", "is_recompute output",
    ]  # fmt: skip
    assert canonical(data_of(result)) == canonical(data)


def test_batches_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {f"Torch.add.{call}.forward": {"input_args": [TENSOR] * (call % 4), "output": []} for call in range(50)}
    folder = write(tmp_path, data)
    whole = read(folder)
    for size in (1, 2, 7, 49, 50, 51):
        monkeypatch.setattr(tables, "_BATCH", size)
        assert read(folder) == whole


# ---- stack.json -------------------------------------------------------------------------------------------

A, B = ["File a.py, line 1, in f, \n x = 1"], ["File b.py, line 2, in g, \n y", "File a.py, line 1, in f, \n x = 1"]


@pytest.mark.parametrize(
    ("stack", "of_ops", "frames"),
    [
        ({NAMES[0]: A, NAMES[1]: B, NAMES[2]: A}, [0, 1, 0], [A, B]),
        ({NAMES[0]: [], NAMES[2]: B}, [0, None, 1], [[], B]),
        ({"0": [[NAMES[1], NAMES[0]], A], "1": [[NAMES[2]], B]}, [0, 0, 1], [A, B]),
        ({"0": [[NAMES[0]], A], "7": [["not in the dump"], B], "8": [[NAMES[1]], A]}, [0, 0, None], [A, B]),
        ({"0": [[], B], "1": [NAMES, []]}, [1, 1, 1], [B, []]),
        ({NAMES[0]: ["one", "two"]}, [0, None, None], [["one", "two"]]),
        ({}, [None, None, None], []),
    ],
)
@pytest.mark.parametrize("indent", [1, None])
def test_stacks(
    tmp_path: Path, stack: Any, of_ops: list[int | None], frames: list[list[str]], indent: int | None
) -> None:
    write(tmp_path, DATA)
    (tmp_path / "stack.json").write_text(json.dumps(stack, indent=indent))
    result = read(tmp_path)
    assert [op["stack"] for op in result.ops] == of_ops
    assert [row["frames"] for row in result.stacks] == frames
    assert [row["stack"] for row in result.stacks] == list(range(len(frames)))


@pytest.mark.parametrize("stack", [{NAMES[0]: "text"}, {NAMES[0]: None}, {NAMES[0]: [1]}, {"0": [[NAMES[0]], [None]]}])
def test_stacks_of_another_shape_are_refused(tmp_path: Path, stack: Any) -> None:
    assert "is not a list of lines" in refused(write(tmp_path, DATA, stack=stack), "stack.json")


# ---- construct.json ---------------------------------------------------------------------------------------


def test_parents(tmp_path: Path) -> None:
    construct = {NAMES[0]: NAMES[2], NAMES[2]: None, "Module.gone.X.forward.0": None}
    result = read(write(tmp_path, DATA, construct=construct))
    assert [(op["parent"], op["micro_step"]) for op in result.ops] == [(NAMES[2], None), (None, None), (None, None)]


def test_micro_steps(tmp_path: Path) -> None:
    construct = {NAMES[0]: [NAMES[2], 0], NAMES[1]: [None, 3], NAMES[2]: [None, None], "megatron_micro_step_number": 4}
    result = read(write(tmp_path, DATA, construct=construct))
    assert [(op["parent"], op["micro_step"]) for op in result.ops] == [(NAMES[2], 0), (None, 3), (None, None)]


@pytest.mark.parametrize("value", [["a"], ["a", "b"], [1, 2], {"a": 1}, ["a", 2**31], ["a", -1], ["a", True], "\ud800"])
def test_parents_of_another_shape_are_refused(tmp_path: Path, value: Any) -> None:
    write(tmp_path, DATA, construct={NAMES[0]: value})
    with pytest.raises(DumpError):
        read(tmp_path)


# ---- both -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["stack.json", "construct.json"])
def test_side_files_may_be_missing_or_empty(tmp_path: Path, file: str) -> None:
    write(tmp_path, DATA, stack={NAMES[0]: A}, construct={NAMES[0]: NAMES[2]})
    assert read(tmp_path).summary.notes == []
    (tmp_path / file).write_text("")
    assert read(tmp_path).summary.notes == [f"{file} is empty"]
    (tmp_path / file).unlink()
    result = read(tmp_path)
    assert result.summary.notes == [f"{file} is missing"]
    assert {op["stack" if file == "stack.json" else "parent"] for op in result.ops} == {None}


@pytest.mark.parametrize("file", ["stack.json", "construct.json"])
@pytest.mark.parametrize("content", ["{", "[]", '{"a": ', '{\n "a": [\n', "\xff", "{} x", " \n"])
def test_damaged_side_files_are_refused(tmp_path: Path, file: str, content: str) -> None:
    write(tmp_path, DATA)
    (tmp_path / file).write_text(content, encoding="latin-1")
    refused(tmp_path, file)


# ---- memory -----------------------------------------------------------------------------------------------


def test_a_large_dump_takes_little_memory(tmp_path: Path) -> None:
    entry = json.dumps({"input_args": [TENSOR] * 4, "output": [TENSOR]}, indent=1).replace("\n", "\n  ")
    count = 60_000_000 // (len(entry) + 30)
    with (tmp_path / "dump.json").open("w") as file:
        file.write('{\n "task": "statistics",\n "data": {')
        file.writelines(f'{"," * (call > 0)}\n  "Torch.add.{call}.forward": {entry}' for call in range(count))
        file.write("\n }\n}")
    assert (tmp_path / "dump.json").stat().st_size > 59_000_000
    # VmHWM, not ru_maxrss, which a child inherits from the process that starts it
    program = (
        "import re, sys; from pathlib import Path\n"
        "from lakeprobe.readers import dump; from lakeprobe.readers.source import Source\n"
        "folder = Path(sys.argv[1])\n"
        "source = Source(dump.NAME, folder, folder, 0, 0)\n"
        "summary = dump.read(source, lambda name: (None, None), lambda table, batch: None)\n"
        "peak = re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]\n"
        "print(summary.ops, summary.tensor_rows, peak)"
    )
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    ops, rows, peak = map(int, run.stdout.split())
    assert (ops, rows) == (count, 5 * count)
    assert peak < 300_000  # kB
    (tmp_path / "dump.json").unlink()
