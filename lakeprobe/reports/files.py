"""Writes a comparison to files: one per pair of units, named as msprobe names its results."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe import forms
from lakeprobe.errors import LakeError
from lakeprobe.lake import outputs
from lakeprobe.lake.comparison import ComparedUnit, StoredComparison
from lakeprobe.reports import table
from lakeprobe.resources import quote_text
from lakeprobe.system.files import new_folder

if TYPE_CHECKING:
    import duckdb

CSV_CELLS = "csv_cell(COLUMNS('(?s)^(.*)$')) AS \"\\1\""
"""All columns of a table of texts, under their names, as they go into csv (sql/macros/csv_cell)."""

WRITERS = forms.writers(forms.COMPARISON)
"""The functions that write a pair of units, by form. They take a connection, the comparison, the unit and the path."""


def write(comparison: StoredComparison, folder: Path, format: str) -> list[Path]:
    """Write every pair of units of `comparison` into `folder`, in one of the forms of `lakeprobe.forms`.

    csv and xlsx have the headers of msprobe 26.2 in its order; parquet has the typed columns of results; json has them
    below how each op ended (docs/results.schema.json); junit and markdown have a line per op, for CI. If there are
    several steps, each gets a folder. Returns the files.
    Raises UsageError and LakeError.
    """
    write_unit = forms.check(format, WRITERS)
    several_steps = len({unit.step for unit in comparison.units}) > 1
    several_ranks = len({unit.rank for unit in comparison.units}) > 1
    written = []

    def write_one(unit: ComparedUnit, write_to: Callable[[Path], None]) -> None:
        place = folder / f"step{unit.step}" if several_steps else folder
        outputs.refuse_lake(place)
        path = free_path(place, _stem(unit, several_ranks), forms.suffix(format))
        with new_folder(place), outputs.draft(path) as hidden:
            write_to(hidden)
        written.append(path)

    try:
        for units in table.batches(comparison.units):
            if format == "csv" and len(units) > 1:
                with table.msprobe_tables(units) as (connection, tables):
                    for unit, rows in zip(units, tables, strict=True):
                        write_one(unit, partial(_copy_csv, connection, rows))
                continue
            for unit in units:
                with table.opened(unit) as connection:
                    write_one(unit, partial(write_unit, connection, comparison, unit))
    except OSError as error:
        raise LakeError.from_system(error, folder, "the report was not written") from error
    return written


def _stem(unit: ComparedUnit, several_ranks: bool) -> str:
    """Return msprobe's name for the result file of a unit, before the time."""
    if unit.dumped == "kernels":
        return f"compare_result_{unit.rank}_{unit.step}"
    stem = "debug_compare_result" if unit.dumped == "saved values" else "compare_result"
    return f"{stem}_rank{unit.rank}" if several_ranks else stem


def write_text(text: str, folder: Path, stem: str) -> Path:
    """Write `text` into a new file in `folder` that is named after `stem` and the time. Raises LakeError."""
    try:
        path = free_path(outputs.folder(folder), stem, "txt")
        with outputs.draft(path) as hidden:
            hidden.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LakeError.from_system(error, folder, "the report was not written") from error
    return path


def free_path(folder: Path, stem: str, format: str) -> Path:
    """Return a path with the time in its name at which no file exists."""
    moment = time.time()
    while True:
        stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(moment))
        path = folder / f"{stem}_{stamp}.{format}"
        if not path.exists():
            return path
        moment += 1


def write_csv(
    connection: duckdb.DuckDBPyConnection, comparison: StoredComparison, unit: ComparedUnit, path: Path
) -> None:
    """Write one pair of units to `path`: msprobe's table as csv, in which no text of a dump is a formula."""
    _copy_csv(connection, table.msprobe_table(connection, unit), path)


def _copy_csv(connection: duckdb.DuckDBPyConnection, rows: str, path: Path) -> None:
    connection.execute(f"COPY (SELECT {CSV_CELLS} FROM (\n{rows}\n)) TO {quote_text(str(path))} (FORMAT csv, HEADER)")


def write_parquet(
    connection: duckdb.DuckDBPyConnection, comparison: StoredComparison, unit: ComparedUnit, path: Path
) -> None:
    """Write one pair of units to `path`: the typed rows as Parquet."""
    connection.execute(
        f"COPY (FROM results ORDER BY row) TO {quote_text(str(path))} (FORMAT parquet, COMPRESSION zstd)"
    )
