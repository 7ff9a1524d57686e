"""Every hostile dump of corpus.py ends as corpus.yaml says, in bounded memory and time, and none is run or hangs."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from corpus import CASES, dump
from program import lakeprobe

EXPECTED: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "corpus.yaml").read_text())
SECONDS = 60
BYTES = 1 << 30
"""Of memory, beside what the tests have already."""


def test_every_case_has_an_expectation() -> None:
    assert list(EXPECTED) == list(CASES)


@contextmanager
def bounded() -> Iterator[None]:
    """End a hanging block by a signal, and one that takes too much memory by an error."""

    def end(*_: object) -> None:
        raise AssertionError(f"it took longer than {SECONDS} seconds")

    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_DATA)
    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_DATA, (used + BYTES, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, limits)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def in_bounds() -> Iterator[None]:
    with bounded():
        yield


@pytest.mark.sampled
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("name", CASES)
def test_case(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / name
    folder.mkdir()
    CASES[name](folder)
    monkeypatch.chdir(tmp_path)
    if name == "xlsx_texts":  # as many as are allowed take half a minute
        monkeypatch.setattr("lakeprobe.readers.sheets.MOST_TEXTS", 1000)
    with bounded():
        done = lakeprobe("ingest", folder, "--lake", tmp_path / "lake")
    ((how, says),) = EXPECTED[name].items()
    says = str(says).replace("{folder}", str(folder))
    if how == "refused":
        assert done.code in (2, 3), done
        assert says in done.line, done.line
        assert not list((tmp_path / "lake").glob("run=*"))
    else:
        assert done.code == 0, done
        problems = [problem for problem in column(tmp_path / "lake", "tensors", "content_problem") if problem]
        notes = [note for some in column(tmp_path / "lake", "dumps", "notes") for note in some]
        if how == "noted":
            assert says in notes
        elif how == "tensor":
            assert [says in problem for problem in problems] == [True], problems
        else:
            assert problems == []
            for words in (["ls"], ["comm", name]):  # they ask for more than is looked at where a dump is read
                assert lakeprobe(*words, "--lake", tmp_path / "lake").code == 0, words
    assert not (tmp_path / "owned").exists()


def column(lake: Path, table: str, name: str) -> list[Any]:
    query = f"SELECT {name} FROM read_parquet('{lake}/run=*/step=*/rank=*/*/{table}.parquet')"
    with duckdb.connect() as connection:
        return [value for (value,) in connection.execute(query).fetchall()]


PATHS = {
    "a" * 256: "does not exist",
    "~nosuchuser": "Could not determine home directory.",
    "~nosuchuser/x": "Could not determine home directory.",
    "nul": "does not exist",
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("words", [("ingest", "{path}"), ("ingest", "ok", "--lake", "{path}"),
                                   ("ls", "--lake", "{path}"),
                                   ("compare", "{path}", "ok"), ("compare", "ok", "ok", "--sql", "{path}"),
                                   ("compare", "ok", "ok", "-am", "{path}.yaml"), ("merge", "{path}", "-o", "out"),
                                   ("sql", "--file", "{path}"), ("export", "ok", "{path}")])  # fmt: skip
def test_paths_that_name_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    dump(tmp_path / "ok")
    done = lakeprobe(*(word.replace("{path}", path) for word in words))
    if words[:2] == ("ingest", "ok") and path == "nul":
        return  # a lake may be called so
    assert done.code in (0, 2, 3), done
    assert done.code == 0 or done.err.count("\n") == 1, done


@pytest.mark.parametrize("words", [("compare", "", "ok"), ("compare", "ok", ""), ("noise", "ok", ""),
                                   ("preflight", "compare", "", "ok")])  # fmt: skip
def test_a_name_that_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    dump(tmp_path / "ok")
    assert lakeprobe(*words).line == "lakeprobe: a name is empty; give a run of the lake, or the path of a dump"


@pytest.mark.parametrize("words", [("compare", "ok", "ok", "-am", "{pipe}"), ("compare", "ok", "ok", "--sql", "{pipe}"),
                                   ("merge", "{pipe}", "-o", "out"), ("ingest", "{pipe}"),
                                   ("compare", "{pipe}", "ok")])  # fmt: skip
def test_a_pipe_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_bounds: None, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    dump(tmp_path / "ok")
    os.mkfifo(tmp_path / "pipe.yaml")
    done = lakeprobe(*(word.replace("{pipe}", "pipe.yaml") for word in words))
    assert done.code == 2, done
    assert "pipe.yaml" in done.line


def test_looking_through_devices(tmp_path: Path, in_bounds: None) -> None:
    done = lakeprobe("ingest", "/dev", "--lake", tmp_path / "lake")
    assert done.code == 2, done
    assert "/dev" in done.line
