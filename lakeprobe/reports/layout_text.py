"""Writes what was merged, and which rank's shard carries a difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakeprobe import output

if TYPE_CHECKING:
    from lakeprobe.layouts.merge import MergeReport
    from lakeprobe.layouts.shards import Carried

_MOST_PROBLEMS = 5


def merged_lines(report: MergeReport) -> Iterator[str]:
    """What was merged, a line each: the mesh, what was left out and why, and contradictions."""
    for step in report.steps:
        source = f"{step.ranks} ranks of {report.source} ({step.mesh})"
        yield f"{report.run} step {step.step}: {step.rows} rows from {source}"
        for reason, count in step.left_out.items():
            yield f"  {count} left out: {reason}"
        for name, problem in step.problems[:_MOST_PROBLEMS]:
            yield f"  {output.shown(name)}: {problem}"
        if len(step.problems) > _MOST_PROBLEMS:
            yield f"  … and {len(step.problems) - _MOST_PROBLEMS} more, in the column problem of the table layouts"


def carried_lines(found: Carried | None) -> Iterator[str]:
    """Which rank's shard carries the difference of the cause."""
    if found is None:
        return
    yield f"{output.shown(found.slot)} of it was merged from the ranks ({found.layout or 'copies'})."
    if found.problem:
        yield f"  {found.problem}."
    for shard in found.shards:
        error = "" if shard.error is None else f", differs by {shard.error:.2g}"
        mark = "  <- this shard" if shard.is_carrier else ""
        part = f" {shard.part}" if shard.part else ""
        yield f"  rank {shard.rank}{part}{error}{mark}"
    yield ""
