"""Makes rows of the ops of journals.

The steps of a run have mostly the same ops. An op without its numbers is its *skeleton*, as of an entry of dump.json
(`lakeprobe.readers.skeletons`). So a batch of ops is split at its numbers, and the rest is looked up. Whatever does
not look as usual is refused, and read op by op instead.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lakeprobe.journals import journal
from lakeprobe.journals.journal import Batch
from lakeprobe.readers import names
from lakeprobe.readers.leaves import Leaves, VariedRows, Varying
from lakeprobe.readers.linked import Links
from lakeprobe.readers.skeletons import Known, Placeholders, are_exact
from lakeprobe.readers.tables import Tables

_CONTAINERS = frozenset((list, dict))
_PLAIN = frozenset((bool, int, float, str, type(None)))
_SEPARATOR = b"\xc1op\xc1"
"""Stands between two bodies. 0xc1 is not a type of msgpack and no byte of UTF-8; inside numbers it is improbable."""
_FREE = 1024
"""The number of skeletons that are always learned: more than a step of most models has, and each comes again."""
_NUMBER = rb"([\x00-\x7f\xc0\xc2\xc3\xe0-\xff]|[\xcc\xd0].|[\xcd\xd1].{2}|[\xce\xd2].{4}|[\xcb\xcf\xd3].{8})"
"""A number of msgpack, a truth value, or nil."""


class Op(msgspec.Struct, array_like=True):
    """A `lakeprobe.journals.journal.Op` whose body is still msgpack."""

    op: str
    body: msgspec.Raw
    parent: str | None
    stack: int | None
    began: int | None = None


class FinalOps:
    """The ops of a journal. Backward may have gone through an op again: then the last record counts, in its place."""

    def __init__(self, path: Path) -> None:
        self._to_come = Counter(name for batch in journal.batches(path) for name in batch.again)
        """How many records of an op are still to come after the next one."""

    def of(self, batch: Batch) -> list[Op]:
        """Return the ops of the next batch."""
        ops = _decoded(batch)
        return [op for op in ops if self._is_last(op)] if self._to_come else ops

    def _is_last(self, op: Op) -> bool:
        self._to_come[op.op] -= 1
        return self._to_come[op.op] < 0


def _decoded(batch: Batch) -> list[Op]:
    return [msgspec.msgpack.decode(encoded, type=Op) for encoded in batch.ops]


class _Varying(NamedTuple):
    """Numbers that vary among the ops of a skeleton."""

    mark: bytes
    """Stands for them in a skeleton."""
    form: bytes
    """How they are written, with %b for each."""
    placeholder: Callable[[int], tuple[float, ...]]
    """What stands for the n-th of them when a skeleton is learned."""
    in_column: Callable[[tuple[float, ...]], Any] = tuple
    """What the column of the table tensors then has."""

    @property
    def size(self) -> int:
        """How many numbers they are."""
        return self.form.count(b"%b")

    def split(self, text: bytes) -> tuple[bytes, list[Any]]:
        """Return the text with marks in place of the numbers, and the numbers."""
        parts = re.split(self.form % ((_NUMBER,) * self.size), text, flags=re.DOTALL)
        text = self.mark.join(parts[:: self.size + 1])
        del parts[:: self.size + 1]
        array = b"\xdd" + len(parts).to_bytes(4, "big")
        return text, msgspec.msgpack.decode(array + b"".join(parts))

    def places(self, text: bytes) -> list[int]:
        """Return where the numbers begin in the text."""
        groups = range(1, self.size + 1)
        found = re.finditer(self.form % ((_NUMBER,) * self.size), text, flags=re.DOTALL)
        return [one.start(group) for one in found for group in groups]

    def fill(self, text: bytes) -> tuple[bytes, dict[Any, int]]:
        """Return the text with placeholders in place of the marks, and the number of each by what its column has."""
        first, *others = text.split(self.mark)
        values = [self.placeholder(number) for number in range(len(others))]
        forms = [self.form % tuple(map(msgspec.msgpack.encode, value)) for value in values]
        text = first + b"".join(form + other for form, other in zip(forms, others, strict=True))
        return text, {self.in_column(value): number for number, value in enumerate(values)}


_VARYING = {
    "statistics": _Varying(
        b"\xc1statistics\xc1",
        b"\xa3Max%b\xa3Min%b\xa4Mean%b\xa4Norm%b",
        lambda number: (number + 0.5, number + 0.25, number + 0.125, number + 0.0625),
    ),
    "wide": _Varying(b"\xc1wide\xc1", b"\xa4wide\x96" + b"%b" * 6, lambda number: (number,) * 6),
    "value": _Varying(
        b"\xc1value\xc1", b"\xa5value%b", lambda number: (number + 0.015625,), lambda value: json.dumps(*value)
    ),
}


def split(text: bytes) -> tuple[bytes, dict[str, list[Any]]]:
    """Return ops of journals without their numbers, and the numbers by what they are of."""
    numbers: dict[str, list[Any]] = {}
    for column, varying in _VARYING.items():
        text, numbers[column] = varying.split(text)
    return text, numbers


def places(text: bytes) -> dict[str, list[int]]:
    """Return where the numbers of ops of journals begin, by what they are of."""
    return {column: varying.places(text) for column, varying in _VARYING.items()}


def varying_of(numbers: dict[str, list[Any]]) -> Varying | None:
    """Return the numbers that `split` found as columns take them. None if a statistic is not exact in a double."""
    statistics = numbers["statistics"]
    is_floats = set(map(type, statistics)) <= {float}
    if not is_floats and not are_exact(statistics):
        return None
    values = json.dumps(numbers["value"])[1:-1].split(", ") if numbers["value"] else []
    return Varying(statistics, is_floats, wides=numbers["wide"], values=values)


class Skeletons:
    """The skeletons of journals of a run. Their units share the numbers of the places of leaves."""

    def __init__(self) -> None:
        self._known: Known | None = None
        self.varied: VariedRows | None = None
        """The rows of the numbers of the unit whose ops were taken last."""

    @property
    def leaves(self) -> Leaves | None:
        """Leaves that those of the next unit should be like. None before the first unit."""
        return None if self._known is None else self._known.learner

    def take(self, tables: Tables, ops: Sequence[Op], stacks: Sequence[int]) -> bool:
        """Write the rows of ops to `tables`. Returns False, and writes none, if they must be read one by one.

        `stacks` has the number of each call stack. Raises DumpError.
        """
        if self._known is None:
            self._known = Known(tables, _entry_of, _FREE)
        named = [op.op for op in ops]
        text, numbers = split(_SEPARATOR.join([op.body for op in ops]))
        bodies = text.split(_SEPARATOR)
        varying = varying_of(numbers)
        if varying is None or len(bodies) != len(ops) or not tables.are_new(named):
            return False
        parsed = [*map(name_of, named)]
        alike = self._known.find(bodies, [name.kind for name in parsed])
        if alike is None:
            return False
        tables.add_alike(
            named,
            parsed,
            Links(
                [op.parent for op in ops],
                [op.began for op in ops],
                [None] * len(ops),
                [None if op.stack is None else stacks[op.stack] for op in ops],
            ),
            self._known.learner,
            alike,
            varying,
        )
        self.varied = tables.varied
        return True


def _entry_of(skeleton: bytes) -> tuple[Any, Placeholders] | None:
    """Return the entry of a skeleton with placeholders for its numbers, and these. None if there is none."""
    placeholders = {}
    for column, varying in _VARYING.items():
        skeleton, placeholders[column] = varying.fill(skeleton)
    try:
        entry = msgspec.msgpack.decode(skeleton)
    except (msgspec.DecodeError, UnicodeDecodeError):  # something else looked like a number
        return None
    _adapt(entry, {})
    return entry, placeholders


def add(tables: Tables, op: Op, stacks: Sequence[int], of_name: dict[str, str]) -> None:
    """Write the rows of one op to `tables`. `of_name` gets the content hashes of its tensors by data_name.

    Raises DumpError, TypeError, ValueError, LookupError, AttributeError or RecursionError if it is malformed.
    """
    body = msgspec.msgpack.decode(op.body)
    if isinstance(body, str):
        body = json.loads(body)
    _adapt(body, of_name)
    stack = None if op.stack is None else stacks[op.stack]
    tables.add(op.op, name_of(op.op), body, parent=op.parent, began=op.began, stack=stack)


def name_of(op: str) -> names.OpName:
    """Return the parts of the name of an op or of a saved point."""
    return names.debug_point(op) if op.endswith(".debug") else _parsed(op)


@lru_cache(maxsize=1 << 16)
def _parsed(op: str) -> names.OpName:
    """Return the parts of the name of an op. The steps of a run have mostly the same ops."""
    return names.parse(op)


def _adapt(value: Any, of_name: dict[str, str]) -> None:
    """Convert the leaves of a body to the form that `lakeprobe.readers.leaves` takes.

    `of_name` gets content hashes by data_name. The wide statistics become a tuple, which no dump.json can have.
    """
    pending = [value]
    while pending:
        container = pending.pop()
        if container.__class__ is list:
            pending += [item for item in container if item.__class__ in _CONTAINERS]
        elif container.__class__ is not dict:
            continue
        elif container.get("dtype").__class__ is str:  # a tensor's leaf; among named arguments, dtype is a leaf itself
            if "wide" in container:
                container["wide"] = tuple(container["wide"])
            if "data_name" in container and container.get("tensor").__class__ is str:
                of_name[container["data_name"]] = container.pop("tensor")
        else:
            for key, item in container.items():
                kind = item.__class__
                if kind in _CONTAINERS:
                    pending.append(item)
                elif kind not in _PLAIN:  # bytes, which exist in msgpack but not in JSON
                    container[key] = str(item)
