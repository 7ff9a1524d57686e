"""Makes the tables ops, tensors and stacks of a source from its entries: the one way in which readers write rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lakeprobe.bounds import LONGEST_OP
from lakeprobe.columns import column_of
from lakeprobe.errors import DumpError
from lakeprobe.readers.leaves import BARE, SECTIONS, Alike, Leaves, VariedRows, Varying
from lakeprobe.readers.linked import LinkedOps, Links
from lakeprobe.readers.names import OpName
from lakeprobe.readers.source import ContentOf, Emit, Source, Summary
from lakeprobe.schema import arrow_schema
from lakeprobe.system.files import leads_out
from lakeprobe.system.window import PathInFile

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeprobe.tensors import TensorReference

_BATCH = 1 << 14
"""Rows that are handed on at once: a row group of Parquet. With half of it, reading takes a twentieth more time."""


class Common(NamedTuple):
    """The columns of the table ops that similar ops share, and the first key of a section that is not known."""

    recompute: bool | None
    sections: str | None
    empties: str | None
    extra: str | None
    unknown: str | None


class Tables:
    """Takes the ops of a source in their order, and hands their rows on in batches.

    The body of an op is what msprobe would write for it: an object with the sections input_args, input_kwargs,
    input, parameters and output (of kind parameters_grad, or one of BARE: the object or value itself), whose leaves
    are the leaves of msprobe's dump.json; keys that are absent are NULL in the lake.
    """

    def __init__(
        self, source: Source, path: Path, content_of: ContentOf, emit: Emit, *, like: Leaves | None = None
    ) -> None:
        """Write rows of `source`. Messages name the file `path`. `like` are the leaves of a dump with similar ops."""
        self.summary = Summary()
        self._path = path
        self._part = source.part
        self._emit = emit
        self.linked = LinkedOps()
        self._ops: list[list[Any]] = [[] for _ in arrow_schema("ops")]
        """The columns of ops that were not handed on."""
        content_of = _kept_inside(source, content_of)
        make = Leaves if like is None else like.sharing
        self._leaves = make(str(path), source.part, content_of)
        self._stacks: dict[tuple[str, ...], int] = {}
        self._stack_rows: list[tuple[int, Sequence[str]]] = []
        self._first_unknown = ""
        self._with_unknown = 0

    @property
    def first_tensor_type(self) -> str | None:
        """The type of the first tensor leaf, for dumps that do not name their framework."""
        return self._leaves.first_tensor_type

    @property
    def varied(self) -> VariedRows:
        """The rows of tensors with the numbers that `add_alike` took."""
        return self._leaves.varied

    def stack(self, frames: Sequence[str]) -> int:
        """The number of the call stack `frames` (innermost first)."""
        key = tuple(frames)
        number = self._stacks.setdefault(key, len(self._stacks))
        if number == self.summary.stacks:
            self._stack_rows.append((number, frames))
            self.summary.stacks += 1
        return number

    def add(
        self,
        op: str,
        name: OpName,
        body: Any,
        *,
        parent: str | None = None,
        began: int | None = None,
        micro_step: int | None = None,
        stack: int | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        """Write the op `op`, whose name in parts is `name`. `extra` are fields that have no column.

        Raises DumpError if the op was there before, or its body is not laid out as said.
        """
        if len(op) > LONGEST_OP:
            raise DumpError(f"{self._path}: an op's name has {len(op)} characters, more than {LONGEST_OP}")
        if not self.linked.are_new([op]):
            raise DumpError(f"{self._path}: the entry {op} occurs twice; the file is damaged")
        summary = self.summary
        next_row = self._leaves.next_row
        empties = self._leaves.add(summary.ops, op, name.kind, body)
        first_row = next_row if self._leaves.next_row > next_row else None
        common = _common(name.kind, body, empties, extra)
        self._add_ops([op], [name], Links([parent], [began], [micro_step], [stack]), [first_row], [common])

    def learner(self) -> Leaves:
        """Leaves of entries to come, which `learn` fills."""
        return self._leaves.learner()

    def learn(self, learner: Leaves, kind: str, body: Any) -> tuple[range, Common]:
        """Walk the `body` of an op of that kind into `learner`: which rows are its leaves, and what else it says.

        Raises DumpError if the body is not laid out as said.
        """
        first = len(learner)
        empties = learner.add(0, "", kind, body)
        return range(first, len(learner)), _common(kind, body, empties, None)

    def are_new(self, ops: Sequence[str]) -> bool:
        """Return whether all of `ops` can be added: they are new, and not too long."""
        return max(map(len, ops)) <= LONGEST_OP and self.linked.are_new(ops)

    def add_alike(
        self,
        ops: Sequence[str],
        names: Sequence[OpName],
        links: Links,
        learner: Leaves,
        alike: Sequence[tuple[Alike, Common]],
        varying: Varying,
    ) -> None:
        """Write new `ops`, each of which has the leaves, and what else, that `learner` has learned of its like."""
        leaves = [one for one, _ in alike]
        rows = self._leaves.add_alike(self.summary.ops, ops, learner, leaves, varying).tolist()
        first_rows = [row if one.rows else None for row, one in zip(rows, leaves, strict=True)]
        self._add_ops(ops, names, links, first_rows, [common for _, common in alike])

    def _add_ops(
        self,
        ops: Sequence[str],
        names: Sequence[OpName],
        links: Links,
        first_rows: Sequence[int | None],
        commons: Sequence[Common],
    ) -> None:
        """Write the rows of `ops`, whose leaves were collected."""
        self.linked.read(ops)
        seqs = range(self.summary.ops, self.summary.ops + len(ops))
        recompute, *others, unknown = zip(*commons, strict=True)
        self._count_unknown(ops, unknown)
        *of_construct, stacks = links
        parts = [self._part] * len(ops)
        found = (seqs, parts, ops, *zip(*names, strict=True), *of_construct, recompute, stacks, first_rows, *others)
        for column, values in zip(self._ops, found, strict=True):
            column += values
        self.summary.ops += len(ops)
        self._emit_batches()

    def _count_unknown(self, ops: Sequence[str], unknown: Sequence[str | None]) -> None:
        found = [f"{key:.80} of {op:.80}" for op, key in zip(ops, unknown, strict=True) if key is not None]
        if found:
            self._first_unknown = self._first_unknown or found[0]
            self._with_unknown += len(found)

    def _emit_batches(self) -> None:
        if len(self._ops[0]) >= _BATCH:
            self._emit_ops()
        if len(self._leaves) >= _BATCH:
            self._emit_leaves()

    def add_undumped(self) -> None:
        """Write the linked ops that were not added: their links, and their stacks."""
        ops, links = self.linked.left()
        if ops:
            self._emit("undumped", self._batch("undumped", ([self._part] * len(ops), ops, *links)))

    def close(self) -> Summary:
        """Hand on what is left. Returns how much was read."""
        self._emit_ops()
        self._emit_leaves()
        self._emit("stacks", self._batch("stacks", [*zip(*self._stack_rows, strict=True)] or [(), ()]))
        if self._with_unknown:
            more = f", nor such sections of {self._with_unknown - 1} more ops" if self._with_unknown > 1 else ""
            self.summary.notes.append(f"not compared, as no section of its name is known: {self._first_unknown}{more}")
        return self.summary

    def _emit_ops(self) -> None:
        self._emit("ops", self._batch("ops", self._ops))
        for column in self._ops:
            column.clear()

    def _emit_leaves(self) -> None:
        self.summary.tensor_rows += len(self._leaves)
        self.summary.digests += self._leaves.count("digest")
        self.summary.files += self._leaves.count("data_name")
        self.summary.unreadable += self._leaves.count("content_problem")
        with unicode(self._path):
            batch = self._leaves.take()
        self._emit("tensors", batch)

    def _batch(self, table: str, columns: Sequence[Sequence[Any]]) -> pa.RecordBatch:
        import pyarrow as pa

        schema = arrow_schema(table)
        with unicode(self._path):
            arrays = [column_of(values, part.type) for part, values in zip(schema, columns, strict=True)]
        return pa.record_batch(arrays, schema=schema)


def _common(kind: str, body: Any, empties: str | None, extra: dict[str, Any] | None) -> Common:
    recompute, others = _other_keys(kind, body)
    extra = (extra or {}) | others
    sections = " ".join(body) if body.__class__ is dict else None
    unknown = next((key for key, value in others.items() if isinstance(value, (dict, list))), None)
    return Common(recompute, sections, empties, json.dumps(extra) if extra else None, unknown)


def _kept_inside(source: Source, content_of: ContentOf) -> ContentOf:
    """Return `content_of` for tensor files in the run's folder. A link may not lead out of it."""
    folder = source.tensors
    if folder is None or isinstance(folder, PathInFile):
        return content_of
    top = source.folder if source.root in source.files else source.root  # a file that the user named is its own root
    is_outside = cache(partial(leads_out, folder, top))

    def content_inside(tensor: str | TensorReference) -> tuple[str | None, str | None]:
        if isinstance(tensor, str):
            path = folder / tensor
            if is_outside() or (path.is_symlink() and leads_out(path, top)):
                return None, f"{path} is a link that leads out of {top}; copy the file itself"
        return content_of(tensor)

    return content_inside


@contextmanager
def unicode(path: Path) -> Iterator[None]:
    """Turn a lone surrogate in the text of `path` into a DumpError."""
    try:
        yield
    except UnicodeEncodeError:
        raise DumpError(f"{path} holds text that is not valid Unicode; the file is damaged") from None


def _other_keys(kind: str, body: Any) -> tuple[bool | None, dict[str, Any]]:
    """Return the entry's is_recompute, and its other keys that are not sections."""
    if kind == "parameters_grad" or kind in BARE or body.keys() <= SECTIONS.keys():
        return None, {}
    others = {key: value for key, value in body.items() if key not in SECTIONS}
    recompute = others.pop("is_recompute") if isinstance(others.get("is_recompute"), bool) else None
    return recompute, others
