"""A verification in the lake: where it lies, what is in it already, and how it gets there.

LAKE/verifications/verification=V/P/verifications.parquet. Each publication replaces the one before, with more calls.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import layout, staging
from lakeprobe.schema import arrow_schema
from lakeprobe.system import files

if TYPE_CHECKING:
    import pyarrow as pa


def read(lake: Path, name: str) -> pa.Table | None:
    """The rows of the verification `name`; None if there is none. Raises LakeError for a damaged one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = layout.verification_file(lake, name)
    if file is None:
        return None
    try:
        with pq.ParquetFile(file) as opened:
            return opened.read()
    except (OSError, pa.ArrowInvalid) as error:
        raise LakeError(f"{file} is damaged ({error}); verify again with --replace") from error


def check(lake: Path, name: str) -> None:
    """Raise UsageError if the lake has no verification `name`."""
    there = layout.verifications(lake)
    if name not in there:
        known = ", ".join(there) or "none"
        raise UsageError(f"{lake} has no verification {name} (there: {known}); make it: lakeprobe verify RUN")


def publish(lake: Path, table: str, thing: str, rows: pa.Table) -> None:
    """Put `rows` of `table` in the lake as what the log calls `thing`, in place of what it has. Raises LakeError."""
    import pyarrow.parquet as pq

    schema = arrow_schema(table)
    try:
        with staging.staged(lake, table) as session:
            folder = session.folder / table
            folder.mkdir()
            pq.write_table(rows.select(schema.names).cast(schema), folder / f"{table}.parquet", compression="zstd")
            files.sync_tree(folder)
            staging.publish(session, f"publish {thing}", {thing: folder})
    except OSError as error:
        raise LakeError.from_system(error, lake, f"no {table} were written") from error


def described(rows: pa.Table) -> dict[str, Any]:
    """What all rows of a verification share: run and device."""
    return {name: rows[name][0].as_py() for name in ("run", "device")} if len(rows) else {}
