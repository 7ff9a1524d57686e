"""Any damage to a dump's files gives rows or one of our errors: dump.json, its side files, debug.json, tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeprobe.errors import DumpError, TensorError
from lakeprobe.readers import debug, dump
from lakeprobe.readers.source import Format, Source
from lakeprobe.tensors import content_hash, read_tensor
from lakeprobe.tensors.statistics import measure

DUMPS = Path(__file__).resolve().parents[1] / "data" / "dumps"
TENSOR = {
    "type": "torch.Tensor",
    "dtype": "torch.float32",
    "shape": [2, 3],
    "Max": 1.5,
    "Min": -1.0,
    "Mean": 0.25,
    "Norm": float("nan"),
    "requires_grad": True,
    "md5": "0a1b2c3d",
    "data_name": "Torch.add.0.forward.input.0.pt",
}
OTHERS = [{"type": "int", "value": 2**70}, {"type": "slice", "value": [0, None, 1]}, None, [], {"a.b": [TENSOR]},
          {"class_type": "torch.distributed.P2POp", "tensor": TENSOR, "op": "isend", "peer": 1}]  # fmt: skip
DATA = {
    "Torch.add.0.forward": {"input_args": [TENSOR, *OTHERS], "input_kwargs": {"out": TENSOR}, "output": [TENSOR]},
    "Module.fc.Linear.forward.0": {"input_args": [], "parameters": {"weight": TENSOR}, "is_recompute": False},
    "Module.fc.Linear.parameters_grad": {"weight": [TENSOR]},
}
HEAD = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
FILES = {
    dump.DUMP_FILE: {**HEAD, "data": DATA},
    dump.STACK_FILE: {"0": [["Torch.add.0.forward"], ["File a.py, line 1", "File b.py, line 2"]]},
    dump.CONSTRUCT_FILE: {"Torch.add.0.forward": ["Module.fc.Linear.forward.0", 1], "Module.fc.Linear.forward.0": None},
    debug.DEBUG_FILE: {**HEAD, "data": {"x.0.debug": TENSOR, "y.1.debug": {"a": [TENSOR, None], "b": OTHERS}}},
}
VALID = {
    (name, indent): json.dumps(value, indent=indent).encode() for name, value in FILES.items() for indent in (1, None)
}
WORDS = st.sampled_from(
    [b'"', b"{", b"}", b"[", b"]", b",", b":", b"null", b"NaN", b"-Infinity", b"1e999", b"true", b"\n"]
)


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """`content` of which spans were cut out, doubled or replaced, or the end is missing."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 30)))
        filling = draw(
            st.binary(max_size=6) | WORDS | st.just(content[start:end] * 2) | st.text(max_size=3).map(_bytes)
        )
        content = content[:start] + filling + content[end:]
        if draw(st.integers(0, 9)) == 0:
            content = content[:start]
    return content


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def read(format: Format, folder: Path) -> None:
    """Read the dump in `folder`: its batches are sound and as many as the summary says, or is refused in one line."""
    batches: list[tuple[str, pa.RecordBatch]] = []
    try:
        summary = format.read(
            Source(format.NAME, folder, folder, 0, 0), lambda _: (None, None), lambda *batch: batches.append(batch)
        )
    except DumpError as error:
        assert str(folder) in str(error)  # noqa: PT017 either outcome is right
        assert "\n" not in str(error)  # noqa: PT017
        return
    for _, batch in batches:
        batch.validate()
    rows = {name: sum(len(batch) for table, batch in batches if table == name) for name in ("ops", "tensors", "stacks")}
    assert rows == {"ops": summary.ops, "tensors": summary.tensor_rows, "stacks": summary.stacks}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage")
    for name in FILES:
        (folder / name).write_bytes(VALID[name, 1])
    return folder


@pytest.mark.parametrize("name", FILES)
def test_what_is_not_damaged_is_read(folder: Path, name: str) -> None:
    read(debug if name == debug.DEBUG_FILE else dump, folder)


@given(name=st.sampled_from(list(VALID)), data=st.data())
def test_any_damage_of_a_dump_gives_rows_or_our_error(
    folder: Path, name: tuple[str, int | None], data: st.DataObject
) -> None:
    file = name[0]
    (folder / file).write_bytes(data.draw(damaged(VALID[name])))
    try:
        read(debug if file == debug.DEBUG_FILE else dump, folder)
    finally:
        (folder / file).write_bytes(VALID[file, 1])


@given(entry=st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4), lambda inner: (
    st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(
        ["input_args", "output", "parameters", "type", "dtype", "shape", "Max", "value", "class_type", "tensor", "q"]
    ), inner, max_size=4)), max_leaves=15))  # fmt: skip
def test_any_entry_gives_rows_or_our_error(folder: Path, entry: Any) -> None:
    (folder / dump.DUMP_FILE).write_text(json.dumps({**HEAD, "data": {"Torch.add.0.forward": entry}}))
    read(dump, folder)
    (folder / debug.DEBUG_FILE).write_text(json.dumps({**HEAD, "data": {"x.0.debug": entry}}))
    read(debug, folder)


TENSORS = sorted((DUMPS.parent / "tensors").glob("*.*"))


@given(path=st.sampled_from([path for path in TENSORS if path.suffix in (".pt", ".npy")]), data=st.data())
def test_any_damage_of_a_tensor_file_gives_a_tensor_or_our_error(folder: Path, path: Path, data: st.DataObject) -> None:
    file = folder / f"damaged{path.suffix}"
    file.write_bytes(data.draw(damaged(path.read_bytes())))
    try:
        reference = read_tensor(file)
        assert len(content_hash(reference)) == 32
        measure(reference)
    except TensorError as error:
        assert "\n" not in str(error)  # noqa: PT017 either outcome is right
