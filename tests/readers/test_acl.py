"""Ascend kernel dumps: files of an encoder of our own, a message of google.protobuf's, and forged ones."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lakeprobe.errors import DumpError, TensorError
from lakeprobe.readers import acl, acl_message
from lakeprobe.readers.acl_message import DumpedTensor, decode
from lakeprobe.readers.source import Listing, Summary
from lakeprobe.system.window import PathInFile, Window
from lakeprobe.tensors import TensorReference, open_tensor

# ---- an encoder, from the definition of the message alone --------------------------------------------------

TYPES = {
    "float32": 1, "float16": 2, "int8": 3, "uint8": 4, "int16": 5, "uint16": 6, "int32": 7, "int64": 8, "uint32": 9,
    "uint64": 10, "bool": 11, "float64": 12, "complex64": 16, "complex128": 17, "bfloat16": 27, "float8_e5m2": 34,
    "float8_e4m3fn": 35,
}  # fmt: skip
ND, NCHW, FRACTAL_NZ = 2, 0, 29
FILE = "Add.a.1.0.1670205071724946"


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    groups = []
    while True:
        groups.append(value & 127)
        value >>= 7
        if not value:
            return bytes([group | 128 for group in groups[:-1]] + groups[-1:])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def data(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def shape(extents: Sequence[int], packed: bool = True) -> bytes:
    if packed:
        return data(1, b"".join(map(varint, extents)))
    return b"".join(number(1, extent) for extent in extents)


def tensor(
    role: str, data_type: int, extents: Sequence[int], size: int, layout: int = ND, original: Sequence[int] = ()
) -> bytes:
    """OpInput or OpOutput, which number their fields differently."""
    at = {"input": (5, 6), "output": (6, 7)}[role]
    parts = [number(1, data_type), number(2, layout), data(3, shape(extents)), number(at[0], size)]
    return b"".join([*parts, data(at[1], shape(original))] if original else parts)


def of_array(role: str, array: NDArray[Any], layout: int = ND, original: Sequence[int] = ()) -> bytes:
    return tensor(role, TYPES[array.dtype.name], array.shape, array.nbytes, layout, original)


def head_of(inputs: Sequence[bytes] = (), outputs: Sequence[bytes] = (), more: bytes = b"") -> bytes:
    """DumpData. Outputs come first in the message, as they do by their numbers, and last in the file."""
    parts = [data(1, b"2.0"), number(2, 1670205071724946)]
    parts += [data(3, output) for output in outputs] + [data(4, entry) for entry in inputs]
    return b"".join([*parts, data(6, b"Default/MatMul-op1"), more])


def file_of(head: bytes, *contents: NDArray[Any] | bytes) -> bytes:
    tail = b"".join(item if isinstance(item, bytes) else item.tobytes() for item in contents)
    return struct.pack("<Q", len(head)) + head + tail


def kernel_file(inputs: Sequence[NDArray[Any]], outputs: Sequence[NDArray[Any]]) -> bytes:
    head = head_of([of_array("input", it) for it in inputs], [of_array("output", it) for it in outputs])
    return file_of(head, *inputs, *outputs)


# ---- reading -----------------------------------------------------------------------------------------------


class Read:
    """The tables of a folder, with the tensors by the names of their rows."""

    def __init__(self, folder: Path) -> None:
        self.tensors: dict[str, dict[str, Any]] = {}
        self.ops: list[dict[str, Any]] = []
        self.arrays: dict[str, NDArray[Any]] = {}
        references: dict[str, TensorReference] = {}

        def content_of(place: str | TensorReference) -> tuple[str | None, str | None]:
            assert isinstance(place, TensorReference)
            content = f"{place.file}@{place.offset}"
            references[content] = place
            return content, None

        def emit(table: str, batch: Any) -> None:
            rows = batch.to_pylist()
            if table == "ops":
                self.ops += rows
            elif table == "tensors":
                self.tensors |= {row["name"]: row for row in rows}

        (source,) = found(folder)
        self.summary: Summary = acl.read(source, content_of, emit)
        for name, row in self.tensors.items():
            if row["content"]:
                self.arrays[name] = np.array(open_tensor(references[row["content"]]))

    @property
    def notes(self) -> str:
        return "\n".join(self.summary.notes)


def found(folder: Path, top: Path | None = None) -> list[Any]:
    entries = list(folder.iterdir())
    files = sorted(entry.name for entry in entries if entry.is_file())
    folders = sorted(entry.name for entry in entries if entry.is_dir())
    return acl.find(Listing(folder, files, folders, top or folder))


def written(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_tensors_come_back_bit_for_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.integers(0, 2, (2, 3)).astype(getattr(ml_dtypes, name, None) or np.dtype(name)) for name in TYPES
    }
    inputs, outputs = list(arrays.values())[::2], list(arrays.values())[1::2]
    folder = written(tmp_path, {"MatMul.net_MatMul-op1.2.7.1670205071724946": kernel_file(inputs, outputs)})
    read = Read(folder)
    stem = "MatMul.net_MatMul-op1.2"
    for role, sides in (("input", inputs), ("output", outputs)):
        for index, array in enumerate(sides):
            back = read.arrays[f"{stem}.0.{role}.{index}"]
            assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert len(read.arrays) == len(TYPES) == read.summary.tensor_rows
    assert [row["role"] for row in read.tensors.values()] == ["input"] * len(inputs) + ["output"] * len(outputs)


def test_rows_of_an_op(tmp_path: Path) -> None:
    values = np.array([[1.5, -2, 0.25]], np.float32)
    padded = np.zeros(16, np.float16)
    padded[:3] = 1, 2, 3
    entries = [
        of_array("input", values, NCHW),
        tensor("input", TYPES["float16"], [3, 1], 32, FRACTAL_NZ, original=[3]),
        tensor("input", TYPES["int64"], [], 8),
    ]
    more = data(5, number(1, 0) + number(3, 6)) + data(8, number(3, 4))
    head = head_of(entries, [tensor("output", TYPES["bool"], [2], 2)], more)
    content = file_of(head, values, padded, struct.pack("<q", -7), b"\0\1", b"buffer", b"work")
    read = Read(written(tmp_path, {"Add.op.2.7.1670205071724946": content}))

    (op,) = read.ops
    assert {key: op[key] for key in ("op", "kind", "api_type", "api", "call", "stem", "sections")} == {
        "op": "Add.op.2.0", "kind": "kernel", "api_type": "Add", "api": "op", "call": 0, "stem": "Add.op.2",
        "sections": "input_args output",
    }  # fmt: skip
    assert json.loads(op["extra"]) == {
        "task": 2, "stream": 7, "timestamp": 1670205071724946, "dump_time": 1670205071724946, "version": "2.0",
        "op_name": "Default/MatMul-op1", "buffers": [6], "workspaces": [4],
    }  # fmt: skip
    first, second, third = (read.tensors[f"Add.op.2.0.input.{index}"] for index in range(3))
    assert (first["type"], first["dtype"], first["shape"]) == ("torch.Tensor", "torch.float32", [1, 3])
    assert (first["max"], first["min"], first["mean"]) == (1.5, -2, pytest.approx(-0.25 / 3))
    assert first["norm"] == pytest.approx(math.sqrt(1.5**2 + 4 + 0.25**2))
    assert json.loads(first["extra"]) == {"format": "NCHW"}
    assert json.loads(second["extra"]) == {"format": "FRACTAL_NZ", "original_shape": [3]}
    assert second["data_name"] == "Add.op.2.7.1670205071724946"
    assert read.arrays["Add.op.2.0.input.1"].tolist() == [[1], [2], [3]], "the padding is left out"
    assert (third["shape"], third["max_int"]) == ([], -7)
    assert read.arrays["Add.op.2.0.output.0"].tolist() == [False, True]
    assert (read.summary.framework, read.summary.task, read.summary.level) == ("pytorch", "tensor", "L2")
    for note in ("taken as pytorch", "not read: 1 buffers", "not read: 1 workspaces", "padding included: 1 FRACTAL_NZ"):
        assert note in read.notes


def test_calls_are_numbered_by_time(tmp_path: Path) -> None:
    one = {stamp: kernel_file([], [np.array([value], np.int32)]) for value, stamp in enumerate((30, 10, 20))}
    files = {f"Add.a.1.0.16702050717249{stamp}": content for stamp, content in one.items()}
    files["Add.a.2.0.1670205071724915"] = kernel_file([], [np.array([9], np.int32)])
    read = Read(written(tmp_path, files))
    assert [op["op"] for op in read.ops] == ["Add.a.1.0", "Add.a.2.0", "Add.a.1.1", "Add.a.1.2"]
    assert [op["call"] for op in read.ops] == [0, 0, 1, 2]
    assert [array.item() for array in read.arrays.values()] == [1, 9, 2, 0]


def test_scopes_of_mindspore(tmp_path: Path) -> None:
    name = "MatMul.Default_network-Net_MatMul-op1.65535.65535.161243956333802"
    read = Read(written(tmp_path, {name: kernel_file([np.zeros(2, ml_dtypes.bfloat16)], [])}))
    (row,) = read.tensors.values()
    assert (read.summary.framework, row["type"], row["dtype"]) == ("mindspore", "mindspore.Tensor", "BFloat16")


def test_contexts_of_fftsplus(tmp_path: Path) -> None:
    content = kernel_file([], [np.ones(1, np.int8)])
    name = "Conv2D.part_conv2d_39_lxslice0.2.9.1670205071724946.4.487.{}.0"
    read = Read(written(tmp_path, {name.format(thread): content for thread in range(2)}))
    assert [op["op"] for op in read.ops] == [f"Conv2D.part_conv2d_39_lxslice0.2.{call}" for call in range(2)]
    extras = [json.loads(op["extra"]) for op in read.ops]
    assert [(it["task"], it["stream"], it["context"], it["thread"]) for it in extras] == [
        (2, 9, 487, 0),
        (2, 9, 487, 1),
    ]


def test_overflow_records_are_only_indexed(tmp_path: Path) -> None:
    name = "Opdebug.Node_OpDebug.3.1.1670205071724946"
    read = Read(written(tmp_path, {name: file_of(head_of([], [tensor("output", 4, [2048], 2048)]), bytes(2048))}))
    assert [(op["op"], op["first_row"]) for op in read.ops] == [("Opdebug.Node_OpDebug.3.0", None)]
    assert "not read: 1 overflow records" in read.notes
    assert "could not be read" not in read.notes


@pytest.mark.parametrize(
    ("entry", "content", "note"),
    [
        (tensor("input", 33, [4], 4), bytes(4), "not read: 1 tensors whose element type is not read (hifloat8)"),
        (tensor("input", 99, [4], 4), bytes(4), "not read: 1 tensors whose element type is not read (data_type 99)"),
        (tensor("input", 1, [4], 12), bytes(12), "not read: 1 tensors whose shape does not fit their size"),
        (tensor("input", 1, [], 32), bytes(32), "not read: 1 tensors whose shape does not fit their size"),
        (tensor("input", 1, [-1, 4], 16), bytes(16), "not read: 1 tensors whose shape does not fit their size"),
        (
            tensor("input", 1, [1 << 62, 1 << 62], 16),
            bytes(16),
            "not read: 1 tensors whose shape does not fit their size",
        ),
        (tensor("input", 1, [4], 0), b"", "not read: 1 tensors that have no bytes in their file"),
    ],
)
def test_what_is_not_read_is_said(tmp_path: Path, entry: bytes, content: bytes, note: str) -> None:
    beside = np.array([5], np.int32)
    head = head_of([entry], [of_array("output", beside)])
    read = Read(written(tmp_path, {FILE: file_of(head, content, beside)}))
    assert note in read.notes
    assert list(read.arrays) == ["Add.a.1.0.output.0"], "what follows is read all the same"
    assert read.arrays["Add.a.1.0.output.0"] == beside


def test_an_empty_tensor_has_a_content(tmp_path: Path) -> None:
    read = Read(written(tmp_path, {FILE: kernel_file([np.zeros((0, 3), np.float32)], [])}))
    assert read.arrays["Add.a.1.0.input.0"].shape == (0, 3)
    assert read.tensors["Add.a.1.0.input.0"]["max"] is None


class Member(type(Path()), PathInFile):  # type: ignore[misc]
    """A file that is also a part of the file `archive` beside it, from byte 100 on."""

    def window(self) -> Window:
        return Window(str(self.parent / "archive"), 100, self.stat().st_size)


def test_a_member_of_an_archive_is_read_where_it_lies(tmp_path: Path) -> None:
    written(tmp_path, {FILE: WHOLE, "archive": bytes(100) + WHOLE})
    (file,) = acl.dump_files(tmp_path, [FILE])
    inside, _ = acl._Reader(Member(tmp_path), "pytorch").body(file)
    beside, _ = acl._Reader(tmp_path, "pytorch").body(file)
    there, here = inside["output"][0].pop("content"), beside["output"][0].pop("content")
    assert (there.file, there.offset) == (str(tmp_path / "archive"), here.offset + 100)
    assert open_tensor(there).tobytes() == open_tensor(here).tobytes()
    assert inside["output"] == beside["output"]


# ---- the message -------------------------------------------------------------------------------------------

BY_GOOGLE = bytes.fromhex(
    "0a03322e301092a382e0aee1fb021a1e08011a050a03010203220b0a05636f6e7631100118013018484d520210021a15080910021a0f0a0d"
    "00ffffffffffffffffff01ac021a06080b1002300122310802101d1a060a040201101028c00832040a02052038ffffffffffffffffff0140"
    "85808080808080808001482050015802220b081b10021a030a010328062a021828321a44656661756c742f6e6574776f726b2f4d61744d75"
    "6c2d6f70313a1d0a0866667473706c757312117b227468726561644d6f6465223a20307d420218104a046e6f6e65"
)
"""A DumpData with every field, serialised by google.protobuf 7.36 from the public definition."""


def test_a_message_of_googles_encoder() -> None:
    head = decode(BY_GOOGLE)
    assert (head.version, head.dump_time, head.op_name) == (
        "2.0", 1670205071724946, "Default/network/MatMul-op1",
    )  # fmt: skip
    assert head.inputs == [
        DumpedTensor(2, 29, [2, 1, 16, 16], [5, 32], 1088),
        DumpedTensor(27, 2, [3], [], 6),
    ]
    assert head.outputs == [
        DumpedTensor(1, 0, [1, 2, 3], [], 24),
        DumpedTensor(9, 2, [0, -1, 300], [], 0),
        DumpedTensor(11, 2, [], [], 1),
    ]
    assert (head.buffers, head.workspaces) == ([40], [16])


def test_dimensions_one_by_one_and_in_several_messages() -> None:
    """proto3 packs them; a reader takes both, and joins a message that occurs twice."""
    entry = number(1, 1) + data(3, shape([2, 3], packed=False)) + data(3, shape([4]))
    assert decode(data(4, entry)).inputs == [DumpedTensor(1, 0, [2, 3, 4], [], 0)]


def test_unknown_fields_are_passed_over() -> None:
    unknown = number(50, 7) + data(51, b"x") + varint(52 << 3 | 5) + bytes(4) + varint(53 << 3 | 1) + bytes(8)
    assert decode(unknown + data(1, b"2.0") + unknown).version == "2.0"
    assert decode(b"") == acl_message.DumpHead()


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (b"\x0a", "cut off"),
        (b"\x0a\x05abc", "cut off"),
        (b"\x0a" + b"\xff" * 9 + b"\x01", "cut off"),
        (b"\x10" + b"\xff" * 10, "not a protobuf"),
        (b"\x00\x01", "not a protobuf"),
        (b"\x0b", "not a protobuf"),
        (b"\x0f", "not a protobuf"),
        (varint(1 << 40) + b"\x01", "not a protobuf"),
        (b"\x0d\x01", "cut off"),
        (data(1, b"\xff"), "UTF-8"),
        (number(4, 3), "number where a message"),
        (data(2, b"x"), "bytes where a number"),
        (data(4, data(5, b"1")), "bytes where a number"),
        (data(4, data(3, data(1, b"\x80"))), "cut off"),
        (data(4, data(3, shape([1] * 65))), "more than 64 dimensions"),
        (data(4, b"") * ((1 << 14) + 1), "more than 16384 tensors"),
    ],
)
def test_forged_heads(head: bytes, says: str) -> None:
    with pytest.raises(DumpError, match=says):
        decode(head)


def test_names_of_types_and_formats() -> None:
    """The ends and a middle of each list, which the definition numbers."""
    assert [acl_message.dtype_name(number) for number in (0, 1, 13, 27, 35, 40, 41)] == [
        "undefined", "float32", "string", "bfloat16", "float8_e4m3fn", "float4_e1m2", "data_type 41",
    ]  # fmt: skip
    assert [acl_message.format_name(number) for number in (0, 2, 3, 16, 29, 40, 46, 49, 50, 255)] == [
        "NCHW", "ND", "NC1HWC0", "HWCN", "FRACTAL_NZ", "RESERVED", "YUV_A", "C1HWC0", "format 50", "format 255",
    ]  # fmt: skip


# ---- damaged files -----------------------------------------------------------------------------------------

WHOLE = kernel_file([np.arange(4, dtype=np.float32)], [np.arange(2, dtype=np.int16)])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "cut off, or no kernel dump"),
        (WHOLE[:5], "cut off, or no kernel dump"),
        (WHOLE[:20], "cut off, or no kernel dump"),
        (WHOLE[:-1], "19 bytes follow the head, which speaks of 20"),
        (WHOLE + b"x", "21 bytes follow the head, which speaks of 20"),
        (struct.pack("<Q", 1 << 63) + WHOLE[8:], "cut off, or no kernel dump"),
        (struct.pack("<Q", 3) + WHOLE[8:], "the head is cut off"),
        (b"PK\3\4 some other file that is not ours", "cut off, or no kernel dump"),
        (kernel_file([], [])[8:], "cut off, or no kernel dump"),
    ],
)
def test_a_damaged_file_is_an_op_without_contents(tmp_path: Path, content: bytes, says: str) -> None:
    files = {FILE: content, "Add.b.2.0.1670205071724947": WHOLE}
    read = Read(written(tmp_path, files))
    assert [op["op"] for op in read.ops] == ["Add.a.1.0", "Add.b.2.0"]
    assert set(read.arrays) == {"Add.b.2.0.input.0", "Add.b.2.0.output.0"}
    assert f"{tmp_path / FILE}: {says}" in json.loads(read.ops[0]["extra"])["problem"]
    assert "1 of 2 files could not be read" in read.notes
    assert says in read.notes


def test_a_head_that_is_too_long(tmp_path: Path) -> None:
    head = data(1, b"v" * (acl_message.LARGEST_HEAD + 1))
    read = Read(written(tmp_path, {FILE: file_of(head)}))
    assert f"more than the {acl_message.LARGEST_HEAD} that are read" in read.notes


ARRAYS = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(True), np.zeros((0, 2), np.int64)]
VALID = file_of(
    head_of(
        [of_array("input", it) for it in ARRAYS], [of_array("output", ARRAYS[0], NCHW, [6])], data(5, number(3, 2))
    ),
    *ARRAYS,
    ARRAYS[0],
    b"bb",
)
EDITS = st.one_of(
    st.tuples(st.just("flip"), st.integers(0, len(VALID)), st.binary(min_size=1, max_size=1)),
    st.tuples(st.just("cut"), st.integers(0, len(VALID)), st.binary(min_size=0, max_size=9)),
    st.tuples(st.just("insert"), st.integers(0, len(VALID)), st.binary(min_size=1, max_size=9)),
    st.tuples(st.just("end"), st.integers(0, len(VALID)), st.just(b"")),
)


def edited(content: bytes, edits: Sequence[tuple[str, int, bytes]]) -> bytes:
    for edit, at, value in edits:
        if edit == "flip":
            content = content[:at] + value + content[at + 1 :]
        elif edit == "cut":
            content = content[:at] + content[at + len(value) :]
        elif edit == "insert":
            content = content[:at] + value + content[at:]
        else:
            content = content[:at]
    return content


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EDITS, min_size=1, max_size=4))
@example([])
def test_any_damage_gives_tensors_or_our_error(tmp_path: Path, edits: list[tuple[str, int, bytes]]) -> None:
    """What is placed lies inside the file, one after the other, and can be opened; else a DumpError or a note."""
    path = tmp_path / FILE
    content = edited(VALID, edits)
    path.write_bytes(content)
    try:
        head, start, size = acl.read_head(path)
    except DumpError:
        return
    inputs, outputs, problem = acl.parts(head, start, size)
    placed = [part.offset for part in (*inputs, *outputs)]
    assert size == len(content)
    assert placed == sorted(placed, key=lambda it: it or 0)
    assert all(offset is None for offset in placed) if problem else all(start <= (it or 0) <= size for it in placed)
    file = acl.dump_files(tmp_path, [path.name])[0]
    body, _ = acl._Reader(tmp_path, "pytorch").body(file)
    for leaf in (*body["input_args"], *body["output"]):
        if "content" in leaf:
            reference = leaf["content"]
            assert start <= reference.offset <= reference.offset + reference.length <= size
            assert open_tensor(reference).shape == tuple(leaf["shape"])


@given(st.binary(max_size=64) | st.lists(EDITS, max_size=3).map(lambda edits: edited(BY_GOOGLE, edits)))
def test_any_bytes_are_a_head_or_our_error(head: bytes) -> None:
    try:
        found = decode(head)
    except DumpError:
        return
    assert len(found.inputs) + len(found.outputs) <= len(head)
    assert all(len(entry.shape) <= 64 for entry in found.inputs + found.outputs)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(TYPES)), st.lists(st.integers(0, 4), max_size=3), st.booleans(), st.integers(0, 9)
        ),
        max_size=5,
    )
)
def test_round_trip(tmp_path: Path, tensors: list[tuple[str, list[int], bool, int]]) -> None:
    """Any tensors, padded or not, are found where the encoder put them."""
    entries: dict[str, list[bytes]] = {"input": [], "output": []}
    contents: dict[str, list[bytes]] = {"input": [], "output": []}
    for index, (name, extents, is_input, padding) in enumerate(tensors):
        dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
        raw = bytes([index + 1]) * (math.prod(extents) * dtype.itemsize)
        raw += b"\xee" * (padding if extents else 0)
        role = "input" if is_input else "output"
        entries[role].append(tensor(role, TYPES[name], extents, len(raw)))
        contents[role].append(raw)
    path = tmp_path / FILE
    path.write_bytes(file_of(head_of(entries["input"], entries["output"]), *contents["input"], *contents["output"]))
    body, extra = acl._Reader(tmp_path, "pytorch").body(acl.dump_files(tmp_path, [path.name])[0])
    assert "problem" not in extra
    for section, role in (("input_args", "input"), ("output", "output")):
        for leaf, raw in zip(body[section], contents[role], strict=True):
            array = open_tensor(leaf["content"])
            assert (leaf["shape"], array.tobytes()) == (list(array.shape), raw[: array.nbytes])


# ---- finding -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "MatMul.x.0.0.1795242448725631.input.2.DefaultFormat.npy",
        "MatMul.x.0.0.1795242448725631.output.0.DefaultFormat.FLOAT",
        "Add.a.1.0.1670205071724946.csv",
        "Add.a.1.0.1670205071724946.npy",
        "Opdebug.Node_OpDebug.1.0.1670205071724946.output.0.json",
        "libfoo.so.1.2.3",
        "kernel_config_123.json",
        "dump.json",
        "12345678901234567",
        "Add.1.0.1670205071724946",
        "a b.c.1.0.1670205071724946",
        ".hidden.1.0.1670205071724946",
    ],
)
def test_other_files_are_not_claimed(tmp_path: Path, name: str) -> None:
    written(tmp_path, {name: WHOLE, "mapping.csv": b"x,y\n"})
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    ("folder", "top", "root", "step", "rank", "part"),
    [
        ("dump/20240101120000/3", "dump", "dump", 0, 3, ""),
        ("dump/20240101120000/3/1", "dump", "dump", 0, 3, "1"),
        ("dump/20240101120000/3/resnet/1", "dump", "dump", 0, 3, "resnet/1"),
        ("dump/20240101120000/3/resnet/1/7", "dump", "dump", 7, 3, "resnet/1"),
        ("dump/20240101120000/3/1/7", "dump", "dump", 7, 3, "1"),
        ("dump/5/20240101120000/3/net/1/7", "dump", "dump", 5, 3, "net/1/7"),
        ("dump/5/20240101120000/3/net/1/7", "dump/5", "dump/5", 7, 3, "net/1"),
        ("dump/step4/20240101120000/3", "dump/step4", "dump", 4, 3, ""),
        ("dump/graph/step4/20240101120000/3/net/1/7", "dump", "dump", 4, 3, "graph/net/1/7"),
        ("dump/rank_2/net/0/9", "dump", "dump", 9, 2, "net/0"),
        ("dump/step4/rank2", "dump", "dump", 4, 2, ""),
        ("files", "files", "files", 0, 0, ""),
    ],
)
def test_place(tmp_path: Path, folder: str, top: str, root: str, step: int, rank: int, part: str) -> None:
    written(tmp_path / folder, {FILE: WHOLE})
    (source,) = found(tmp_path / folder, tmp_path / top)
    assert (source.root, source.step, source.rank, source.part) == (tmp_path / root, step, rank, part)
    assert (source.format, source.tensors, source.files) == (acl.NAME, tmp_path / folder, ())


def test_times_that_hold_the_same_device_are_numbered(tmp_path: Path) -> None:
    folders = [written(tmp_path / time / "0", {FILE: WHOLE}) for time in ("20240101120002", "20240101120001")]
    written(tmp_path / "20240101120000" / "1", {FILE: WHOLE})
    assert [found(folder)[0].part for folder in folders] == ["1", "0"]


def test_beside_converted_files_it_is_a_part_of_its_own(tmp_path: Path) -> None:
    written(tmp_path, {FILE: WHOLE, f"{FILE}.output.0.ND.npy": b""})
    assert found(tmp_path)[0].part == "bin"


def test_names_in_mapping(tmp_path: Path) -> None:
    name = f"Add.{'long' * 80}.1.0.1670205071724946"
    mapping = f"123,{name}\r\n5,MatMul.x.1.0.1670205071724946.output.0.ND.npy\r\n77,{FILE}\r\nodd\r\n".encode()
    folder = written(tmp_path, {"123": WHOLE, "5": WHOLE, "9": WHOLE, "mapping.csv": mapping})
    (source,) = found(folder)
    assert source.files == (folder / "mapping.csv",)
    read = Read(folder)
    assert [op["api"] for op in read.ops] == ["long" * 80]
    assert read.tensors[f"Add.{'long' * 80}.1.0.output.0"]["data_name"] == "123"


@pytest.mark.parametrize("mapping", [b"123,\xff\xfe", b"123,\xe4"])
def test_a_mapping_that_cannot_be_read(tmp_path: Path, mapping: bytes) -> None:
    written(tmp_path, {"123": WHOLE, "mapping.csv": mapping})
    with pytest.raises(DumpError, match=r"mapping\.csv cannot be read"):
        found(tmp_path)


def test_a_mapping_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl, "_LARGEST_MAPPING", 4)
    written(tmp_path, {"123": WHOLE, "mapping.csv": b"123,456"})
    with pytest.raises(DumpError, match="not a mapping of file names"):
        found(tmp_path)


def test_statistics_that_cannot_be_measured_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: TensorReference) -> dict[str, float]:
        raise TensorError("gone")

    monkeypatch.setattr("lakeprobe.tensors.statistics.measure", fail)
    read = Read(written(tmp_path, {FILE: WHOLE}))
    assert {row["stat_types"] for row in read.tensors.values()} == {"----"}
    assert len(read.arrays) == 2
