"""Writes what a lake holds: its runs, comparisons and result tables, and what to do next."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from lakeprobe import hints, output
from lakeprobe.analysis.verdict import Coverage
from lakeprobe.lake import layout, tables, upkeep
from lakeprobe.lake.comparison import latest
from lakeprobe.lake.connection import records

if TYPE_CHECKING:
    import duckdb

Record = dict[str, Any]

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_RARE = frozenset(("incomplete", "perturbed", "contents", "content_size", "unmatched", "unreadable"))
"""Columns that are shown only if they have something in them."""


def lake_text(
    lake: Path,
    runs: duckdb.DuckDBPyRelation,
    comparisons: Sequence[tuple[str, Coverage | None]],
    monitored: duckdb.DuckDBPyRelation,
) -> str:
    """Return what `lake` holds. A comparison without coverage is damaged.

    `runs` is the query reports/runs, and `monitored` reports/monitored.
    """
    parts = [
        _table(lake, _runs(runs)),
        _table(lake, [_comparison(name, covered) for name, covered in comparisons]),
        _table(lake, records(monitored)),
        _tables(lake),
        _checks(lake),
        _quoting(name for name, _ in comparisons),
        _next([row[0] for row in runs.fetchall()], latest(lake)),
    ]
    return "\n".join(part for part in parts if part)


def _runs(relation: duckdb.DuckDBPyRelation) -> list[Record]:
    return [_run(row) for row in records(relation)]


def _run(row: Record) -> Record:
    dump = " ".join(filter(None, (row["format"].removesuffix(" dump"), row["framework"], row["task"], row["level"])))
    shown = {name: row[name] for name in ("steps", "ranks", "incomplete", "perturbed", "ops")}
    contents = {"contents": row["contents"], "content_size": row["content_size"] if row["contents"] else None}
    source = _nearer(os.path.commonpath(row["sources"])) if row["sources"] else ""
    return {"run": row["run"], "dump": dump, **shown, "rows": row["tensor_rows"], **contents, "source": source}


def _nearer(source: str) -> str:
    """Return a path as seen from here, if that is shorter."""
    try:
        return min(os.path.relpath(source), source, key=len) if os.path.isabs(source) else source
    except (ValueError, FileNotFoundError):  # on another drive; in a folder that was removed
        return source


def _comparison(name: str, covered: Coverage | None) -> Record:
    if covered is None:
        return {"comparison": name, "verdict": "damaged"}
    rows, findings = covered.rows, covered.findings
    return {
        "comparison": name, "verdict": covered.verdict.value, "compared": rows["compared"],
        "different": covered.different, "errors": findings["error"], "warnings": findings["warning"],
        "unmatched": rows["unmatched"], "unreadable": rows["unreadable"],
    }  # fmt: skip


def _table(lake: Path, records: Sequence[Record]) -> str:
    """Return a table of runs or comparisons, each with its note if there are any."""
    noted = [record | {"note": upkeep.note(lake, next(iter(record.values())))} for record in records]
    columns = list(dict.fromkeys(name for record in noted for name in record))
    rare = _RARE | {"note"}
    columns = [name for name in columns if name not in rare or any(record.get(name) for record in noted)]
    return output.aligned(columns, [[record.get(name) for name in columns] for record in noted]) if noted else ""


def _tables(lake: Path) -> str:
    stored = tables.stored(lake)
    rows = [(table.name, table.origin.kind, table.rows, _nearer(table.origin.sources[0])) for table in stored]
    return output.aligned(("table", "kind", "rows", "source"), rows) if rows else ""


def _checks(lake: Path) -> str:
    kinds = {
        "noise": layout.noises(lake),
        "verification": layout.verifications(lake),
        "perturbation": layout.perturbations(lake),
    }
    rows = [(kind, name) for kind, names in kinds.items() for name in names]
    return output.aligned(("kind", "name"), rows) if rows else ""


def _quoting(names: Iterable[str]) -> str:
    odd = next((name for name in names if not _IDENTIFIER.fullmatch(name)), None)
    if odd is None:
        return ""
    query = quote(f'from "{odd}"')
    return f"In SQL, put such names in double quotes: {hints.command('sql', query)}\n"


def _next(runs: Sequence[str], comparison: str | None) -> str:
    if comparison is not None:
        return f"Where the first difference is: {hints.command('first-diff', quote(comparison))}\n"
    if len(runs) > 1:
        return f"Compare two of them: {hints.command('compare', quote(runs[1]), quote(runs[0]))}\n"
    return f"Read a second run to compare it with: {hints.command('ingest', 'PATH')}\n" if runs else ""
