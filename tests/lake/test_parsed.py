"""Statements are parsed once in a process, and run on any connection."""

from __future__ import annotations

import duckdb
import pytest

from lakeprobe.lake import connection as connections
from lakeprobe.lake.connection import parsed


def test_a_statement_outlives_its_first_connection() -> None:
    text = "SELECT getvariable('of_connection') + $more AS sum"
    for value in (1, 2):
        with duckdb.connect() as connection:
            connection.execute(f"SET VARIABLE of_connection = {value}")
            assert connection.execute(parsed(connection, text), {"more": 10}).fetchall() == [(value + 10,)]
            assert connection.sql(parsed(connection, text), params={"more": 20}).fetchall() == [(value + 20,)]
            first = parsed(connection, text)
    with duckdb.connect() as connection:
        assert parsed(connection, text) is first


def test_what_is_kept_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, duckdb.Statement] = {}
    monkeypatch.setattr(connections, "_parsed", kept)
    monkeypatch.setattr(connections, "_MOST_PARSED", 2)
    with duckdb.connect() as connection:
        for number in range(5):
            parsed(connection, f"SELECT {number}")
    assert list(kept) == ["SELECT 4"]
