"""Reads one msprobe dump (dump.json, stack.json, construct.json) into Arrow tables, in constant memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe.errors import DumpError
from lakeprobe.readers import names
from lakeprobe.readers.leaves import SECTIONS, ContentOf, Leaves
from lakeprobe.readers.locate import DUMP_FILE
from lakeprobe.readers.members import read_members
from lakeprobe.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

Emit = Callable[[str, "pa.RecordBatch"], None]
"""Takes a table's name and its next rows."""

STACK_FILE, CONSTRUCT_FILE = "stack.json", "construct.json"
FRAMEWORKS = ("pytorch", "mindspore", "mindtorch")
_HEAD = ("task", "level", "framework", "dump_data_dir", "data")
_BATCH = 1 << 13
_NO_PARENT = (None, None)


@dataclass(slots=True)
class DumpSummary:
    """What a dump said of itself, and how much was read from it."""

    framework: str = ""
    task: str | None = None
    level: str | None = None
    head: str = "{}"
    ops: int = 0
    tensor_rows: int = 0
    digests: int = 0
    files: int = 0
    unreadable: int = 0
    notes: list[str] = field(default_factory=list)


def read_dump(folder: Path, content_of: ContentOf, emit: Emit) -> DumpSummary:
    """Read the dump in `folder` and hand its tables ops, tensors and stacks to `emit`, batch by batch.

    `content_of` tells the content hash of each tensor file that the dump names. Raises DumpError.
    """
    summary = DumpSummary()
    of_op = _read_stacks(folder / STACK_FILE, emit, summary)
    parents = _read_construct(folder / CONSTRUCT_FILE, summary)
    path = folder / DUMP_FILE
    head: dict[str, Any] = {}
    has_data = False
    ops: list[tuple[Any, ...]] = []
    leaves = Leaves(str(path), content_of)
    seen: set[str] = set()
    for container, op, body in read_members(path, "data"):
        if container is None:
            head[op] = body
            continue
        if op in seen:
            raise DumpError(f"{path}: the entry {op} is there twice; the file is damaged")
        seen.add(op)
        has_data = True
        name = names.parse(op)
        seq = summary.ops
        next_row = leaves.next_row
        empties = leaves.add(seq, op, name.kind, body)
        first_row = next_row if leaves.next_row > next_row else None
        recompute, extra = _other_keys(name, body)
        surroundings = (*parents.get(op, _NO_PARENT), recompute, of_op.get(op))
        ops.append((seq, op, *name, *surroundings, first_row, " ".join(body), empties, extra))
        summary.ops += 1
        if len(ops) >= _BATCH:
            emit("ops", _batch("ops", ops, path))
            ops.clear()
        if len(leaves) >= _BATCH:
            emit("tensors", _take(leaves, summary, path))
    emit("ops", _batch("ops", ops, path))
    emit("tensors", _take(leaves, summary, path))
    _take_head(head, has_data or head.get("data") == {}, leaves.first_tensor_type or "", path, summary)
    return summary


def _take(leaves: Leaves, summary: DumpSummary, path: Path) -> pa.RecordBatch:
    summary.tensor_rows += len(leaves)
    summary.digests += leaves.count("digest")
    summary.files += leaves.count("data_name")
    summary.unreadable += leaves.count("content_problem")
    with _unicode(path):
        return leaves.take()


def _batch(table: str, rows: Sequence[tuple[Any, ...]], path: Path) -> pa.RecordBatch:
    import pyarrow as pa

    schema = arrow_schema(table)
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    with _unicode(path):
        arrays = [pa.array(column, type=part.type) for part, column in zip(schema, columns, strict=True)]
    return pa.record_batch(arrays, schema=schema)


@contextmanager
def _unicode(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError:
        raise DumpError(f"{path} holds text that is not valid Unicode; the file is damaged") from None


def _other_keys(name: names.OpName, body: dict[str, Any]) -> tuple[bool | None, str | None]:
    """The entry's is_recompute, and its other keys that are no sections, as JSON."""
    if name.kind == "parameters_grad" or body.keys() <= SECTIONS.keys():
        return None, None
    others = {key: value for key, value in body.items() if key not in SECTIONS}
    recompute = others.pop("is_recompute") if isinstance(others.get("is_recompute"), bool) else None
    return recompute, json.dumps(others) if others else None


def _take_head(head: dict[str, Any], has_data: bool, first_type: str, path: Path, summary: DumpSummary) -> None:
    if not has_data:
        what = "has no data" if "data" not in head else "has data that is not an object"
        raise DumpError(f"{path} {what}; it is not a dump.json, or the run was killed before it wrote one")
    for key in ("task", "level", "framework"):
        if head.get(key) is not None and not isinstance(head[key], str):
            raise DumpError(f"{path}: {key} is not text; it is not a dump.json")
        with _unicode(path):
            str(head.get(key)).encode()
    summary.task, summary.level = head.get("task"), head.get("level")
    framework = head.get("framework")
    if framework is None:
        framework = "mindspore" if first_type.startswith("mindspore") else "pytorch"
        summary.notes.append(f"the dump does not name its framework; taken as {framework}")
    elif framework not in FRAMEWORKS:
        raise DumpError(f"{path}: the framework {framework!r:.40} is none of {', '.join(FRAMEWORKS)}")
    summary.framework = framework
    summary.head = json.dumps({key: value for key, value in head.items() if key != "data"})


def _read_stacks(path: Path, emit: Emit, summary: DumpSummary) -> dict[str, int]:
    """Emit the distinct stacks and return each op's. Both layouts: by op name, and grouped by stack."""
    stacks: dict[tuple[str, ...], int] = {}
    of_op: dict[str, int] = {}
    rows: list[tuple[int, list[str]]] = []
    for name, value in _side_file(path, summary):
        ops, frames = value if _is_group(value) else ([name], value)
        if not isinstance(frames, list) or not all(isinstance(frame, str) for frame in frames):
            raise DumpError(f"{path}: the stack of {name} is not a list of lines; the file is damaged")
        key = tuple(frames)
        number = stacks.setdefault(key, len(stacks))
        if number == len(rows):
            rows.append((number, frames))
        for op in ops:
            of_op[sys.intern(str(op))] = number
    emit("stacks", _batch("stacks", rows, path))
    return of_op


def _is_group(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(part, list) for part in value)


def _read_construct(path: Path, summary: DumpSummary) -> dict[str, tuple[str | None, int | None]]:
    parents: dict[str, tuple[str | None, int | None]] = {}
    shared: dict[Any, tuple[str | None, int | None]] = {}
    for name, value in _side_file(path, summary):
        parent, micro_step = value if isinstance(value, list) and len(value) == 2 else (value, None)
        if isinstance(parent, int) and micro_step is None:
            continue  # megatron_micro_step_number: how many there are, not an op
        if not (parent is None or isinstance(parent, str)) or not _is_micro_step(micro_step):
            raise DumpError(f"{path}: the parent of {name} is neither text nor null; the file is damaged")
        key = (parent, micro_step)
        parents[sys.intern(name)] = shared.setdefault(key, key)
    return parents


def _is_micro_step(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < 2**31)


def _side_file(path: Path, summary: DumpSummary) -> Iterator[tuple[str, Any]]:
    """The members of stack.json or construct.json; none, with a note, where the file is missing or empty."""
    if not path.is_file():
        summary.notes.append(f"{path.name} is missing")
    elif path.stat().st_size == 0:
        summary.notes.append(f"{path.name} is empty")
    else:
        for _, name, value in read_members(path):
            yield name, value
