"""Reads one msprobe dump (dump.json, stack.json, construct.json) into Arrow tables, in constant memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from lakeprobe.errors import DumpError
from lakeprobe.readers import names
from lakeprobe.readers.members import Take, decoded, read_members
from lakeprobe.readers.skeletons import Skeletons
from lakeprobe.readers.source import ContentOf, Emit, Listing, Source, Summary, place_of
from lakeprobe.readers.tables import Tables, unicode

NAME = "msprobe dump"
DUMP_FILE, STACK_FILE, CONSTRUCT_FILE = "dump.json", "stack.json", "construct.json"
MISSING, EMPTY, BY_OP, GROUPED, COLLECTED = "missing", "empty", "by op", "grouped", "collected"
"""How a side file is written (dumps.layout): not at all, with no byte, an op a key, a stack a key, as of a run that we
collected: not written yet, and grouped."""

TENSOR_FOLDER = "dump_tensor_data"
_groups = msgspec.json.Decoder(dict[str, tuple[list[str], tuple[str, ...]]]).decode
_parents = msgspec.json.Decoder(dict[str, str | None]).decode

FRAMEWORKS = ("pytorch", "mindspore", "mindtorch")


def find(listing: Listing) -> list[Source]:
    """The dump in a folder that has a dump.json."""
    return found(listing, NAME, (DUMP_FILE, STACK_FILE, CONSTRUCT_FILE))


def found(listing: Listing, format: str, names: tuple[str, ...]) -> list[Source]:
    """Return the source of a folder that has the first of the files `names`. The other files are optional."""
    if names[0] not in listing.files:
        return []
    folder, place = listing.folder, place_of(listing.folder)
    files = tuple(folder / name for name in names if name in listing.files)
    tensors = folder / TENSOR_FOLDER
    return [Source(format, place.root, folder, place.step, place.rank, files, tensors, place.part, place.process)]


def rest_of_dump(listing: Listing) -> list[str]:
    """The files and folders that msprobe writes beside a dump.json, in a folder without one."""
    if DUMP_FILE in listing.files or DUMP_FILE in listing.left_out:
        return []
    return [name for name in (STACK_FILE, CONSTRUCT_FILE, TENSOR_FOLDER) if name in (*listing.files, *listing.folders)]


def read(source: Source, content_of: ContentOf, emit: Emit) -> Summary:
    """Read dump.json, stack.json and construct.json. Raises DumpError."""
    path = source.folder / DUMP_FILE
    tables = Tables(source, path, content_of, emit)
    _read_stacks(source.folder / STACK_FILE, tables)
    _read_construct(source.folder / CONSTRUCT_FILE, tables)
    head: dict[str, Any] = {}
    has_data = False
    for container, op, body in read_members(path, "data", Skeletons(tables, path).take):
        if container is None:
            head[op] = body
            continue
        has_data = True
        if body.__class__ is not dict:
            raise DumpError(f"{path}: the entry {op} is {_kind_of(body)}, not an object")
        [parent], [began], [micro_step], [stack] = tables.linked.of([op])
        tables.add(op, names.parse(op), body, parent=parent, began=began, micro_step=micro_step, stack=stack)
    tables.add_undumped()
    take_head(head, has_data, tables, path)
    return tables.close()


def take_head(head: dict[str, Any], has_data: bool, tables: Tables, path: Path) -> None:
    """Take the keys of `path` but data: what was dumped, and by which framework. Raises DumpError."""
    summary = tables.summary
    if not has_data and head.get("data") != {}:
        what = "has no data" if "data" not in head else "has data that is not an object"
        raise DumpError(f"{path} {what}; it is not a dump.json, or the run was killed before it wrote one")
    for key in ("task", "level", "framework"):
        if head.get(key) is not None and not isinstance(head[key], str):
            raise DumpError(f"{path}: {key} is not text; it is not a dump.json")
        with unicode(path):
            str(head.get(key)).encode()
    summary.task, summary.level = head.get("task"), head.get("level")
    framework = head.get("framework")
    if framework is None:
        framework = "mindspore" if (tables.first_tensor_type or "").startswith("mindspore") else "pytorch"
        summary.notes.append(f"the dump does not name its framework; taken as {framework}")
    elif framework not in FRAMEWORKS:
        raise DumpError(f"{path}: the framework {framework!r:.40} is none of {', '.join(FRAMEWORKS)}")
    summary.framework = framework
    summary.head = json.dumps({key: value for key, value in head.items() if key != "data"})


def _read_stacks(path: Path, tables: Tables) -> None:
    """Link ops with their stacks. Both layouts: by op name, and grouped by stack."""
    layout = tables.summary.layout

    def take(text: bytes) -> bool:
        groups = decoded(text, b'\n "', None, _groups)
        if not groups:
            return False
        layout[path.name] = GROUPED
        for ops, frames in groups.values():
            tables.linked.add_stack(ops, tables.stack(frames))
        return True

    for name, value in _side_file(path, tables.summary, take):
        is_group = _is_group(value)
        ops, frames = value if is_group else ([name], value)
        if is_group:
            layout[path.name] = GROUPED
        if not isinstance(frames, list) or not all(isinstance(frame, str) for frame in frames):
            raise DumpError(f"{path}: the stack of {name} is not a list of lines; the file is damaged")
        tables.linked.add_stack([*map(str, ops)], tables.stack(frames))


def _is_group(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(part, list) for part in value)


def _read_construct(path: Path, tables: Tables) -> None:
    """Link ops with their parents."""

    def take(text: bytes) -> bool:
        found = decoded(text, b'\n "', None, _parents)
        return False if not found else tables.linked.add_parents(found)

    for name, value in _side_file(path, tables.summary, take):
        parent, micro_step = value if isinstance(value, list) and len(value) == 2 else (value, None)
        if isinstance(parent, int) and micro_step is None:
            tables.summary.layout[name] = parent  # megatron_micro_step_number: how many there are, not an op
            continue
        if not (parent is None or isinstance(parent, str)) or not _is_micro_step(micro_step):
            raise DumpError(f"{path}: the parent of {name} is neither text nor null; the file is damaged")
        tables.linked.add_parent(name, parent, micro_step)


def _is_micro_step(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < 2**31)


def _side_file(path: Path, summary: Summary, take: Take) -> Iterator[tuple[str, Any]]:
    """The members of stack.json or construct.json that `take` does not take as a block of lines.

    None, with a note, where the file is missing or empty.
    """
    summary.layout[path.name] = BY_OP
    if not path.is_file():
        summary.layout[path.name] = MISSING
        summary.notes.append(f"{path.name} is missing")
    elif path.stat().st_size == 0:
        summary.layout[path.name] = EMPTY
        summary.notes.append(f"{path.name} is empty")
    else:
        for _, name, value in read_members(path, take=take):
            yield name, value


def _kind_of(value: Any) -> str:
    kinds = {list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")
