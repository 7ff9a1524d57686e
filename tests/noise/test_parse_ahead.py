"""The queries of the noise analysis are parsed on another thread, which a comparison that fails does not wait for."""

from __future__ import annotations

from typing import Any, NoReturn

import duckdb
import pytest

from lakeprobe import resources
from lakeprobe.compare import noise
from lakeprobe.lake import connection as lake_connection


class Unparsing:
    """A connection that must not be asked to parse."""

    def extract_statements(self, text: str) -> NoReturn:
        raise AssertionError(f"not parsed ahead: {text[:60]}")


@pytest.fixture(autouse=True)
def _nothing_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_connection, "_parsed", {})


def test_every_query_is_parsed_once() -> None:
    noise.parse_ahead(duckdb.connect()).join()
    refusing: Any = Unparsing()
    names = (*noise.MEASURED, *noise.TRACED, *noise.CERTAIN, *noise.BEYOND_ROUNDING, "suspects")
    for name in names:
        statement = f"CREATE TEMP TABLE noise_{name} AS {resources.sql(f'noise/{name}')}"
        assert lake_connection.parsed(refusing, statement).query == statement


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_comparison_that_failed_has_closed_the_connection() -> None:
    connection = duckdb.connect()
    thread = noise.parse_ahead(connection)
    connection.close()
    thread.join()
