"""lakeprobe ls: what is in the lake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe.commands.options import LakeOption

if TYPE_CHECKING:
    from lakeprobe.session import Lake


def ls(lake: LakeOption = None) -> None:
    """List the runs, comparisons and result tables of the lake.

    Example: lakeprobe ls --lake ./lake
    """
    from lakeprobe import output, resources
    from lakeprobe.journals.settle import tell_set_aside
    from lakeprobe.lake import store, tables
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.session import Lake

    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        runs = opened.sql(resources.sql("reports/runs"))
        _show(opened.path, runs.columns, runs.fetchall())
        _show(opened.path, _COLUMNS, [_comparison(opened, name) for name in opened.comparisons])
        monitored = opened.sql(resources.sql("reports/monitored"))
        _show(opened.path, monitored.columns, monitored.fetchall())
        stored = tables.stored(opened.path)
        if stored:
            columns = ("table", "kind", "rows", "source")
            rows = [(table.name, table.origin.kind, table.rows, table.origin.sources[0]) for table in stored]
            output.text(output.aligned(columns, rows))
        tell_set_aside(opened.path)


_COLUMNS = ["comparison", "verdict", "compared", "different", "errors", "warnings", "unmatched", "unreadable"]


def _comparison(lake: Lake, name: str) -> tuple[Any, ...]:
    from lakeprobe.errors import LakeError

    try:
        covered = lake.covered(name)
    except LakeError:
        return (name, "damaged", *("" for _ in _COLUMNS[2:]))
    rows, findings = covered.rows, covered.findings
    judged = (rows["compared"], covered.different, findings["error"], findings["warning"])
    return (name, covered.verdict.value, *judged, rows["unmatched"], rows["unreadable"])


def _show(lake: Path, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    """Show rows that begin with a name, each with its note if there are any."""
    from lakeprobe import output
    from lakeprobe.lake import upkeep

    notes = [upkeep.note(lake, row[0]) for row in rows]
    if any(notes):
        columns, rows = [*columns, "note"], [(*row, note) for row, note in zip(rows, notes, strict=True)]
    if rows:
        output.text(output.aligned(columns, rows))
