"""Summarises a comparison: the first op that differs, the worst ops, and how all rows ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lakeprobe import metrics, resources
from lakeprobe.analysis import query
from lakeprobe.analysis.noise import keep_noise_ends
from lakeprobe.analysis.verdict import Coverage, Verdict, coverage_of
from lakeprobe.lake import views
from lakeprobe.lake.comparison import RESULTS_FILE, STACKS_FILE, SUSPECTS_FILE, StoredComparison
from lakeprobe.lake.connection import columns_of, connect, keep_footers

if TYPE_CHECKING:
    import duckdb

HEADINGS = ("first", "beyond_noise", "worst")
"""The lists of ops in a summary, as analysis/summary_ops.sql names them."""

MACROS = (
    "finite_part", "magnitude", "is_finding", "is_of_values", "user_frames", "user_frame", "leaf_text", "root_elements",
    "farthest_statistic", "statistic_text", "requires_grad_text", "fields_text", "is_trained_apart", "compared_step_of",
    "compared_rank_of", "is_module", "place_after", "side_text",
)  # fmt: skip
"""The macros that the queries of a summary use."""

MOST_LEAVES = 6
"""The most leaves of an op that a summary shows."""


class Leaf(Struct, frozen=True):
    """One leaf of an op that differs: its name after the op, what differs, and both sides in short.

    `metrics` has the metrics that only the rule defines, as a text. `error` is how far the statistic that differs most
    is from golden's, as a share of golden's tensor; None for what is not a tensor or has no such share.
    """

    slot: str
    difference: str
    target: str
    golden: str
    metrics: str = ""
    error: float | None = None


class OpFinding(Struct, frozen=True):
    """An op that differs. `finding`: different, noise, only in target, or only in golden.

    `norm_relative` is the error of the norm of its worst tensor, `reason` says why its gravest row is not a pass.
    """

    step: int
    rank: int
    op: str
    finding: str
    module: str | None
    code: str | None
    errors: int
    warnings: int
    cosine: float | None
    norm_relative: float | None
    reason: str | None
    leaves: tuple[Leaf, ...]
    more_leaves: int


class Outcome(Struct, frozen=True):
    """How many rows of one (step, rank) ended with this outcome and verdict, in total and per side.

    `excused_rows` are findings by their numbers that differ only by rounding noise.
    """

    step: int
    rank: int
    outcome: str
    verdict: str
    rows: int
    target_rows: int
    golden_rows: int
    equal_rows: int
    noise_rows: int
    different_rows: int
    excused_rows: int


class ParameterFinding(Struct, frozen=True):
    """A parameter of two checkpoints with what was found; `golden_name` if golden has another name for it."""

    part: str
    name: str
    golden_name: str | None
    verdict: str
    messages: tuple[str, ...]


class Summary(Struct, frozen=True):
    """The summary of a comparison.

    `first` has the first op of each (step, rank) that differs, `beyond_noise` the first that stands out of rounding
    noise. A (step, rank) without such an op is not in the list.
    """

    first: tuple[OpFinding, ...]
    beyond_noise: tuple[OpFinding, ...]
    worst: tuple[OpFinding, ...]
    outcomes: tuple[Outcome, ...]
    coverage: Coverage
    parameters: tuple[ParameterFinding, ...] = ()
    """What was found of the parameters of two checkpoints; of dumps nothing."""

    @property
    def verdict(self) -> Verdict:
        """The verdict on the whole comparison."""
        return self.coverage.verdict

    def count(self, *verdicts: str) -> int:
        """Return how many rows have one of `verdicts`."""
        return sum(outcome.rows for outcome in self.outcomes if outcome.verdict in verdicts)


def _parameters(connection: duckdb.DuckDBPyConnection) -> tuple[ParameterFinding, ...]:
    rows = connection.execute(resources.sql("analysis/parameters")).fetchall()
    return tuple(
        ParameterFinding(part, name, golden, verdict, tuple(said)) for part, name, golden, verdict, said in rows
    )


def summarise(comparison: StoredComparison) -> Summary:
    """Return the summary of a comparison in the lake."""
    connection = connect(macros=MACROS)
    try:
        keep_footers(connection)
        for name, file in (("results", RESULTS_FILE), ("stacks", STACKS_FILE), ("suspects", SUSPECTS_FILE)):
            # an older comparison has no suspects
            views.define_over(connection, name, [path for path in comparison.files(file) if path.is_file()])
        query.hold_few_results(connection, sum(unit.rows for unit in comparison.units))
        _define_own_metrics(connection)
        query.keep(connection, "findings", "findings_by_op")
        keep_noise_ends(connection, comparison)
        query.keep(connection, "summary_ops", "summary_ops")
        ops = _ops_by_heading(connection)
        rows = connection.execute(resources.sql("analysis/outcomes")).fetchall()
        outcomes = tuple(Outcome(*row) for row in rows)
        covered = coverage_of(comparison, outcomes)
        parameters = _parameters(connection) if comparison.is_unordered else ()
        headings = {heading: tuple(ops[heading]) for heading in HEADINGS}
        return Summary(**headings, outcomes=outcomes, coverage=covered, parameters=parameters)
    finally:
        connection.close()


def _define_own_metrics(connection: duckdb.DuckDBPyConnection) -> None:
    """Define the view own_metrics: by row, the text of the metrics that only the rule defines; empty without any."""
    own = metrics.own_of_results(columns_of(connection, "results"))
    rows = "results" if own else "results WHERE false"
    query = f"SELECT step, rank, row, {metrics.own_text(own)} AS text FROM {rows}"
    connection.execute(f"CREATE VIEW own_metrics AS {query}")


def outcomes_in_lake(connection: duckdb.DuckDBPyConnection, comparison: str) -> list[Outcome]:
    """Return how the rows of `comparison` ended; `connection` has the views of its lake."""
    query = f"WITH results AS ({resources.sql('analysis/outcomes_of')}) FROM ({resources.sql('analysis/outcomes')})"
    return [Outcome(*row) for row in connection.execute(query, {"comparison": comparison}).fetchall()]


def _ops_by_heading(connection: duckdb.DuckDBPyConnection) -> dict[str, list[OpFinding]]:
    leaves: dict[tuple[int, int, float], list[Leaf]] = {}
    shown_leaves = connection.execute(resources.sql("analysis/leaves"), {"most": MOST_LEAVES}).fetchall()
    for step, rank, place, *leaf in shown_leaves:
        leaves.setdefault((step, rank, place), []).append(Leaf(*leaf))
    ops: dict[str, list[OpFinding]] = {heading: [] for heading in HEADINGS}
    found = connection.execute("FROM summary_ops")
    columns = [column[0] for column in found.description]
    for row in found.fetchall():
        op: dict[str, Any] = dict(zip(columns, row, strict=True))
        shown = tuple(leaves.get((op["step"], op["rank"], op["place"]), ()))
        own = {name: op[name] for name in OpFinding.__struct_fields__ if name in op}
        more = max(op["leaves"] - len(shown), 0)
        ops[op["heading"]].append(OpFinding(**own | {"leaves": shown, "more_leaves": more}))
    return ops
