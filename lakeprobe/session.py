"""A lake opened in Python: ingest, compare and SQL as methods; what the command line and Jupyter stand on."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lakeprobe import resources
from lakeprobe.analysis import blame as blaming
from lakeprobe.analysis import communication as communicating
from lakeprobe.analysis import drift as drifting
from lakeprobe.analysis import first_difference as differing
from lakeprobe.analysis import merge as merging
from lakeprobe.analysis import overflow as overflowing
from lakeprobe.analysis.blame import Blame
from lakeprobe.analysis.communication import Communication
from lakeprobe.analysis.first_difference import FirstDifference
from lakeprobe.analysis.merge import Sheet
from lakeprobe.analysis.overflow import Overflow
from lakeprobe.analysis.summary import Summary, summarise
from lakeprobe.collect.writing.settle import settle
from lakeprobe.compare.run import CompareReport
from lakeprobe.compare.run import compare as run_compare
from lakeprobe.errors import LakeError, RuleError, UsageError
from lakeprobe.export import ExportReport
from lakeprobe.export import export as run_export
from lakeprobe.ingest import IngestReport
from lakeprobe.ingest import ingest as run_ingest
from lakeprobe.lake import comparison as comparisons
from lakeprobe.lake import layout, store, views
from lakeprobe.lake.comparison import StoredComparison
from lakeprobe.lake.connection import connect
from lakeprobe.reports import files
from lakeprobe.reports.picture import DriftReport
from lakeprobe.reports.terminal import comparison_text

if TYPE_CHECKING:
    import duckdb


@contextmanager
def query_errors() -> Iterator[None]:
    """Turn an error of DuckDB, which may come as late as when rows are fetched, into a RuleError or LakeError."""
    import duckdb

    try:
        yield
    except duckdb.IOException as error:
        raise LakeError(str(error).strip()) from error
    except duckdb.Error as error:
        raise RuleError(str(error).strip()) from error


class Lake:
    """A lake at a path. Close it, or use it in a `with`; it closes itself when it is forgotten."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """Open the lake at `path`, $LAKEPROBE_LAKE or ./lake; a new one is made where there is none."""
        self.path = store.create(store.choose(path))
        settle(self.path)
        self._connection = connect()
        # DuckDB's Python binding prints leak messages at exit for a connection that is still open
        self._finalizer = weakref.finalize(self, self._connection.close)
        views.define(self._connection, self.path)

    def close(self) -> None:
        """Close the connection; relations that came from `sql` cannot be read any more."""
        self._finalizer()

    def __enter__(self) -> Lake:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Lake({str(self.path)!r})"

    @property
    def runs(self) -> list[str]:
        """The names of the runs."""
        return layout.runs(self.path)

    @property
    def comparisons(self) -> list[str]:
        """The names of the comparisons."""
        return layout.comparisons(self.path)

    def ingest(self, path: str | os.PathLike[str], **options: Any) -> IngestReport:
        """Read the dumps under `path` into a run. Options and errors: `lakeprobe.ingest.ingest`."""
        report = run_ingest(path, lake=self.path, **options)
        views.define(self._connection, self.path)
        return report

    def export(self, run: str, out: str | os.PathLike[str], **options: Any) -> ExportReport:
        """Write a run as msprobe's dump folders. Options and errors: `lakeprobe.export.export`."""
        return run_export(self.path, run, Path(out), **options)

    def compare(
        self, target: str | os.PathLike[str], golden: str | os.PathLike[str], **options: Any
    ) -> ComparisonResult:
        """Hold two runs (or paths) against each other. Options and errors: `lakeprobe.compare.run.compare`."""
        report = run_compare(target, golden, lake=self.path, **options)
        views.define(self._connection, self.path)
        return ComparisonResult(self, report.name, report)

    def comparison(self, name: str) -> ComparisonResult:
        """A comparison that was made before."""
        return ComparisonResult(self, name)

    def sql(self, query: str, parameters: list[Any] | dict[str, Any] | None = None) -> duckdb.DuckDBPyRelation:
        """Run `query` on the lake's views; `.df()`, `.pl()`, `.arrow()` and `.fetchall()` give the rows.

        Raises RuleError if the query does not run, and LakeError if a file of the lake cannot be read.
        """
        with query_errors():
            return self._connection.sql(query, params=parameters)

    def communication(self, name: str, *, step: int | None = None) -> Communication:
        """Who spoke to whom in a run, and which results break a law of their collective.

        `name` is a run, or a comparison: then it is its target, and the meetings that carry a difference are told too.
        Raises UsageError if the lake has neither.
        """
        run, comparison = self._run_of(name)
        with query_errors():
            return communicating.communication(self._connection, run, comparison, step)

    def transfers(self, run: str) -> duckdb.DuckDBPyRelation:
        """Every collective call, send and receive of `run`, a row each, with its group, partners and tensors.

        Raises UsageError if the lake has no such run.
        """
        run, _ = self._run_of(run)
        with query_errors():
            return communicating.transfers(self._connection, run)

    def overflow(self, name: str, **options: Any) -> Overflow:
        """Where NaN and inf are born in a run, or in the target of a comparison, and how they spread.

        Options and errors: `lakeprobe.analysis.overflow.overflow`.
        """
        run, comparison = self._run_of(name)
        with query_errors():
            return overflowing.overflow(self._connection, run, comparison=comparison, **options)

    def drift(self, golden: str, *runs: str, **options: Any) -> DriftReport:
        """Where `runs` leave the run `golden` over steps. Options and errors: `lakeprobe.analysis.drift.drift`."""
        with query_errors():
            return DriftReport.of(drifting.drift(self._connection, golden, runs, **options))

    def merge(self, *sources: str, **options: Any) -> list[Sheet]:
        """The ranks of comparisons side by side, a sheet per step and metric.

        A source is a comparison, or msprobe's result files or a folder of them. Options and errors:
        `lakeprobe.analysis.merge.plan`.
        """
        comparisons, files = merging.sources(self.path, sources)
        with query_errors():
            return list(merging.sheets(self._connection, merging.plan(comparisons, files, **options)))

    def _run_of(self, name: str) -> tuple[str, str | None]:
        """The run that `name` is, or the target of the comparison that it is, and the comparison."""
        if name in self.runs:
            return name, None
        if name in self.comparisons:
            return comparisons.load(self.path, name).target, name
        there = ", ".join([*self.runs, *self.comparisons]) or "nothing"
        raise UsageError(f"{name} is neither a run nor a comparison in {self.path} (there: {there})")


class ComparisonResult:
    """A comparison in a lake: its rows as a relation, and its summary."""

    def __init__(self, lake: Lake, name: str, report: CompareReport | None = None) -> None:
        """The comparison `name` of `lake`; `report` is there where it was made just now."""
        self.lake, self.name, self.report = lake, name, report
        self.stored: StoredComparison = comparisons.load(lake.path, name)

    def __repr__(self) -> str:
        return f"<comparison {self.name} of {self.stored.target} with {self.stored.golden}>"

    def __str__(self) -> str:
        return comparison_text(self.stored, self.summary())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What a notebook shows: the summary."""
        printer.text(str(self))

    @property
    def rows(self) -> duckdb.DuckDBPyRelation:
        """All rows, as the table results has them."""
        return self.lake.sql("FROM results WHERE comparison = $name ORDER BY step, rank, row", {"name": self.name})

    def summary(self) -> Summary:
        """The first op that differs, the worst ops, and how all rows ended."""
        return summarise(self.stored)

    def coverage(self) -> duckdb.DuckDBPyRelation:
        """What paired how many ops and rows of each side."""
        return self.lake.sql(resources.sql("analysis/coverage"), {"comparison": self.name})

    def unmatched(self, most: int = 20) -> duckdb.DuckDBPyRelation:
        """Ops without counterpart, `most` of each side, step and rank, each with those that are most like it."""
        return self.lake.sql(resources.sql("analysis/unmatched"), {"comparison": self.name, "most": most})

    def first_difference(self, **options: Any) -> FirstDifference:
        """The op with which the runs part, on each rank and over all of them.

        Options and errors: `lakeprobe.analysis.first_difference.first_difference`.
        """
        with query_errors():
            return differing.first_difference(self.lake._connection, self.stored, **options)

    def blame(self, **options: Any) -> Blame:
        """The ops that may be the cause, with reasons, and the path to the loss.

        Options and errors: `lakeprobe.analysis.blame.blame`.
        """
        with query_errors():
            return blaming.blame(self.lake._connection, self.lake.path, self.name, **options)

    def write(self, folder: str | os.PathLike[str], format: str = "csv") -> list[Path]:
        """Write result files into `folder`, as csv or xlsx in msprobe's layout, or as json or parquet with types."""
        return files.write(self.stored, Path(folder), format)
