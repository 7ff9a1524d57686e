"""Loads a rule (a SQL script) and runs it on a locked connection.

docs/rules.md has the contract: a rule may define the views op_pairs, pairs, metrics and verdicts, macros, and SQL
variables. Rules are foreign code, so only SELECT, CREATE VIEW, CREATE MACRO and SET VARIABLE are allowed, and the
connection has no means to do harm: it reaches no file, and all tables are temporary (`connection.lock`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe import resources
from lakeprobe.bounds import DEEPEST_BRACKETS, LONGEST_RULE
from lakeprobe.errors import RuleError
from lakeprobe.lake.connection import parsed, reason
from lakeprobe.mapping.files import Mappings
from lakeprobe.metrics import NUMBER, TEXT, TEXTS, TRUTH, holds
from lakeprobe.resources import quote_text
from lakeprobe.schema import metrics
from lakeprobe.system.files import expanded

if TYPE_CHECKING:
    import duckdb

_CONTENTS = {"DOUBLE": NUMBER, "VARCHAR": TEXT, "BOOLEAN": TRUTH}
CONTRACT = {
    "op_pairs": {"target_seq": NUMBER, "golden_seq": NUMBER, "matched_by": TEXT},
    "pairs": {"target_row": NUMBER, "golden_row": NUMBER, "matched_by": TEXT},
    "metrics": {"row": NUMBER} | {metric.name: _CONTENTS[metric.type] for metric in metrics()},
    "verdicts": {"row": NUMBER, "outcome": TEXT, "verdict": TEXT, "messages": TEXTS},
}
"""The views of a rule, with the columns that each must have and what the columns contain."""

_ALLOWED = re.compile(
    r"(select|from|with|values)\b"
    r"|create\s+(or\s+replace\s+)?(view|macro|function)\b"
    r"|set\s+variable\b",
    re.IGNORECASE,
)
_WRITING = re.compile("(COPY|data-modifying) statement must be at the top level|not allowed as CTE bodies")
"""How DuckDB refuses a WITH that holds a statement that writes."""

_KINDS = ("SELECT", "CREATE", "SET")
_BLANKS = re.compile(r"[^!-~\w]+")
"""What separates words. DuckDB accepts all blanks of Unicode there, and some invisible characters."""


class Rule(Struct, frozen=True):
    """A rule: its name, where it was read from, and its SQL."""

    name: str
    origin: str
    sql: str


def default_name(usual: str, mappings: Mappings) -> str:
    """Return the bundled rule if the user names none; `usual` is that for the two dumps (sql/compare/kind.sql)."""
    if mappings.layers:
        return "layer"
    if usual != "same_framework":
        return usual
    if mappings.data:
        return "data"
    return "same_framework" if mappings.is_empty else "cell"


def load(name: str) -> Rule:
    """Return the rule in the file `name`, or the bundled one: `rules/x.sql`, `x.sql` and `x` all name x.

    Raises RuleError if there is neither.
    """
    path = expanded(name)
    if path.is_file():
        if path.stat().st_size > LONGEST_RULE:
            raise RuleError(f"{path} has {path.stat().st_size} bytes; a rule may have at most {LONGEST_RULE}")
        try:
            return Rule(path.stem, str(path.absolute()), path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise RuleError(f"{path} cannot be read as a rule: {error}") from error
    if path.stem in bundled() and str(path.parent) in (".", "rules", "sql/rules"):
        return Rule(path.stem, f"bundled rule {path.stem}", resources.sql(f"rules/{path.stem}"))
    raise RuleError(f"{name} is neither a file nor a bundled rule; the bundled rules are {', '.join(bundled())}")


def bundled() -> list[str]:
    """Return the names of the rules that lakeprobe ships."""
    return sorted(path.stem for path in (resources.folder("sql") / "rules").glob("*.sql"))


def run(connection: duckdb.DuckDBPyConnection, rule: Rule) -> None:
    """Execute the statements of `rule`. Raises RuleError for a statement that fails or is not allowed."""
    import duckdb

    if _depth(_words(rule.sql)) > DEEPEST_BRACKETS:
        raise RuleError(f"{rule.origin}: brackets are nested more than {DEEPEST_BRACKETS} deep; move parts into WITH")
    try:
        statements = connection.extract_statements(rule.sql)
    except duckdb.Error as error:
        raise RuleError(f"{rule.origin}: {reason(error)}") from error
    for statement in statements:
        words = " ".join(_words(statement.query))
        refusal = RuleError(
            f"{rule.origin}: a rule may SELECT, CREATE VIEW, CREATE MACRO and SET VARIABLE, not {words[:60]!r}"
        )
        if not _ALLOWED.match(words) or statement.type.name not in _KINDS:  # a WITH may begin a DELETE
            raise refusal
        # in front of a whole statement, and nowhere else, DuckDB lets a WITH hold COPY and DELETE: here is no front
        text = f"FROM query({quote_text(statement.query)})" if statement.type.name == "SELECT" else statement.query
        try:
            connection.execute(text)
        except duckdb.Error as error:
            if _WRITING.search(str(error)):
                raise refusal from error
            raise RuleError(f"{rule.origin}: {reason(error)}") from error
    _check_shadows(connection, rule)


def _check_shadows(connection: duckdb.DuckDBPyConnection, rule: Rule) -> None:
    """Raise RuleError for a view that has the name of a table of the comparison, which would hide it."""
    hidden = connection.execute(parsed(connection, resources.sql("compare/hidden_views"))).fetchall()
    if hidden:
        raise RuleError(f"{rule.origin}: {hidden[0][0]} is a table of the comparison; give the view another name")


def names(rule: Rule) -> frozenset[str]:
    """Return the words in the SQL of `rule` outside comments, in lower case. They include every name that it uses."""
    return _names(rule.sql)


def mentions(rule: Rule, stages: Iterable[str]) -> bool:
    """Return whether the SQL of `rule` names one of `stages`."""
    return not names(rule).isdisjoint(stages)


@cache
def _names(sql: str) -> frozenset[str]:
    import duckdb

    texts = (text for kind, text in _tokens(sql) if kind != duckdb.token_type.comment)
    return frozenset(word.lower() for text in texts for word in re.findall(r"\w+", text))


def check_contract(connection: duckdb.DuckDBPyConnection, rule: Rule, view: str) -> None:
    """Raise RuleError if `view` lacks a column of the contract, or has one of another type."""
    import duckdb

    try:
        types = dict(connection.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM {view})").fetchall())
    except duckdb.Error as error:
        raise RuleError(f"{rule.origin}: the view {view} does not run: {reason(error)}") from error
    missing = [column for column in CONTRACT[view] if column not in types]
    if missing:
        raise RuleError(f"{rule.origin}: the view {view} lacks the column {' and '.join(missing)} (docs/rules.md)")
    for column, content in CONTRACT[view].items():
        if not holds(types[column], content):
            raise RuleError(
                f"{rule.origin}: the column {column} of the view {view} is {types[column]}; "
                f"it must be {content} (docs/rules.md)"
            )


def _depth(words: list[str]) -> int:
    """Return the largest number of round brackets that are open at once."""
    brackets = re.findall("[()]", "".join(word for word in words if not word.startswith('"')))
    return max(accumulate(1 if bracket == "(" else -1 for bracket in brackets), default=0)


def _words(sql: str) -> list[str]:
    """Return the words of some SQL: without comments, and '' for each text.

    DuckDB itself finds comments and texts: a regular expression could be tricked.
    """
    import duckdb

    words = []
    for kind, text in _tokens(sql):
        if kind == duckdb.token_type.string_const:
            words.append("''")
        elif kind != duckdb.token_type.comment:
            words.append(_BLANKS.sub(" ", text).strip())
    return list(filter(None, words))


def _tokens(sql: str) -> Iterator[tuple[duckdb.token_type, str]]:
    """Yield the kind of each token of some SQL, and its text up to the next; an empty text has none."""
    import duckdb

    encoded, tokens = sql.encode(), duckdb.tokenize(sql)
    starts = [*(start for start, _ in tokens), len(encoded)]
    for (_, kind), (start, end) in zip(tokens, pairwise(starts), strict=True):
        yield kind, encoded[start:end].decode(errors="replace")
