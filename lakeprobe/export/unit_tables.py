"""Reads the tables of one unit as rows, batch by batch. Small tables that an export needs are read at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lakeprobe.errors import LakeError
from lakeprobe.export.entries import Leaf, Op
from lakeprobe.export.side_files import CALLS
from lakeprobe.tensors import TensorReference

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Row = TypeVar("Row", bound=NamedTuple)

_BATCH = 1 << 12


class UnitTables:
    """The tables of the unit in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with self._open("dumps") as file:
            [self.described] = file.read().to_pylist()
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
        if (self.folder / "undumped.parquet").exists():
            tables.append(self._calls("undumped"))
        calls = pa.concat_tables(tables).combine_chunks()
        is_of_part = pc.equal(calls["part"], part)
        return calls if pc.all(is_of_part).as_py() else calls.filter(is_of_part)

    def _calls(self, table: str) -> pa.Table:
        """Return the columns CALLS of `table`, with NULL for columns that an older table lacks."""
        import pyarrow as pa

        with self._open(table) as file:
            known = [name for name in CALLS if name in file.schema_arrow.names]
            read = file.read(columns=known)
        types = {"began": pa.int32(), "micro_step": pa.int32(), "stack": pa.int32()}
        absent = {name: pa.nulls(len(read), types.get(name, pa.string())) for name in CALLS if name not in known}
        return pa.table({name: absent[name] if name in absent else read[name] for name in CALLS})

    def contents(self) -> dict[str, TensorReference]:
        """Return the reference of each content."""
        with self._open("contents") as file:
            rows = file.read().to_pylist()
        return {row["content"]: TensorReference.of(row | {"file": str(self.folder / row["file"])}) for row in rows}

    def frames(self) -> dict[int, list[str]]:
        """Return the call stacks by number."""
        with self._open("stacks") as file:
            return {row["stack"]: row["frames"] for row in file.read().to_pylist()}

    def _rows(self, table: str, row: type[Row]) -> Iterator[Row]:
        """Yield the rows of `table` in order."""
        with self._open(table) as file:
            for batch in file.iter_batches(_BATCH, columns=list(row._fields)):
                columns = [batch.column(name).to_pylist() for name in row._fields]
                yield from map(row._make, zip(*columns, strict=True))

    @contextmanager
    def _open(self, table: str) -> Iterator[pq.ParquetFile]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.folder / f"{table}.parquet"
        try:
            with pq.ParquetFile(path) as file:
                yield file
        except (FileNotFoundError, pa.ArrowInvalid) as error:
            raise LakeError(f"{path} is missing or damaged; read the dump again with --replace") from error
