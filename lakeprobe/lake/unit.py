"""Writes the tables of one unit, batch by batch, into a staged folder, and reads the rows of a unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe.columns import column_of, fixed
from lakeprobe.errors import LakeError
from lakeprobe.lake.layout import UnitKey, UnitPlace
from lakeprobe.schema import arrow_schema, table
from lakeprobe.system.files import readable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_INTEGERS = "DELTA_BINARY_PACKED"
_NAMES = "DELTA_BYTE_ARRAY"
_ENCODINGS = {
    "ops": {"seq": _INTEGERS, "first_row": _INTEGERS, "stack": _INTEGERS, "call": _INTEGERS, "op": _NAMES},
    "tensors": {"row": _INTEGERS, "seq": _INTEGERS, "op": _NAMES, "name": _NAMES},
}
"""Encodings of columns that grow from row to row, or that share a prefix with the row before."""
_HARDLY_REPEAT = frozenset(("content", "max", "min", "mean", "norm"))
"""Columns that zstd compresses better than a dictionary does."""
PLACES = ("step", "rank")
"""The columns of compacted files that say which unit a row is of."""
_SEARCHED = (*PLACES, "row", "seq", "part", "op", "name", "content", "stack")
"""Columns with min and max per row group, for readers that look for a row."""


class UnitWriter:
    """Appends batches to the Parquet files of a unit.

    As a context manager, it releases files that a failure left open.
    """

    def __init__(self, folder: Path) -> None:
        """Write into the existing `folder`."""
        self.folder = folder
        self._writers: dict[str, pq.ParquetWriter] = {}

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        """Append `batch` to the table `name`."""
        self._writer(name, batch.schema).write_batch(batch)

    def write_rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Append `rows` to the table `name`."""
        self.write(name, as_rows(name, rows))

    def write_together(self, name: str, batches: Mapping[UnitKey, Sequence[pa.RecordBatch]]) -> None:
        """Write the table `name` of several units, by step and rank, as a compacted file has it."""
        import pyarrow as pa

        placed = [_placed(batch, key) for key in sorted(batches) for batch in batches[key]]
        rows = pa.Table.from_batches(placed).unify_dictionaries().combine_chunks()
        self._writer(name, rows.schema).write_table(rows)

    def _writer(self, name: str, schema: pa.Schema) -> pq.ParquetWriter:
        import pyarrow.parquet as pq

        writer = self._writers.get(name)
        if writer is None:
            encodings = _ENCODINGS.get(name, {})
            columns = [column.name for column in table(name).columns]
            searched = [column for column in schema.names if column in _SEARCHED]
            writer = self._writers[name] = pq.ParquetWriter(
                self.folder / f"{name}.parquet", schema, compression="zstd", compression_level=3,
                use_dictionary=[column for column in columns if column not in (*encodings, *_HARDLY_REPEAT)],
                column_encoding=encodings, write_statistics=searched,
                store_schema=False,
            )  # fmt: skip
        return writer

    def close(self) -> None:
        """Finish all files."""
        for writer in self._writers.values():
            writer.close()

    def __enter__(self) -> UnitWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            writer.is_open = False  # otherwise its destructor would write on, perhaps to a full disk


def as_rows(name: str, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Return `rows` as a batch of the table `name`."""
    import pyarrow as pa

    schema = arrow_schema(name)
    return pa.record_batch([column_of([row.get(of.name) for row in rows], of.type) for of in schema], schema=schema)


def _placed(batch: pa.RecordBatch, unit: UnitKey) -> pa.RecordBatch:
    """Return the rows of a unit with the columns that say so."""
    import numpy as np
    import pyarrow as pa

    places = [fixed(np.full(batch.num_rows, getattr(unit, name), np.int32), pa.int32()) for name in PLACES]
    return pa.record_batch([*places, *batch.columns], names=[*PLACES, *batch.schema.names])


def read_dump(unit: UnitPlace) -> dict[str, Any]:
    """Return the row of dumps of the unit, by column. Raises LakeError."""
    with opened(unit, "dumps") as file:
        rows = [row for batch in read_batches(unit, file, file.schema_arrow.names) for row in batch.to_pylist()]
    if not rows:
        raise LakeError(f"{unit.folder / 'dumps.parquet'} is damaged; read the dump again with --replace")
    return {name: value for name, value in rows[0].items() if unit.held is None or name not in PLACES}


@contextmanager
def opened(unit: UnitPlace, table: str) -> Iterator[pq.ParquetFile]:
    """Open the file with a table of the unit. Raises LakeError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = unit.folder / f"{table}.parquet"
    try:
        with pq.ParquetFile(readable(path)) as file:  # pq.read_table would import pyarrow.dataset, which takes 0.2 s
            yield file
    except pa.ArrowMemoryError:  # an ArrowException, but the file is as it was
        raise
    except (FileNotFoundError, KeyError, pa.ArrowException) as error:
        raise LakeError(f"{path} is missing or damaged; read the dump again with --replace") from error


@contextmanager
def sound(what: object) -> Iterator[None]:
    """Turn what is raised where tables hold what no lakeprobe writes, as those of a stranger may, into a LakeError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, NotImplementedError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise LakeError(
            f"{what}: its tables hold what no lakeprobe writes ({reason}); lakeprobe check may tell more"
        ) from error


def read_batches(
    unit: UnitPlace, file: pq.ParquetFile, columns: Sequence[str], rows: int = 1 << 16
) -> Iterator[pa.RecordBatch]:
    """Yield the unit's rows of an open file in order, at most `rows` at a time."""
    if unit.held is None:
        yield from file.iter_batches(rows, columns=list(columns))
        return
    import pyarrow.compute as pc

    groups = list(_groups_of(file, unit.held))
    if not groups:  # older pyarrow fails at it
        return
    for batch in file.iter_batches(rows, row_groups=groups, columns=[*columns, *PLACES]):
        is_of_unit = pc.and_(*(pc.equal(batch.column(name), getattr(unit.held, name)) for name in PLACES))
        kept = batch.filter(is_of_unit)
        yield kept.select(list(columns))


def _groups_of(file: pq.ParquetFile, unit: UnitKey) -> Iterator[int]:
    """Yield the row groups of a compacted file that may have rows of `unit`."""
    wanted = {file.schema_arrow.get_field_index(name): getattr(unit, name) for name in PLACES}
    for group in range(file.num_row_groups):
        row_group = file.metadata.row_group(group)
        bounds = ((row_group.column(column).statistics, number) for column, number in wanted.items())
        if all(bound is None or not bound.has_min_max or bound.min <= number <= bound.max for bound, number in bounds):
            yield group
