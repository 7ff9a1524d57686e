"""Gathers what the page says first: the cause, the path to the loss, the coverage; and what travels between ranks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lakeprobe.analysis import blame as blaming
from lakeprobe.analysis import communication as communicating
from lakeprobe.analysis import drift as drifting
from lakeprobe.analysis import first_difference as differing
from lakeprobe.analysis import overflow as overflowing
from lakeprobe.analysis.summary import summarise
from lakeprobe.errors import UsageError
from lakeprobe.lake.connection import records
from lakeprobe.reports.first_difference_text import source_text
from lakeprobe.reports.parameters_text import parameter_lines
from lakeprobe.reports.verdict_text import nothing_stands_out, verdict_lines
from lakeprobe.resources import quote_text
from lakeprobe.shown import shown
from lakeprobe.view.levels import Record, Subject

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

    from lakeprobe.lake.comparison import StoredComparison

MOST_SUSPECTS = 5
MOST_MEETINGS = 200
MOST_OVERFLOWS = 50
MOST_DRIFTS = 12
MOST_POINTS = 300
_NOTHING: Record = {
    "coverage": [], "cause": None, "suspects": [], "path": [], "spread": [], "first": [], "meetings": [],
    "overflow": {"counts": [], "births": []}, "drift": None, "series": None,
}  # fmt: skip
"""The answer on what has neither."""


def answer(connection: duckdb.DuckDBPyConnection, lake: Path, subject: Subject) -> Record:
    """Return the answer on `subject` as plain values for JSON. `connection` has the views of `lake`."""
    found = _of_comparison(connection, lake, subject) if subject.comparison else _of_run(connection, subject)
    return dict(plain(found))


def plain(value: Any) -> Any:
    """Return `value` with texts as they are shown, and texts for the numbers that JSON lacks."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return shown(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _of_comparison(connection: duckdb.DuckDBPyConnection, lake: Path, subject: Subject) -> Record:
    assert subject.comparison is not None
    if subject.comparison.is_unordered:
        return _of_parameters(subject.comparison)
    blame = blaming.blame(connection, lake, subject.name, most=MOST_SUSPECTS)
    first = differing.first_difference(connection, subject.comparison)
    ranks = [row | {"source": row["source"] and source_text(row)} for row in records(first.ranks)]
    suspects = records(blame.suspects)
    cause = suspects[0] if suspects and suspects[0]["grade"] == "suspect" else None
    is_only_noise = cause is None and not first.differs and any(row["noise_op"] for row in ranks)
    return {
        "step": blame.step,
        "verdict": str(first.coverage.verdict),
        "coverage": verdict_lines(first.coverage)[1:] + (nothing_stands_out(first.coverage) if is_only_noise else []),
        "cause": cause,
        "suspects": suspects,
        "path": records(blame.path),
        "spread": records(blame.spread),
        "first": [row for row in ranks if row["finding"] is not None],
        "meetings": _meetings(connection, subject.comparison),
        "overflow": _overflow(connection, subject),
        "drift": _drift(connection, subject),
        "series": _series(connection, subject),
    }


def _of_parameters(comparison: StoredComparison) -> Record:
    """Return the answer on parameters or settings: none comes before another, so none causes another's difference."""
    summary = summarise(comparison)
    lines = [*verdict_lines(summary.coverage)[1:], *parameter_lines(summary.parameters, comparison.name)]
    return _NOTHING | {
        "step": comparison.units[0].step,
        "verdict": str(summary.coverage.verdict),
        "coverage": [line for line in lines if line],
    }


def _of_run(connection: duckdb.DuckDBPyConnection, subject: Subject) -> Record:
    overflow = _overflow(connection, subject)
    births = overflow["births"]
    return _NOTHING | {
        "step": births[0]["step"] if births else subject.units[0][0],
        "verdict": "NaN or inf" if births else "finite",
        "cause": _birth(births[0]) if births else None,
        "suspects": [_birth(birth) for birth in births[:MOST_SUSPECTS]],
        "overflow": overflow,
    }


def _birth(birth: Record) -> Record:
    """Return the op where NaN or inf arises, with the fields of a suspect."""
    why = f"in: {_words(birth['came_in'])}; out: {_words(birth['came_out'])}"
    advice = f"; {birth['advice']}" if birth.get("advice") else ""
    own = {name: birth.get(name) for name in ("step", "rank", "op", "module", "code")}
    return own | {"ranks": [birth["rank"]], "why": why + advice, "grade": birth["level"], "target_seq": birth["seq"]}


def _words(leaves: Any) -> str:
    """Return what came in or out as one text."""
    return ", ".join(map(str, leaves)) if isinstance(leaves, list) else str(leaves or "nothing recorded")


def _meetings(connection: duckdb.DuckDBPyConnection, comparison: StoredComparison) -> list[Record]:
    """Return the meetings of ranks that carry a difference; none in a run of one rank."""
    if len({unit.rank for unit in comparison.units}) < 2:
        return []
    found = communicating.changed_meetings(connection, comparison)
    return records(found.limit(MOST_MEETINGS))


def _overflow(connection: duckdb.DuckDBPyConnection, subject: Subject) -> Record:
    comparison = subject.comparison
    found = overflowing.overflow(
        connection,
        subject.target,
        comparison=comparison.name if comparison else None,
        thresholds=comparison.thresholds if comparison else None,
        most=MOST_OVERFLOWS,
    )
    return {"counts": records(found.counts), "births": records(found.births)}


def _drift(connection: duckdb.DuckDBPyConnection, subject: Subject) -> Record | None:
    """Return the rows that leave golden first, with their values over the steps; None for a single step."""
    golden = subject.golden
    if len({step for step, *_ in subject.units}) < 2 or golden is None or golden == subject.target:
        return None
    try:
        found = drifting.drift(connection, golden, [subject.target])
    except UsageError:  # the dump has neither gradients of parameters nor a loss
        return None
    return _followed(found, found.rows)


def _series(connection: duckdb.DuckDBPyConnection, subject: Subject) -> Record | None:
    """Return the series that leave golden's, what the training logged first; None unless both were monitored."""
    golden = subject.golden
    if golden is None or golden == subject.target:
        return None
    try:
        found = drifting.followed_series(connection, golden, subject.target, points=MOST_POINTS)
    except UsageError:  # not monitored, or in other steps
        return None
    return _followed(found, found.rows.order("role <> 'logged', leaves_at, name, rank"))


def _followed(found: drifting.Followed, first: duckdb.DuckDBPyRelation) -> Record:
    """Return the `first` rows of what was followed, and their values over the steps."""
    rows = records(first.limit(MOST_DRIFTS))
    wanted = {(row["name"], row["rank"]) for row in rows}
    names = ", ".join(quote_text(name) for name, _ in wanted)
    steps = records(found.steps.filter(f"name IN ({names})")) if wanted else []
    series = [
        {name: step[name] for name in ("name", "rank", "step", "golden_step", "value", "golden", "distance", "state")}
        for step in steps
        if (step["name"], step["golden_rank"] if step["golden_rank"] is not None else step["rank"]) in wanted
    ]
    return {"metric": found.metric, "threshold": found.threshold, "rows": rows, "series": series}
