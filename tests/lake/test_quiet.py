"""DuckDB draws no progress bar among the rows on stdout, however long a statement takes."""

from __future__ import annotations

from pathlib import Path

import duckdb

import lakeprobe
from lakeprobe.analysis.query import stage_connection
from lakeprobe.lake.connection import connect, quiet, share_done


def draws(connection: duckdb.DuckDBPyConnection) -> bool:
    [(is_drawn,)] = connection.execute("SELECT current_setting('enable_progress_bar_print')").fetchall()
    return bool(is_drawn)


def test_every_connection_is_quiet(tmp_path: Path) -> None:
    with duckdb.connect() as plain:
        assert not draws(quiet(plain))
        assert not draws(quiet(plain.cursor()))
    with connect() as connection:
        assert not draws(connection)
    with lakeprobe.open(tmp_path / "lake", create=True) as lake, stage_connection(lake._connection) as stages:
        assert not draws(lake._connection)
        assert not draws(stages)
        share_done(lake._connection)
        assert not draws(lake._connection)
