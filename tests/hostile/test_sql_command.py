"""`lakeprobe sql` writes no file: statements are looked at when DuckDB has bound them, whatever they are made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from program import lakeprobe

from lakeprobe.errors import RuleError
from lakeprobe.ingest import ingest
from lakeprobe.session import Lake

DUMP = Path(__file__).resolve().parents[1] / "data" / "dumps" / "demo" / "target"


def serialized(statement: str) -> str:
    """The statement as DuckDB writes it in JSON."""
    [(text,)] = duckdb.execute("SELECT json_serialize_sql($1)", [statement]).fetchall()
    return str(text)


RUN_TEXT = "json_execute_serialized_sql(json_serialize_sql('WITH w AS (COPY (SELECT 1) TO ''{out}'') FROM w'))"
IN_QUERY = RUN_TEXT.replace("'", "''").replace("json_execute_", "json_execute_' || '")
SERIALIZED = serialized("WITH w AS (COPY (SELECT 1) TO '{out}') FROM w").replace("'", "''")

WRITING = """
COPY (SELECT 1) TO '{out}'
COPY ops TO '{lake}/run=target/step=0/rank=0/ops.parquet' (FORMAT parquet)
COPY (SELECT 1) TO '{lake}/lake.yaml'
WITH w AS (COPY (SELECT 1) TO '{out}') FROM w
CREATE OR REPLACE TABLE t AS WITH w AS (COPY (SELECT 1) TO '{out}') FROM w
SELECT 1; COPY (SELECT 1) TO '{out}'
CREATE OR REPLACE TABLE t AS FROM ops; COPY t TO '{out}'
EXPLAIN ANALYZE COPY (SELECT 1) TO '{out}'
EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO '{out}'
EXPORT DATABASE '{out}'
ATTACH '{out}'
ATTACH '{lake}/x.db' AS x
INSTALL httpfs
LOAD httpfs
PREPARE p AS COPY (SELECT 1) TO '{out}'
CALL enable_logging()
CONNECT '{out}'
UPDATE EXTENSIONS
PRAGMA enable_profiling
PRAGMA json_execute_serialized_sql('SERIALIZED')
IMPORT DATABASE '{exported}'
PRAGMA import_database('{exported}')
EXPLAIN ANALYZE PRAGMA import_database('{exported}')
FROM RUN
FROM query('FROM IN_QUERY')
SET VARIABLE x = (SELECT count(*) FROM RUN)
CREATE OR REPLACE MACRO m() AS TABLE FROM RUN; FROM m()
CREATE OR REPLACE VIEW v AS FROM RUN; SELECT count(*) FROM v
CREATE OR REPLACE TABLE t (a BIGINT); INSERT INTO t SELECT count(*) FROM RUN
SELECT (SELECT count(*) FROM RUN) FROM ops
FROM destroy_external_resource('json_execute_serialized_sql', json_serialize_sql('SERIALIZED'))
FROM query('FROM destroy_external_' || 'resource(''query'', ''SELECT 1'')')
FROM duckdb_external_resources(discover => true)
FROM create_external_resource('t')
""".strip()
for word, text in (("SERIALIZED", SERIALIZED), ("RUN", RUN_TEXT), ("IN_QUERY", IN_QUERY)):
    WRITING = WRITING.replace(word, text)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("sql") / "lake"
    ingest(DUMP, lake=lake)
    return lake


def contents(folder: Path) -> dict[Path, str]:
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def opened(lake: Path) -> Iterator[Lake]:
    with Lake(lake) as opened:
        yield opened


def refused(opened: Lake, folder: Path, statement: str) -> str:
    """What is said of the statement, which must be refused and write nothing."""
    exported, out = folder / "exported", folder / "out"
    exported.mkdir()
    (exported / "schema.sql").write_text(f"COPY (SELECT 1) TO '{out}'")
    (exported / "load.sql").touch()
    before = contents(opened.path)
    places = {"{out}": out, "{lake}": opened.path, "{exported}": exported}
    for word, path in places.items():
        statement = statement.replace(word, str(path))
    with pytest.raises(RuleError) as caught:
        opened.read(statement)
    assert contents(opened.path) == before
    assert list(folder.iterdir()) == [exported]
    return str(caught.value)


@pytest.mark.parametrize("statement", WRITING.split("\n"))
def test_a_statement_that_writes(opened: Lake, tmp_path: Path, statement: str) -> None:
    said = refused(opened, tmp_path, statement)
    assert "might write a file; lakeprobe sql writes rows into one where --write FILE names it" in said


def test_the_command_says_one_line(lake: Path, tmp_path: Path) -> None:
    done = lakeprobe("sql", f"CONNECT '{tmp_path}'", "--lake", lake)
    assert done.code == 2
    assert "might write a file" in done.line


PIVOTS = (
    "PIVOT (SELECT 'k' AS k, 1 AS v FROM RUN) ON k USING sum(v)",
    "PIVOT ops ON op IN (SELECT 'x' FROM RUN) USING count(*)",
    "PIVOT ops ON op IN (WITH w AS (COPY (SELECT 1) TO '{out}') SELECT 'x' FROM w) USING count(*)",
    "DESCRIBE PIVOT (SELECT 'k' AS k, 1 AS v FROM RUN) ON k USING sum(v)",
    "EXPLAIN PIVOT (SELECT 'k' AS k, 1 AS v FROM RUN) ON k USING sum(v)",
    "PREPARE p AS PIVOT (SELECT 'k' AS k, 1 AS v FROM RUN) ON k USING sum(v)",
)


@pytest.mark.parametrize("statement", PIVOTS)
def test_a_pivot_without_a_list(opened: Lake, tmp_path: Path, statement: str) -> None:
    """DuckDB looks its values up even to show the plan."""
    said = refused(opened, tmp_path, statement.replace("RUN", RUN_TEXT))
    assert "has a PIVOT that does not list its values; list them, as in ON step IN (0, 1)" in said


SETTINGS = (
    "SET profiling_output = '{out}'",
    "SET temp_directory = '{out}'",
    "SET lock_configuration = false",
    "FROM enable_logging(storage = 'file', storage_path = '{out}')",
)


@pytest.mark.parametrize("statement", SETTINGS)
def test_settings_are_locked(opened: Lake, tmp_path: Path, statement: str) -> None:
    assert "locked" in refused(opened, tmp_path, statement)


READING = {
    "SELECT count(*) AS n FROM ops WHERE false": "n\n0\n",
    "CREATE TABLE mine AS SELECT 7 AS a; INSERT INTO mine VALUES (8); SELECT sum(a) AS s FROM mine": "s\n15\n",
    "SET VARIABLE x = 3; SELECT getvariable('x') AS x": "x\n3\n",
    "CREATE MACRO double(a) AS 2 * a; SELECT double(4) AS d": "d\n8\n",
    "PIVOT (SELECT 'k' AS k, 1 AS v) ON k IN ('k') USING sum(v)": "k\n1\n",
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


def test_json_that_is_written_is_json(lake: Path, tmp_path: Path) -> None:
    """Numbers that JSON lacks are texts, at any depth, and what only looks like one stays."""

    def refused(constant: str) -> float:
        raise AssertionError(f"{constant} is no JSON")

    query = """
    SELECT i, 'nan'::DOUBLE AS a, [1.5, '-inf'::DOUBLE] AS b, {'c': 'inf'::FLOAT} AS d, 'NaN "é"' AS e, i AS i
    FROM range(2) AS numbers(i) ORDER BY i DESC
    """
    file = tmp_path / "rows.json"
    assert lakeprobe("sql", query, "--write", file, "--lake", lake).code == 0
    row = {"a": "NaN", "b": [1.5, "-Infinity"], "d": {"c": "Infinity"}, "e": 'NaN "é"'}
    rows = json.loads(file.read_text(encoding="utf-8"), parse_constant=refused)
    assert rows == [{"i": 1, **row, "i_1": 1}, {"i": 0, **row, "i_1": 0}]
    assert lakeprobe("sql", "SELECT 1 AS a WHERE false", "--write", file, "--lake", lake).code == 0
    assert json.loads(file.read_text(encoding="utf-8")) == []


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
