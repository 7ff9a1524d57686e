"""What a rule may take: time, memory and disk are bounded, and Ctrl-C stays Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest
from program import lakeprobe

from lakeprobe.compare import limits
from lakeprobe.compare import rule as rules
from lakeprobe.compare.rule import Rule
from lakeprobe.errors import RuleError, UsageError
from lakeprobe.lake import connection as connections
from lakeprobe.lake.connection import lock

ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
DISTINCT = "SELECT count(*) FROM (SELECT DISTINCT range || 'abcdefghijklmnop' AS s FROM range({rows}))"
TOO_LONG = r"^rule\.sql: the comparison took longer than 0\.2 seconds \(--timeout\); allow more time, or simplify"


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 2}) as opened:
        yield opened


# ---- time -------------------------------------------------------------------------------------------------


def test_a_query_without_end(connection: duckdb.DuckDBPyConnection) -> None:
    started = time.monotonic()
    with pytest.raises(RuleError, match=TOO_LONG), limits.guarded(connection, 0.2, "rule.sql"):
        connection.execute(ENDLESS)
    assert 0.2 <= time.monotonic() - started < 5


def test_many_statements(connection: duckdb.DuckDBPyConnection) -> None:
    """No single one takes long, and an interrupt between two of them is lost: a later one ends the work."""
    done = 0

    def work() -> None:
        nonlocal done
        for done in range(200):  # noqa: B007 (is read below)
            connection.execute("SELECT count(*) FROM range(30000000) AS t(n) WHERE n % 7 = 3").fetchall()

    with pytest.raises(RuleError, match=TOO_LONG), limits.guarded(connection, 0.2, "rule.sql"):
        work()
    assert done < 199


def test_work_that_is_done_too_late(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(RuleError, match=TOO_LONG), limits.guarded(connection, 0.2, "rule.sql"):
        time.sleep(0.5)


def test_an_error_of_ours_that_an_interrupt_made(connection: duckdb.DuckDBPyConnection) -> None:
    rule = Rule("rule", "rule.sql", ENDLESS)
    with pytest.raises(RuleError, match=TOO_LONG), limits.guarded(connection, 0.2, "rule.sql"):
        rules.run(connection, rule)


def test_within_its_time(connection: duckdb.DuckDBPyConnection) -> None:
    """The block's own errors pass; afterwards nobody watches, and nobody interrupts."""
    before = threading.active_count()
    for seconds in (None, 1.0):
        with limits.guarded(connection, seconds, "rule.sql"):
            assert connection.execute("SELECT 1").fetchall() == [(1,)]
        with pytest.raises(duckdb.CatalogException), limits.guarded(connection, seconds, "rule.sql"):
            connection.execute("FROM nothing")
        with pytest.raises(RuntimeError, match="other"), limits.guarded(connection, seconds, "rule.sql"):
            raise RuntimeError("other")
        assert threading.active_count() == before
    time.sleep(1.1)
    assert connection.execute("SELECT count(*) FROM range(1000000)").fetchall() == [(1_000_000,)]


INTERRUPTED = """
import os, signal, sys
import duckdb
from lakeprobe.compare import limits
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is born deaf to it
connection = duckdb.connect(config={"threads": 1})
try:
    print("ready", flush=True)
    with limits.guarded(connection, %s, "rule.sql"):
        connection.execute(sys.argv[1])
except KeyboardInterrupt:
    os._exit(7)
"""


@pytest.mark.parametrize("seconds", [None, 600])
def test_keyboard_interrupt(seconds: float | None) -> None:
    """DuckDB alone makes a RuntimeError of it, which would be shown as a traceback.

    It looks for signals between two pieces of work only, so on a busy machine one may be lost; the user presses again.
    """
    program = [sys.executable, "-c", INTERRUPTED % seconds, ENDLESS]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        for _ in range(100):
            child.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                child.wait(0.5)
                break
        else:
            child.kill()
            child.wait()
        assert child.returncode == 7


# ---- memory and disk --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4GB", 4 * 10**9), ("512MiB", 512 * 2**20), ("1.5 kb", 1500), ("2TiB", 2 * 2**40)],
)
def test_amounts_of_memory(text: str, expected: int) -> None:
    assert limits.memory_bytes(text) == expected


def test_a_share_of_the_memory() -> None:
    lines = Path("/proc/meminfo").read_text().splitlines()
    total = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemTotal:"))
    assert limits.memory_bytes("50%") == pytest.approx(total / 2, rel=0.01)


@pytest.mark.parametrize("text", ["", "lots", "none", "-1", "-5GB", "4", "4 gigabytes", "1e9", "4GB'; SELECT '"])
def test_no_amount_of_memory(text: str) -> None:
    with pytest.raises(UsageError, match="is not an amount of memory; write for example 4GB, 512MiB or 50%"):
        limits.memory_bytes(text)


@pytest.mark.parametrize("limit", [300 * 10**6, "300MB"])
def test_more_memory_than_the_limit(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int | str
) -> None:
    monkeypatch.chdir(tmp_path)
    limits.set_memory_limit(connection, limit)
    connections.set_spill_folder(connection, tmp_path / "spill")
    lock(connection)
    with pytest.raises(duckdb.OutOfMemoryException, match=r"/286\.1 MiB used"):
        connection.execute("SELECT list(range) FROM range(1000000000)")
    with pytest.raises(duckdb.InvalidInputException, match="locked"):
        connection.execute("SET memory_limit = '9GB'")


def test_less_memory_than_any_query_takes(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(UsageError, match="10 bytes of memory are too few for a comparison; give at least 33554432"):
        limits.set_memory_limit(connection, 10)


def test_what_lacks_memory_spills_where_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect(config={"threads": 2}) as connection:
        limits.set_memory_limit(connection, "200MB")
        connections.set_spill_folder(connection, tmp_path / "spill")
        lock(connection)
        assert connection.execute(DISTINCT.format(rows=6_000_000)).fetchall() == [(6_000_000,)]
        assert os.listdir(tmp_path) == ["spill"]
    assert os.listdir(tmp_path) == []


def test_what_spills_does_not_fill_the_disk(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = connections.shutil.disk_usage(tmp_path)._replace(free=10 * 10**6)
    monkeypatch.setattr(connections.shutil, "disk_usage", lambda path: usage)
    limits.set_memory_limit(connection, "200MB")
    connections.set_spill_folder(connection, tmp_path / "spill")
    with pytest.raises(duckdb.OutOfMemoryException, match="max_temp_directory_size"):
        connection.execute(DISTINCT.format(rows=6_000_000))


# ---- limits of a process ----------------------------------------------------------------------------------

PROGRAM = """
import signal, resource, sys, time, duckdb
from lakeprobe.system import process_limits
from lakeprobe.compare import rule as rules
from lakeprobe.compare.rule import Rule
process_limits._GRACE, process_limits._LONGEST_GRACE = 0.5, {grace}
connection = duckdb.connect()
with process_limits.process_limits({memory}):
    if {is_over}:
        process_limits.end_soon()
    try:
        print(connection.execute({query!r}).fetchall())
    except duckdb.OutOfMemoryException as error:
        print("out of memory")
timers = [signal.getitimer(timer)[0] for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL)]
print(timers, resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY)
connection.close()
"""


def ran(query: str, *, is_over: bool = False, memory: int | None = None, grace: float = 30) -> tuple[int, list[str]]:
    program = PROGRAM.format(is_over=is_over, memory=memory, query=query, grace=grace)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines()


RESTORED = "[0.0, 0.0] True"


def test_a_process_that_heeds_no_interrupt_is_killed() -> None:
    query = "SELECT jaro_similarity(repeat('ab', 5000000), repeat('ba', 5000000))"
    assert ran(query, is_over=True) == (-signal.SIGPROF, [])


def test_a_process_that_only_waits_is_killed() -> None:
    assert ran("SELECT sleep_ms(30000)", is_over=True, grace=0.3) == (-signal.SIGALRM, [])


def test_a_process_that_gets_no_processor_time_has_time_to_heed_its_interrupt() -> None:
    assert ran("SELECT sleep_ms(1000)", is_over=True) == (0, ["[(None,)]", RESTORED])


def test_a_value_that_duckdb_does_not_count() -> None:
    assert ran("SELECT length(repeat('x', 4000000000))", memory=300 * 10**6) == (0, ["out of memory", RESTORED])


def test_a_process_within_its_limits() -> None:
    assert ran("SELECT length(repeat('x', 1000))", memory=300 * 10**6, is_over=True) == (0, ["[(1000,)]", RESTORED])


@pytest.mark.parametrize("command", ["compare npu gpu --timeout", "verify npu --limit", "perturb npu --limit"])
@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300"])
def test_seconds_that_nobody_can_wait_for(tmp_path: Path, command: str, seconds: str) -> None:
    name = command.split("--")[1]
    done = lakeprobe(*command.split(), seconds, "--lake", tmp_path)
    says = f"lakeprobe: {name} is {float(seconds):g} seconds; give a number from 0 to 1000000000"
    assert (done.code, done.line) == (2, says)


@pytest.mark.parametrize("words", ["verify npu", "reproduce npu Torch.add.0"])
def test_seeds_that_no_generator_takes(tmp_path: Path, words: str) -> None:
    done = lakeprobe(*words.split(), "--seed", 2**32, "--lake", tmp_path)
    says = "lakeprobe: the seed is 4294967296; give a number from 0 to 4294967295"
    assert (done.code, done.line) == (2, says)
