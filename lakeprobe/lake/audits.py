"""Audits: queries in sql/audits that return violations of what a lake promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lakeprobe import resources

if TYPE_CHECKING:
    import duckdb


class Audit(Struct, frozen=True):
    """An audit: its name, and the promise of the lake that it checks (the first line of its SQL)."""

    name: str
    promise: str


def names() -> list[str]:
    """Return the names of all audits."""
    return sorted(path.stem for path in (resources.folder("sql") / "audits").glob("*.sql"))


def run(sql: Callable[[str], duckdb.DuckDBPyRelation]) -> list[tuple[Audit, list[str], list[Any]]]:
    """Run every audit. Returns the audits that found violations, each with its columns and rows."""
    found = []
    for name in names():
        text = resources.sql(f"audits/{name}")
        relation = sql(text)
        rows = relation.fetchall()
        if rows:
            promise = text.splitlines()[0].partition(": ")[2]
            found.append((Audit(name, promise), list(relation.columns), rows))
    return found
