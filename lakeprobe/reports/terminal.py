"""Writes the texts for the terminal: the answer first, then the worst ops, then the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import TYPE_CHECKING

from lakeprobe import hints, output
from lakeprobe.analysis.summary import Leaf, OpFinding, Summary
from lakeprobe.analysis.verdict import Verdict
from lakeprobe.lake.comparison import StoredComparison
from lakeprobe.reports.first_difference_text import against, origins_text
from lakeprobe.reports.parameters_text import beginning_lines, parameter_lines
from lakeprobe.reports.verdict_text import NOT_COMPARED, nothing_stands_out, verdict_lines
from lakeprobe.resources import quote_text
from lakeprobe.shown import unbroken

if TYPE_CHECKING:
    from lakeprobe.analysis.beginnings import Beginning
    from lakeprobe.analysis.first_difference import FirstDifference
    from lakeprobe.ingest import IngestReport
    from lakeprobe.ingest.unit import UnitReport
    from lakeprobe.lake.shards import Pending

_MOST_UNITS = 8
"""The most (step, rank) after the first that a summary names."""

_FINDINGS = {
    "different": "differs",
    "noise": "differs by no more than float noise",
    "only in target": "is only in the target",
    "only in golden": "is only in golden",
}


_NO_PASS = {"unmatched": "without counterpart", "unreadable": "unreadable", "skipped": "not judged"}
"""Verdicts that are neither a finding about values nor a pass, in words."""


def ingest_lines(report: IngestReport) -> Iterator[str]:
    """Yield what an ingest did, line by line."""
    took = f" in {report.seconds:.1f} s"
    several = len(report.runs) + len(report.tables) > 1
    for run in report.runs:
        yield from _run_lines(run, [unit for unit in report.units if unit.key.run == run], "" if several else took)
    for table in report.tables:
        done = output.counted(table.rows, "row") if table.read else "nothing to do, the lake has it from the same files"
        yield f"table {table.name} ({table.kind}): {done}"
        yield from (f"  {note}" for note in table.notes)
    if several and (report.read or any(table.read for table in report.tables)):
        yield f"all read{took}"


def noise_line(comparison: StoredComparison, noise: str | None) -> str | None:
    """Return how to weigh all evidence with the `noise` that a question names, if the comparison did not."""
    if noise is None or noise == comparison.noise:
        return None
    sides = f"{quote(comparison.target)} {quote(comparison.golden)} --name {quote(comparison.name)}"
    return (
        f"{comparison.name} was compared without the noise {noise}; here it only removes ops that stood out; "
        f"to weigh all ops with it: {hints.command('compare', sides, '--noise', quote(noise))}"
    )


def shard_line(pending: Pending) -> str:
    """Return how far the shards of a run or comparison are."""
    if pending.is_whole:
        return f"all {pending.count} shards have finished: the {pending.kind} {pending.name} is in the lake"
    return str(pending)


def _run_lines(run: str, units: Sequence[UnitReport], took: str) -> Iterator[str]:
    read = [unit for unit in units if unit.read]
    unchanged = len(units) - len(read)
    if not read:
        yield f"run {run}: nothing to do, the lake has {output.counted(unchanged, 'unit')} from the same dump"
        return
    formats = " and ".join(dict.fromkeys(format for unit in read for format in unit.formats))
    line = (
        f"run {run} ({formats}): {output.counted(len(read), 'unit')}, "
        f"{output.counted(sum(unit.ops for unit in read), 'op')}, "
        f"{output.counted(sum(unit.tensor_rows for unit in read), 'tensor row')}, "
        f"{_bytes(sum(unit.dump_bytes for unit in read))} read"
    )
    contents = sum(unit.contents for unit in read)
    if contents:
        line += f", {output.counted(contents, 'distinct tensor')} of {_bytes(sum(unit.content_bytes for unit in read))}"
    yield line + took
    changed = sum(unit.has_changed for unit in read)
    if changed:
        yield f"  {output.counted(changed, 'unit')} replaced: the dump has changed since it was read"
    if unchanged:
        yield f"  {output.counted(unchanged, 'unit')} unchanged since the lake read the dump"
    for note, times in Counter(note for unit in read for note in unit.notes).items():
        yield f"  {note}" + (f" ({times} units)" if times > 1 else "")


def comparison_text(
    comparison: StoredComparison,
    summary: Summary,
    found: FirstDifference | None = None,
    before: Sequence[Beginning] = (),
) -> str:
    """Return the summary of a comparison. `found` is its first difference over all ranks, if there are several.

    `before` is what differed before the first op, if the lake has it.
    """
    lines = [f"{_sides(comparison)}, by the rule {comparison.rule}", "", *beginning_lines(before)]
    lines += _headline(comparison, summary, found)
    lines += [] if comparison.is_unordered else _worst(comparison, summary)
    lines += _counts(summary)
    lines += [f"  without counterpart: {unit}" for unit in comparison.unpaired]
    lines += [f"  incomplete: {unit}" for unit in comparison.incomplete]
    return output.folded("\n".join(lines)) + "\n\n" + "\n".join(_next(comparison, summary)) + "\n"


def unordered_text(comparison: StoredComparison, summary: Summary) -> str:
    """Return what differs in a comparison of parameters or settings, in place of its first difference or its cause."""
    lines = [f"{_sides(comparison)}, by the rule {comparison.rule}", "", *_headline(comparison, summary, None)]
    if summary.parameters:
        lines.append("None of these comes before another, so none is first, and none causes another.")
    return output.folded("\n".join(lines).rstrip())


def _sides(comparison: StoredComparison) -> str:
    """Return both runs; for a run compared with itself, which of its steps and ranks."""
    target = _units_text({unit.step for unit in comparison.units}, {unit.rank for unit in comparison.units})
    golden = _units_text(
        {unit.golden_step for unit in comparison.units}, {unit.golden_rank for unit in comparison.units}
    )
    if comparison.target != comparison.golden or target == golden:
        return f"{comparison.target} against {comparison.golden}"
    return f"{comparison.target} {target} against {golden}"


def _units_text(steps: set[int], ranks: set[int]) -> str:
    return f"step {output.ranges(steps)} rank {output.ranges(ranks)}"


def _headline(comparison: StoredComparison, summary: Summary, found: FirstDifference | None) -> list[str]:
    """Return the verdict, then the op at which the two sides begin to differ."""
    lines = [*verdict_lines(summary.coverage), ""]
    if comparison.is_unordered:
        return lines + parameter_lines(summary.parameters, comparison.name)
    if found is not None and found.differs:
        return [*lines, origins_text(found)]
    return lines + _first(comparison, summary)


def _first(comparison: StoredComparison, summary: Summary) -> list[str]:
    """Return the first op beyond rounding noise, and where the noise begins; later steps have a line each."""
    if not summary.first:
        return []
    several = len(comparison.units) > 1
    touched = {(op.step, op.rank): op for op in summary.first}
    if not summary.beyond_noise:
        noise = summary.first[0]
        return [
            *nothing_stands_out(summary.coverage),
            f"  the first op that differs at all{_where(noise, several)}: {unbroken(noise.op)}",
            "",
        ]
    first, *later = summary.beyond_noise
    lines = [
        f"The first op that differs{_where(first, several)}: {unbroken(first.op)}",
        *_op_lines(first, comparison.name),
    ]
    noise = touched[first.step, first.rank]
    if noise.finding == "noise":
        lines.append(f"  rounding noise begins before it, at {unbroken(noise.op)}")
    if later:
        lines.append("Other steps and ranks begin to differ here:")
        lines += [
            f"  step {op.step} rank {op.rank}: {unbroken(op.op)} {_FINDINGS[op.finding]}" for op in later[:_MOST_UNITS]
        ]
        if len(later) > _MOST_UNITS:
            asked = hints.command("first-diff", quote(comparison.name))
            lines.append(f"  … and in {len(later) - _MOST_UNITS} more: {asked}")
    return [*lines, ""]


def _where(op: OpFinding, several: bool) -> str:
    return f" in step {op.step} rank {op.rank}" if several else ""


def _next(comparison: StoredComparison, summary: Summary) -> list[str]:
    """Return what to ask next."""
    name = quote(comparison.name)
    lines = []
    if summary.coverage.different and not comparison.is_unordered:
        lines += [
            f"Where it begins, on every rank: {hints.command('first-diff', name)}",
            f"The cause and its path to the loss: {hints.command('blame', name)}",
        ]
    if summary.coverage.rows["unmatched"] and not comparison.is_unordered:
        lines.append(f"Ops without counterpart: {hints.command('unmatched', name)}")
    if summary.coverage.verdict is Verdict.STRUCTURE_ONLY:
        return [*lines, f"Ops that only one side names: {hints.command('unmatched', name)}"]
    rows = f'"from results where comparison = {quote_text(comparison.name)}"'
    return [*lines, f"The rows are in the lake: {hints.command('sql', rows)}"]


def _op_lines(op: OpFinding, comparison: str) -> list[str]:
    lines = [f"  it {_FINDINGS[op.finding]}"]
    if op.finding in ("different", "noise"):
        lines += [_leaf_line(leaf) for leaf in op.leaves]
        if op.more_leaves:
            asked = hints.command("show", quote(op.op), "--comparison", quote(comparison))
            lines.append(f"    … and {op.more_leaves} more: {asked}")
    if op.module:
        lines.append(f"  in {unbroken(op.module)}")
    if op.code:
        lines.append("  at " + " ".join(op.code.split()))
    return lines


def _leaf_line(leaf: Leaf) -> str:
    own = f"; {leaf.metrics}" if leaf.metrics else ""
    error = "" if leaf.error is None else f"error {leaf.error:.3g}, "
    sides = against(unbroken(leaf.target), unbroken(leaf.golden))
    return f"    {unbroken(leaf.slot) or 'value'}: {error}{sides}{own}"


def _worst(comparison: StoredComparison, summary: Summary) -> list[str]:
    """Return the table of the gravest findings. An argument has no norm; its reason says what it is."""
    findings = [op for op in summary.worst if op.errors or op.warnings]
    if not findings:
        return []
    several = len(comparison.units) > 1
    has_cosine = any(op.cosine is not None for op in findings)
    rows = [
        (
            *((op.step, op.rank) if several else ()),
            op.op,
            "error" if op.errors else "warning",
            *((op.cosine,) if has_cosine else ()),
            None if op.norm_relative is None else f"{op.norm_relative:.3g}",
            op.reason,
        )
        for op in findings
    ]
    where, cosine = ("step", "rank") if several else (), ("cosine",) if has_cosine else ()
    return [output.aligned((*where, "the worst ops", "verdict", *cosine, "norm error", "reason"), rows)]


def _counts(summary: Summary) -> list[str]:
    covered = summary.coverage
    kinds = ", ".join(f"{count} {NOT_COMPARED.get(kind, kind)}" for kind, count in covered.rows.items() if count)
    ended = f": {kinds}" if kinds else ""
    verdicts = [f"{summary.count(verdict)} {verdict}" for verdict in ("error", "warning", "pass")]
    verdicts += [f"{summary.count(verdict)} {name}" for verdict, name in _NO_PASS.items() if summary.count(verdict)]
    excused = sum(outcome.excused_rows for outcome in summary.outcomes)
    if excused:
        verdicts.append(f"{excused} of the findings {'is' if excused == 1 else 'are'} noise")
    return [
        f"Rows: {covered.target_rows} of the target and {covered.golden_rows} of golden{ended}",
        f"Differences: {covered.equal} equal, {covered.noise} noise, {covered.different} different",
        f"Verdicts: {', '.join(verdicts)}",
    ]


def _bytes(number: int) -> str:
    size = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
