"""Writes a pair of units as Markdown: the summary for a pull request."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe import resources
from lakeprobe.lake.comparison import ComparedUnit
from lakeprobe.shown import shown

if TYPE_CHECKING:
    import duckdb

MOST_OPS = 20
_LONGEST = 120
_VERDICTS = ("error", "unreadable", "warning", "unmatched", "pass", "skipped")


def write(connection: duckdb.DuckDBPyConnection, unit: ComparedUnit, path: Path) -> None:
    """Write one pair of units to `path`: how many ops ended how, and the first ops with a finding."""
    ops = connection.execute(resources.sql("reports/op_verdicts")).fetchall()
    counts = Counter(op[2] for op in ops)
    different = sum(op[4] > 0 for op in ops)
    found = [op for op in ops if op[2] in _VERDICTS[:4]]
    present = [verdict for verdict in _VERDICTS if counts[verdict]]
    lines = [
        f"### lakeprobe: step {unit.step}, rank {unit.rank}",
        "",
        f"{len(ops)} ops, {different} of them with a difference beyond float noise.",
        "",
    ]
    if ops:
        lines += [
            f"| {' | '.join(present)} |",
            f"|{'---:|' * len(present)}",
            f"| {' | '.join(str(counts[verdict]) for verdict in present)} |",
            "",
        ]
    if found:
        lines += ["| op | verdict | error | why |", "|---|---|---:|---|"]
        for op, _, verdict, _, _, error, findings in found[:MOST_OPS]:
            shown = f"{error:.2g}" if error is not None else ""
            lines.append(f"| {_code(op)} | {verdict} | {shown} | {_code((findings or [''])[0])} |")
        if len(found) > MOST_OPS:
            lines += ["", f"… and {len(found) - MOST_OPS} more"]
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _code(text: str) -> str:
    """Return `text` as a span of code in a cell of a table, in which nothing is markup or turns text around."""
    plain = shown(re.sub(r"\s+", " ", text)).replace("`", "'").replace("|", "¦")
    if len(plain) > _LONGEST:
        plain = f"{plain[: _LONGEST - 1]}…"
    return f"`{plain}`" if plain.strip() else ""
