"""Statements that are made of all functions and keywords of DuckDB do no harm, as a rule and as a query.

By hand, with as many as there is time for: python tests/hostile/test_statements.py SECONDS [SEED]. It runs them in
processes of their own, so that one that ends its process is told.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakeprobe.compare import limits
from lakeprobe.compare import rule as rules
from lakeprobe.compare.rule import Rule
from lakeprobe.errors import RuleError
from lakeprobe.lake import connection as connections
from lakeprobe.lake import guard

sys.path.insert(0, str(Path(__file__).parent))
from statements import statements

SECRET = "hunter2"
SECONDS = 0.3
"""That a statement may take."""
TABLES = ("target_ops", "golden_ops", "target_leaves")


@contextmanager
def a_rules_connection(home: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """What a rule runs on, with small tables."""
    with connections.connect(1) as connection:
        connection.execute("SET memory_limit = '300MB'")
        connections.set_spill_folder(connection, home / "spill")
        for table in TABLES:
            connection.execute(f"CREATE TEMP TABLE {table} AS SELECT range AS seq, range::DOUBLE AS max FROM range(3)")
        connections.lock(connection)
        yield connection


def state(home: Path) -> dict[str, str]:
    return {
        str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in home.rglob("*")
    }


def rows(connection: duckdb.DuckDBPyConnection) -> list[Any]:
    return [connection.execute(f"FROM temp.main.{table} ORDER BY ALL").fetchall() for table in TABLES]


def try_as_rule(connection: duckdb.DuckDBPyConnection, statement: str) -> bool:
    """Whether it was let through."""
    try:
        with limits.guarded(connection, SECONDS, "rule"):
            rules.run(connection, Rule("r", "rule", statement))
    except RuleError as error:
        if SECRET in str(error):
            pytest.fail(statement)
        return False
    return True


def try_as_query(connection: duckdb.DuckDBPyConnection, statement: str) -> bool:
    try:
        with limits.guarded(connection, SECONDS, "query"):
            relation = guard.run(connection, statement)
            if relation is not None:
                relation.limit(10).fetchall()
    except (RuleError, duckdb.Error):
        return False
    return True


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "secret.csv").write_text(f"word\n{SECRET}\n")
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "ops.parquet").write_bytes(b"not to be changed")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def harm(home: Path, seed: int, count: int) -> int:
    """Try so many statements; how many were let through. Fails with the first that does harm."""
    before, passed = state(home), 0
    files = itertools.cycle([str(home / "lake" / "ops.parquet"), str(home / "new.csv"), str(home / "secret.csv")])
    with a_rules_connection(home) as connection:
        untouched = rows(connection)
        for number, statement in enumerate(itertools.islice(statements(next(files), seed), count)):
            passed += try_as_rule(connection, statement)
            if number % 100 == 99 or number == count - 1:
                assert state(home) == before, statement
                assert rows(connection) == untouched, statement
    return passed


@pytest.mark.parametrize("seed", range(2))
def test_no_rule_does_harm(home: Path, seed: int) -> None:
    assert harm(home, seed, 250) > 0


def test_no_query_writes(home: Path) -> None:
    """On a connection that may reach every file, as that of `lakeprobe sql` does."""
    before, passed = state(home), 0
    with connections.connect(1) as connection:
        connection.execute("SET memory_limit = '300MB'")
        for table in TABLES:
            connection.execute(f"CREATE TEMP TABLE {table} AS SELECT range AS seq, range::DOUBLE AS max FROM range(3)")
        guard.lock(connection)
        for statement in itertools.islice(statements(str(home / "lake" / "ops.parquet"), 7), 250):
            passed += try_as_query(connection, statement)
    assert passed > 0
    assert state(home) == before


def _by_hand(seconds: float, seed: int) -> None:
    import multiprocessing
    import tempfile

    home = Path(tempfile.mkdtemp())
    (home / "secret.csv").write_text(f"word\n{SECRET}\n")
    (home / "lake").mkdir()
    (home / "lake" / "ops.parquet").write_bytes(b"not to be changed")
    os.chdir(home)
    end, tried, crashed = time.monotonic() + seconds, 0, []
    passed = multiprocessing.Value("q", 0)

    def work(number: int) -> None:
        done = harm(home, number, 1000)
        with passed.get_lock():
            passed.value += done

    fork = multiprocessing.get_context("fork")
    while time.monotonic() < end:
        process = fork.Process(target=work, args=(seed,))
        process.start()
        process.join()
        tried += 1000
        if process.exitcode:
            crashed.append((seed, process.exitcode))
        seed += 1
    print(f"{tried} statements, {passed.value} let through, runs of 1000 that failed: {crashed}")


if __name__ == "__main__":
    _by_hand(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
