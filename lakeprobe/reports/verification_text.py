"""Writes a verification for the terminal: what is wrong first, then what could not run, then the counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakeprobe import hints
from lakeprobe.output import aligned

if TYPE_CHECKING:
    from lakeprobe.checks.verify import VerifyReport

_SHOWN = 20
_ORDER = ("error", "warning", "pass", "skip")


def verification_text(report: VerifyReport, findings: Sequence[Mapping[str, Any]]) -> str:
    """The text. `findings` are the rows with the status error, warning or skip, the worst first."""
    lines = [f"{report.name}: {report.calls} calls of ops, {report.distinct} distinct, {report.known} known before"]
    counts = ", ".join(f"{report.statuses[status]} {status}" for status in _ORDER if report.statuses.get(status))
    lines += [f"results: {counts or 'none'}", ""]
    wrong = [row for row in findings if row["status"] in ("error", "warning")]
    skipped = [row for row in findings if row["status"] == "skip"]
    if wrong:
        lines += ["Wrong, by its own reference:", _table(wrong[:_SHOWN]), *_more(wrong)]
    elif report.statuses.get("pass"):
        lines += ["Every op that ran is right: its error is what rounding explains.", ""]
    if skipped:
        columns = ("op", "why it was not run")
        shown = [(row["op"], row["problem"]) for row in skipped[:_SHOWN]]
        lines += [aligned(columns, shown), *_more(skipped)]
    return "\n".join(lines).rstrip("\n") + "\n"


def finding_words(row: Mapping[str, Any]) -> str:
    """In words, what is wrong with one result."""
    if row["is_deterministic"] is False:
        return "it does not give the same bits each time"
    if row["nonfinite_mismatches"]:
        return f"{row['nonfinite_mismatches']} elements are NaN or infinite on one side only"
    if row["largest_ulp"] is None:
        return f"{100 * (row['binary_error_share'] or 0):.3g} % of the elements differ"
    if row["signed_zeros"] and not row["largest_ulp"]:
        return f"{row['signed_zeros']} zeros have the wrong sign"
    return f"off by up to {row['largest_ulp']:.3g} ULP, {row['max_abs_error']:.3g}"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    columns = ("op", "result", "where", "dtype", "standard", "status", "what")
    cells = [
        (
            row["op"], row["slot"], "in the dump" if row["origin"] == "recorded" else f"on {row['device']}",
            row["dtype"], row["standard"], row["status"], finding_words(row),
        )
        for row in rows
    ]  # fmt: skip
    return aligned(columns, cells)


def _more(rows: Sequence[Any]) -> list[str]:
    hidden, query = len(rows) - _SHOWN, "\"FROM verifications WHERE status <> 'pass'\""
    return [f"and {hidden} more: {hints.command('sql', query)}", ""] if hidden > 0 else []
