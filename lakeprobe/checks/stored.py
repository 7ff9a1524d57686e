"""Verifications in the lake: where each lies, how it is read, and how it is published.

LAKE/verifications/verification=V/P/verifications.parquet. Each publication replaces the one before, with more calls.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe.errors import LakeError, unknown
from lakeprobe.lake import layout, staging, store, views
from lakeprobe.lake.connection import connect
from lakeprobe.schema import arrow_schema
from lakeprobe.system import files

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection


@contextmanager
def opened(lake: str | os.PathLike[str] | None, what: str, name: str) -> Iterator[tuple[Path, DuckDBPyConnection]]:
    """Yield the path of the lake, and a connection with its views, while `what` (verification, …) `name` is made.

    Raises UsageError for a name that cannot be one, and LakeError, also if another process makes it.
    """
    path = store.check(store.choose(lake))
    layout.check_name(name, what)
    with staging.locked(path, f"{what}={name}"), staging.reading(path) as snapshot, connect() as connection:
        views.define(connection, snapshot)
        yield path, connection


def read(lake: Path, name: str) -> pa.Table | None:
    """The rows of the verification `name`; None if there is none. Raises LakeError for a damaged one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = layout.verification_file(lake, name)
    if file is None:
        return None
    try:
        with pq.ParquetFile(files.readable(file)) as opened:
            return opened.read()
    except (OSError, pa.ArrowInvalid) as error:
        raise LakeError(f"{file} is damaged ({error}); verify again with --replace") from error


def check(lake: Path, name: str) -> None:
    """Raise UsageError if the lake has no verification `name`."""
    names = layout.verifications(lake)
    if name not in names:
        raise unknown(lake, "verification", name, names, "make it: lakeprobe verify RUN")


def publish(lake: Path, table: str, thing: str, rows: pa.Table) -> None:
    """Put `rows` of `table` in the lake as what the log calls `thing`, in place of what it has. Raises LakeError.

    What has the same name because it was made while the run was collected goes too.
    """
    import pyarrow.parquet as pq

    schema = arrow_schema(table)
    try:
        with staging.staged(lake, table) as session:
            folder = session.folder / table
            folder.mkdir()
            pq.write_table(rows.select(schema.names).cast(schema), folder / f"{table}.parquet", compression="zstd")
            files.sync_tree(folder)
            live = [name for name in layout.snapshot_of(lake).places if name.startswith(f"{thing},")]
            staging.publish(session, f"publish {thing}", {thing: folder}, live)
    except OSError as error:
        raise LakeError.from_system(error, lake, f"no {table} were written") from error


def described(rows: pa.Table) -> dict[str, Any]:
    """What all rows of a verification share: run and device."""
    return {name: rows[name][0].as_py() for name in ("run", "device")} if len(rows) else {}
