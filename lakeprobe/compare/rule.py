"""Loads a rule (a SQL script) and lets it define its views on a locked connection.

The contract is in docs/rules.md: a rule may define the views op_pairs, pairs, metrics and verdicts, macros, and SQL
variables.
It is code from elsewhere, so nothing but SELECT, CREATE VIEW, CREATE MACRO and SET VARIABLE is let through.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe import resources
from lakeprobe.errors import RuleError
from lakeprobe.mapping.files import Mappings

if TYPE_CHECKING:
    import duckdb

CONTRACT = {
    "op_pairs": ("target_seq", "golden_seq", "matched_by"),
    "pairs": ("target_row", "golden_row", "matched_by"),
    "metrics": (
        "row",
        "max_diff",
        "min_diff",
        "mean_diff",
        "norm_diff",
        "max_relative",
        "min_relative",
        "mean_relative",
        "norm_relative",
        "measurement",
        "measurement_problem",
        "values_equal",
        "cosine",
        "euclidean_distance",
        "max_abs_error",
        "max_relative_error",
        "one_thousandth_ratio",
        "five_thousandths_ratio",
        "scale_norm",
        "scale_max",
    ),
    "verdicts": ("row", "outcome", "verdict", "messages"),
}
"""The views of a rule, and the columns that each must have."""

_ALLOWED = re.compile(
    r"(select|from|with|values)\b"
    r"|create\s+(or\s+replace\s+)?(view|macro|function)\b"
    r"|set\s+variable\b",
    re.IGNORECASE,
)
_MODIFYING = re.compile(
    r"\bas(\s+(not\s+)?materialized)?\s*\(\s*"
    r"(copy|insert|update|delete|merge|truncate|create|drop|alter|attach|detach|export|import|install)\b",
    re.IGNORECASE,
)
"""What a WITH clause may not hold: DuckDB lets some statements that write stand there."""

_LITERALS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$", re.DOTALL)
_COMMENTS = re.compile(r"\s+|--[^\n]*(\n|$)|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its name, where it was read from, and its SQL."""

    name: str
    origin: str
    sql: str


def default_name(cross_framework: bool, mappings: Mappings) -> str:
    """The bundled rule that is used where none is asked for."""
    if mappings.layers:
        return "layer"
    if cross_framework:
        return "cross_framework"
    if mappings.data:
        return "data"
    return "same_framework" if mappings.is_empty else "cell"


def load(name: str) -> Rule:
    """The rule of a file of the user's, or the bundled one: `rules/x.sql`, `x.sql` and `x` all name x.

    Raises RuleError if there is neither.
    """
    path = Path(name).expanduser()
    if path.is_file():
        try:
            return Rule(path.stem, str(path.absolute()), path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise RuleError(f"{path} cannot be read as a rule: {error}") from error
    if path.stem in bundled() and str(path.parent) in (".", "rules", "sql/rules"):
        return Rule(path.stem, f"bundled rule {path.stem}", resources.sql(f"rules/{path.stem}"))
    raise RuleError(f"there is no rule {name}: neither such a file nor one of the bundled {', '.join(bundled())}")


def bundled() -> list[str]:
    """The names of the rules that lakeprobe ships."""
    return sorted(path.stem for path in (resources.folder("sql") / "rules").glob("*.sql"))


def run(connection: duckdb.DuckDBPyConnection, rule: Rule) -> None:
    """Execute the statements of `rule`. Raises RuleError for one that fails or is not let through."""
    import duckdb

    try:
        statements = connection.extract_statements(rule.sql)
    except duckdb.Error as error:
        raise RuleError(f"{rule.origin}: {first_line(error)}") from error
    for statement in statements:
        text = _without_comments(statement.query)
        if not _ALLOWED.match(text) or _MODIFYING.search(_LITERALS.sub(" ", text)):
            shown = " ".join(text.split())[:60]
            raise RuleError(
                f"{rule.origin}: a rule may SELECT, CREATE VIEW, CREATE MACRO and SET VARIABLE, not {shown!r}"
            )
        try:
            connection.execute(statement.query)
        except duckdb.Error as error:
            raise RuleError(f"{rule.origin}: {first_line(error)}") from error


def check_contract(connection: duckdb.DuckDBPyConnection, rule: Rule, view: str) -> None:
    """Raise RuleError if `view` lacks a column that the contract asks for."""
    import duckdb

    try:
        described = connection.execute(f"SELECT * FROM {view} LIMIT 0").description
    except duckdb.Error as error:
        raise RuleError(f"{rule.origin}: the view {view} does not run: {first_line(error)}") from error
    missing = [column for column in CONTRACT[view] if column not in {part[0] for part in described}]
    if missing:
        raise RuleError(f"{rule.origin}: the view {view} lacks the column {' and '.join(missing)} (docs/rules.md)")


def first_line(error: Exception) -> str:
    """The first line of a DuckDB error, which says what is wrong."""
    return str(error).strip().splitlines()[0]


def _without_comments(text: str) -> str:
    while match := _COMMENTS.match(text):
        text = text[match.end() :]
    return text
