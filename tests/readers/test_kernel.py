"""MindSpore's kernel dumps: names and places, tensor files and statistic.csv against numpy, and what damage gives."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading import read_source
from sampling import examples

import lakeprobe
from lakeprobe.errors import DumpError, TensorError
from lakeprobe.readers import kernel
from lakeprobe.readers.kernel_names import parse, place_of
from lakeprobe.readers.source import Listing, Place, Source, Summary
from lakeprobe.tensors import TensorReference, open_tensor, read_tensor

Row = dict[str, Any]
HEADER = ["Op Type", "Op Name", "Task ID", "Stream ID", "Timestamp", "IO", "Slot", "Data Size", "Data Type", "Shape",
          "Max Value", "Min Value", "Avg Value", "L2Norm Value"]  # fmt: skip
STATISTIC = ["MatMul", "Default_fc", "0", "0", "1000", "input", "0", "24", "float32", "(2,3)",
             "1.5", "-1", "0.25", "2.0"]  # fmt: skip
NUMBERS = ("MaxValue", "MinValue", "AvgValue", "L2NormValue")
LONG_NAME = "MatMul.Default_" + "layer_" * 40 + "op0.0.0.{time}.input.0.DefaultFormat.Float32.npy"


def content_of(folder: Path) -> Callable[[str | TensorReference], tuple[str | None, str | None]]:
    """Stands in for the lake: a content is the text of the values; a file that cannot be read has a problem."""

    def of(tensor: str | TensorReference) -> tuple[str | None, str | None]:
        try:
            reference = read_tensor(folder / tensor) if isinstance(tensor, str) else tensor
            return str(open_tensor(reference).tolist()), None
        except TensorError as error:
            return None, str(error)

    return of


def found(folder: Path, top: Path | None = None) -> list[Source]:
    """The sources in one folder."""
    files = sorted(path.name for path in folder.iterdir() if path.is_file())
    return kernel.find(Listing(folder, files, (), top or folder))


def read(folder: Path) -> tuple[Summary, list[Row], list[Row]]:
    """The summary, ops and tensors of the one source in a folder."""
    [source] = found(folder)
    result = read_source(kernel, source, content_of(folder))
    return result.summary, result.ops, result.tensors


def leaf_folder(run: Path, rank: int = 0, graph: str = "Net/0", iteration: int = 0) -> Path:
    folder = run / f"rank_{rank}" / graph / str(iteration)
    folder.mkdir(parents=True)
    return folder


def save(folder: Path, name: str, array: Any = 1.0) -> str:
    np.save(folder / name, np.asarray(array))
    return name


def write_statistics(folder: Path, *rows: list[str], header: list[str] = HEADER) -> Path:
    with (folder / "statistic.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return folder / "statistic.csv"


def changed(**cells: str) -> list[str]:
    """The row STATISTIC with other cells; the keys are headers without blanks."""
    names = [name.replace(" ", "") for name in HEADER]
    return [cells.get(name, cell) for name, cell in zip(names, STATISTIC, strict=True)]


def numbers(*texts: str) -> dict[str, str]:
    """Cells of the four statistics."""
    return dict(zip(NUMBERS, texts, strict=True))


# ---- names and places -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (
            "BiasAdd.Default_fc1-Dense_BiasAdd-op0.0.3.1795242448725831.input.2.DefaultFormat.Float32.npy",
            "BiasAdd|Default_fc1-Dense_BiasAdd-op0|0|3|1795242448725831||input|2|DefaultFormat|Float32|.npy",
        ),
        ("Add.a.1.0.17.output.0.DefaultFormat.npy", "Add|a|1|0|17||output|0|DefaultFormat||.npy"),
        ("Add.a.1.0.17.4.3.2.input.1.0.ND.FLOAT.npy", "Add|a|1|0|17|4.3.2|input|1.0|ND|Float32|.npy"),
        ("Add.a.1.0.17.input.0.FRACTAL_NZ.BF16", "Add|a|1|0|17||input|0|FRACTAL_NZ|BFloat16|"),
        ("Add.a.1.0.17.input.0.ND.INT64.bin", "Add|a|1|0|17||input|0|ND|Int64|.bin"),
        ("Add.a.2.7.17.input.0.32x256x13x13.npy", "Add|a|2|7|17||input|0|32x256x13x13||.npy"),
        ("Add.input.1.0.17.input.0.ND.npy", "Add|input|1|0|17||input|0|ND||.npy"),
        ("Add.a.1.0.17.input.0.ND.HIFLOAT8.npy", "Add|a|1|0|17||input|0|ND|HIFLOAT8|.npy"),
    ],
)
def test_file_names(name: str, parts: str) -> None:
    found = parse(name)
    assert found is not None
    assert "|".join(map(str, found)) == parts


@pytest.mark.parametrize(
    "name",
    [
        "Add.a.1.0.17",  # the Ascend runtime's own format: another reader's
        "Opdebug.Node_OpDebug.1.0.17.output.0.json",
        "MatMul.Default_fc.json",
        "Functional.linear.0.forward.input.0.npy",
        "Add.a.1.0.17.input.0.npy",  # no format
        "Add.a.1.0.17.parameter.0.ND.npy",
        "Add.a.x.0.17.input.0.ND.npy",
        "Add.a.1.0.17.input.ND.npy",
        "Add.a.1.0.17.input.0.ND.Float32.extra.npy",
        "input_float32_1.npy",
        "statistic.csv",
        "",
    ],
)
def test_other_names_are_none(name: str) -> None:
    assert parse(name) is None


TOP = Path("/data")


@pytest.mark.parametrize(
    ("folder", "place"),
    [
        ("run/rank_3/Net/2/5", Place(TOP / "run", 5, 3, "Net/2")),
        ("v1.2/run.a/rank_3/Net.x/2/5", Place(TOP / "v1.2/run.a", 5, 3, "Net.x/2")),
        ("run/rank_1/20260101120000/step_7", Place(TOP / "run", 7, 1)),
        ("run/20260101120000/1/Net/0/4", Place(TOP / "run", 4, 1, "Net/0")),
        ("run/1/Net/0/4", Place(TOP / "run", 4, 1, "Net/0")),
        ("run/1/x/4", Place(TOP / "run", 4, 1, "x")),
        ("run/7/20260101120000/1/Net/0/4", Place(TOP / "run", 7, 1, "Net/0/4")),
    ],
)
def test_places(folder: str, place: Place) -> None:
    assert place_of(TOP / folder, TOP) == (place, None)


@pytest.mark.parametrize(
    ("folder", "place", "note"),
    [
        ("run/Net/0/4", Place(TOP / "run", 4, 0, "Net/0"), "the path does not say the rank; taken as rank 0"),
        ("run/Net/4", Place(TOP / "run/Net", 4, 0), "the path does not say the rank; taken as rank 0"),
        ("converted", Place(TOP / "converted", 0, 0), "the path does not say step and rank; taken as step 0 rank 0"),
    ],
)
def test_places_that_do_not_say_all(folder: str, place: Place, note: str) -> None:
    assert place_of(TOP / folder, TOP) == (place, note)


def test_a_number_above_the_time_is_a_step_only_below_the_given_path() -> None:
    folder = TOP / "7/20260101120000/1/Net/0/4"
    assert place_of(folder, TOP)[0] == Place(TOP, 7, 1, "Net/0/4")
    assert place_of(folder, TOP / "7")[0] == Place(TOP / "7", 4, 1, "Net/0")


# ---- what is found --------------------------------------------------------------------------------------------


def test_a_folder_of_tensors(tmp_path: Path) -> None:
    folder = leaf_folder(tmp_path / "v1.0" / "run", rank=2, iteration=3)
    save(folder, "Add.a.0.0.17.input.0.ND.npy")
    (folder / "mapping.csv").write_text("")
    [source] = found(folder)
    assert source == Source(
        kernel.NAME, tmp_path / "v1.0" / "run", folder, 3, 2, (folder / "mapping.csv",), folder, "Net/0"
    )


def test_a_folder_of_statistics(tmp_path: Path) -> None:
    folder = leaf_folder(tmp_path)
    path = write_statistics(folder, STATISTIC)
    [source] = found(folder)
    assert (source.files, source.tensors) == ((path,), None)


def test_a_folder_whose_files_all_have_short_names(tmp_path: Path) -> None:
    folder = leaf_folder(tmp_path)
    save(folder, "12345.npy")
    (folder / "mapping.csv").write_text(f"12345.npy,{LONG_NAME.format(time=1)}\n")
    assert [source.tensors for source in found(folder)] == [folder]


@pytest.mark.parametrize("name", ["constants", "execution_order", "graphs", ".dump_metadata"])
def test_side_folders_hold_no_dump(tmp_path: Path, name: str) -> None:
    folder = leaf_folder(tmp_path).parent / name
    folder.mkdir()
    save(folder, "Parameter.data-7.0.0.17.output.0.DefaultFormat.Float32.npy")
    assert found(folder) == []


def test_constants_are_left_out_with_a_note(tmp_path: Path) -> None:
    folder = leaf_folder(tmp_path)
    save(folder, "Add.a.0.0.17.input.0.ND.npy")
    (folder.parent / "constants").mkdir()
    [source] = found(folder)
    assert source.notes == (f"{folder.parent / 'constants'} was left out: a graph's constants belong to no iteration",)


@pytest.mark.parametrize(
    "text", ["", "name,value\n1,2\n", "Op Type,Op Name,Task ID\n", ",".join(reversed(HEADER)), "\0" * 99, '"' * 999]
)
def test_another_statistic_csv_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "statistic.csv").write_text(text)
    (tmp_path / "mapping.csv").write_text(text)
    assert found(tmp_path) == []


# ---- tensor files ---------------------------------------------------------------------------------------------

ARRAYS = {
    "Float32": np.array([[1.5, -2.25, 0.1], [np.pi, 1e30, -1e-30]], np.float32),
    "Float16": np.array([0.1, -65504, 3], np.float16),
    "Float64": np.array(-0.5),
    "Int64": np.array([2**53 + 1, -(2**62)]),
    "UInt8": np.arange(7, dtype=np.uint8).reshape(7, 1),
    "Bool": np.array([True, False, False]),
    "Complex64": np.array([3 + 4j, -1j], np.complex64),
}


@pytest.mark.parametrize("dtype", ARRAYS)
@pytest.mark.parametrize("names_dtype", [True, False])
def test_tensors_are_measured(tmp_path: Path, dtype: str, names_dtype: bool) -> None:
    array = ARRAYS[dtype]
    ending = f".{dtype}.npy" if names_dtype else ".npy"
    name = save(tmp_path, f"Add.a.0.0.17.input.0.ND{ending}", array)
    summary, _, [row] = read(tmp_path)
    assert (summary.framework, summary.task, summary.level) == ("mindspore", "tensor", "L2")
    assert (row["dtype"], row["shape"], row["data_name"]) == (dtype, list(array.shape), name)
    assert row["content"] == str(array.tolist())
    values = np.abs(array) if array.dtype.kind == "c" else array
    assert (row["max"], row["min"]) == (float(values.max()), float(values.min()))
    if array.dtype.kind in "iu":
        assert (row["max_int"], row["min_int"]) == (int(array.max()), int(array.min()))
    if array.dtype == bool:
        assert (row["mean"], row["norm"]) == (None, None)
    else:
        wide = values.astype(np.float64).ravel()
        np.testing.assert_allclose([row["mean"], row["norm"]], [wide.mean(), np.sqrt((wide * wide).sum())], rtol=1e-12)


def test_the_recorded_dtype_goes_before_that_of_the_file(tmp_path: Path) -> None:
    save(tmp_path, "Add.a.0.0.17.input.0.ND.BF16.npy", np.float32(1))  # numpy has no bfloat16
    assert [row["dtype"] for row in read(tmp_path)[2]] == ["BFloat16"]


def test_executions_are_numbered_by_time(tmp_path: Path) -> None:
    times = {"input.0": (30, 5, 210), "input.1": (31, 6), "output.0": (40, 9, 215)}
    for slot, moments in times.items():
        for moment in moments:
            save(tmp_path, f"Add.a.0.{moment % 2}.{moment}.{slot}.ND.Int64.npy", moment)
    save(tmp_path, "Mul.a.0.0.7.output.0.ND.Int64.npy", 7)
    save(tmp_path, "Add.a.9.0.8.output.0.ND.Int64.npy", 8)
    _, ops, rows = read(tmp_path)
    assert [op["op"] for op in ops] == ["Add.a.0.0", "Mul.a.0.0", "Add.a.9.0", "Add.a.0.1", "Add.a.0.2"]
    assert [(row["name"], row["max_int"]) for row in rows] == [
        ("Add.a.0.0.input.0", 5), ("Add.a.0.0.input.1", 6), ("Add.a.0.0.output.0", 9),
        ("Mul.a.0.0.output.0", 7), ("Add.a.9.0.output.0", 8),
        ("Add.a.0.1.input.0", 30), ("Add.a.0.1.input.1", 31), ("Add.a.0.1.output.0", 40),
        ("Add.a.0.2.input.0", 210), ("Add.a.0.2.output.0", 215),
    ]  # fmt: skip


def test_columns_of_an_op(tmp_path: Path) -> None:
    folder = leaf_folder(tmp_path)
    save(folder, "Add.scope_Add-op3.4.5.17.2.1.input.0.ND.npy")
    save(folder, "Add.scope_Add-op3.4.5.18.2.1.output.0.NCHW.npy")
    _, [op], _ = read(folder)
    extra = json.loads(op.pop("extra"))
    formats = {"input.0": "ND", "output.0": "NCHW"}
    assert extra == {"task": 4, "stream": 5, "timestamp": 17, "context": "2.1", "format": formats}
    assert {key: value for key, value in op.items() if value is not None} == {
        "seq": 0, "part": "Net/0", "op": "Add.scope_Add-op3.4.0", "kind": "kernel", "api_type": "Add",
        "api": "scope_Add-op3", "call": 0, "stem": "Add.scope_Add-op3.4", "first_row": 0,
        "sections": "input_args output",
    }  # fmt: skip


def test_slots_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    slots = ["10", "2", "0", "1.10", "1.9"]
    for time, slot in enumerate(slots):
        save(tmp_path, f"Add.a.0.0.{time}.input.{slot}.ND.npy")
    assert [row["slot"] for row in read(tmp_path)[2]] == ["input.0", "input.1.9", "input.1.10", "input.2", "input.10"]


@pytest.mark.parametrize("header", ["", "HashedName,OriginalName\n"])
def test_short_names_are_read_under_their_long_ones(tmp_path: Path, header: str) -> None:
    plain, mapped = leaf_folder(tmp_path / "plain"), leaf_folder(tmp_path / "mapped")
    lines = []
    for number, time in enumerate((5, 3)):
        save(plain, LONG_NAME.format(time=time).replace("layer_" * 40, "layer"), time)
        save(mapped, f"{number}{number}.npy", time)
        lines.append(f"{number}{number}.npy,{LONG_NAME.format(time=time).replace('layer_' * 40, 'layer')}\n")
    (mapped / "mapping.csv").write_text(header + "".join(lines))
    summary, ops, rows = read(mapped)
    assert summary.notes == []
    assert [row.pop("data_name") for row in rows] == ["11.npy", "00.npy"]
    _, plain_ops, plain_rows = read(plain)
    for row in plain_rows:
        del row["data_name"]
    assert (ops, rows) == (plain_ops, plain_rows)


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    save(tmp_path, "Add.a.0.0.17.input.0.ND.npy")
    (tmp_path / "Opdebug.Node_OpDebug.0.0.17.output.0.json").write_text("{}")
    (tmp_path / "Add.a.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    (tmp_path / "mapping.csv").write_text(f"lost.npy,{LONG_NAME.format(time=1)}\n")
    summary, ops, _ = read(tmp_path)
    assert len(ops) == 1
    assert summary.notes == [
        "2 other files were not read as kernels' tensors, for example Add.a.json",
        "1 files that mapping.csv names are missing, for example lost.npy",
    ]


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"no tensor", None])
def test_a_file_that_cannot_be_read_is_a_row_that_says_so(tmp_path: Path, damage: bytes | None) -> None:
    save(tmp_path, "Add.a.0.0.17.input.0.ND.Float32.npy", np.ones((2, 3), np.float32))
    broken = tmp_path / "Add.a.0.0.18.output.0.ND.Float32.npy"
    whole = (tmp_path / "Add.a.0.0.17.input.0.ND.Float32.npy").read_bytes()
    broken.write_bytes(whole[:-1] if damage is None else damage)
    summary, _, [good, bad] = read(tmp_path)
    assert summary.unreadable == 1
    assert (good["content_problem"], good["max"]) == (None, 1.0)
    assert str(broken) in bad["content_problem"]
    assert (bad["data_name"], bad["dtype"], bad["max"], bad["content"]) == (broken.name, "Float32", None, None)


def test_bare_bytes_are_read_with_the_shape_in_statistic_csv(tmp_path: Path) -> None:
    array = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    for name in ("A.a.0.0.17.input.0.ND.FLOAT", "B.b.0.0.17.input.0.DefaultFormat.Float32.bin"):
        (tmp_path / name).write_bytes(array.tobytes())
    write_statistics(tmp_path, changed(OpType="A", OpName="a"), changed(OpType="B", OpName="b"))
    summary, _, rows = read(tmp_path)
    assert [row["content"] for row in rows] == [str(array.tolist())] * 2
    assert [(row["dtype"], row["shape"], row["max"], row["mean"]) for row in rows] == [
        ("Float32", [2, 3], 6.0, 3.5)
    ] * 2
    assert summary.notes == ["statistic.csv lies beside the tensors; the statistics are computed from the tensors"]


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("MatMul.Default_fc.0.0.17.input.1.ND.FLOAT", 24),  # statistic.csv has no such slot
        ("MatMul.Default_fc.0.0.17.input.0.ND.FLOAT", 23),
        ("MatMul.Default_fc.0.0.17.input.0.ND.FLOAT16", 24),
        ("MatMul.Default_fc.0.0.17.input.0.ND.HIFLOAT8", 6),
        ("MatMul.Default_fc.0.0.17.input.0.FRACTAL_NZ.FLOAT", 24),  # laid out as the device has it
    ],
)
def test_bare_bytes_of_unknown_layout_are_not_read(tmp_path: Path, name: str, size: int) -> None:
    (tmp_path / name).write_bytes(bytes(size))
    write_statistics(tmp_path, STATISTIC)
    summary, _, [row] = read(tmp_path)
    assert summary.notes[-1].startswith("1 files hold bare bytes of a shape that is not known")
    assert (row["data_name"], row["content"], row["max"]) == (name, None, None)
    assert str(tmp_path / name) in row["content_problem"]


# ---- statistic.csv --------------------------------------------------------------------------------------------


def test_statistics_are_taken_as_recorded(tmp_path: Path) -> None:
    write_statistics(
        tmp_path,
        STATISTIC,
        changed(Slot="1", DataType="int64", Shape="()", **numbers(str(2**53 + 1), str(-(2**70)), "3", "2.0")),
        changed(IO="output", DataType="bool", Shape="(1)", **numbers("True", "False", "null", "")),
        changed(IO="output", Slot="1", Shape="(2,)", **numbers("inf", "-inf", "-nan", "nan")),
    )
    summary, [op], rows = read(tmp_path)
    assert (summary.framework, summary.task, summary.level) == ("mindspore", "statistics", "L2")
    assert op["op"] == "MatMul.Default_fc.0.0"
    keys = ("slot", "dtype", "shape", "max", "min", "mean", "norm", "stat_types", "max_int")
    assert [[row[key] for key in keys] for row in rows[:3]] == [
        ["input.0", "Float32", [2, 3], 1.5, -1.0, 0.25, 2.0, "fiff", None],
        ["input.1", "Int64", [], 2.0**53, -(2.0**70), 3.0, 2.0, "iiif", 2**53 + 1],
        ["output.0", "Bool", [1], 1.0, 0.0, None, None, "bbn-", None],
    ]
    assert json.loads(rows[1]["extra"]) == {"Min": -(2**70)}  # no column holds it
    assert repr([rows[3][key] for key in keys]) == "['output.1', 'Float32', [2], inf, -inf, nan, nan, 'ffff', None]"
    assert [row["extra"] for row in rows] == [None, rows[1]["extra"], None, None]  # what differs by run is with the op


def test_columns_are_known_by_their_headers(tmp_path: Path) -> None:
    """Release 2.3 of MindSpore has any choice of statistics in any order; msprobe's own dump calls the IO otherwise."""
    more = ["Format", "Shape", "L2Norm Value", "MD5 Value", "NaN Count", "Max Value"]
    header = [*HEADER[:5], "Input/Output", *HEADER[6:9], *more]
    digest = "d41d8cd98f00b204e9800998ecf8427e"
    write_statistics(tmp_path, [*STATISTIC[:9], "ND", "(2,3)", "2.5", digest, "4", "7"], header=header)
    summary, [op], [row] = read(tmp_path)
    assert (row["shape"], row["max"], row["min"], row["mean"], row["norm"]) == ([2, 3], 7.0, None, None, 2.5)
    assert (row["stat_types"], row["digest"]) == ("i--f", digest)
    assert json.loads(op["extra"])["counts"] == {"input.0": {"NaN Count": 4}}
    assert json.loads(op["extra"])["format"] == "ND"
    assert summary.digests == 1


def test_shapes_without_quotes_second_headers_and_blank_lines(tmp_path: Path) -> None:
    lines = [HEADER, STATISTIC, [], HEADER, [*changed(Slot="1"), ""], changed(Slot="2", Shape="(4,5,6)")]
    (tmp_path / "statistic.csv").write_text("\ufeff" + "\r\n".join(",".join(line) for line in lines), encoding="utf-8")
    _, _, rows = read(tmp_path)
    assert [(row["slot"], row["shape"], row["norm"]) for row in rows] == [
        ("input.0", [2, 3], 2.0), ("input.1", [2, 3], 2.0), ("input.2", [4, 5, 6], 2.0),
    ]  # fmt: skip


def test_no_rows_are_no_ops(tmp_path: Path) -> None:
    write_statistics(tmp_path)
    summary, ops, rows = read(tmp_path)
    assert (summary.ops, ops, rows) == (0, [], [])


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (STATISTIC[:9], "line 3 has 9 of 14 columns"),
        (changed(Timestamp="today"), "line 3 has the Timestamp 'today', which is not a number"),
        (changed(TaskID=""), "line 3 has the Task ID '', which is not a number"),
        (changed(IO="in"), "line 3 has the IO 'in', which is neither input nor output"),
        (changed(Slot="x"), "line 3 has the Slot 'x', which is not a number"),
        (changed(Shape="2x3"), "line 3 has the Shape '2x3', which is not a shape"),
        (changed(MaxValue="big"), "line 3 has the statistic 'big', which is not a number"),
        (changed(OpName="x" * 70_000), "has a line of more than 65536 characters"),
    ],
)
def test_a_damaged_row_is_named(tmp_path: Path, row: list[str], says: str) -> None:
    path = write_statistics(tmp_path, STATISTIC, row)
    with pytest.raises(DumpError) as caught:
        read(tmp_path)
    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_may_not_be_endless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_statistics(tmp_path, *[STATISTIC] * 9)
    monkeypatch.setattr(kernel, "_MOST_ROWS", 10)
    assert len(read(tmp_path)[1]) == 9
    monkeypatch.setattr(kernel, "_MOST_ROWS", 9)
    with pytest.raises(DumpError, match=r"has more than 9 rows"):
        read(tmp_path)


def test_text_that_is_none(tmp_path: Path) -> None:
    path = write_statistics(tmp_path, STATISTIC)
    path.write_bytes(path.read_bytes() + b"\xff\xfe\n")
    with pytest.raises(DumpError, match=r"statistic.csv cannot be read as a table"):
        read(tmp_path)


def test_a_line_of_mapping_csv_that_is_cut_off(tmp_path: Path) -> None:
    save(tmp_path, "Add.a.0.0.17.input.0.ND.npy")
    (tmp_path / "mapping.csv").write_text("1.npy,Add.b.0.0.17.input.0.ND.npy\n123")
    with pytest.raises(DumpError, match=r"mapping.csv: line 2 does not have two columns"):
        read(tmp_path)


# ---- comparing ------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[lakeprobe.Lake]:
    with lakeprobe.open(tmp_path / "lake", create=True) as opened:
        yield opened


def pairs(lake: lakeprobe.Lake, tmp_path: Path, rule: str) -> list[tuple[Any, ...]]:
    lake.compare(tmp_path / "target", tmp_path / "golden", rule=rule)
    return lake.sql("SELECT target_name, golden_name, difference FROM results ORDER BY row").fetchall()


def test_the_rule_pairs_by_name_task_and_order(lake: lakeprobe.Lake, tmp_path: Path) -> None:
    target, golden = leaf_folder(tmp_path / "target"), leaf_folder(tmp_path / "golden", graph="Other/4")
    for time in (10, 20):
        save(target, f"Add.a.0.0.{time}.output.0.ND.Float32.npy", np.float32(time))
        save(golden, f"AddV2.a.0.6.{time + 500}.output.0.DefaultFormat.Float32.npy", np.float32(time))
    save(target, "Add.a.1.0.5.output.0.ND.Float32.npy", np.float32(3))
    save(golden, "Add.a.2.0.5.output.0.ND.Float32.npy", np.float32(3))
    assert pairs(lake, tmp_path, "kernel") == [
        ("Add.a.1.0.output.0", None, None),
        ("Add.a.0.0.output.0", "AddV2.a.0.0.output.0", "equal"),
        ("Add.a.0.1.output.0", "AddV2.a.0.1.output.0", "equal"),
        (None, "Add.a.2.0.output.0", None),
    ]


LAYOUTS = [
    "rank_2/Net/0/3",
    "20260101120000/2/Net/0/3",
    "3/20260101120000/2/Net/0/1",
    "2/x/3",
    "rank_2/20260101120000/step_3",
]


@pytest.mark.sampled
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_found_from_above(lake: lakeprobe.Lake, tmp_path: Path, layout: str) -> None:
    for run, path, time, dtype in (("target", layout, 17, "FLOAT"), ("golden", LAYOUTS[0], 4, "Float32")):
        folder = tmp_path / run / path
        folder.mkdir(parents=True)
        save(folder, f"Add.a.0.0.{time}.output.0.ND.{dtype}.npy", np.float32(7))
    assert pairs(lake, tmp_path, "kernel") == [("Add.a.0.0.output.0", "Add.a.0.0.output.0", "equal")]
    assert lake.sql("SELECT DISTINCT step, rank FROM results").fetchall() == [(3, 2)]


def test_graphs_of_one_iteration_are_one_unit(lake: lakeprobe.Lake, tmp_path: Path) -> None:
    for side, graphs in (("target", ("Net/0", "Net/1")), ("golden", ("Other/5", "Other/6"))):
        for value, graph in enumerate(graphs):
            save(leaf_folder(tmp_path / side, graph=graph), "Add.a.0.0.10.output.0.ND.npy", np.float32(value))
    assert pairs(lake, tmp_path, "kernel") == [("Add.a.0.0.output.0", "Add.a.0.0.output.0", "equal")] * 2


def test_the_default_rule_pairs_dumps_of_one_network(lake: lakeprobe.Lake, tmp_path: Path) -> None:
    for side, start in (("target", 10), ("golden", 1000)):
        folder = leaf_folder(tmp_path / side)
        for time in (start, start + 1):
            save(folder, f"Add.a.0.0.{time}.output.0.ND.npy", np.float32(time % 5))
    assert pairs(lake, tmp_path, "same_framework") == [
        ("Add.a.0.0.output.0", "Add.a.0.0.output.0", "equal"),
        ("Add.a.0.1.output.0", "Add.a.0.1.output.0", "equal"),
    ]


def test_dots_in_folder_names_do_no_harm(lake: lakeprobe.Lake, tmp_path: Path) -> None:
    for side in ("target.v1.2", "golden.v1.1"):
        for rank, iteration in itertools.product((0, 1), (0, 3)):
            folder = leaf_folder(tmp_path / side, rank, "Net.x/0", iteration)
            save(folder, "Add.a.0.0.10.output.0.ND.npy", np.float32(rank))
    lake.compare(tmp_path / "target.v1.2", tmp_path / "golden.v1.1", rule="kernel", name="dotted")
    rows = lake.sql("SELECT step, rank, target_name, outcome FROM results ORDER BY ALL").fetchall()
    assert rows == [(step, rank, "Add.a.0.0.output.0", "equal") for step in (0, 3) for rank in (0, 1)]


# ---- damage ---------------------------------------------------------------------------------------------------

VALID_NAMES = (
    "MatMul.Default_net-op0.0.0.1795242448725831.input.0.DefaultFormat.Float32.npy",
    "Add.a.1.0.17.4.3.2.input.1.0.ND.FLOAT.npy",
    "Add.a.1.0.17.output.0.FRACTAL_NZ.BF16",
)
PIECES = st.sampled_from(
    [".", "..", "", "0", "9" * 30, "input", "output", "ND", "FLOAT", ".npy", ".bin", "é", "\udc80", "\0", "/"]
)


@st.composite
def mutated(draw: st.DrawFn, valid: str, pieces: st.SearchStrategy[str]) -> str:
    """A valid text of which some spans were cut out or replaced."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(valid)))
        end = min(len(valid), start + draw(st.integers(0, 12)))
        valid = valid[:start] + draw(pieces | st.text(max_size=3)) + valid[end:]
    return valid


@given(st.sampled_from(VALID_NAMES).flatmap(lambda name: mutated(name, PIECES)))
def test_any_mutation_of_a_name_is_a_name_or_none(name: str) -> None:
    parts = parse(name)
    if parts is not None:
        pieces = name.split(".")
        assert [parts.op_type, parts.op_name] == pieces[:2]
        assert [parts.task, parts.stream, parts.timestamp] == list(map(int, pieces[2:5]))
        assert parts.role in ("input", "output")
        assert f".{parts.role}.{parts.slot}.{parts.format}" in name
        assert name.endswith(parts.suffix)


TABLE = io.StringIO()
csv.writer(TABLE).writerows([
    HEADER,
    STATISTIC,
    changed(Slot="1", Shape="()", MaxValue="null"),
    changed(IO="output", DataType="bool", MaxValue="True"),
    STATISTIC,
])  # fmt: skip
CELLS = st.sampled_from(
    [
        *',"()\0\ufeff\u2028\u0663',
        "\r\n",
        "\n",
        "(2,3",
        "nan",
        "-inf",
        "null",
        "True",
        "9" * 50,
        "1e999",
        "input",
        "x" * 70_000,
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mutated(TABLE.getvalue(), CELLS).map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=2))
def test_any_mutation_of_statistic_csv_gives_rows_or_an_error(tmp_path: Path, content: bytes, tail: bytes) -> None:
    path = tmp_path / "statistic.csv"
    path.write_bytes(content + tail)
    try:
        records = kernel.read_statistics(path)
    except DumpError:
        return
    assert len(records) <= content.count(b"\n") + content.count(b"\r") + 2
    calls = kernel.executions(records)
    assert sum(map(len, calls.values())) == len(records)


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mutated(f"1.npy,{VALID_NAMES[0]}\r\n2.npy,{VALID_NAMES[1]}\r\n", CELLS), mutated(TABLE.getvalue(), CELLS))
def test_any_mutation_of_a_whole_folder_gives_rows_or_an_error(tmp_path: Path, mapping: str, table: str) -> None:
    for path in tmp_path.iterdir():
        path.unlink()
    save(tmp_path, "1.npy", [1.0, 2.0])
    save(tmp_path, "Add.b.0.0.1.input.0.ND.npy")
    (tmp_path / "mapping.csv").write_bytes(mapping.encode("utf-8", "surrogatepass"))
    (tmp_path / "statistic.csv").write_bytes(table.encode("utf-8", "surrogatepass"))
    try:
        summary, ops, rows = read(tmp_path)
    except DumpError:
        return
    assert len(rows) == summary.tensor_rows in (1, 2)
    assert len(ops) == summary.ops
