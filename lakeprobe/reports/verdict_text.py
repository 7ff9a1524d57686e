"""Writes the verdict on a comparison in words, the same in the terminal, in result files and in notebooks."""

from __future__ import annotations

from lakeprobe.analysis.verdict import Coverage, Verdict

NOT_COMPARED = {
    "unmatched": "without counterpart",
    "unrecorded": "without values on both sides",
    "inside": "that only one side computes on its way",
    "structure": "views and shapes",
    "recomputed": "recomputed on one side only",
    "set_aside": "not judged",
}
"""What became of rows that were not compared, in words."""

_REASONS = {"set_aside": ": recorded too early or too late, or by only one tool"}


def verdict_lines(coverage: Coverage) -> list[str]:
    """Return the verdict, how much of both sides it covers, and what became of the rest."""
    lines = [f"Verdict: {coverage.verdict}"]
    if coverage.verdict is Verdict.STRUCTURE_ONLY:
        return [*lines, "  both dumps name their ops and record no values, so nothing was compared"]
    if coverage.rows["unreadable"]:
        lines.append(f"  {_rows(coverage.rows['unreadable'])} cannot be read")
    lines.append(f"  {_compared(coverage)}{_judged(coverage)}")
    lines += [
        f"  {_rows(coverage.rows[kind])} {words}{_REASONS.get(kind, '')}"
        for kind, words in NOT_COMPARED.items()
        if coverage.rows[kind]
    ]
    if coverage.unpaired:
        lines.append(f"  steps and ranks without counterpart: {coverage.unpaired}")
    if coverage.incomplete:
        lines.append(f"  steps and ranks whose collecting ended too early: {coverage.incomplete}")
    return lines


def nothing_stands_out(coverage: Coverage, where: str = "") -> list[str]:
    """Return the sentence for values that differ without an op that stands out of rounding noise."""
    if coverage.by_digests and coverage.different:
        return [
            "No op stands out: digests differ wherever ops compute, as between two chips.",
            "  digests cannot distinguish rounding from a defect; dump statistics instead",
        ]
    if coverage.is_inherited:
        return [f"No op stands out here: the difference comes of step {coverage.differs_since}, where it begins."]
    return [f"No op stands out of rounding noise{where}."]


def _compared(coverage: Coverage) -> str:
    target, golden = coverage.target_rows, coverage.golden_rows
    if not target and not golden:
        return "neither side has a row to compare"
    if (coverage.target_compared, coverage.golden_compared) == (target, golden):
        sides = (
            f"{target} rows of both sides" if target == golden else f"{target} rows of the target, {golden} of golden"
        )
        return f"compared: all {sides}"
    ours, theirs = coverage.target_compared, coverage.golden_compared
    return f"compared: {ours} of {target} rows of the target, {theirs} of {golden} of golden"


def _judged(coverage: Coverage) -> str:
    if coverage.different:
        noise = f", within it: {coverage.noise}" if coverage.noise else ""
        return f"; beyond float noise: {coverage.different}{noise}"
    if coverage.is_inherited:
        return f"; off since step {coverage.differs_since}: {coverage.noise}"
    if coverage.noise:
        return f"; within float noise: {coverage.noise}, beyond it: none"
    return "; none differs" if coverage.rows["compared"] else ""


def _rows(number: int) -> str:
    return f"{number} row" if number == 1 else f"{number} rows"
