"""What a person reads in the terminal: the answer first, then the worst, then the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lakeprobe import output, resources
from lakeprobe.analysis.summary import OpFinding, Summary
from lakeprobe.lake.comparison import StoredComparison

if TYPE_CHECKING:
    import duckdb

    from lakeprobe.ingest import IngestReport
    from lakeprobe.ingest.unit import UnitReport

Query = Callable[[str, dict[str, Any]], "duckdb.DuckDBPyRelation"]
"""Runs a query with named parameters on a lake."""

_MOST_UNITS = 8
"""How many (step, rank) a summary shows one by one."""

_FINDINGS = {
    "different": "differs",
    "noise": "differs by no more than float noise",
    "only in target": "is only in the target",
    "only in golden": "is only in golden",
}


def ingest_lines(report: IngestReport) -> Iterator[str]:
    """What an ingest did, line by line."""
    took = f" in {report.seconds:.1f} s"
    several = len(report.runs) + len(report.tables) > 1
    for run in report.runs:
        yield from _run_lines(run, [unit for unit in report.units if unit.key.run == run], "" if several else took)
    for table in report.tables:
        done = _many(table.rows, "row") if table.read else "nothing to do, in the lake already from the same files"
        yield f"table {table.name} ({table.kind}): {done}"
        yield from (f"  {note}" for note in table.notes)
    if several and (report.read or any(table.read for table in report.tables)):
        yield f"all read{took}"


def _run_lines(run: str, units: Sequence[UnitReport], took: str) -> Iterator[str]:
    read = [unit for unit in units if unit.read]
    unchanged = len(units) - len(read)
    if not read:
        yield f"run {run}: nothing to do, {_many(unchanged, 'unit')} in the lake already from the same dump"
        return
    formats = " and ".join(dict.fromkeys(format for unit in read for format in unit.formats))
    line = (
        f"run {run} ({formats}): {_many(len(read), 'unit')}, {_many(sum(unit.ops for unit in read), 'op')}, "
        f"{_many(sum(unit.tensor_rows for unit in read), 'tensor row')}, "
        f"{_bytes(sum(unit.dump_bytes for unit in read))} read"
    )
    contents = sum(unit.contents for unit in read)
    if contents:
        line += f", {_many(contents, 'distinct tensor')} of {_bytes(sum(unit.content_bytes for unit in read))}"
    yield line + took
    if unchanged:
        yield f"  {_many(unchanged, 'unit')} in the lake already from the same dump"
    for note, times in Counter(note for unit in read for note in unit.notes).items():
        yield f"  {note}" + (f" ({times} units)" if times > 1 else "")


def comparison_text(comparison: StoredComparison, summary: Summary) -> str:
    """The summary of a comparison."""
    lines = [f"{comparison.target} against {comparison.golden}, by the rule {comparison.rule}", ""]
    lines += _first(comparison, summary)
    lines += _worst(comparison, summary)
    lines += _counts(summary)
    for unit in comparison.unpaired:
        lines.append(f"  without counterpart: {unit}")
    lines += ["", f"The rows are in the lake: lakeprobe sql \"from results where comparison = '{comparison.name}'\""]
    return "\n".join(lines) + "\n"


def _first(comparison: StoredComparison, summary: Summary) -> list[str]:
    if not summary.first:
        return ["No op differs: all that was dumped is equal.", ""]
    lines = []
    several = len(comparison.units) > 1
    for first in summary.first[:_MOST_UNITS]:
        where = f" in step {first.step} rank {first.rank}" if several else ""
        lines.append(f"The first op that differs{where}: {first.op}")
        lines += _op_lines(first)
        beyond = next((op for op in summary.beyond_noise if (op.step, op.rank) == (first.step, first.rank)), None)
        if first.finding == "noise":
            lines.append(
                f"  beyond float noise, the first is {beyond.op}"
                if beyond
                else "  no op differs by more than float noise"
            )
            if beyond:
                lines += _op_lines(beyond)
        lines.append("")
    if len(summary.first) > _MOST_UNITS:
        lines += [f"… and {len(summary.first) - _MOST_UNITS} more (step, rank) that differ: see the table results", ""]
    return lines


def _op_lines(op: OpFinding) -> list[str]:
    lines = [f"  it {_FINDINGS[op.finding]}"]
    if op.finding in ("different", "noise"):
        lines += [f"    {leaf.slot or 'value'}: {leaf.target}  against  {leaf.golden}" for leaf in op.leaves]
        if op.more_leaves:
            lines.append(f"    … and {op.more_leaves} more: lakeprobe show {op.op}")
    if op.module:
        lines.append(f"  in {op.module}")
    if op.code:
        lines.append("  at " + " ".join(op.code.split()))
    return lines


def _worst(comparison: StoredComparison, summary: Summary) -> list[str]:
    if not summary.worst:
        return []
    several = len(comparison.units) > 1
    rows = [
        (
            *((op.step, op.rank) if several else ()),
            op.op,
            "error" if op.errors else "warning" if op.warnings else "pass",
            "" if op.cosine is None else f"{op.cosine:.6f}",
            "" if op.norm_relative is None else f"{op.norm_relative:.2%}",
        )
        for op in summary.worst
    ]
    columns = [*(("step", "rank") if several else ()), "the worst ops", "verdict", "cosine", "norm error"]
    return [output.aligned(columns, rows)]


def _counts(summary: Summary) -> list[str]:
    def total(field: str) -> int:
        return sum(getattr(outcome, field) for outcome in summary.outcomes)

    outcomes = Counter[str]()
    for outcome in summary.outcomes:
        outcomes[outcome.outcome] += outcome.rows
    names = {
        "compared": "compared",
        "equal": "equal by hash",
        "skipped": "skipped by rule",
        "unmatched": "without counterpart",
        "unreadable": "unreadable",
    }
    return [
        f"Rows: {total('target_rows')} of the target and {total('golden_rows')} of golden: "
        + ", ".join(f"{outcomes[key]} {name}" for key, name in names.items() if outcomes[key]),
        f"Differences: {total('equal_rows')} equal, {total('noise_rows')} noise, {total('different_rows')} different",
        f"Verdicts: {summary.count('error')} error, {summary.count('warning')} warning, {summary.count('pass')} pass",
    ]


def op_text(sql: Query, op: str, run: str | None, step: int | None, rank: int | None) -> str:
    """Every op that is named `op` or begins with it: leaves, module and stack. Empty if there is none."""
    wanted = {"op": op, "run": run, "step": step, "rank": rank}
    parts = []
    for head in sql(resources.sql("reports/op_heads"), wanted).fetchall():
        its_run, its_step, its_rank, seq, name, parent, frames = head
        key = {"run": its_run, "step": its_step, "rank": its_rank, "seq": seq}
        leaves = sql(resources.sql("reports/op_leaves"), key)
        lines = [f"{name}  (run {its_run}, step {its_step}, rank {its_rank}, op {seq})"]
        if parent:
            lines.append(f"in {parent}")
        lines.append(output.aligned(leaves.columns, leaves.fetchall()))
        lines += ["  " + " ".join(frame.split()) for frame in frames]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _bytes(number: int) -> str:
    size = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
