"""Runs a user's statements on a lake so that no file is written. DuckDB has no read-only access to files.

Both the kind and the plan of a statement decide whether it may run. DuckDB binds it and lists the operators that it
would run, with views, macros, query() and the like resolved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe.errors import LakeError, RuleError, UsageError
from lakeprobe.lake import outputs
from lakeprobe.output import in_json
from lakeprobe.resources import quote_text

if TYPE_CHECKING:
    import duckdb

_COPIED = {
    ".csv": "FORMAT csv, HEADER",
    ".parquet": "FORMAT parquet, COMPRESSION zstd",
}
"""How DuckDB writes a file, by its suffix. It writes .json too, but with NaN and infinities as no JSON has them."""

_NOT_FINITE = re.compile("NaN|Infinity")

_IN_MEMORY = frozenset({
    "SELECT", "CREATE", "INSERT", "UPDATE", "DELETE", "MERGE_INTO", "ALTER", "DROP", "SET", "TRANSACTION",
})  # fmt: skip
"""Kinds of statements that stay in memory, unless their plan says otherwise. A PRAGMA is none of them: it has no plan,
and some run a text or a script."""

_SEVERAL = "MULTI"
"""The kind of a statement that looks up the values of a PIVOT first. DuckDB does so even to show its plan."""

_WRITING = re.compile("COPY|EXPORT|ATTACH|JSON_EXECUTE_SERIALIZED_SQL|EXTERNAL_RESOURCE|GRAMMAR_EXTENSION")
"""Operators that write files, or that run a statement whose plan is not shown: functions of external resources call any
function by its name. tests/hostile/test_functions.py has every table function of DuckDB."""

_EXPLAINED = "EXPLAIN (FORMAT json) "
_EXPLAIN = re.compile(r"\s*explain\b\s*(analyze\b|\([^)]*\))?", re.IGNORECASE)


def lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Forbid what writes files indirectly on `connection`: settings that name output files, secrets, extensions.

    A connection that is locked stays so.
    """
    [(is_locked,)] = connection.execute("SELECT current_setting('lock_configuration')").fetchall()
    if is_locked:
        return
    for setting in (
        "allow_persistent_secrets = false", "autoinstall_known_extensions = false", "lock_configuration = true",
    ):  # fmt: skip
        connection.execute(f"SET {setting}")


def run(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.DuckDBPyRelation | None:
    """Run the statements of `query`. Returns the rows of the last one, if it has any.

    Raises duckdb.Error, and RuleError before it runs a statement that might write a file.
    """
    relation = None
    for statement in connection.extract_statements(query):
        _check(connection, statement)
        relation = connection.sql(statement.query)
    return relation


def _check(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> None:
    kind, shown = _kind(statement), repr(" ".join(statement.query.split())[:60])
    if kind == _SEVERAL:
        raise RuleError(f"{shown} has a PIVOT that does not list its values; list them, as in ON step IN (0, 1)")
    explained, is_explain = _EXPLAIN.subn("", statement.query, count=1) if kind == "EXPLAIN" else ("", 0)
    if is_explain:
        for inner in connection.extract_statements(explained):
            _check(connection, inner)
    elif kind not in _IN_MEMORY or any(map(_WRITING.search, _plan(connection, statement.query))):
        raise RuleError(f"{shown} might write a file; lakeprobe sql writes rows into one where --write FILE names it")


def _kind(statement: duckdb.Statement) -> str:
    """Return the kind of the statement; "" for one that DuckDB's Python binding does not know, such as CONNECT."""
    try:
        return statement.type.name
    except ValueError:
        return ""


def _plan(connection: duckdb.DuckDBPyConnection, text: str) -> Iterator[str]:
    """Yield the names of the operators that the statement `text` would run."""
    import duckdb

    try:
        [(_, plan)] = connection.execute(f"{_EXPLAINED}{text}").fetchall()
    except duckdb.Error as error:  # it quotes the statement, which begins with words that the user did not write
        raise RuleError(str(error).strip().replace(_EXPLAINED, "").rstrip("^ \n")) from error
    pending: list[dict[str, Any]] = json.loads(plan)
    while pending:
        node = pending.pop()
        yield node["name"]
        pending += node["children"]


def write(connection: duckdb.DuckDBPyConnection, rows: duckdb.DuckDBPyRelation, path: Path) -> None:
    """Write `rows` to a csv, json or parquet file, depending on its suffix.

    Raises UsageError for another suffix and for a file in a lake, and LakeError.
    """
    suffix = path.suffix.lower()
    if suffix not in (forms := sorted([*_COPIED, ".json"])):
        raise UsageError(f"{path} ends in none of {', '.join(forms)}; these can be written")
    try:
        with outputs.draft(path) as hidden:
            rows.create_view("written_rows", replace=True)
            if suffix == ".json":
                _write_json(connection, hidden)
            else:
                connection.execute(f"COPY (FROM written_rows) TO {quote_text(str(hidden))} ({_COPIED[suffix]})")
    except OSError as error:
        raise LakeError.from_system(error, path, "nothing was written") from error


def _write_json(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Write the view written_rows as an array of objects, one a line. NaN and infinities are texts."""
    found = connection.execute("SELECT to_json(written_rows)::VARCHAR FROM written_rows")
    separator = "\n"
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        while rows := found.fetchmany(10_000):
            for (text,) in rows:
                file.write(separator + (_finite(text) if _NOT_FINITE.search(text) else text))
                separator = ",\n"
        file.write("\n]\n")


def _finite(text: str) -> str:
    return json.dumps(in_json(json.loads(text)), ensure_ascii=False, allow_nan=False)
