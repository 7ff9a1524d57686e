"""Judges a comparison as a whole: how much of both sides was compared, and with what result.

Everything that says how a comparison ended follows from a Coverage: the terminal, result files, exit codes and Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from lakeprobe.analysis.summary import Outcome
    from lakeprobe.lake.comparison import ComparedUnit, StoredComparison
    from lakeprobe.lake.layout import UnitKey


class Verdict(StrEnum):
    """How a comparison ended, from the worst. The first that applies is the verdict."""

    STRUCTURE_ONLY = "structure only"
    """Both dumps name their ops and record no values."""
    NOTHING_COMPARED = "nothing compared"
    """No row of one side was compared with a row of the other."""
    DIFFERENT = "different"
    """A pair differs beyond float noise, only one run trains a tensor, or what differs came of an earlier step."""
    UNREADABLE = "unreadable"
    """Nothing that was read differs, but a tensor could not be read."""
    INCOMPLETE = "incomplete"
    """Nothing differs, but collecting ended in the middle of a step."""
    PARTLY_COMPARED = "partly compared"
    """Nothing that was compared differs, but rows, steps or ranks have no counterpart or no values."""
    EQUAL_WITHIN_NOISE = "equal within noise"
    """Every row was compared, and none differs beyond float noise."""
    EQUAL = "equal"
    """Every row was compared, but for those set aside, recomputed or without values of their own, and none differs."""


EQUAL = frozenset((Verdict.EQUAL, Verdict.EQUAL_WITHIN_NOISE))
"""The verdicts that say that both sides are the same."""

_ROW_KINDS = ("compared", "set_aside", "inside", "structure", "recomputed", "unmatched", "unreadable", "unrecorded")
"""What may become of a row, in the order in which it is told."""

NOTHING = frozenset((Verdict.STRUCTURE_ONLY, Verdict.NOTHING_COMPARED))
"""The verdicts that say that nothing is known."""


class Coverage(Struct, frozen=True):
    """How many rows of both sides were compared, and what became of the others.

    A row of `rows` is a pair, or a row of one side. The `compared` rows were judged `equal`, `noise` or `different`. Of
    the others, `set_aside` have no meaningful values (memory that was never written, data that had not arrived, late
    digests, settings of optimizers that one tool alone records); `unmatched` have no counterpart; `inside` are steps of
    something that the other side computes in other steps; `structure` rows only change a view or a shape; `recomputed`
    ones were run again on one side only; `unreadable` name tensors that cannot be read, although their recorded
    statistics may show them to be `different`; `unrecorded` lack values on both sides. `target_compared` and
    `golden_compared` count rows of a side. `findings` counts rows by verdict, without those that differ only by
    rounding noise. `unpaired` units have no counterpart, and collecting of `incomplete` units ended in the middle of a
    step. `by_digests`: only digests could be compared. `differs_since`: the first step that differs, if it is
    before all that were asked for: what they differ by came of it, even where no op of theirs stands out of rounding.
    """

    target_rows: int
    golden_rows: int
    target_compared: int
    golden_compared: int
    rows: dict[str, int]
    equal: int
    noise: int
    different: int
    findings: dict[str, int]
    unpaired: int = 0
    incomplete: int = 0
    is_structure: bool = False
    by_digests: bool = False
    differs_since: int | None = None

    @property
    def verdict(self) -> Verdict:
        """The first verdict that applies."""
        holds = {
            Verdict.STRUCTURE_ONLY: self.is_structure and not self.rows["compared"],
            Verdict.NOTHING_COMPARED: not self.rows["compared"] and not self.different,
            Verdict.DIFFERENT: self.different or self.is_inherited,
            Verdict.UNREADABLE: self.rows["unreadable"],
            Verdict.INCOMPLETE: self.incomplete,
            Verdict.PARTLY_COMPARED: self._left_out,
            Verdict.EQUAL_WITHIN_NOISE: self.noise,
        }
        return next((verdict for verdict, does_hold in holds.items() if does_hold), Verdict.EQUAL)

    @property
    def is_equal(self) -> bool:
        """Whether both sides were compared completely and nothing differs beyond float noise."""
        return self.verdict in EQUAL

    @property
    def is_inherited(self) -> bool:
        """Whether all that differs may have come of an earlier step."""
        return self.differs_since is not None and bool(self.noise) and not self.different

    @property
    def is_whole(self) -> bool:
        """Whether both sides were compared completely, whatever the result."""
        not_read = self.rows["unreadable"] or self.incomplete
        return bool(self.rows["compared"]) and not not_read and not self._left_out

    @property
    def _left_out(self) -> int:
        """How many rows and units have no counterpart, or nothing to compare."""
        return self.rows["unmatched"] + self.rows["unrecorded"] + self.rows["inside"] + self.unpaired

    @property
    def has_errors(self) -> bool:
        """Whether --fail-on error exits with 1: a row is an error or cannot be read, or nothing was compared."""
        return bool(self.findings["error"] or self.rows["unreadable"] or self.verdict in NOTHING)

    @property
    def has_warnings(self) -> bool:
        """Whether --fail-on warning exits with 1: an error, warning or difference, an unpaired or incomplete unit."""
        rows = self.findings["warning"] + self.findings["unmatched"]
        differs = self.different or self.is_inherited
        return bool(self.has_errors or rows or differs or self.unpaired or self.incomplete)


def coverage(
    units: Sequence[ComparedUnit], outcomes: Iterable[Outcome], unpaired: int = 0, first_step: int | None = None
) -> Coverage:
    """Return the coverage of `units`, whose rows ended in `outcomes`; `unpaired` more units have no counterpart.

    `first_step` is the first step of the comparison that differs (`first_that_differs`), if any does.
    """
    rows, findings = dict.fromkeys(_ROW_KINDS, 0), dict.fromkeys(_FINDINGS, 0)
    sides = dict.fromkeys(("target_rows", "golden_rows", "target_compared", "golden_compared"), 0)
    judged = dict.fromkeys(("equal", "noise", "different"), 0)
    for outcome in outcomes:
        kind = _kind(outcome)
        rows[kind] += outcome.rows
        findings[outcome.verdict] = findings.get(outcome.verdict, 0) + outcome.rows - outcome.excused_rows
        for side, count in (("target", outcome.target_rows), ("golden", outcome.golden_rows)):
            sides[f"{side}_rows"] += count
            sides[f"{side}_compared"] += count if kind == "compared" else 0
        for difference in judged:
            judged[difference] += getattr(outcome, f"{difference}_rows")
    return Coverage(
        **sides, **judged, rows=rows, findings=findings,
        unpaired=unpaired,
        incomplete=sum(unit.cut_off for unit in units),
        is_structure=all(unit.is_structure for unit in units),
        by_digests=bool(units) and all(unit.kind == "digest" for unit in units),
        differs_since=None if first_step is None or any(unit.step <= first_step for unit in units) else first_step,
    )  # fmt: skip


def coverage_of(
    comparison: StoredComparison, outcomes: Sequence[Outcome], steps: Sequence[int] = (), ranks: Sequence[int] = ()
) -> Coverage:
    """Return the coverage of the `steps` and `ranks` of a comparison, or of all if none are given."""

    def is_asked(unit: ComparedUnit | Outcome | UnitKey) -> bool:
        return (not steps or unit.step in steps) and (not ranks or unit.rank in ranks)

    units = list(filter(is_asked, comparison.units))
    unpaired = sum(map(is_asked, comparison.unpaired))
    return coverage(units, filter(is_asked, outcomes), unpaired, first_that_differs(outcomes))


def first_that_differs(outcomes: Sequence[Outcome]) -> int | None:
    """Return the first step of a comparison of which a row is different; None if none is."""
    return min((outcome.step for outcome in outcomes if outcome.different_rows), default=None)


_FINDINGS = ("error", "warning", "unmatched", "unreadable", "skipped", "pass")
"""The verdicts of rows, from the worst."""


def _kind(outcome: Outcome) -> str:
    if outcome.outcome in _ROW_KINDS and outcome.outcome != "compared":
        return outcome.outcome
    return "set_aside" if outcome.verdict == "skipped" else "compared"
