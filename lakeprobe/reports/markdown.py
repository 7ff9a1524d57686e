"""Writes a pair of units as Markdown: the summary for a pull request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe import output, resources
from lakeprobe.lake.comparison import ComparedUnit, StoredComparison
from lakeprobe.reports.op_verdicts import OpVerdict, op_verdicts, pair_coverage, unpaired_of
from lakeprobe.reports.verdict_text import verdict_lines
from lakeprobe.shown import shown

if TYPE_CHECKING:
    import duckdb

MOST_OPS = 20
_LONGEST = 120
_FOUND = ("error", "unreadable", "warning", "unmatched")
_NOT_COMPARED = "not compared"
_ENDS = (*_FOUND, "pass", _NOT_COMPARED)
"""How an op may have ended, from the worst."""


def write(connection: duckdb.DuckDBPyConnection, comparison: StoredComparison, unit: ComparedUnit, path: Path) -> None:
    """Write one pair of units to `path`: the verdict, how many ops ended how, and the first ops with a finding."""
    ops = op_verdicts(connection)
    verdict, *covered = verdict_lines(pair_coverage(connection, comparison, unit))
    lines = [
        f"### lakeprobe: {_code(comparison.target)} against {_code(comparison.golden)}, {_place(unit)}",
        "",
        f"**{verdict}**",
        "",
        *(f"- {line.strip()}" for line in covered),
        *(f"- without counterpart: {_code(str(key))}" for key in unpaired_of(comparison, unit)),
        "",
        *_counts(ops),
        *_found([op for op in ops if op.verdict in _FOUND], _of_the_summary(connection)),
    ]
    path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _place(unit: ComparedUnit) -> str:
    place = f"step {unit.step}, rank {unit.rank}"
    if (unit.golden_step, unit.golden_rank) == (unit.step, unit.rank):
        return place
    return f"{place} against step {unit.golden_step}, rank {unit.golden_rank}"


def _counts(ops: list[OpVerdict]) -> list[str]:
    """Return how many ops ended how. One without a row that was compared has not passed."""
    different = sum(op.different > 0 for op in ops)
    lines = [f"{output.counted(len(ops), 'op')}, {different} of them with a difference beyond float noise.", ""]
    counts = Counter(op.verdict if op.is_compared or op.verdict in _FOUND else _NOT_COMPARED for op in ops)
    present = [end for end in _ENDS if counts[end]]
    if present:
        lines += [
            f"| {' | '.join(present)} |",
            f"|{'---:|' * len(present)}",
            f"| {' | '.join(str(counts[end]) for end in present)} |",
            "",
        ]
    return lines


_Op = tuple[int | None, int | None]


def _of_the_summary(connection: duckdb.DuckDBPyConnection) -> dict[_Op, tuple[float | None, str | None]]:
    """Return the norm error of each op that differs, and the reason for its verdict, as the summary has them."""
    columns = "target_seq, only_golden_seq, norm_relative, reason"
    found = connection.execute(f"SELECT {columns} FROM ({resources.sql('analysis/findings_by_op')})").fetchall()
    return {(target, only_golden): (norm, reason) for target, only_golden, norm, reason in found}


def _found(ops: list[OpVerdict], told: Mapping[_Op, tuple[float | None, str | None]]) -> list[str]:
    """Return the table of the first ops with a finding, with the columns of the terminal's."""
    if not ops:
        return []
    lines = ["| op | verdict | norm error | reason |", "|---|---|---:|---|"]
    for op in ops[:MOST_OPS]:
        norm, reason = told.get((op.target_seq, op.only_golden_seq), (None, None))
        error = "" if norm is None else f"{norm:.3g}"
        lines.append(f"| {_code(op.op)} | {op.verdict} | {error} | {_code(reason or op.left_out)} |")
    return lines if len(ops) <= MOST_OPS else [*lines, "", f"… and {len(ops) - MOST_OPS} more"]


def _code(text: str) -> str:
    """Return `text` as a span of code in a cell of a table, in which nothing is markup or turns text around."""
    plain = shown(re.sub(r"\s+", " ", text)).replace("`", "'").replace("|", "¦")
    if len(plain) > _LONGEST:
        plain = f"{plain[: _LONGEST - 1]}…"
    return f"`{plain}`" if plain.strip() else ""
