"""Writes a pair of units as JUnit's XML, which CI services show: a test case per op, and one for what was not compared.

An op of which nothing was compared is skipped: what is green has been compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from lakeprobe.analysis.verdict import NOTHING
from lakeprobe.lake.comparison import ComparedUnit, StoredComparison
from lakeprobe.reports.op_verdicts import OpVerdict, incomplete_of, op_verdicts, pair_coverage, unpaired_of
from lakeprobe.reports.verdict_text import verdict_lines

if TYPE_CHECKING:
    import duckdb

_FAILURES = ("error", "unreadable")
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot have, not even as references."""


class _Case(NamedTuple):
    """A test case: the class and name that CI lists it under, and how it ended."""

    group: str
    name: str
    failure: str = ""
    skipped: str = ""
    text: str = ""


def write(connection: duckdb.DuckDBPyConnection, comparison: StoredComparison, unit: ComparedUnit, path: Path) -> None:
    """Write one pair of units to `path`. An op with an error fails; one with a warning passes and says so.

    Also failing: a pair of which nothing was compared, a unit whose collecting ended too early and, in the file of the
    first pair, each unit without counterpart.
    """
    cases = [*map(_of_op, op_verdicts(connection)), *_gaps(connection, comparison, unit)]
    failures = sum(bool(case.failure) for case in cases)
    skipped = sum(bool(case.skipped) for case in cases)
    suite = quoteattr(f"lakeprobe step {unit.step} rank {unit.rank}")
    with path.open("w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        file.write(
            f'<testsuite name={suite} tests="{len(cases)}" failures="{failures}" skipped="{skipped}" errors="0">\n'
        )
        for case in cases:
            file.write(f"<testcase classname={_attribute(case.group)} name={_attribute(case.name)}>")
            file.write(_outcome(case))
            file.write("</testcase>\n")
        file.write("</testsuite>\n")


def _of_op(op: OpVerdict) -> _Case:
    error = f", error {op.error:.3g}" if op.error is not None else ""
    text = "\n".join([f"{op.rows} rows, {op.different} different{error}", *(op.findings or ())])
    group = op.module or "outside modules"
    if op.verdict in _FAILURES:
        return _Case(group, op.op, failure=op.verdict, text=text)
    if not op.is_compared and op.verdict != "warning":
        return _Case(group, op.op, skipped=op.left_out)
    return _Case(group, op.op, text="" if op.verdict == "pass" else f"{op.verdict}: {text}")


def _gaps(connection: duckdb.DuckDBPyConnection, comparison: StoredComparison, unit: ComparedUnit) -> Iterator[_Case]:
    """Yield a failing case for each thing that was to be compared and was not."""
    covered = pair_coverage(connection, comparison, unit)
    if covered.verdict in NOTHING:
        _, *lines = verdict_lines(covered)
        sides = f"{comparison.target} against {comparison.golden}"
        yield _Case("lakeprobe", sides, failure=covered.verdict, text="\n".join(line.strip() for line in lines))
    for key in incomplete_of(comparison, unit):
        yield _Case("lakeprobe", str(key), failure="incomplete", text="collecting ended in the middle of the step")
    for key in unpaired_of(comparison, unit):
        other = comparison.golden if key.run == comparison.target else comparison.target
        yield _Case(
            "lakeprobe", str(key), failure="without counterpart", text=f"nothing of {other} is compared with it"
        )


def _outcome(case: _Case) -> str:
    if case.failure:
        return f"<failure message={_attribute(case.failure)}>{_text(case.text)}</failure>"
    if case.skipped:
        return f"<skipped message={_attribute(case.skipped)}/>"
    return f"<system-out>{_text(case.text)}</system-out>" if case.text else ""


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", text))
