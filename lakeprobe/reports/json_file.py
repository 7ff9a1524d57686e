"""Writes a pair of units as JSON for programs, by the schema in docs/results.schema.json (made from schemas/)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe.lake.comparison import ComparedUnit, StoredComparison
from lakeprobe.lake.connection import columns_of
from lakeprobe.output import in_json
from lakeprobe.reports.op_verdicts import op_verdicts
from lakeprobe.resources import quote_identifier
from lakeprobe.version import __version__

if TYPE_CHECKING:
    import duckdb

VERSION = 1
"""The version of the schema. A new field does not change it; a field that goes or means something else does."""
NOT_FINITE = ("Infinity", "-Infinity", "NaN")
"""The texts for the numbers that JSON lacks."""
OP_FIELDS = {
    "op": "the target op's name, or golden's if only golden has it",
    "module": "the op of the enclosing module",
    "verdict": "the worst of its rows: error, unreadable, warning, unmatched, pass, skipped",
    "rows": "how many rows it has",
    "different": "how many of them differ beyond rounding",
    "error": "the largest relative error of its rows",
    "findings": "what was found, by row",
}
"""The fields of an op, and what they mean (sql/reports/op_verdicts.sql)."""
_BATCH = 10_000


def write(connection: duckdb.DuckDBPyConnection, comparison: StoredComparison, unit: ComparedUnit, path: Path) -> None:
    """Write one pair of units to `path`: a head, how each op ended, and the typed rows, a line each."""
    ops = [{name: getattr(op, name) for name in OP_FIELDS} for op in op_verdicts(connection)]
    head = {
        "version": VERSION,
        "lakeprobe": __version__,
        "step": unit.step,
        "rank": unit.rank,
        "golden_step": unit.golden_step,
        "golden_rank": unit.golden_rank,
        "compared": unit.dumped,
        "verdicts": dict(Counter(op["verdict"] for op in ops)),
        "ops": in_json(ops),
    }
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(head, ensure_ascii=False, allow_nan=False)[:-1] + ', "rows": [')
        rows = connection.execute(
            f"SELECT to_json(line)::VARCHAR FROM ({_lines(connection)}) AS line ORDER BY line.row"
        )
        before = "\n"
        while batch := rows.fetchmany(_BATCH):
            file.write(before + ",\n".join(row for (row,) in batch))
            before = ",\n"
        file.write("\n]}\n")


def _lines(connection: duckdb.DuckDBPyConnection) -> str:
    """Return the query of the rows, with texts for the numbers that JSON lacks."""
    columns = []
    for name, kind in columns_of(connection, "results").items():
        quoted = quote_identifier(name)
        columns.append(f"json_number({quoted}) AS {quoted}" if kind == "DOUBLE" else quoted)
    return f"SELECT {', '.join(columns)} FROM results"
