"""What the tests of readers share: a source read into rows, and bytes that are damaged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lakeprobe.readers.source import ContentOf, Format, Listing, Source, Summary
from lakeprobe.schema import arrow_schema

Row = dict[str, Any]
Damages = list[tuple[int, int, bytes]]
"""Spans, by place and length, and what stands instead."""


@dataclass(frozen=True)
class Read:
    """What a source became, as rows."""

    summary: Summary
    ops: list[Row]
    tensors: list[Row]
    stacks: list[Row]
    undumped: list[Row]

    def names(self) -> list[str]:
        return [op["op"] for op in self.ops]

    def leaf(self, name: str) -> Row:
        (row,) = [row for row in self.tensors if row["name"] == name]
        return row


def listing(folder: Path, top: Path | None = None) -> Listing:
    """What a reader is told of `folder` when `top` was given, or the folder itself."""
    entries = sorted(folder.iterdir())
    files, folders = ([it.name for it in entries if it.is_dir() is is_folder] for is_folder in (False, True))
    return Listing(folder, files, folders, top or folder)


def read_source(format: Format, source: Source, content_of: ContentOf = lambda _: (None, None)) -> Read:
    """Read `source` with the reader under test; its tables are sound."""
    batches: dict[str, list[pa.RecordBatch]] = {"ops": [], "tensors": [], "stacks": [], "undumped": []}
    summary = format.read(source, content_of, lambda table, batch: batches[table].append(batch))
    tables = {name: _table(found, arrow_schema(name)) for name, found in batches.items()}
    for table in tables.values():
        table.validate(full=True)
    return Read(summary, *(table.to_pylist() for table in tables.values()))


def _table(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The rows of `batches`, whose columns may be dictionaries of what `schema` says."""
    return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def damages(longest: int) -> st.SearchStrategy[Damages]:
    """Damages to `longest` bytes at the most."""
    spans = st.tuples(st.integers(0, longest), st.integers(0, 40), st.binary(max_size=6))
    return st.lists(spans, min_size=1, max_size=3)


def damaged(data: bytes, damages: Damages) -> bytes:
    for place, length, instead in damages:
        data = data[:place] + instead + data[place + length :]
    return data
