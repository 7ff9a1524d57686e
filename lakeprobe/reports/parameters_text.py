"""Writes which parameters of two checkpoints differ, and how, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from lakeprobe.analysis.summary import ParameterFinding

_MOST = 20
"""The most parameters that are listed."""


def parameter_lines(findings: Sequence[ParameterFinding], comparison: str) -> list[str]:
    """Return a line for each parameter with a finding, the worst first; empty if there is none."""
    if not findings:
        return []
    lines = ["Parameters:", *(f"  {_name(finding)}: {'; '.join(finding.messages)}" for finding in findings[:_MOST])]
    if len(findings) > _MOST:
        query = f"select target_op, golden_op, messages from {comparison} where len(messages) > 0"
        lines.append(f"  … and {len(findings) - _MOST} more: lakeprobe sql {quote(query)}")
    return [*lines, ""]


def _name(finding: ParameterFinding) -> str:
    name = f"{finding.part}/{finding.name}" if finding.part else finding.name
    return name if finding.golden_name is None else f"{name} (golden: {finding.golden_name})"
