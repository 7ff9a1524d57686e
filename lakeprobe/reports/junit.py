"""Writes a pair of units as JUnit's XML, which CI services show: a test case per op."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from lakeprobe import resources
from lakeprobe.lake.comparison import ComparedUnit

if TYPE_CHECKING:
    import duckdb

_FAILURES = ("error", "unreadable")
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot have, not even as references."""


def write(connection: duckdb.DuckDBPyConnection, unit: ComparedUnit, path: Path) -> None:
    """Write one pair of units to `path`. An op with an error fails; one with a warning passes and says so."""
    ops = connection.execute(resources.sql("reports/op_verdicts")).fetchall()
    verdicts = [op[2] for op in ops]
    failures = sum(verdict in _FAILURES for verdict in verdicts)
    skipped = sum(verdict == "skipped" for verdict in verdicts)
    suite = quoteattr(f"lakeprobe step {unit.step} rank {unit.rank}")
    with path.open("w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        file.write(
            f'<testsuite name={suite} tests="{len(ops)}" failures="{failures}" skipped="{skipped}" errors="0">\n'
        )
        for op, module, verdict, rows, different, error, findings in ops:
            numbers = f"{rows} rows, {different} different" + (f", error {error:.3g}" if error is not None else "")
            text = _text("\n".join([numbers, *(findings or ())]))
            file.write(f"<testcase classname={_attribute(module or 'outside modules')} name={_attribute(op)}>")
            file.write(_outcome(verdict, text))
            file.write("</testcase>\n")
        file.write("</testsuite>\n")


def _outcome(verdict: str, text: str) -> str:
    if verdict in _FAILURES:
        return f'<failure message="{verdict}">{text}</failure>'
    if verdict == "skipped":
        return "<skipped/>"
    return "" if verdict == "pass" else f"<system-out>{verdict}: {text}</system-out>"


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", text))
