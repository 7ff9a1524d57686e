"""Assembles statements from what DuckDB says that it has: every function, and every keyword that begins a statement."""

from __future__ import annotations

import random
from collections.abc import Iterator

import duckdb

WRAPPED = (
    "{call}",
    "SELECT * FROM query('{quoted}')",
    "SELECT * FROM query('SELECT ' || '* FROM ({quoted})')",
    "CREATE OR REPLACE MACRO sly() AS TABLE {call}; SELECT * FROM sly()",
    "CREATE OR REPLACE VIEW sly AS {call}; SELECT * FROM sly",
    "SET VARIABLE sly = (SELECT count(*) FROM ({call}))",
    "EXPLAIN ANALYZE {call}",
    "PIVOT (SELECT 'k' AS k FROM ({call})) ON k USING count(*)",
    "WITH w AS ({call}) SELECT count(*) FROM w",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('{quoted}'))",
    "SELECT * FROM query('SELECT * FROM json_execute_' || 'serialized_sql(json_serialize_sql(''{twice}''))')",
)
WRITES = (
    "WITH w AS (COPY (SELECT 1) TO '{file}') SELECT * FROM w",
    "WITH w AS (COPY (SELECT 42 AS seq) TO '{file}' (FORMAT parquet)) SELECT * FROM w",
    "WITH w AS (DELETE FROM target_ops RETURNING seq) SELECT * FROM w",
    "WITH w AS (UPDATE temp.main.target_leaves SET max = 7 RETURNING seq) SELECT * FROM w",
    "WITH w AS (INSERT INTO golden_ops FROM golden_ops RETURNING seq) SELECT * FROM w",
    "WITH w AS (TRUNCATE target_ops RETURNING seq) SELECT * FROM w",
    "WITH w AS (MERGE INTO target_ops USING golden_ops ON true WHEN MATCHED THEN DELETE RETURNING seq) SELECT * FROM w",
)  # fmt: skip
TAILS = (
    "{file}", "'{file}'", "TABLE target_ops", "target_ops", "target_ops TO '{file}'", "(SELECT 1) TO '{file}'",
    "DATABASE '{file}'", "'{file}' AS other", "FROM target_ops", "INTO target_ops FROM target_ops",
    "VIEW metrics", "enable_external_access = true", "VARIABLE sly = 1", "memory", "", "p AS DELETE FROM target_ops",
    "ON target_ops (seq)", "SECRET s (TYPE s3)", "GLOBAL allowed_directories = ['/']", "TABLE mine AS SELECT 1",
)  # fmt: skip


def functions(connection: duckdb.DuckDBPyConnection, kinds: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """Names of functions of these kinds, each with the types of its arguments; those of operators are left out."""
    query = """
        SELECT DISTINCT function_name, parameter_types::VARCHAR[] AS types FROM duckdb_functions()
        WHERE list_contains($kinds, function_type) AND regexp_full_match(function_name, '[a-z_]\\w*')
        ORDER BY ALL
    """
    return connection.execute(query, {"kinds": list(kinds)}).fetchall()


def argument(kind: str | None, file: str, choose: random.Random) -> str:
    """Something of the type `kind`, which may be the name of a file that must not be touched."""
    kind = (kind or "").upper()
    if "VARCHAR" in kind or kind in ("", "ANY", "NULL", "T"):
        text = choose.choice((file, "target_ops", "memory", "SELECT 1", "a", "", "/etc/passwd"))
        return f"'{text}'" if choose.random() < 0.85 else f"['{text}']"
    if "TABLE" in kind:
        return "(SELECT 1)"
    if "BOOL" in kind:
        return "true"
    if any(part in kind for part in ("INT", "DOUBLE", "FLOAT", "DECIMAL")):
        number = choose.choice(("0", "1", "-1", "3", "1000"))
        return f"[{number}]" if kind.endswith("[]") else number
    return f"NULL::{kind}" if kind.isalpha() and kind != "LAMBDA" else "NULL"


def statements(file: str, seed: int) -> Iterator[str]:
    """Statements for ever: calls of every function in turn, writing ones, and keywords with what may follow them."""
    choose = random.Random(seed)
    with duckdb.connect() as connection:
        tables = functions(connection, ("table", "table_macro", "pragma"))
        scalars = functions(connection, ("scalar", "macro", "aggregate"))
        keywords = [word for (word,) in connection.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()]
    while True:
        kind = choose.random()
        if kind < 0.1:
            statement = choose.choice(WRITES)
        elif kind < 0.2:
            first = choose.choice(keywords)
            yield f"{first} {choose.choice(TAILS)}".replace("{file}", file)
            continue
        elif kind < 0.65:
            name, types = choose.choice(tables)
            given = ", ".join(argument(it, file, choose) for it in types or [])
            statement = f"SELECT * FROM {choose.choice(('', '', 'system.main.'))}{name}({given})"
        else:
            name, types = choose.choice(scalars)
            given = ", ".join(argument(it, file, choose) for it in types or [])
            statement = f"SELECT {name}({given})" + choose.choice(("", " FROM target_ops"))
        statement = statement.replace("{file}", file)
        quoted = statement.replace("'", "''")
        twice = quoted.replace("'", "''")
        yield choose.choice(WRAPPED).format(call=statement, quoted=quoted, twice=twice)
