"""The communication of a run as text: broken laws first, what carried a difference, what each law saw, who spoke."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lakeprobe import output

if TYPE_CHECKING:
    import duckdb

    from lakeprobe.analysis.communication import Communication

MOST = 20
"""How many rows of a table the text shows."""


def communication_text(found: Communication, most: int = MOST) -> str:
    """`found` for people, `most` rows of each table."""
    return "\n".join([*_answer(found, most), *_tables(found, most)])


def _answer(found: Communication, most: int) -> Iterator[str]:
    broken = len(found.broken)
    if not broken:
        yield "No law of communication is seen to be broken.\n"
        return
    yield f"{broken} result{'s break' if broken > 1 else ' breaks'} a law of communication:\n"
    yield _table(found.broken, most)


def _tables(found: Communication, most: int) -> Iterator[str]:
    if found.changed is not None and len(found.changed):
        yield "Meetings that carry a difference from golden, in order:\n"
        yield _table(found.changed, most)
    if len(found.verdicts):
        yield "What each law saw:\n"
        yield _table(found.verdicts, most)
    yield "Who spoke:\n" if len(found.summary) else "No rank recorded a collective, send or receive.\n"
    if len(found.summary):
        yield _table(found.summary, most)


def _table(relation: duckdb.DuckDBPyRelation, most: int) -> str:
    rows = ([_short(cell) for cell in row] for row in relation.limit(most).fetchall())
    shown = output.aligned(relation.columns, rows)
    more = len(relation) - most
    return shown + (f"… and {more} more (--most)\n" if more > 0 else "")


def _short(cell: Any) -> Any:
    return f"{cell:.3g}" if isinstance(cell, float) else cell
