"""A lake opened in Python: ingest, compare and SQL as methods; what the command line and Jupyter stand on."""

from __future__ import annotations

import os
import weakref
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
from lakeprobe.analysis.summary import Summary, outcomes_in_lake, summarise
from lakeprobe.analysis.verdict import Coverage, Verdict, coverage_of
from lakeprobe.compare.run import CompareReport
from lakeprobe.compare.run import compare as run_compare
from lakeprobe.errors import TensorError, UsageError
from lakeprobe.journals.settle import settle
from lakeprobe.lake import comparison as comparisons
from lakeprobe.lake import layout, log, staging, store, upkeep, views
from lakeprobe.lake.comparison import StoredComparison
from lakeprobe.lake.connection import connect, query_errors
from lakeprobe.lake.staging import Reader
from lakeprobe.reports import files
from lakeprobe.reports.picture import DriftReport
from lakeprobe.reports.terminal import comparison_text
from lakeprobe.work import default_jobs

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

    from lakeprobe.compare.repeats import NoiseReport
    from lakeprobe.export import ExportReport
    from lakeprobe.ingest import IngestReport


class Lake:
    """A lake at a path. Close it, or use it in a `with`; it closes itself when it is forgotten."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """Open the lake at `path`, $LAKEPROBE_LAKE or ./lake.

        Where there is none, the first ingest or comparison makes it. Raises LakeError for a folder that is something
        else.
        """
        self.path = store.check_place(store.choose(path))
        if store.is_writable(self.path):
            settle(self.path)
        self._measures = False
        self._reader = Reader(self.path)
        self._database = connect()
        # DuckDB's Python binding prints leak messages at exit for a connection that is still open
        self._finalizer = weakref.finalize(self, _close, self._database, self._reader)
        views.define(self._database, self._reader.snapshot)

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """A connection with the views of the lake as it is now: each question is answered from one state of it."""
        if not log.is_current(self._reader.snapshot):
            views.define(self._database, self._reader.renew())
        return self._database

    def _see_changes(self) -> None:
        """Show the lake as this session made it, and remove what nobody else reads any more."""
        views.define(self._database, self._reader.renew())
        staging.sweep(self.path)

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

    def rm(self, name: str) -> None:
        """Remove a run or comparison; comparisons of a run keep their rows. Raises UsageError and LakeError."""
        upkeep.remove(self.path, name)
        self._see_changes()

    def rename(self, name: str, new: str) -> None:
        """Give a run or comparison another name; comparisons follow their run. Raises UsageError and LakeError."""
        upkeep.rename(self.path, name, new)
        self._see_changes()

    def note(self, name: str, text: str | None = None) -> str:
        """The note on a run or comparison, after it was set to `text` if that is given. Raises UsageError."""
        if text is not None:
            upkeep.write_note(self.path, name, text)
        return upkeep.note(self.path, name)

    def ingest(self, path: str | os.PathLike[str], **options: Any) -> IngestReport:
        """Read the dumps under `path` into a run. Options and errors: `lakeprobe.ingest.ingest`."""
        from lakeprobe.ingest import ingest as run_ingest  # the readers, likewise

        report = run_ingest(path, lake=self.path, **options)
        self._see_changes()
        return report

    def export(self, run: str, out: str | os.PathLike[str], **options: Any) -> ExportReport:
        """Write a run as msprobe's dump folders. Options and errors: `lakeprobe.export.export`."""
        from lakeprobe.export import export as run_export  # numpy and the readers: 0.2 s that a question needs not

        return run_export(self.path, run, Path(out), **options)

    def compare(
        self, target: str | os.PathLike[str], golden: str | os.PathLike[str], **options: Any
    ) -> ComparisonResult:
        """Hold two runs (or paths) against each other. Options and errors: `lakeprobe.compare.run.compare`.

        The comparison of a lake that cannot be written to is in a temporary one: `.lake` of what comes back.
        """
        report = run_compare(target, golden, lake=self.path, **options)
        self._see_changes()
        return ComparisonResult(self if report.lake == self.path else Lake(report.lake), report.name, report)

    def measure_noise(
        self, golden: str | os.PathLike[str], *repeats: str | os.PathLike[str], **options: Any
    ) -> NoiseReport:
        """Measure what repeats of a golden run differ from it by. Options: `lakeprobe.compare.repeats.measure`."""
        from lakeprobe.compare.repeats import measure

        report = measure(golden, repeats, lake=self.path, **options)
        self._see_changes()
        return report

    def comparison(self, name: str) -> ComparisonResult:
        """A comparison that was made before."""
        return ComparisonResult(self, name)

    def covered(self, comparison: str) -> Coverage:
        """How much of both sides of a comparison was compared, and what came of it. Raises UsageError and LakeError."""
        stored = comparisons.load(self.path, comparison)
        with query_errors():
            outcomes = outcomes_in_lake(self._connection, comparison)
        return coverage_of(stored, outcomes)

    def sql(self, query: str, parameters: list[Any] | dict[str, Any] | None = None) -> duckdb.DuckDBPyRelation:
        """Run `query` on the lake's views; `.df()`, `.pl()`, `.arrow()` and `.fetchall()` give the rows.

        Raises RuleError if the query does not run, and LakeError if there is no lake or a file of it cannot be read.
        """
        store.check(self.path)
        if "tensor_metrics" in query.lower() and not self._measures:
            from lakeprobe.tensors.udf import register  # numpy: 0.1 s that few queries need

            register(self._connection, default_jobs())
            self._measures = True
        with query_errors():
            return self._connection.sql(query, params=parameters)

    def tensor(self, run: str, op: str, slot: str, *, step: int = 0, rank: int = 0) -> NDArray[Any]:
        """The saved tensor of `op` in `slot` ("input.0", "output.0"), of its own shape; bfloat16 has ml_dtypes' dtype.

        Raises UsageError if there is no such tensor, and TensorError if its contents were not saved or cannot be read.
        """
        where = {"run": run, "step": step, "rank": rank, "op": op, "slot": slot}
        found = self.sql(resources.sql("reports/tensor_content"), where).fetchall()
        if not found:
            raise UsageError(
                f"no tensor {op}.{slot} in run {run} step {step} rank {rank}; lakeprobe show {op} lists them"
            )
        problem, reference = found[0]
        if reference is None:
            raise TensorError(f"{op}.{slot} of run {run}: {problem or 'its contents are not in the lake'}")
        from lakeprobe.tensors import TensorReference, open_tensor

        return open_tensor(TensorReference.of(reference)).copy()

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
        thresholds = comparisons.load(self.path, comparison).thresholds if comparison else None
        with query_errors():
            return overflowing.overflow(self._connection, run, comparison=comparison, thresholds=thresholds, **options)

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
            planned = merging.plan(comparisons, files, **options)
            return list(merging.found(merging.sheets(self._connection, planned), planned))

    def _run_of(self, name: str) -> tuple[str, str | None]:
        """The run that `name` is, or the target of the comparison that it is, and the comparison."""
        if name in self.runs:
            return name, None
        if name in self.comparisons:
            return comparisons.load(self.path, name).target, name
        there = ", ".join([*self.runs, *self.comparisons]) or "nothing"
        raise UsageError(f"{name} is neither a run nor a comparison in {self.path} (there: {there})")


def _close(connection: duckdb.DuckDBPyConnection, reader: Reader) -> None:
    connection.close()
    reader.close()


class ComparisonResult:
    """A comparison in a lake: its rows as a relation, and its summary."""

    def __init__(self, lake: Lake, name: str, report: CompareReport | None = None) -> None:
        """The comparison `name` of `lake`; `report` is there where it was made just now."""
        self.lake, self.name, self.report = lake, name, report
        self.stored: StoredComparison = comparisons.load(lake.path, name)
        self._summary: Summary | None = None

    def __repr__(self) -> str:
        return f"<comparison {self.name} of {self.stored.target} with {self.stored.golden}>"

    def __str__(self) -> str:
        summary = self.summary()
        several_ranks = len({unit.rank for unit in self.stored.units}) > 1
        if not several_ranks or summary.verdict is Verdict.EQUAL:
            return comparison_text(self.stored, summary)
        # a connection of its own, so that a result can be shown when its lake is closed
        with query_errors(), staging.reading(self.lake.path) as there, connect() as connection:
            views.define(connection, there)
            return comparison_text(self.stored, summary, differing.first_difference(connection, self.stored))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What a notebook shows: the summary."""
        printer.text(str(self))

    @property
    def rows(self) -> duckdb.DuckDBPyRelation:
        """All rows, as the table results has them."""
        return self.lake.sql("FROM results WHERE comparison = $name ORDER BY step, rank, row", {"name": self.name})

    def summary(self) -> Summary:
        """The first op that differs, the worst ops, and how all rows ended."""
        if self._summary is None:
            self._summary = summarise(self.stored)
        return self._summary

    @property
    def verdict(self) -> Verdict:
        """How the comparison ended as a whole; what else is known of it: `summary().coverage`."""
        return self.summary().verdict

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
