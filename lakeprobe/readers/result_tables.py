"""Reads msprobe's own result files, csv and xlsx of every release from 1.2 on, as tables of texts.

A file is read as it was written: what its cells mean is said elsewhere. It knows nothing of the lake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe.bounds import LONGEST_ROW
from lakeprobe.errors import DumpError, UsageError
from lakeprobe.readers import table_files
from lakeprobe.readers.sheets import readable
from lakeprobe.readers.table_files import ENDINGS
from lakeprobe.resources import quote_identifier, quote_text
from lakeprobe.system.files import expanded

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

NAME = re.compile(r"compare_result_rank(\d{1,9})(?:-rank\d+)?_\d{14}(?:_part_(\d+))?\.(?:csv|csv\.gz|xlsx)")
"""A result file of one rank. A csv of more than a million rows is cut into parts."""

_NAMES = (
    "NPU Name", "Bench Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape",
)  # fmt: skip
_FLAGS = ("NPU Requires_grad", "Bench Requires_grad")
_STATISTICS = tuple(f"{side} {what}" for side in ("NPU", "Bench") for what in ("max", "min", "mean", "l2norm"))
_DIGESTS = ("NPU MD5", "BENCH MD5")
_BATCH = 10_000


class ResultFile(Struct, frozen=True):
    """A result file, the target's rank that it is of, and its headers."""

    path: Path
    rank: int
    headers: tuple[str, ...]

    @property
    def layout(self) -> str:
        """The kind of comparison: statistics, tensor or digest."""
        layout = layout_of(self.headers)
        assert layout
        return layout

    @property
    def metrics(self) -> tuple[str, ...]:
        """The headers of the metrics: what stands between names and statistics, algorithms of the user included."""
        return _between(self.headers) if self.layout != "digest" else ()


def find(paths: Iterable[Path]) -> tuple[ResultFile, ...]:
    """The result files that `paths` (files, and folders that hold some) name, by rank and part.

    Raises UsageError where there is none or a rank occurs twice, and DumpError for a file that is none.
    """
    numbered: dict[tuple[int, int], Path] = {}
    stems: dict[int, tuple[str, Path]] = {}
    for path in (file for given in paths for file in _files(given)):
        rank, part = _rank_and_part(path)
        stem = path.name.partition("_part_")[0] if part else path.name
        other_stem, other = stems.setdefault(rank, (stem, path))
        if other_stem != stem or (rank, part) in numbered:
            raise UsageError(f"rank {rank} is in {other} and in {path}; give the files without one of them")
        numbered[rank, part] = path
    return tuple(ResultFile(path, rank, _headers(path)) for (rank, _), path in sorted(numbered.items()))


def _files(given: Path) -> list[Path]:
    given = expanded(given)
    if not given.is_dir():
        if not given.is_file():
            raise UsageError(f"{given} is neither a file nor a folder; give a folder with result files")
        return [given]
    files = sorted(path for path in given.glob("compare_result*") if path.name.endswith(ENDINGS))
    if not files:
        raise UsageError(f"{given} has no result file of msprobe, such as compare_result_rank0_20260102030405.csv")
    return files


def _rank_and_part(path: Path) -> tuple[int, int]:
    named = NAME.fullmatch(path.name)
    if named is None:
        raise UsageError(f"{path} does not say its rank; name it like compare_result_rank0_20260102030405.csv")
    return int(named[1]), int(named[2] or 0)


def layout_of(headers: Sequence[str]) -> str | None:
    """Return the layout of a table with these headers. None if it is not a comparison of dumps."""
    if tuple(headers[: len(_NAMES)]) != _NAMES:
        return None
    if set(_DIGESTS) <= set(headers):
        return "digest"
    if not set(_STATISTICS) <= set(headers):
        return None
    metrics = _between(headers)
    if "Max diff" in metrics:
        return "statistics"
    return "tensor" if "Cosine" in metrics else None


def _between(headers: Sequence[str]) -> tuple[str, ...]:
    return tuple(header for header in headers[len(_NAMES) : headers.index(_STATISTICS[0])] if header not in _FLAGS)


def _headers(path: Path) -> tuple[str, ...]:
    """Return the headers of a file. Raises DumpError for a file of another kind, and for one that cannot be read."""
    headers = next((headers for headers in table_files.heads(path).values() if layout_of(headers)), ())
    if not headers:
        raise DumpError(f"{path} has no table of msprobe's compare (1.2 or later); leave it out of what is merged")
    if len(set(headers)) < len(headers):
        raise DumpError(f"{path} has a header twice; let msprobe write it again")
    return headers


def texts(connection: duckdb.DuckDBPyConnection, file: ResultFile, headers: Sequence[str]) -> pa.Table:
    """The columns `headers` of all rows, as texts; NULL where a cell is empty or the file has no such column.

    `connection` is any that may read files; it takes longer to open one than to read a small file. Raises DumpError for
    a file that ends too early or has a row of another length.
    """
    import pyarrow as pa

    present = [header for header in headers if header in file.headers]
    is_workbook = file.path.suffix == ".xlsx"
    with readable(file.path):
        table = _workbook_texts(file, present) if is_workbook else _csv_texts(connection, file, present)
    absent = pa.nulls(table.num_rows, pa.string())
    return pa.table({header: table[header] if header in present else absent for header in headers})


def _csv_texts(connection: duckdb.DuckDBPyConnection, file: ResultFile, headers: Sequence[str]) -> pa.Table:
    # columns by number: a header may be no name for DuckDB, with a NUL in it
    types = ", ".join(f"{quote_text(str(place))}: 'VARCHAR'" for place in range(len(file.headers)))
    source = (
        f"read_csv({quote_text(str(file.path))}, header = true, auto_detect = false, delim = ',', quote = '\"', "
        f"escape = '\"', max_line_size = {LONGEST_ROW}, columns = {{{types}}})"
    )
    chosen = ", ".join(quote_identifier(str(file.headers.index(header))) for header in headers)
    return connection.sql(f"SELECT {chosen} FROM {source}").to_arrow_table().rename_columns(headers)


def _workbook_texts(file: ResultFile, headers: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    schema = pa.schema([(header, pa.string()) for header in headers])
    places = [file.headers.index(header) for header in headers]
    heads = table_files.heads(file.path)
    tables = [sheet for sheet, found in heads.items() if layout_of(found)]
    if any(heads[sheet] != file.headers for sheet in tables):
        raise DumpError(f"{file.path} has sheets with different headers; let msprobe write it again")
    batches = []
    for _, rows in table_files.sections(file.path, tables, len(file.headers)):
        next(rows)
        while batch := list(islice(rows, _BATCH)):
            columns = [pa.array([row[place] for row in batch], pa.string()) for place in places]
            batches.append(pa.record_batch(columns, schema=schema))
    return pa.Table.from_batches(batches, schema=schema)
