"""Writes a comparison to files: one per pair of units, named as msprobe names its results."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake.comparison import ComparedUnit, StoredComparison
from lakeprobe.reports import table
from lakeprobe.resources import quote_text

if TYPE_CHECKING:
    import duckdb

Writer = Callable[["duckdb.DuckDBPyConnection", ComparedUnit, Path], None]


def write(comparison: StoredComparison, folder: Path, format: str) -> list[Path]:
    """Write every pair of units of `comparison` into `folder` as `csv`, `xlsx`, `json` or `parquet`.

    csv and xlsx have msprobe 26.2's headers in its order; json and parquet have the columns of results, with types.
    Several steps go into a folder each. Returns the files. Raises UsageError and LakeError.
    """
    if format not in WRITERS:
        raise UsageError(f"--format {format} does not exist; use one of {', '.join(WRITERS)}")
    several_steps = len({unit.step for unit in comparison.units}) > 1
    several_ranks = len({unit.rank for unit in comparison.units}) > 1
    written = []
    try:
        for unit in comparison.units:
            place = folder / f"step{unit.step}" if several_steps else folder
            place.mkdir(parents=True, exist_ok=True)
            path = free_path(place, _stem(unit, several_ranks), format)
            draft = path.with_name(f".{path.name}.{os.getpid()}")
            try:
                with table.opened(unit) as connection:
                    WRITERS[format](connection, unit, draft)
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)
            written.append(path)
    except OSError as error:
        raise LakeError.from_system(error, folder, "the report was not written") from error
    return written


def _stem(unit: ComparedUnit, several_ranks: bool) -> str:
    """How msprobe calls the result file of a unit, before the time."""
    if unit.dumped == "kernels":
        return f"compare_result_{unit.rank}_{unit.step}"
    stem = "debug_compare_result" if unit.dumped == "saved values" else "compare_result"
    return f"{stem}_rank{unit.rank}" if several_ranks else stem


def write_text(text: str, folder: Path, stem: str) -> Path:
    """Write `text` into a new file in `folder` that is named after `stem` and the time. Raises LakeError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = free_path(folder, stem, "txt")
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LakeError.from_system(error, folder, "the report was not written") from error
    return path


def free_path(folder: Path, stem: str, format: str) -> Path:
    """A path with the time in its name that no file has yet."""
    moment = time.time()
    while True:
        stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(moment))
        path = folder / f"{stem}_{stamp}.{format}"
        if not path.exists():
            return path
        moment += 1


def _write_csv(connection: duckdb.DuckDBPyConnection, unit: ComparedUnit, path: Path) -> None:
    connection.execute(f"COPY msprobe_table TO {quote_text(str(path))} (FORMAT csv, HEADER)")


def _write_json(connection: duckdb.DuckDBPyConnection, unit: ComparedUnit, path: Path) -> None:
    connection.execute(f"COPY (FROM results ORDER BY row) TO {quote_text(str(path))} (FORMAT json, ARRAY true)")


def _write_parquet(connection: duckdb.DuckDBPyConnection, unit: ComparedUnit, path: Path) -> None:
    connection.execute(
        f"COPY (FROM results ORDER BY row) TO {quote_text(str(path))} (FORMAT parquet, COMPRESSION zstd)"
    )


def _write_workbook(connection: duckdb.DuckDBPyConnection, unit: ComparedUnit, path: Path) -> None:
    from lakeprobe.reports import workbook

    workbook.write(connection, unit, path)


WRITERS: dict[str, Writer] = {
    "csv": _write_csv,
    "xlsx": _write_workbook,
    "json": _write_json,
    "parquet": _write_parquet,
}
"""The formats that a comparison can be written in."""
