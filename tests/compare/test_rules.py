"""What a rule may not do ends in one line that names it, and the lake stays as it was."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pair_dumps import call, result_file, results, scalar, tensor, write_dump

from lakeprobe.compare.run import compare
from lakeprobe.errors import RuleError
from lakeprobe.ingest import ingest

PAIRS = "CREATE OR REPLACE VIEW pairs AS "
METRICS = "CREATE OR REPLACE VIEW metrics AS "
VERDICTS = "CREATE OR REPLACE VIEW verdicts AS "
LEAVES = 3


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rules")
    for run in ("ours", "theirs"):
        write_dump(folder / run, {"Torch.f.0.forward": call([tensor(), scalar(1)], [tensor()])})
        ingest(folder / run, lake=folder / "lake")
    compare("ours", "theirs", lake=folder / "lake", name="kept")
    return folder / "lake"


def listing(lake: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(lake)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in lake.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


def refused(lake: Path, rule: Path | str, says: str) -> None:
    before = listing(lake)
    with pytest.raises(RuleError) as caught:
        compare("ours", "theirs", lake=lake, name="kept", rule=str(rule))
    assert says in str(caught.value), str(caught.value)
    assert str(rule) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    assert listing(lake) == before
    assert not (lake.parent / "out.csv").exists()


BROKEN = {
    "syntax": ("SELEKT 1", "syntax error"),
    "unknown_table": (PAIRS + "FROM nothing_of_that_name", "nothing_of_that_name"),
    "missing_column": (
        PAIRS + "SELECT target_row FROM pairs_default",
        "the view pairs lacks the column golden_row and matched_by",
    ),
    "missing_metric": (
        METRICS + "SELECT * EXCLUDE (cosine) FROM metrics_default",
        "the view metrics lacks the column cosine",
    ),
    "missing_verdict_column": (
        VERDICTS + "SELECT row, verdict FROM verdicts_default",
        "the view verdicts lacks the column outcome and messages",
    ),
    "mistyped_row": (
        PAIRS + "SELECT 'x' AS target_row, 'y' AS golden_row, '' AS matched_by",
        "the column target_row of the view pairs is VARCHAR; it must be a number",
    ),
    "mistyped_op": (
        "CREATE OR REPLACE VIEW op_pairs AS SELECT target_seq, [golden_seq] AS golden_seq, matched_by FROM match_exact",
        "the column golden_seq of the view op_pairs is INTEGER[]; it must be a number",
    ),
    "mistyped_metric": (
        METRICS + "SELECT * REPLACE ('far' AS norm_relative) FROM metrics_default",
        "the column norm_relative of the view metrics is VARCHAR; it must be a number",
    ),
    "mistyped_messages": (
        VERDICTS + "SELECT * REPLACE (1 AS messages) FROM verdicts_default",
        "the column messages of the view verdicts is INTEGER; it must be a list of texts",
    ),
    "fails_on_a_row": (
        METRICS + "SELECT * REPLACE (error('no such luck') AS cosine) FROM metrics_default",
        "no such luck",
    ),
    "target_twice": (
        PAIRS + "SELECT 0 AS target_row, golden_row, matched_by FROM pairs_default",
        "pairs has the target row 0, 3 times; a row has at most one counterpart",
    ),
    "golden_twice": (
        PAIRS + "SELECT target_row, 1 AS golden_row, matched_by FROM pairs_default",
        "pairs has the golden row 1, 3 times",
    ),
    "same_pair_twice": (
        PAIRS + "FROM pairs_default UNION ALL FROM pairs_default",
        "pairs has the target row 0, 2 times",
    ),
    "no_such_row": (
        PAIRS + "SELECT target_row + 1 AS target_row, golden_row, matched_by FROM pairs_default",
        "pairs has the target row 3, which does not exist",
    ),
    "no_such_golden_row": (
        PAIRS + "SELECT target_row, golden_row - 1 AS golden_row, matched_by FROM pairs_default",
        "pairs has the golden row -1, which does not exist",
    ),
    "null_row": (
        PAIRS + "SELECT target_row, NULL::INTEGER AS golden_row, matched_by FROM pairs_default WHERE target_row = 0",
        "pairs has the golden row None, which does not exist",
    ),
    "verdict_missing": (
        VERDICTS + "FROM verdicts_default WHERE row > 0",
        "the view verdicts has the row 0 0 times, not once",
    ),
    "verdict_double": (
        VERDICTS + "FROM verdicts_default UNION ALL FROM verdicts_default",
        "verdicts has the row 0 2 times",
    ),
    "verdict_null": (
        VERDICTS + "SELECT * REPLACE (NULL AS verdict) FROM verdicts_default",
        "verdicts has the row 0 0 times",
    ),
    "metrics_missing": (
        METRICS + "FROM metrics_default LIMIT 0",
        "the view metrics lacks 3 pairs; it must have a row for every pair of one kind",
    ),
    "metrics_twice": (
        METRICS + "FROM metrics_default UNION ALL FROM metrics_default",
        "the view metrics has a row more than once; each pair may have one",
    ),
    "threshold": ("SET VARIABLE norm_growth = 'much'", "the threshold norm_growth is 'much'; it must be a number"),
    "threshold_truth": ("SET VARIABLE noise_factor = true", "the threshold noise_factor is True; it must be a number"),
    "threshold_misspelt": (
        "SET VARIABLE norm_eror_output = 0.1",
        "norm_eror_output is not a threshold; write norm_error_output, or give the variable another name",
    ),
    "threshold_nan": (
        "SET VARIABLE noise_factor = 'nan'::DOUBLE",
        "the threshold noise_factor is nan; it must be finite, and 0 or more",
    ),
    "threshold_infinite": (
        "SET VARIABLE cosine_drop = 'inf'::DOUBLE",
        "the threshold cosine_drop is inf; it must be finite, and 0 or more",
    ),
    "threshold_negative": (
        "SET VARIABLE noise_factor = -1",
        "the threshold noise_factor is -1; it must be finite, and 0 or more",
    ),
    "threshold_null": ("SET VARIABLE noise_factor = NULL", "the threshold noise_factor is None; it must be a number"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", BROKEN)
def test_a_rule_that_breaks_its_contract(tmp_path: Path, lake: Path, name: str) -> None:
    rule, says = BROKEN[name]
    (tmp_path / f"{name}.sql").write_text(rule)
    refused(lake, tmp_path / f"{name}.sql", says)


STATEMENTS = [
    "COPY (SELECT 1) TO '{out}'",
    "copy target_leaves to '{out}'",
    "EXPORT DATABASE '{out}'",
    "ATTACH '{out}' AS other",
    "DETACH memory",
    "PRAGMA threads = 1",
    "SET threads = 1",
    "RESET threads",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CREATE TABLE mine AS SELECT 1",
    "CREATE TEMP VIEW pairs AS SELECT 1",
    "CREATE OR REPLACE TEMPORARY VIEW pairs AS FROM pairs_default",
    "CREATE TEMP MACRO f(x) AS x",
    "CREATE SCHEMA mine",
    "CREATE SECRET (TYPE s3)",
    "CALL pragma_version()",
    "DROP VIEW pairs",
    "DELETE FROM target_leaves",
    "UPDATE target_leaves SET max = 0",
    "INSERT INTO pairing VALUES (0, 0, 0, '')",
    "ALTER TABLE pairing RENAME TO x",
    "PREPARE p AS SELECT 1",
    "BEGIN TRANSACTION",
    "USE memory",
    "VACUUM",
    "EXPLAIN SELECT 1",
    "WITH written AS (COPY (SELECT 1) TO '{out}') SELECT * FROM written",
    "WITH written AS (COPY target_ops TO '{lake}/run=ours/step=0/rank=0/ops.parquet') FROM written",
    "WITH written(a) AS NOT MATERIALIZED (COPY (SELECT 1) TO '{lake}/x') FROM written",
    "CREATE VIEW sly AS WITH written AS (COPY (SELECT 1) TO '{lake}/x') FROM written",
    "WITH gone AS (DELETE FROM golden_leaves RETURNING row) SELECT * FROM gone",
    "WITH a AS (SELECT 1), gone AS MATERIALIZED (/* */ UPDATE golden_leaves SET max = 0 RETURNING row) FROM gone",
    "/* harmless */ -- SELECT\n DELETE FROM target_leaves",
    "SELECT 1; DROP VIEW metrics",
]


@pytest.mark.sampled
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_that_is_not_let_through(tmp_path: Path, lake: Path, statement: str) -> None:
    rule = tmp_path / "sly.sql"
    rule.write_text(statement.format(out=lake.parent / "out.csv", lake=lake))
    refused(lake, rule, "a rule may SELECT, CREATE VIEW, CREATE MACRO and SET VARIABLE, not")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "FROM '/etc/passwd.csv'",
        "SELECT * FROM read_csv('{lake}/../ours/dump.json')",
        "SET VARIABLE noise_factor = (SELECT size FROM read_blob('/etc/passwd'))",
        PAIRS + "SELECT * FROM read_parquet('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
    ],
)
def test_other_files_are_out_of_reach(tmp_path: Path, lake: Path, statement: str) -> None:
    rule = tmp_path / "curious.sql"
    rule.write_text(statement.format(lake=lake))
    refused(lake, rule, "Permission Error")


def test_a_rule_that_cannot_be_read(tmp_path: Path, lake: Path) -> None:
    (tmp_path / "latin.sql").write_bytes("-- für später\n".encode("latin-1"))
    refused(lake, tmp_path / "latin.sql", "cannot be read as a rule: 'utf-8' codec can't decode byte")
    refused(
        lake,
        "of_that_name",
        "of_that_name is neither a file nor a bundled rule; the bundled rules are cell, checkpoint, cross_framework,",
    )
    refused(lake, tmp_path, f"{tmp_path} is neither a file nor a bundled rule")


def test_a_rule_is_kept_with_its_comparison(tmp_path: Path, lake: Path) -> None:
    rule = tmp_path / "by_place.sql"
    rule.write_text(
        "-- a rule; with ' in a comment\n/* and (COPY this) */\n"
        "SET VARIABLE noise_factor = 8;\n"
        "CREATE MACRO word(x) AS 'it''s; ' || x;\n"
        "CREATE OR REPLACE VIEW pairs AS WITH exact AS (SELECT * FROM pairs_default)\n"
        "SELECT target_row, golden_row, word('(delete)') AS matched_by FROM exact WHERE target_row > 0;\n"
    )
    compare("ours", "theirs", lake=lake, name="by place", rule=str(rule))
    rows = results(lake, "by place")
    assert [row["matched_by"] for row in rows] == [None, "it's; (delete)", "it's; (delete)", None]
    assert [(row["target_row"], row["golden_row"]) for row in rows] == [(0, None), (1, 1), (2, 2), (None, 0)]
    described = (result_file(lake, "by place").parents[2] / "comparison.yaml").read_text()
    assert "name: by_place" in described
    assert f"origin: {rule}" in described


@pytest.mark.parametrize(
    "name", [None, "same_framework", "same_framework.sql", "rules/same_framework", "sql/rules/same_framework.sql"]
)
def test_names_of_the_bundled_rule(lake: Path, name: str | None) -> None:
    compare("ours", "theirs", lake=lake, name="bundled", rule=name)
    assert [row["difference"] for row in results(lake, "bundled")] == ["equal"] * LEAVES


def test_words_that_are_names_too(tmp_path: Path, lake: Path) -> None:
    """`call` is a column of ops, and `set` and `load` may be names as well."""
    rule = tmp_path / "names.sql"
    rule.write_text(
        "SELECT max(call), (min(call)), count(DISTINCT call) FROM target_ops;"
        "CREATE MACRO first_call(call) AS (call + 1);"
        "SELECT (load) FROM (SELECT 1 AS load), (SELECT (set) FROM (SELECT 2 AS set));"
        "WITH seen AS (SELECT replace('a', 'b', 'c')) FROM seen"
    )
    compare("ours", "theirs", lake=lake, name="names", rule=str(rule))
    assert len(results(lake, "names")) == LEAVES


@pytest.mark.parametrize("name", ["pairs", "metrics", "verdicts"])
def test_a_rule_names_views_in_any_case(tmp_path: Path, lake: Path, name: str) -> None:
    rule = tmp_path / "loud.sql"
    rule.write_text(f"create or replace view {name.upper()} as from {name.upper()}_DEFAULT")
    compare("ours", "theirs", lake=lake, name="loud", rule=str(rule))
    assert results(lake, "loud") == results(lake, "kept")


@pytest.mark.parametrize("text", ["", "\n", "-- nothing is changed"], ids=["empty", "blank", "comment"])
def test_a_rule_without_a_statement_changes_nothing(tmp_path: Path, lake: Path, text: str) -> None:
    rule = tmp_path / "nothing.sql"
    rule.write_text(text)
    compare("ours", "theirs", lake=lake, name="unchanged", rule=str(rule))
    assert results(lake, "unchanged") == results(lake, "kept")


def test_the_types_of_results_do_not_depend_on_the_rule(tmp_path: Path, lake: Path) -> None:
    """All results of a lake are read together."""
    rule = tmp_path / "decimals.sql"
    rule.write_text(METRICS + "SELECT * REPLACE (0.5 AS norm_relative, 1 AS cosine) FROM metrics_default")
    compare("ours", "theirs", lake=lake, name="decimals", rule=str(rule))
    schemas = {pq.read_schema(result_file(lake, name)) for name in ("kept", "decimals")}
    assert len(schemas) == 1
    assert [(row["norm_relative"], row["cosine"]) for row in results(lake, "decimals")] == [(0.5, 1.0)] * LEAVES


def test_which_rule_is_the_default_for_dumps_of_ptdbg(tmp_path: Path) -> None:
    """docs/rules.md: ptdbg where exactly one of the two is ptdbg's."""
    bundled = Path(__file__).parents[1] / "data" / "ptdbg" / "pair.tar.xz"
    with tarfile.open(bundled) as archive:
        archive.extractall(tmp_path, filter="data")
    shutil.copytree(tmp_path / "golden", tmp_path / "again")
    rules = [
        [pair.rule.name for pair in compare(tmp_path / side, tmp_path / "golden", lake=tmp_path / "lake").pairs]
        for side in ("target", "again")
    ]
    assert rules == [["ptdbg"], ["same_framework"]]
