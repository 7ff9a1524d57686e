"""Writes stack.json and construct.json of one part of a unit, in the layout that the dump had."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lakeprobe.export import json_text
from lakeprobe.readers.dump import COLLECTED, CONSTRUCT_FILE, STACK_FILE

if TYPE_CHECKING:
    import pyarrow as pa

CALLS = ("part", "op", "kind", "parent", "began", "micro_step", "stack")
"""What the side files record of an op: columns of ops, or of undumped (without kind) if dump.json lacks the op."""

_MICRO_STEPS = "megatron_micro_step_number"
_BATCH = 1 << 12


def write(folder: Path, layout: Mapping[str, Any], calls: pa.Table, frames: Mapping[int, list[str]]) -> None:
    """Write both files for the ops `calls` (columns CALLS) into `folder`. `frames` has the stacks by number.

    `layout` is the part's object in dumps.layout. A file that the dump lacked is not written.
    """
    members = {STACK_FILE: _stacks(layout, calls, frames), CONSTRUCT_FILE: _construct(layout, calls)}
    for name, found in members.items():
        state = layout.get(name)
        if state == "missing":
            continue
        with (folder / name).open("w", encoding="ascii") as file:
            if state != "empty":
                write_members(file, found, 0)


def write_members(file: IO[str], members: Iterable[tuple[str, str]], depth: int) -> None:
    """Write an object that is `depth` levels deep, from its names and the JSON text of each value."""
    before = "{\n" + " " * (depth + 1)
    empty = True
    for name, text in members:
        file.write(f"{before}{json.dumps(name)}: {text}")
        before, empty = ",\n" + " " * (depth + 1), False
    file.write("{}" if empty else "\n" + " " * depth + "}")


def _stacks(layout: Mapping[str, Any], calls: pa.Table, frames: Mapping[int, list[str]]) -> Iterator[tuple[str, str]]:
    """Yield the members of stack.json: by op, or grouped by stack as in all releases from 8.1.1 on."""
    import pyarrow.compute as pc

    has_stack = pc.is_valid(calls["stack"])
    if layout.get(STACK_FILE) == "by op":
        for stack, op in _rows(calls, has_stack, None, "stack", "op"):
            yield op, json_text.text(frames[stack], 1)
        return
    if layout.get(STACK_FILE) == COLLECTED:
        ops_of: dict[int, list[str]] = {}
        for stack, op in _rows(calls, has_stack, "began", "stack", "op"):
            ops_of.setdefault(stack, []).append(op)
        groups: Iterable[tuple[int, list[str]]] = ops_of.items()
    else:
        rows = groupby(_rows(calls, has_stack, "stack", "stack", "op"), key=itemgetter(0))
        groups = ((stack, [op for _, op in group]) for stack, group in rows)
    for number, (stack, ops) in enumerate(groups):
        yield str(number), json_text.text([ops, frames[stack]], 1)


def _construct(layout: Mapping[str, Any], calls: pa.Table) -> Iterator[tuple[str, str]]:
    import pyarrow.compute as pc

    chosen = pc.is_valid(calls["began"])
    if layout.get(CONSTRUCT_FILE) == COLLECTED:
        for op, parent in _in_msprobes_order(_rows(calls, chosen, "began", "op", "parent", "kind")):
            yield op, json_text.text(parent, 1)
        return
    parents = calls["parent"].unique().drop_null()
    if not pc.any(chosen).as_py() and len(
        parents
    ):  # which ops began when is not known: all but gradients, as they stand
        chosen = pc.not_equal(calls["kind"], "parameters_grad")
        roots = parents.filter(pc.invert(pc.is_in(parents, calls["op"])))  # "optimizer" is not an op of its own
        yield from ((root, "null") for root in roots.to_pylist())
    for op, parent, micro_step in _rows(calls, chosen, "began", "op", "parent", "micro_step"):
        yield op, json_text.text(parent if micro_step is None else [parent, micro_step], 1)
    if _MICRO_STEPS in layout:
        yield _MICRO_STEPS, json_text.text(layout[_MICRO_STEPS], 1)


def _in_msprobes_order(calls: Iterable[tuple[str, str | None, str]]) -> Iterator[tuple[str, str | None]]:
    """Yield the ops of `calls` (op, parent, kind, in the order in which they began) with their parents.

    In msprobe's file, an API is placed where it began, and a module after the first API that runs in it. A module
    without an API is placed where it ended, after those that were open then. Parents that are not ops come before their
    first API.
    """
    pending: dict[str, str | None] = {}
    parent_of: dict[str, str | None] = {}
    for op, parent, kind in calls:
        if kind == "module":
            pending[op] = parent_of[op] = parent
            continue
        outer, enclosing = parent, set()
        while outer is not None and outer not in enclosing:
            enclosing.add(outer)
            if outer not in parent_of:
                parent_of[outer] = None
                yield outer, None
            outer = parent_of[outer]
        ended = max((place for place, module in enumerate(pending, 1) if module not in enclosing), default=0)
        modules = list(pending.items())
        yield from modules[:ended]
        yield op, parent
        yield from modules[ended:]
        pending.clear()
    yield from pending.items()


def _rows(calls: pa.Table, chosen: pa.ChunkedArray, order: str | None, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the `columns` of the rows for which `chosen` is true, stably sorted by the column `order`."""
    import pyarrow.compute as pc

    places = pc.indices_nonzero(chosen.combine_chunks())  # Arrow before 26 crashes on a column without chunks
    if order:
        places = places.take(pc.sort_indices(calls[order].take(places)))
    for start in range(0, len(places), _BATCH):
        batch = calls.select(columns).take(places.slice(start, _BATCH))
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
