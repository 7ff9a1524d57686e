"""A full disk, which DuckDB or Arrow meets while it writes, is told in one line, and nothing is left over."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from program import dump_text, lakeprobe, write_dump

import lakeprobe as library
from lakeprobe.lake.connection import reason


@contextmanager
def full_beyond(size: int) -> Iterator[None]:
    """No file can have more bytes. The system says another word than where the disk is full, at the same places."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


def write_ops(folder: Path, number: float) -> Path:
    """A dump of many ops, with other numbers for another `number`."""
    return write_dump(folder, dump_text(**{f"op{op}": op + number for op in range(3000)}))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two runs with more ops than a small file holds."""
    with library.open(tmp_path / "lake", create=True) as opened:
        for number, run in enumerate(("target", "golden")):
            opened.ingest(write_ops(tmp_path / run, number))
    return tmp_path / "lake"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("words", "size"),
    [
        (("sql", "SELECT random() AS a FROM range(1000000)", "--write", "out.parquet"), 1 << 20),
        (("sql", "SELECT random() AS a FROM range(1000000)", "--write", "out.csv"), 1 << 20),
        (("compare", "target", "golden", "--name", "both"), 1 << 12),
        (("compact", "target"), 1 << 12),
        (("ingest", "again", "--run", "new"), 1 << 14),
    ],
)
def test_a_full_disk(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], size: int
) -> None:
    monkeypatch.chdir(tmp_path)
    write_ops(tmp_path / "again", 3)
    before = sorted(path.name for path in tmp_path.iterdir())
    with full_beyond(size):
        done = lakeprobe(*words, "--lake", lake)
    assert done.code == 3, done
    assert "too large" in done.line.lower(), done
    assert "{" not in done.line
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert list((lake / ".staging").iterdir()) == []
    assert lakeprobe("check", "--lake", lake).code == 0
    assert lakeprobe(*words, "--lake", lake).code in (0, 1)


@pytest.mark.parametrize(
    "words", [("merge", "both", "-o", "new/out"), ("compare", "target", "golden", "-o", "new/out")]
)
def test_a_full_disk_leaves_no_empty_folder(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lakeprobe("compare", "target", "golden", "--name", "both", "--lake", lake).code == 0
    before = sorted(path.name for path in tmp_path.iterdir())
    with full_beyond(1 << 10) if words[0] == "merge" else full_beyond(1 << 18):
        done = lakeprobe(*words, "--lake", lake)
    assert done.code == 3, done
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert lakeprobe(*words, "--lake", lake).code == 0
    assert list((tmp_path / "new" / "out").iterdir()) != []


def test_what_a_thread_of_duckdb_met_is_a_line() -> None:
    wrapped = (
        'IO Error: Async write failed for range [offset=2949387, size=983097]: {"exception_type":"IO",'
        '"exception_message":"Could not write file \\"/x/a.parquet\\": No space left on device","errno":"28"}'
    )
    assert (
        reason(duckdb.IOException(wrapped)) == 'IO Error: Could not write file "/x/a.parquet": No space left on device'
    )
    assert reason(duckdb.IOException("IO Error: one\ntwo")) == "IO Error: one"
