"""Compares the signs of gradients of two monitored runs: msprobe's grad_probe.

The sign of a gradient says which way a parameter goes. Two runs that learn the same have nearly the same signs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe.analysis.query import answer, stage_connection
from lakeprobe.analysis.watch import check_monitored
from lakeprobe.errors import UsageError

if TYPE_CHECKING:
    import duckdb

LEAST_AT_FIRST, LARGEST_FALL = 0.97, 0.03
"""msprobe's guidance: below this in the first step, or a larger fall from one step to the next, is a problem."""


class SignProblem(Struct, frozen=True):
    """A similarity of signs that the guidance calls a problem. `name` is None for all parameters together."""

    rank: int
    step: int
    name: str | None
    similarity: float
    change: float | None

    def __str__(self) -> str:
        what = "all gradients" if self.name is None else self.name
        begun = f"step {self.step}, rank {self.rank}: {self.similarity:.2%} of the signs of {what} are the same"
        if self.change is None:
            return f"{begun}; in the first step it should be {LEAST_AT_FIRST:.0%} at least"
        return f"{begun}, {-self.change:.2%} less than in the step before"


class Signs(Struct, frozen=True):
    """The similarity of the signs of gradients of two runs (sql/analysis/drift/signs.sql), and what is a problem."""

    golden: str
    run: str
    rows: duckdb.DuckDBPyRelation
    problems: tuple[SignProblem, ...]

    @property
    def summary(self) -> duckdb.DuckDBPyRelation:
        """The rows of all parameters together."""
        return self.rows.filter("is_summary").project("rank, step, elements, same, similarity, change")

    def __repr__(self) -> str:
        return f"<signs of {self.run} and {self.golden}: {len(self.problems)} problems>"


def signs(connection: duckdb.DuckDBPyConnection, golden: str, run: str) -> Signs:
    """Compare the signs of two runs. Raises UsageError for runs that have no signs of the same step and rank."""
    check_monitored(connection, golden, run)
    with stage_connection(connection) as stages:
        rows = answer(connection, stages, "drift/signs", {"golden": golden, "run": run})
    found = rows.project("rank, step, name, is_summary, similarity, change").fetchall()
    if not found:
        raise UsageError(
            f"{run} and {golden} have no signs of a gradient in the same step and rank; monitor both with metrics signs"
        )
    problems = [
        SignProblem(rank, step, None if is_summary else name, similarity, change)
        for rank, step, name, is_summary, similarity, change in found
        if (change is None and similarity < LEAST_AT_FIRST) or (change is not None and change < -LARGEST_FALL)
    ]
    problems.sort(key=lambda problem: (problem.step, problem.rank, problem.name or ""))
    return Signs(golden, run, rows, tuple(problems))
