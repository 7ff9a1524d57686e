"""Writes which parameters of two checkpoints differ, and how, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from lakeprobe import hints
from lakeprobe.analysis.beginnings import Beginning
from lakeprobe.analysis.summary import ParameterFinding
from lakeprobe.lake.layout import PREFLIGHT
from lakeprobe.resources import quote_identifier

_MOST = 20
"""The most parameters that are listed."""

_FEW = 5
"""The most of what differed before the first op that are listed above the first op."""


def beginning_lines(before: Sequence[Beginning]) -> list[str]:
    """Return what differed before the first op; empty if nothing is known of that."""
    lines = []
    for beginning in before:
        kind = "settings and weights" if PREFLIGHT in beginning.comparison else "first checkpoints"
        lines += parameter_lines(
            beginning.findings, beginning.comparison, heading=f"Before the first op, the {kind} differ:", most=_FEW
        ) or [f"Before the first op: the {kind} are equal.", ""]
    return lines


def parameter_lines(
    findings: Sequence[ParameterFinding], comparison: str, heading: str = "What differs:", most: int = _MOST
) -> list[str]:
    """Return a line for each parameter or setting with a finding, the worst first; empty if there is none."""
    if not findings:
        return []
    lines = [heading, *(f"  {_name(finding)}: {'; '.join(finding.messages)}" for finding in findings[:most])]
    if len(findings) > most:
        query = f"select target_op, golden_op, messages from {quote_identifier(comparison)} where len(messages) > 0"
        lines.append(f"  … and {len(findings) - most} more: {hints.command('sql', quote(query))}")
    return [*lines, ""]


def _name(finding: ParameterFinding) -> str:
    name = f"{finding.part}/{finding.name}" if finding.part else finding.name
    return name if finding.golden_name is None else f"{name} (golden: {finding.golden_name})"
