"""Rules that mean harm: each ends in one line, nothing outside is read or written, and the lake is what it was."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import duckdb
import numpy as np
import pytest
from pair_dumps import call, results, tensor, write_dump

from lakeprobe.compare import rule as rules
from lakeprobe.compare.rule import Rule
from lakeprobe.compare.run import compare
from lakeprobe.errors import LakeprobeError, RuleError
from lakeprobe.ingest import ingest

SECRET = "hunter2"
NOT_LET_THROUGH = "a rule may SELECT, CREATE VIEW, CREATE MACRO and SET VARIABLE, not"
NO_ACCESS = "Permission Error: Cannot access"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lake of three runs, links in it that lead out, and a secret beside it."""
    home = tmp_path_factory.mktemp("attacks")
    values = {name: np.arange(4, dtype=np.float32) for name in ("in.npy", "out.npy")}
    leaves = [tensor(data_name=name) for name in values]
    for run, norm in (("ours", 1.0), ("theirs", 1.0), ("others", 5.0)):
        data = {"Torch.f.0.forward": call([leaves[0]], [leaves[1] | {"Norm": norm}]), "Torch.g.0.forward": call([1])}
        write_dump(home / run, data, task="tensor", arrays=values)
        ingest(home / run, lake=home / "lake")
    for name in ("secret.csv", "secret.txt", "secret.json", "lake_of_another.csv"):
        (home / name).write_text(f"word\n{SECRET}\n")
    np.save(home / "secret.npy", np.arange(4, dtype=np.float32))
    (home / "lake" / "link.csv").symlink_to(home / "secret.csv")
    (home / "lake" / "folder").symlink_to(home)
    compare("ours", "theirs", lake=home / "lake", name="kept")
    return home


def contents(home: Path) -> dict[str, str]:
    """All files below `home`, by path: a hash of their bytes. Locks stay behind empty and are not part of the lake."""
    return {
        str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in home.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


def placed(home: Path, text: str) -> str:
    """The statement with the paths that it attacks."""
    return text.replace("{home}", str(home)).replace("{lake}", str(home / "lake")).replace("\\n", "\n")


@pytest.fixture(scope="module")
def said(home: Path) -> dict[str, str]:
    """What is said of each of STATEMENTS and READS. One comparison runs them all, in the place of its rule."""
    said = {}
    usual = rules.run

    def run_all(connection: duckdb.DuckDBPyConnection, rule: Rule) -> None:
        for statement in (*STATEMENTS, *READS):
            try:
                usual(connection, Rule("attack", "attack", placed(home, statement)))
            except RuleError as error:
                said[statement] = str(error)
        raise RuleError("all were run")

    before, beside = contents(home), sorted(os.listdir())
    with patch.object(rules, "run", run_all), pytest.raises(RuleError, match="all were run"):
        compare("ours", "theirs", lake=home / "lake", name="kept")
    assert contents(home) == before
    assert sorted(os.listdir()) == beside
    return said


def attacked(home: Path, folder: Path, text: str) -> str:
    """What is said of the rule `text`, which must be refused and leave no trace."""
    rule = folder / "attack.sql"
    rule.write_text(placed(home, text), encoding="utf-8")
    before, beside = contents(home), sorted(os.listdir())
    with pytest.raises(LakeprobeError) as caught:
        compare("ours", "theirs", lake=home / "lake", name="kept", rule=str(rule))
    assert contents(home) == before
    assert sorted(os.listdir()) == beside
    assert isinstance(caught.value, RuleError)
    return in_one_line(str(caught.value), str(rule))


def in_one_line(said: str, origin: str) -> str:
    assert said.startswith(f"{origin}: ")
    assert "\n" not in said
    assert SECRET not in said
    return said


STATEMENTS = """
COPY (SELECT 1) TO '{home}/out.csv'
COPY (SELECT 1) TO '{lake}/out.csv'
COPY target_ops TO '{lake}/run=ours/step=0/rank=0/ops.parquet'
COPY target_ops FROM '{home}/secret.csv'
ATTACH '{lake}/x.db'
ATTACH ':memory:' AS other
DETACH memory
INSTALL httpfs
FORCE INSTALL httpfs
LOAD parquet
LOAD '{home}/evil.duckdb_extension'
UPDATE EXTENSIONS
PRAGMA database_list
PRAGMA enable_external_access=true
SET enable_external_access = true
SET GLOBAL memory_limit = '99GB'
SET SESSION threads = 8
RESET memory_limit
RESET VARIABLE target_unit
EXPORT DATABASE '{lake}/exported'
IMPORT DATABASE '{lake}/exported'
CREATE TABLE mine AS SELECT 1
CREATE OR REPLACE TABLE target_ops AS SELECT 1
CREATE TEMP TABLE mine (a INTEGER)
CREATE SEQUENCE mine
CREATE TYPE mood AS ENUM ('good')
CREATE INDEX mine ON target_ops (seq)
CREATE SECRET mine (TYPE s3)
CREATE PERSISTENT SECRET mine (TYPE s3)
DROP SECRET mine
INSERT INTO target_ops FROM target_ops
UPDATE target_leaves SET max = 0
DELETE FROM target_ops
TRUNCATE target_ops
MERGE INTO target_ops USING golden_ops ON true WHEN MATCHED THEN DELETE
DROP TABLE target_ops
ALTER TABLE target_ops ADD COLUMN x INTEGER
COMMENT ON TABLE target_ops IS 'x'
CALL pragma_version()
CALL truncate_duckdb_logs()
CREATE TRIGGER t AFTER INSERT ON target_ops FOR EACH STATEMENT DELETE FROM target_ops
CREATE OR REPLACE TEMP VIEW target_ops AS SELECT 1
CREATE RECURSIVE VIEW r (a) AS SELECT 1 UNION ALL SELECT a + 1 FROM r
PIVOT target_ops ON seq USING count(*)
PIVOT target_ops ON seq IN (WITH w AS (COPY (SELECT 1) TO '{home}/out.csv') FROM w) USING count(*)
SELECT 1\x00; DELETE FROM target_ops
EXECUTE p
PREPARE p AS DELETE FROM target_ops
DEALLOCATE p
CHECKPOINT
VACUUM
ANALYZE
USE memory.main
BEGIN
EXPLAIN ANALYZE DELETE FROM target_ops
CONNECT '{home}/x'
SELECT 1; ; ; DELETE FROM target_ops
CREATE OR REPLACE FUNCTION f(x) AS x; DROP FUNCTION f
WITH x AS (SELECT 1) DELETE FROM target_ops
WITH x AS (SELECT 1) UPDATE golden_leaves SET max = 0
WITH x AS (SELECT 1) INSERT INTO target_ops FROM target_ops
WITH x AS (SELECT 1) MERGE INTO target_ops USING golden_ops ON true WHEN MATCHED THEN DELETE
WITH w AS (COPY (SELECT 1) TO '{lake}/out.csv') FROM w
WITH w AS (INSERT INTO target_ops FROM target_ops RETURNING seq) FROM w
WITH w AS (WITH x AS (SELECT 1) DELETE FROM target_ops RETURNING seq) FROM w
WITH w AS (WITH v AS (DELETE FROM target_ops RETURNING seq) FROM v) FROM w
WITH w(a) AS NOT MATERIALIZED (DELETE FROM target_ops RETURNING seq) FROM w
WITH w USING KEY (a) AS (DELETE FROM target_ops RETURNING seq) FROM w
CREATE OR REPLACE VIEW v AS (WITH w AS (COPY (SELECT 1) TO '{lake}/out.csv') FROM w)
CREATE OR REPLACE MACRO m() AS TABLE WITH w AS (DELETE FROM target_ops RETURNING seq) FROM w; FROM m()
-- SELECT\\nDELETE FROM target_ops
/* SELECT */ DELETE FROM target_ops
/* a /* nested */ SELECT */ DELETE FROM target_ops
WITH w AS /* ( */ (DELETE FROM target_ops RETURNING seq) FROM w
WITH w AS (SELECT e'\\' ' a), v AS (COPY (SELECT 1) TO '{lake}/out.csv') FROM v --'
WITH w AS (SELECT 1 /* /* */ ' */ a), v AS (COPY (SELECT 1) TO '{lake}/out.csv') FROM v --'
WITH w AS (SELECT $x$ ' $x$ a), v AS (DELETE FROM target_ops RETURNING seq) FROM v --'
WITH w AS (SELECT $ä$ ' $ä$ a), v AS (DELETE FROM target_ops RETURNING seq) FROM v --'
WITH w AS (SELECT 1 AS "a""'"), v AS (DELETE FROM target_ops RETURNING seq) FROM v --'
WITH ä AS (SELECT 'äöü€' a), v AS (DELETE FROM target_ops RETURNING seq) FROM v
\ufeffDELETE FROM target_ops
SELECT * FROM (WITH w AS\u00a0(\u00a0DELETE FROM target_ops RETURNING seq) FROM w)
WITH w AS\u2003(\u3000DELETE FROM target_ops RETURNING seq) FROM w
WITH w AS (\u200bDELETE FROM target_ops RETURNING seq) FROM w
""".strip().split("\n")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_that_does_more_than_read(said: dict[str, str], statement: str) -> None:
    assert NOT_LET_THROUGH in in_one_line(said[statement], "attack")


READS = """
FROM read_text('{home}/secret.txt')
FROM read_blob('{home}/secret.txt')
FROM read_csv('{home}/secret.csv')
FROM read_csv_auto('{home}/secret.csv')
FROM sniff_csv('{home}/secret.csv')
FROM read_json('{home}/secret.json')
FROM read_ndjson_objects('{home}/secret.json')
FROM read_parquet('{home}/secret.csv')
FROM parquet_metadata('{home}/secret.csv')
FROM parquet_kv_metadata('{home}/secret.csv')
FROM parquet_bloom_probe('{home}/secret.csv', 'word', 1)
FROM read_duckdb('{home}/secret.csv')
FROM glob('{home}/*')
FROM parquet_full_metadata('{home}/secret.csv')
FROM read_single_csv_file('{home}/secret.csv')
FROM read_text(['{home}/secret.txt'])
FROM read_text(chr(47) || 'etc/passwd')
FROM read_text(e'\\x2fetc\\x2fpasswd')
FROM '{home}/secret.csv'
FROM "{home}/secret.csv"
FROM target_ops POSITIONAL JOIN '{home}/secret.csv'
FROM query_table(['{home}/secret.csv'])
FROM query('FROM read_' || 'text(''{home}/secret.txt'')')
CREATE OR REPLACE MACRO m(f) AS TABLE FROM read_text(f); FROM m('{home}/secret.txt')
CREATE OR REPLACE MACRO m() AS (SELECT content FROM read_text('{home}/secret.txt')); SELECT m()
SET VARIABLE noise_factor = (SELECT size FROM read_blob('{home}/secret.txt'))
CREATE OR REPLACE VIEW op_pairs AS SELECT 0 AS target_seq, 0 AS golden_seq, word AS matched_by FROM '{home}/secret.csv'
FROM read_text('{lake}/../secret.txt')
FROM read_text('{lake}/run=ours/../../secret.txt')
FROM read_text('{lake}/.staging/../../secret.txt')
FROM read_text('{lake}_of_another.csv')
FROM '{lake}/link.csv'
FROM read_text('{lake}/link.csv')
FROM read_text('{lake}/folder/secret.txt')
FROM glob('{lake}/folder/*')
FROM read_text('file://{home}/secret.txt')
FROM read_text('secret.txt')
FROM read_text('~/.bashrc')
FROM read_text('/proc/self/environ')
FROM read_csv('/dev/stdin')
FROM 'http://127.0.0.1:9/x.csv'
FROM read_text('https://127.0.0.1:9/x.csv')
FROM read_parquet('s3://bucket/x.parquet')
FROM read_parquet('hf://datasets/x/y.parquet')
FROM duckdb_secrets()
FROM read_text('{lake}/lake.yaml')
FROM read_parquet('{lake}/run=others/step=0/rank=0/ops.parquet')
FROM unit_ops('{lake}/run=others/step=0/rank=0')
FROM glob('{lake}/*')
FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{home}/secret.txt'')'))
FROM json_execute_serialized_sql(json_serialize_sql('WITH w AS (COPY (SELECT 1) TO ''{lake}/out.csv'') FROM w'))
FROM json_execute_serialized_sql(json_serialize_sql('WITH w AS (COPY (SELECT 1) TO ''{lake}/lake.yaml'') FROM w'))
""".strip().split("\n")


@pytest.mark.parametrize("statement", READS)
def test_a_file_that_is_not_the_lakes(said: dict[str, str], statement: str) -> None:
    assert NO_ACCESS in in_one_line(said[statement], "attack")


OTHERS = {
    "FROM query('COPY (SELECT 1) TO ''{lake}/out.csv''')": "Expected a single SELECT statement",
    "FROM query('WI' || 'TH w AS (COPY (SELECT 1) TO ''{lake}/out.csv'') FROM w')": NOT_LET_THROUGH,
    "CREATE MACRO m(t) AS TABLE FROM query(t);"
    "FROM m('WITH w AS (DELETE FROM target_ops RETURNING seq) FROM w')": NOT_LET_THROUGH,
    "WITH w AS ((DELETE FROM target_ops RETURNING seq)) FROM w": "syntax error",
    "SELECT (DELETE FROM target_ops RETURNING seq)": "syntax error",
    "CREATE MACRO m() AS TABLE DELETE FROM target_ops RETURNING seq": "syntax error",
    "ＤＥＬＥＴＥ FROM target_ops": "syntax error",
    "ЅELECT 1": "syntax error",
    "SELECT getenv('HOME')": "getenv does not exist",
    "FROM secret_frame": "secret_frame does not exist",  # a Python variable: see the test
    "FROM home": "home does not exist",
    "FROM connection": "connection does not exist",
    "FROM enable_logging()": "the configuration has been locked",
    "FROM enable_profiling()": "the configuration has been locked",
    "FROM load_aws_credentials()": "is not in the catalog",  # an extension is not even looked for
    "SELECT '::1'::INET": "is not in the catalog",
    "FROM arrow_scan(1, 2, 3)": "No function matches",
    "CREATE OR REPLACE VIEW target_leaves AS SELECT 1": "target_leaves",
    "FROM query('FROM json_execute_' || 'serialized_sql(json_serialize_sql(''WITH w AS (COPY (SELECT 1) TO "
    "''''{lake}/run=ours/step=0/rank=0/ops.parquet'''' (FORMAT parquet)) FROM w''))')": NO_ACCESS,  # E1
    "FROM json_execute_serialized_sql(json_serialize_sql("
    "'WITH w AS (DELETE FROM target_ops RETURNING seq) FROM w'))": "target_ops does not exist",
    "FROM json_execute_serialized_sql(json_serialize_sql("
    "'WITH w AS (UPDATE temp.main.target_leaves SET max = 0 RETURNING seq) FROM w'))": "target_leaves does not exist",
    "CREATE OR REPLACE VIEW op_pairs AS SELECT 0 AS target_seq, 0 AS golden_seq, 'x' AS matched_by "
    "FROM json_execute_serialized_sql(json_serialize_sql("
    "'WITH w AS (DELETE FROM golden_ops RETURNING seq) FROM w'))": "golden_ops does not exist",
    "CREATE VIEW target_ops AS SELECT 1": "target_ops is a table of the comparison",
    "CREATE OR REPLACE VIEW op_pairs AS FROM op_pairs": "infinite recursion",
    "SELECT * FROM (" * 20_000 + "SELECT 1" + ")" * 20_000: "brackets are nested more than 500 deep",
    "-- "
    + ")" * 20_000
    + "\n"
    + "SELECT * FROM (" * 20_000
    + "SELECT 1"
    + ")" * 20_000: "brackets are nested more than 500 deep",
    "SELECT " + "NOT " * 20_000 + "true": "Max expression depth limit",
    "SELECT tensor_metrics({'file': f, 'offset': 128, 'length': 16, 'dtype': 'float32', 'shape': [4], 'strides': NULL},"
    " {'file': f, 'offset': 128, 'length': 16, 'dtype': 'float32', 'shape': [4], 'strides': NULL})"
    " FROM (SELECT '{home}/secret.npy' AS f)": "tensor_metrics may not read",
}


@pytest.mark.sampled
@pytest.mark.parametrize("number", range(len(OTHERS)))
def test_other_tricks(home: Path, tmp_path: Path, number: int) -> None:
    secret_frame = {"word": np.array([1.0])}  # DuckDB would find it by its name, were it let
    assert secret_frame
    statement, says = list(OTHERS.items())[number]
    assert says in attacked(home, tmp_path, statement)


def test_a_rule_that_is_too_long(home: Path, tmp_path: Path) -> None:
    """Its text would be kept with the comparison."""
    rule = tmp_path / "attack.sql"
    rule.write_text("SELECT 1;" * 1_200_000)
    with pytest.raises(RuleError, match=r"attack\.sql has 10800000 bytes; a rule may have at most 1048576$"):
        compare("ours", "theirs", lake=home / "lake", name="kept", rule=str(rule))


# ---- what is let through does no harm ---------------------------------------------------------------------


def compared(home: Path, folder: Path, text: str) -> list[dict[str, object]]:
    rule = folder / "rule.sql"
    rule.write_text(text.replace("{lake}", str(home / "lake")), encoding="utf-8")
    before = contents(home)
    compare("ours", "theirs", lake=home / "lake", name="tried", rule=str(rule))
    after = contents(home)
    assert {path: after[path] for path in before if "comparison=tried" not in path} == {
        path: digest for path, digest in before.items() if "comparison=tried" not in path
    }
    return results(home / "lake", "tried")


@pytest.mark.sampled
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1 -- ; DROP VIEW pairs",
        "-- nothing",
        "FROM target_ops DELETE",  # a name for target_ops
        "SELECT 1；DELETE FROM target_ops",  # a name for 1
        "VALUES ('; DROP VIEW pairs')",
        "SELECT current_setting('allowed_directories')",
        "FROM checkpoint('memory')",
        "SELECT write_log('x')",
        "SET VARIABLE threads = 8",
        "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "SET VARIABLE target_unit = '{lake}/run=others/step=0/rank=0'",  # read before the rule runs, and not again
        "SET VARIABLE golden_unit = '{lake}/run=others/step=0/rank=0'",
        "CREATE OR REPLACE MACRO unit_leaves(unit) AS TABLE SELECT 1",
        "CREATE VIEW made AS FROM pairs",
    ],
)
def test_what_is_let_through_changes_no_result(home: Path, tmp_path: Path, statement: str) -> None:
    assert compared(home, tmp_path, statement) == results(home / "lake", "kept")


def test_a_rule_may_shadow_the_macros_of_the_judge(home: Path, tmp_path: Path) -> None:
    """Its results are its own affair; those of the next comparison are not touched."""
    rows = compared(home, tmp_path, "CREATE OR REPLACE MACRO is_device(value) AS true; SET VARIABLE noise_factor=0")
    assert len(rows) == len(results(home / "lake", "kept"))
    assert compared(home, tmp_path, "SELECT 1") == results(home / "lake", "kept")


# ---- as the real program ----------------------------------------------------------------------------------


def run_program(home: Path, rule: Path, *options: str) -> tuple[int, str, str]:
    words = ["compare", "ours", "theirs", "--lake", home / "lake", "--name", "kept", "--sql", rule, *options]
    command = [sys.executable, "-W", "error", "-m", "lakeprobe", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=rule.parent)
    return done.returncode, done.stdout, done.stderr


ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
# minutes without a look at an interrupt; levenshtein looks at it from DuckDB 2.0.1 on
UNHEEDING = "SELECT jaro_similarity(repeat('ab', 5000000), repeat('ba', 5000000))"
VIEW = "CREATE OR REPLACE VIEW op_pairs AS SELECT 0 AS target_seq, 0 AS golden_seq, "
ENDLESS_VIEW = f"{VIEW} ({ENDLESS})::VARCHAR AS matched_by"
BOMB_VIEW = f"{VIEW} repeat('x', 4000000000) AS matched_by"
BOMBS = {
    "list": "SELECT list(range) FROM range(1000000000)",
    "doubling": "WITH RECURSIVE t(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM t) SELECT max(length(s)) FROM t",
    "value": "SELECT length(repeat('x', 4000000000))",
    "variable": "SET VARIABLE big = (SELECT len(range(1000000000)))",
}
CASES = {
    "copy": ("WITH w AS (SELECT e'\\' ' a), v AS (COPY (SELECT 1) TO 'out.csv') FROM v --'", (), 2, NOT_LET_THROUGH),
    "read": ("FROM read_text('attack.sql')", (), 2, NO_ACCESS),
    "endless": (ENDLESS, ("--timeout", "1"), 2, "the comparison took longer than 1 seconds (--timeout)"),
    "endless_view": (ENDLESS_VIEW, ("--timeout", "1"), 2, "the comparison took longer than 1 seconds (--timeout)"),
    # time enough to reach the rule on a busy machine: only what the rule does is not interrupted
    "unheeding": (UNHEEDING, ("--timeout", "4"), 3, "a worker process was killed, by --timeout"),
    "bomb_view": (BOMB_VIEW, ("--memory-limit", "300MB", "--timeout", "30"), 3, "Out of Memory Error"),
    **{
        f"bomb_{name}": (text, ("--memory-limit", "300MB", "--timeout", "30"), 2, "Out of Memory Error")
        for name, text in BOMBS.items()
    },
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_the_program_says_one_line(home: Path, tmp_path: Path, name: str) -> None:
    text, options, code, says = CASES[name]
    rule = tmp_path / "attack.sql"
    rule.write_text(text)
    before = contents(home)
    ended, out, err = run_program(home, rule, *options)
    assert (ended, out, err.count("\n")) == (code, "", 1), err
    assert says in err
    assert contents(home) == before
    assert os.listdir(tmp_path) == ["attack.sql"]
    assert not [path for path in (home / "lake" / ".staging").iterdir() if path.is_dir()]
