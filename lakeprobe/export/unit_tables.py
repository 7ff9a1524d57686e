"""Reads the tables of one unit as rows, batch by batch. Small tables that an export needs are read at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lakeprobe.export.entries import Leaf, Op
from lakeprobe.export.side_files import CALLS
from lakeprobe.lake.layout import UnitPlace
from lakeprobe.lake.unit import opened, read_batches, read_dump
from lakeprobe.tensors import TensorReference

if TYPE_CHECKING:
    import pyarrow as pa

Row = TypeVar("Row", bound=NamedTuple)

_BATCH = 1 << 12


class UnitTables:
    """The tables of a unit."""

    def __init__(self, unit: UnitPlace) -> None:
        self.unit = unit
        self.described = read_dump(unit)
        self.layouts: dict[str, dict[str, Any]] = json.loads(self.described.get("layout") or "{}")

    def head(self, part: str) -> dict[str, Any]:
        """Return the top-level keys of the dump of `part` except data. Empty if it was not a dump of msprobe."""
        head: dict[str, Any] = json.loads(self.described["head"])
        is_by_part = all(isinstance(value, dict) for value in head.values())
        own: dict[str, Any] = head.get(part, {}) if is_by_part else head
        return own if "task" in own else {}

    def entries(self) -> Iterator[tuple[Op, list[Leaf]]]:
        """Yield the ops in order, each with its leaves."""
        groups = groupby(self._rows("tensors", Leaf), key=attrgetter("seq"))
        seq, leaves = next(groups, (None, iter(())))
        for op in self._rows("ops", Op):
            if op.seq == seq:
                yield op, list(leaves)
                seq, leaves = next(groups, (None, iter(())))
            else:
                yield op, []

    def calls(self, part: str) -> pa.Table:
        """Return what the side files of `part` record of the ops (side_files.CALLS). Those in dump.json come first."""
        import pyarrow as pa
        import pyarrow.compute as pc

        tables = [self._calls("ops")]
        if (self.unit.folder / "undumped.parquet").exists():
            tables.append(self._calls("undumped"))
        calls = pa.concat_tables(tables).combine_chunks()
        is_of_part = pc.equal(calls["part"], part)
        return calls if pc.all(is_of_part).as_py() else calls.filter(is_of_part)

    def _calls(self, table: str) -> pa.Table:
        """Return the columns CALLS of `table`, with NULL for columns that an older table lacks."""
        import pyarrow as pa

        with opened(self.unit, table) as file:
            known = [name for name in CALLS if name in file.schema_arrow.names]
            schema = pa.schema([file.schema_arrow.field(name) for name in known])
            read = pa.Table.from_batches(read_batches(self.unit, file, known), schema)
        types = {"began": pa.int32(), "micro_step": pa.int32(), "stack": pa.int32()}
        absent = {name: pa.nulls(len(read), types.get(name, pa.string())) for name in CALLS if name not in known}
        return pa.table({name: absent[name] if name in absent else read[name] for name in CALLS})

    def contents(self) -> dict[str, TensorReference]:
        """Return the reference of each content."""
        return {
            row["content"]: TensorReference.of(row | {"file": str(self.unit.values / row["file"])})
            for row in self._all("contents")
        }

    def frames(self) -> dict[int, list[str]]:
        """Return the call stacks by number."""
        return {row["stack"]: row["frames"] for row in self._all("stacks")}

    def _all(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a small table."""
        with opened(self.unit, table) as file:
            batches = read_batches(self.unit, file, file.schema_arrow.names)
            return [row for batch in batches for row in batch.to_pylist()]

    def _rows(self, table: str, row: type[Row]) -> Iterator[Row]:
        """Yield the rows of `table` in order."""
        with opened(self.unit, table) as file:
            for batch in read_batches(self.unit, file, row._fields, _BATCH):
                columns = [batch.column(name).to_pylist() for name in row._fields]
                yield from map(row._make, zip(*columns, strict=True))
