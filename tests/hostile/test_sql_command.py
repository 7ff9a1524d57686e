"""`lakeprobe sql` writes no file: statements are looked at when DuckDB has bound them, whatever they are made of."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from program import lakeprobe

from lakeprobe.ingest import ingest

DUMP = Path(__file__).resolve().parents[1] / "data" / "dumps" / "demo" / "target"
RUN_TEXT = "json_execute_serialized_sql(json_serialize_sql('WITH w AS (COPY (SELECT 1) TO ''{out}'') FROM w'))"
IN_QUERY = RUN_TEXT.replace("'", "''").replace("json_execute_", "json_execute_' || '")

WRITING = """
COPY (SELECT 1) TO '{out}'
COPY ops TO '{lake}/run=target/step=0/rank=0/ops.parquet' (FORMAT parquet)
COPY (SELECT 1) TO '{lake}/lake.yaml'
WITH w AS (COPY (SELECT 1) TO '{out}') FROM w
CREATE TABLE t AS WITH w AS (COPY (SELECT 1) TO '{out}') FROM w
SELECT 1; COPY (SELECT 1) TO '{out}'
CREATE TABLE t AS FROM ops; COPY t TO '{out}'
EXPLAIN ANALYZE COPY (SELECT 1) TO '{out}'
EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO '{out}'
EXPORT DATABASE '{out}'
ATTACH '{out}'
ATTACH '{lake}/x.db' AS x
INSTALL httpfs
LOAD httpfs
PREPARE p AS COPY (SELECT 1) TO '{out}'
CALL enable_logging()
FROM RUN
FROM query('FROM IN_QUERY')
SET VARIABLE x = (SELECT count(*) FROM RUN)
CREATE MACRO m() AS TABLE FROM RUN; FROM m()
CREATE VIEW v AS FROM RUN; SELECT count(*) FROM v
INSERT INTO t SELECT count(*) FROM RUN
SELECT (SELECT count(*) FROM RUN) FROM ops
""".strip().replace("RUN", RUN_TEXT).replace("IN_QUERY", IN_QUERY).split("\n")  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("sql") / "lake"
    ingest(DUMP, lake=lake)
    return lake


def contents(folder: Path) -> dict[Path, str]:
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("statement", WRITING)
def test_a_statement_that_writes(lake: Path, tmp_path: Path, statement: str) -> None:
    before = contents(lake)
    text = statement.replace("{out}", str(tmp_path / "out")).replace("{lake}", str(lake))
    done = lakeprobe("sql", f"CREATE TABLE t (a BIGINT); {text}" if "INTO t" in text else text, "--lake", lake)
    assert done.code == 2, done
    assert "might write a file; lakeprobe sql writes rows into one where --write FILE names it" in done.line, done
    assert contents(lake) == before
    assert list(tmp_path.iterdir()) == []


SETTINGS = (
    "SET profiling_output = '{out}'",
    "SET temp_directory = '{out}'",
    "SET lock_configuration = false",
    "PRAGMA enable_profiling",
    "FROM enable_logging(storage = 'file', storage_path = '{out}')",
)


@pytest.mark.parametrize("statement", SETTINGS)
def test_settings_are_locked(lake: Path, tmp_path: Path, statement: str) -> None:
    done = lakeprobe("sql", statement.replace("{out}", str(tmp_path / "out")), "--lake", lake)
    assert done.code == 2
    assert "locked" in done.line, done
    assert list(tmp_path.iterdir()) == []


READING = {
    "SELECT count(*) AS n FROM ops WHERE false": "n\n0\n",
    "CREATE TABLE mine AS SELECT 7 AS a; INSERT INTO mine VALUES (8); SELECT sum(a) AS s FROM mine": "s\n15\n",
    "SET VARIABLE x = 3; SELECT getvariable('x') AS x": "x\n3\n",
    "CREATE MACRO double(a) AS 2 * a; SELECT double(4) AS d": "d\n8\n",
    "PIVOT (SELECT 'k' AS k, 1 AS v) ON k USING sum(v)": "k\n1\n",
    "SELECT 'COPY' AS copy": "copy\nCOPY\n",
}


@pytest.mark.parametrize("statement", READING)
def test_what_stays_in_memory(lake: Path, statement: str) -> None:
    done = lakeprobe("sql", statement, "--format", "csv", "--lake", lake)
    assert (done.code, done.err, done.out) == (0, "", READING[statement])


def test_other_forms_of_asking(lake: Path) -> None:
    for statement in ("DESCRIBE ops", "SHOW TABLES", "SUMMARIZE ops", "EXPLAIN FROM ops", "EXPLAIN ANALYZE FROM ops"):
        done = lakeprobe("sql", statement, "--lake", lake)
        assert (done.code, done.err) == (0, ""), statement
        assert done.out


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_write(lake: Path, tmp_path: Path, form: str) -> None:
    import duckdb

    file = tmp_path / f"it's.{form}"
    file.write_text("old")
    done = lakeprobe("sql", "SELECT op, kind FROM ops ORDER BY seq LIMIT 3", "--write", file, "--lake", lake)
    assert (done.code, done.out, done.err) == (0, "", "")
    read = {"csv": "read_csv", "json": "read_json", "parquet": "read_parquet"}[form]
    rows = duckdb.connect().execute(f"SELECT count(*), count(DISTINCT op) FROM {read}($1)", [str(file)]).fetchall()
    assert rows == [(3, 3)]
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    if form == "json":
        assert set(json.loads(file.read_text())[0]) == {"op", "kind"}


def test_write_into_the_lake(lake: Path, tmp_path: Path) -> None:
    """By its path, through a link to the lake, and through a link to a file of it."""
    (tmp_path / "folder").symlink_to(lake)
    (tmp_path / "link.parquet").symlink_to(lake / "run=target" / "step=0" / "rank=0" / "ops.parquet")
    before = contents(lake)
    for file in (lake / "x.csv", tmp_path / "folder" / "x.csv", tmp_path / "link.parquet"):
        done = lakeprobe("sql", "SELECT 1 AS a", "--write", file, "--lake", lake)
        assert done.code == 2
        assert "is in the lake" in done.line
    done = lakeprobe("sql", "SELECT 1 AS a", "--write", tmp_path / "x.txt", "--lake", lake)
    assert "ends in none of .csv, .json, .parquet" in done.line
    assert contents(lake) == before
