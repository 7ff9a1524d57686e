"""Writes the communication of a run as text: broken laws, meetings that carried a difference, and counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lakeprobe import output

if TYPE_CHECKING:
    import duckdb

    from lakeprobe.analysis.communication import Communication

MOST = 20
"""The most rows of a table that the text shows."""


def communication_text(found: Communication, most: int = MOST) -> str:
    """Return `found` as text, with at most `most` rows of each table."""
    return "\n".join([*_answer(found, most), *_tables(found, most)])


def _answer(found: Communication, most: int) -> Iterator[str]:
    broken = len(found.broken)
    if not len(found.summary):
        return
    if not broken:
        yield "No law of communication is broken, as far as the dump shows.\n"
        return
    yield f"{broken} result{'s break' if broken > 1 else ' breaks'} a law of communication:\n"
    yield _table(found.broken, most)


def _tables(found: Communication, most: int) -> Iterator[str]:
    if found.changed is not None and len(found.changed):
        yield "Meetings that carry a difference from golden, in order:\n"
        yield _table(found.changed, most)
    if len(found.verdicts):
        yield "Results by law:\n"
        yield _table(found.verdicts, most)
    yield (
        "Collectives, sends and receives:\n"
        if len(found.summary)
        else "No rank recorded a collective, send or receive.\n"
    )
    if len(found.summary):
        yield _table(found.summary, most)


def _table(relation: duckdb.DuckDBPyRelation, most: int) -> str:
    """Return the first `most` rows, without counts that are 0 in all of them."""
    columns = relation.columns
    rows = [[_short(cell) for cell in row] for row in relation.limit(most).fetchall()]
    empty = {name for place, name in enumerate(columns) if name in _RARE and not any(row[place] for row in rows)}
    redundant = {"kind"} if "meeting" in columns else set()  # a meeting's name begins with its kind
    if "complete" in columns and not relation.filter("complete <> meetings"):
        redundant.add("complete")
    used = [place for place, name in enumerate(columns) if name not in empty | redundant]
    shown = output.aligned_below(
        [columns[place] for place in used], [[row[place] for place in used] for row in rows], {"step"}
    )
    more = len(relation) - most
    return shown + (f"… and {more} more (--most)\n" if more > 0 else "")


_RARE = frozenset(("overwritten", "broken", "undecided", "broken_laws"))
"""Counts that are mostly 0."""


def _short(cell: Any) -> Any:
    return float(f"{cell:.3g}") if isinstance(cell, float) else cell
