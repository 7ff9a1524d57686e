"""Result tables of other tools in the lake: SQL sees every cell, the same again is a no-op, nothing is half there."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampling import examples

from lakeprobe.errors import DumpError, LakeError
from lakeprobe.ingest.tables import TableReport, check_tables_free, read_tables
from lakeprobe.lake import layout, log, staging, store, tables, views
from lakeprobe.lake.connection import connect
from lakeprobe.readers.foreign_tables import TableFile, find
from lakeprobe.readers.source import Listing

TIME = "20260101000000"
NAME = f"compare_result_{TIME}"
HEADERS = [
    "NPU Name", "Bench Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape",
    "Cosine", "MaxAbsErr", "Result", "Err_message",
]  # fmt: skip
ROWS = [
    ["Torch.a.0", "Torch.a.0", "float32", "float32", "[2, 3]", "[2, 3]", "0.1", "1", "pass", ""],
    ["Torch.b.0", "Torch.b.0", "float32", "float32", "[2, 3]", "[2, 3]", "1e-07", "", "error", "why\nand how"],
]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return store.create(tmp_path / "lake [of] run=x")


def write(path: Path, rows: Sequence[Sequence[str]] = ROWS, headers: Sequence[str] = HEADERS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([headers, *rows])
    return path


def files_in(*folders: Path) -> list[TableFile]:
    return [
        file
        for folder in folders
        for file in find(Listing(folder, sorted(path.name for path in folder.iterdir()), [], folder))
    ]


def ingest(lake: Path, *folders: Path, replace: bool = False, run: str | None = None) -> list[TableReport]:
    with staging.unchanged(lake), staging.staged(lake, "test") as session:
        reports = read_tables(session, files_in(*folders), replace, run)
        put = {layout.table_name(report.name): report.staged for report in reports if report.staged}
        staging.publish(session, "test", put, before=partial(check_tables_free, reports))
        return reports


def query(lake: Path, text: str, taken: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        tables.define(connection, log.read(lake), taken)
        return connection.sql(text).fetchall()


def state(lake: Path) -> dict[str, tuple[int, int]]:
    """Every file of the lake that counts, with its inode and time."""
    return {
        str(path.relative_to(lake)): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in sorted(lake.rglob("*"))
        if path.is_file()
    }


def test_a_result_is_a_table_of_its_name(lake: Path, tmp_path: Path) -> None:
    path = write(tmp_path / f"out/{NAME}.csv")
    (report,) = ingest(lake, path.parent)
    stored = tables.file_of(lake, NAME)
    assert report.read
    assert (report.name, report.kind, report.files, report.rows) == (NAME, "compare", (path,), 2)
    assert report.bytes == stored.stat().st_size
    assert query(lake, f"SELECT * FROM {NAME} WHERE Result = 'error'") == [
        (f"{NAME}.csv", *ROWS[1][:6], 1e-07, None, "error", "why\nand how")
    ]
    assert query(lake, f"SELECT typeof(Cosine), typeof(MaxAbsErr) FROM {NAME} LIMIT 1") == [("DOUBLE", "BIGINT")]
    (known,) = tables.stored(lake)
    assert (known.name, known.rows, known.bytes) == (NAME, 2, report.bytes)
    assert (known.origin.kind, known.origin.sources) == ("compare", (str(path),))
    assert [part for part in state(lake) if part.startswith(".staging")] == []


def test_ranks_are_a_column(lake: Path, tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path / f"out/compare_result_rank{rank}_{TIME}.csv", ROWS[: rank % 2 + 1])
    (report,) = ingest(lake, tmp_path / "out")
    assert (report.name, report.rows, len(report.files)) == (NAME, 4, 3)
    rows = query(lake, f'SELECT rank, file, count(*) FROM "{NAME}" GROUP BY ALL ORDER BY rank')
    assert rows == [(rank, f"compare_result_rank{rank}_{TIME}.csv", rank % 2 + 1) for rank in range(3)]


def test_the_same_again_is_nothing_to_do(lake: Path, tmp_path: Path) -> None:
    path = write(tmp_path / f"out/{NAME}.csv")
    (first,) = ingest(lake, path.parent)
    before = state(lake)
    (again,) = ingest(lake, path.parent)
    assert (again.read, again.rows, again.bytes) == (False, first.rows, first.bytes)
    assert state(lake) == before


def test_another_table_of_that_name_needs_replace(lake: Path, tmp_path: Path) -> None:
    ingest(lake, write(tmp_path / f"out/{NAME}.csv").parent)
    before = state(lake)
    other = write(tmp_path / f"other/{NAME.upper()}.csv", ROWS[:1]).parent
    write(other / "new.csv")
    with pytest.raises(LakeError, match="--replace"):
        ingest(lake, other)
    assert state(lake) == before
    assert {report.name for report in ingest(lake, other, run="night")} == {f"night.{NAME.upper()}", "night.new"}
    assert {report.name for report in ingest(lake, other, replace=True)} == {NAME, "new"}
    assert query(lake, f'SELECT count(*) FROM "{NAME}"') == [(1,)]
    assert query(lake, f'SELECT count(*) FROM "night.{NAME}"') == [(1,)]


def test_nothing_is_half_read(lake: Path, tmp_path: Path) -> None:
    write(tmp_path / "out/a.csv")
    write(tmp_path / "out/b.csv", [*ROWS, ["cut"]])
    before = state(lake)
    with pytest.raises(DumpError, match=r"b\.csv row 4 has 1 cells, not 10"):
        ingest(lake, tmp_path / "out")
    assert state(lake) == before


def test_two_writers(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "out/a.csv")
    write(tmp_path / "other/a.csv", ROWS[:1])
    usual = staging.publish

    def overtaken(*arguments: Any, **more: Any) -> None:
        monkeypatch.setattr(staging, "publish", usual)
        ingest(lake, tmp_path / "other")
        usual(*arguments, **more)

    monkeypatch.setattr(staging, "publish", overtaken)
    with pytest.raises(LakeError, match="a was written by another process meanwhile"):
        ingest(lake, tmp_path / "out")
    assert query(lake, "SELECT count(*) FROM a") == [(1,)]


def test_a_full_disk_leaves_the_lake_as_it_was(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    write(tmp_path / "out/a.csv")
    before = state(lake)
    monkeypatch.setattr(tables, "write", full)
    with pytest.raises(LakeError, match="No space left"):
        ingest(lake, tmp_path / "out")
    assert state(lake) == before


def test_a_damaged_table_is_told(lake: Path, tmp_path: Path) -> None:
    write(tmp_path / "out/a.csv")
    ingest(lake, tmp_path / "out")
    tables.file_of(lake, "a").write_bytes(b"PAR1")
    with pytest.raises(LakeError, match=r"table=a/.*/table\.parquet is damaged"):
        ingest(lake, tmp_path / "out")
    assert ingest(lake, tmp_path / "out", replace=True)[0].read


def test_no_view_of_the_lake_is_shadowed(lake: Path, tmp_path: Path) -> None:
    for name in ("Tensors", "results", "api_table", "night", "free"):
        write(tmp_path / f"out/{name}.csv")
    ingest(lake, tmp_path / "out")
    log.append(lake, "test", {layout.comparison_name("Night"): log.Place("comparisons/comparison=Night", ())})
    with connect() as connection:
        views.define(connection, lake)
        for name in ("Tensors", "results", "api_table", "night"):
            assert connection.sql(f'SELECT count(*) FROM "tables.{name}"').fetchall() == [(2,)]
        assert connection.sql("SELECT count(*) FROM tensors").fetchall() == [(0,)]
        assert connection.sql("SELECT count(verdict) FROM night").fetchall() == [(0,)]
        assert connection.sql("SELECT count(*) FROM free").fetchall() == [(2,)]


CELL = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.floats().map(repr) | st.integers().map(str)


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=5), st.lists(CELL, min_size=1, max_size=3))
def test_sql_shows_every_cell(lake: Path, tmp_path: Path, rows: list[tuple[str, str]], extra: list[str]) -> None:
    """Any cells and any headers of the user's own algorithms; what SQL casts to text has the same value."""
    filled = [[*ROWS[0][:6], one, two, *extra, "pass", ""] for one, two in rows]
    path = write(tmp_path / "any/a.csv", filled, [*HEADERS[:8], *extra, *HEADERS[8:]])
    ingest(lake, path.parent, replace=True)
    shown = query(lake, "SELECT COLUMNS(*)::VARCHAR FROM a")
    for row, cells in zip(shown, filled, strict=True):
        for value, cell in zip(row[1:], cells, strict=True):
            assert (value or "") == cell or Decimal(value) == Decimal(cell)
