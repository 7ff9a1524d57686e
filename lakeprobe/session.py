"""Opens a lake in Python: ingest, compare and SQL as methods. The command line and Jupyter use it."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
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
from lakeprobe.analysis import watch as watching
from lakeprobe.analysis.beginnings import Beginning, beginnings
from lakeprobe.analysis.blame import Blame
from lakeprobe.analysis.communication import Communication
from lakeprobe.analysis.first_difference import FirstDifference
from lakeprobe.analysis.merge import Sheet
from lakeprobe.analysis.overflow import Overflow
from lakeprobe.analysis.summary import Summary, outcomes_in_lake, summarise
from lakeprobe.analysis.verdict import Coverage, Verdict, coverage_of
from lakeprobe.analysis.watch import Anomaly
from lakeprobe.compare.run import CompareReport
from lakeprobe.compare.run import compare as run_compare
from lakeprobe.errors import RuleError, TensorError, UsageError
from lakeprobe.journals.settle import settle
from lakeprobe.lake import comparison as comparisons
from lakeprobe.lake import guard, layout, log, staging, store, upkeep, views
from lakeprobe.lake.comparison import StoredComparison
from lakeprobe.lake.connection import connect, query_errors
from lakeprobe.lake.staging import Reader
from lakeprobe.output import shown
from lakeprobe.reports import files
from lakeprobe.reports.picture import DriftReport
from lakeprobe.reports.terminal import comparison_text
from lakeprobe.work import default_jobs

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

    from lakeprobe.checks.perturb import PerturbReport
    from lakeprobe.checks.reproduce import Script
    from lakeprobe.checks.verify import VerifyReport
    from lakeprobe.compare.repeats import NoiseReport
    from lakeprobe.export import ExportReport
    from lakeprobe.ingest import IngestReport
    from lakeprobe.view.cells import Cell


class Lake:
    """A lake at a path. Close it, or use it in a `with`; garbage collection closes it too."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """Open the lake at `path`, $LAKEPROBE_LAKE or ./lake.

        If it does not exist, the first ingest or comparison creates it. Raises LakeError for a folder that is something
        else.
        """
        self.path = store.check_place(store.choose(path))
        if store.is_writable(self.path):
            settle(self.path)
        self._measures = False
        self._reader = Reader(self.path)
        self._opened = ExitStack()
        self._opened.callback(self._reader.close)
        # DuckDB's Python binding prints leak messages at exit for a connection that is still open
        self._finalizer = weakref.finalize(self, self._opened.close)

    @cached_property
    def _database(self) -> duckdb.DuckDBPyConnection:
        """The connection; made when something is asked, because it takes 0.1 s. Raises RuleError if closed."""
        if not self._finalizer.alive:
            raise RuleError(f"{self.path}: this lake was closed; open it again")
        connection = connect()
        self._opened.callback(connection.close)
        views.define(connection, self._reader.snapshot)
        return connection

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """A connection with the views of the lake as it is now: each question is answered from one state of it."""
        if not log.is_current(self._reader.snapshot):
            views.define(self._database, self._reader.renew())
        return self._database

    def _see_changes(self) -> None:
        """Show the lake as this session made it, and remove what nobody else reads any more."""
        snapshot = self._reader.renew()
        if "_database" in self.__dict__:
            views.define(self._database, snapshot)
        staging.sweep(self.path)

    def close(self) -> None:
        """Close the connection. Relations from `sql` cannot be read afterwards."""
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
        """Rename a run or comparison; comparisons follow their run. Raises UsageError and LakeError."""
        upkeep.rename(self.path, name, new)
        self._see_changes()

    def note(self, name: str, text: str | None = None) -> str:
        """Return the note on a run or comparison, after setting it to `text` if that is given. Raises UsageError."""
        if text is not None:
            upkeep.write_note(self.path, name, text)
        return upkeep.note(self.path, name)

    def ingest(self, path: str | os.PathLike[str], **options: Any) -> IngestReport:
        """Read the dumps under `path` into a run. Options and errors: `lakeprobe.ingest.ingest`."""
        from lakeprobe.ingest import ingest as run_ingest  # the readers, which a query does not need

        report = run_ingest(path, lake=self.path, **options)
        self._see_changes()
        return report

    def export(self, run: str, out: str | os.PathLike[str], **options: Any) -> ExportReport:
        """Write a run as msprobe's dump folders. Options and errors: `lakeprobe.export.export`."""
        from lakeprobe.export import export as run_export  # numpy and the readers: 0.2 s that a query does not need

        return run_export(self.path, run, Path(out), **options)

    def compare(
        self, target: str | os.PathLike[str], golden: str | os.PathLike[str], **options: Any
    ) -> ComparisonResult:
        """Compare two runs (or paths). Options and errors: `lakeprobe.compare.run.compare`.

        If the lake is read-only, the comparison is in a temporary one: `.lake` of the result.
        """
        report = run_compare(target, golden, lake=self.path, **options)
        self._see_changes()
        return ComparisonResult(self if report.lake == self.path else Lake(report.lake), report.name, report)

    def measure_noise(
        self, golden: str | os.PathLike[str], *repeats: str | os.PathLike[str], **options: Any
    ) -> NoiseReport:
        """Measure how repeats of a golden run differ from it. Options: `lakeprobe.compare.repeats.measure`."""
        from lakeprobe.compare.repeats import measure

        report = measure(golden, repeats, lake=self.path, **options)
        self._see_changes()
        return report

    def verify(self, run: str, *ops: str, **options: Any) -> Verification:
        """Run ops of `run` again and keep what came out. Options and errors: `lakeprobe.checks.verify.verify`."""
        from lakeprobe.checks.verify import verify as run_verify  # numpy, which a query does not need

        report = run_verify(run, ops, lake=self.path, **options)
        self._see_changes()
        return Verification(self, report.name, report)

    def reproduce(self, run: str, op: str, out: str | os.PathLike[str] | None = None, **options: Any) -> Script:
        """Write a script that runs one op as `run` called it. Options and errors: `lakeprobe.checks.reproduce`."""
        from lakeprobe.checks.reproduce import reproduce as write_script

        return write_script(run, op, out, lake=self.path, **options)

    def perturb(self, run: str, *ops: str, **options: Any) -> PerturbReport:
        """Run ops of `run` with changed inputs, and keep what that did. Options: `lakeprobe.checks.perturb.perturb`."""
        from lakeprobe.checks.perturb import perturb as run_perturb

        report = run_perturb(run, ops, lake=self.path, **options)
        self._see_changes()
        return report

    def perturbation(self, name: str) -> duckdb.DuckDBPyRelation:
        """Return the ops that changes of their inputs moved too far, the worst of each op and mode."""
        return self.sql(resources.sql("reports/perturbation_findings"), {"perturbation": name})

    def verification(self, name: str) -> Verification:
        """Return a verification that the lake has. Raises UsageError."""
        from lakeprobe.checks import stored

        stored.check(self.path, name)
        return Verification(self, name)

    def comparison(self, name: str) -> ComparisonResult:
        """Return a comparison that the lake has."""
        return ComparisonResult(self, name)

    def covered(self, comparison: str) -> Coverage:
        """Return how much of a comparison's sides was compared, with what result. Raises UsageError and LakeError."""
        stored = comparisons.load(self.path, comparison)
        with query_errors():
            outcomes = outcomes_in_lake(self._connection, comparison)
        return coverage_of(stored, outcomes)

    def sql(self, query: str, parameters: list[Any] | dict[str, Any] | None = None) -> duckdb.DuckDBPyRelation:
        """Run `query` on the lake's views; `.df()`, `.pl()`, `.arrow()` and `.fetchall()` give the rows.

        Raises RuleError if the query fails, and LakeError if the lake does not exist or one of its files cannot be
        read.
        """
        store.check(self.path)
        self._define_tensor_metrics(query)
        with query_errors():
            return self._connection.sql(query, params=parameters)

    def read(self, query: str, into: str | os.PathLike[str] | None = None) -> duckdb.DuckDBPyRelation | None:
        """Run `query`, of one or several statements that write no file; the rows of the last, if it has any.

        With `into` they are written into that file: csv, json or parquet, by the end of its name, outside of the lake.
        Settings are locked from then on. Raises RuleError for a statement that might write, and as `sql` does.
        """
        store.check(self.path)
        self._define_tensor_metrics(query)
        with query_errors():
            guard.lock(self._connection)
            rows = guard.run(self._connection, query)
            if into is None or rows is None:
                return rows
            guard.write(self._connection, rows, Path(into), self.path)
        return None

    def _define_tensor_metrics(self, query: str) -> None:
        """Give SQL the function tensor_metrics where `query` may name it: it takes numpy, 0.1 s."""
        if "tensor_metrics" in query.lower() and not self._measures:
            from lakeprobe.tensors.udf import register

            register(self._connection, default_jobs())
            self._measures = True

    def tensor(self, run: str, op: str, slot: str, *, step: int = 0, rank: int = 0) -> NDArray[Any]:
        """Return the saved tensor of `op` in `slot` ("input.0", "output.0"); bfloat16 has ml_dtypes' dtype.

        Raises UsageError if there is no such tensor, and TensorError if its contents were not saved or cannot be read.
        """
        where = {"run": run, "step": step, "rank": rank, "op": op, "slot": slot}
        found = self.sql(resources.sql("reports/tensor_content"), where).fetchall()
        if not found:
            raise UsageError(
                f"run {run} step {step} rank {rank} has no tensor {op}.{slot}; list them: lakeprobe show {op}"
            )
        problem, reference = found[0]
        if reference is None:
            raise TensorError(f"{op}.{slot} of run {run}: {problem or 'its contents are not in the lake'}")
        from lakeprobe.tensors import TensorReference, open_tensor

        return open_tensor(TensorReference.of(reference)).copy()

    def communication(self, name: str, *, step: int | None = None) -> Communication:
        """Return the communication between the ranks of a run, and the results that break a law of their collective.

        `name` is a run, or a comparison, which stands for its target and adds the meetings that carry a difference.
        Raises UsageError if the lake has neither.
        """
        run, comparison = self._run_of(name)
        with query_errors():
            return communicating.communication(self._connection, run, comparison, step)

    def transfers(self, run: str) -> duckdb.DuckDBPyRelation:
        """Return every collective call, send and receive of `run`, a row each, with its group, partners and tensors.

        Raises UsageError if the lake has no such run.
        """
        run, _ = self._run_of(run)
        with query_errors():
            return communicating.transfers(self._connection, run)

    def overflow(self, name: str, **options: Any) -> Overflow:
        """Find where NaN and inf are born in a run, or in the target of a comparison, and how they spread.

        Options and errors: `lakeprobe.analysis.overflow.overflow`.
        """
        run, comparison = self._run_of(name)
        thresholds = comparisons.load(self.path, comparison).thresholds if comparison else None
        with query_errors():
            return overflowing.overflow(self._connection, run, comparison=comparison, thresholds=thresholds, **options)

    def drift(self, golden: str, *runs: str, **options: Any) -> DriftReport:
        """Find where `runs` leave the run `golden` over steps. Options and errors: `lakeprobe.analysis.drift.drift`."""
        with query_errors():
            return DriftReport.of(drifting.drift(self._connection, golden, runs, **options))

    def series_drift(self, golden: str, run: str, threshold: float = drifting.THRESHOLD) -> duckdb.DuckDBPyRelation:
        """Return where the series of the monitored run `run` leave those of `golden`, the earliest first.

        Columns and errors: `lakeprobe.analysis.drift.series_drift`.
        """
        with query_errors():
            return drifting.series_drift(self._connection, golden, run, threshold)

    def watch(self, run: str, rules: Sequence[str] = watching.RULES) -> list[Anomaly]:
        """Return what `rules` find in the series of the monitored run `run`, the earliest step first.

        A rule is the name of a bundled one, or the path of an .sql file. Raises UsageError and RuleError.
        """
        with query_errors():
            return watching.watch(self._connection, run, [watching.load(rule) for rule in rules])

    def merge(self, *sources: str, **options: Any) -> list[Sheet]:
        """Return the ranks of comparisons side by side, a sheet per step and metric.

        A source is a comparison, a result file of msprobe, or a folder of those. Options and errors:
        `lakeprobe.analysis.merge.plan`.
        """
        comparisons, files = merging.sources(self.path, sources)
        with query_errors():
            planned = merging.plan(comparisons, files, **options)
            return list(merging.found(merging.sheets(self._connection, planned), planned))

    def view(self, name: str, path: str | os.PathLike[str] | None = None, **options: Any) -> Path:
        """Write a page that shows the comparison or run `name`. Options and errors: `lakeprobe.view.files.write`."""
        from lakeprobe.view.files import write

        with query_errors():
            return write(self._connection, self.path, name, Path(path) if path is not None else None, **options)

    def flow(self, name: str) -> Cell:
        """Return the error of a comparison (of a run: the largest magnitude) along the program, for a notebook."""
        from lakeprobe.view import cells, levels

        with query_errors():
            return cells.flow_cell(self._connection, self.path, levels.subject(self.path, name))

    def _run_of(self, name: str) -> tuple[str, str | None]:
        """Return the run `name` and None, or the target of the comparison `name` and the comparison."""
        if name in self.runs:
            return name, None
        if name in self.comparisons:
            return comparisons.load(self.path, name).target, name
        existing = ", ".join([*self.runs, *self.comparisons]) or "nothing"
        raise UsageError(f"{name} is neither a run nor a comparison in {self.path}; it has {existing}")


class Verification:
    """The ops of a run that were run again: `findings` has what is wrong, `rows` all results."""

    def __init__(self, lake: Lake, name: str, report: VerifyReport | None = None) -> None:
        """Of the verification `name` in `lake`, with the report of its making if it was made just now."""
        self.lake, self.name, self.report = lake, name, report

    def __repr__(self) -> str:
        return f"<verification {self.name}>"

    @property
    def rows(self) -> duckdb.DuckDBPyRelation:
        """All results, as in the table verifications."""
        return self.lake.sql("FROM verifications WHERE verification = $name ORDER BY place", {"name": self.name})

    @property
    def findings(self) -> duckdb.DuckDBPyRelation:
        """The results that are not right, errors first, and the calls that could not run; equal calls once."""
        return self.lake.sql(resources.sql("reports/verification_findings"), {"verification": self.name})

    def against(self, peer: str, standard: str = "benchmark") -> duckdb.DuckDBPyRelation:
        """Judge each result by the error that the verification `peer` of another device has. Raises UsageError."""
        from lakeprobe.checks import standards

        self.lake.verification(peer)
        standards.check_standard(standard)
        standards.prepare(self.lake._connection)
        parameters = {"device": self.name, "peer": peer, "standard": standard}
        return self.lake.sql(resources.sql("checks/against"), parameters)

    def write(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write msprobe's two csv files of acc_check into `folder`."""
        from lakeprobe.reports import verification_files

        rows = self.rows.filter("origin = 'device'").order("place")
        return verification_files.write(rows_of(rows), Path(folder))


class ComparisonResult:
    """A comparison in a lake: its rows as a relation, and its summary."""

    def __init__(self, lake: Lake, name: str, report: CompareReport | None = None) -> None:
        """Load the comparison `name` of `lake`; `report` is given if it was made just now."""
        self.lake, self.name, self.report = lake, name, report
        self.stored: StoredComparison = comparisons.load(lake.path, name)
        self._summary: Summary | None = None

    def __repr__(self) -> str:
        return f"<comparison {self.name} of {self.stored.target} with {self.stored.golden}>"

    def __str__(self) -> str:
        summary = self.summary()
        several_ranks = len({unit.rank for unit in self.stored.units}) > 1
        before = self.beginnings()
        if not several_ranks or summary.verdict is Verdict.EQUAL:
            return shown(comparison_text(self.stored, summary, before=before))
        # a new connection, because the lake may be closed by now
        with query_errors(), staging.reading(self.lake.path) as snapshot, connect() as connection:
            views.define(connection, snapshot)
            found = differing.first_difference(connection, self.stored)
            return shown(comparison_text(self.stored, summary, found, before))

    def beginnings(self) -> tuple[Beginning, ...]:
        """Return what differed before the first op, in the preflights and first checkpoints that the lake has."""
        with query_errors(), staging.reading(self.lake.path) as snapshot:
            return beginnings(snapshot, self.stored)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the summary in a notebook."""
        printer.text(str(self))

    @property
    def rows(self) -> duckdb.DuckDBPyRelation:
        """All rows, as in the table results."""
        return self.lake.sql("FROM results WHERE comparison = $name ORDER BY step, rank, row", {"name": self.name})

    def summary(self) -> Summary:
        """Return the first op that differs, the worst ops, and how all rows ended."""
        if self._summary is None:
            self._summary = summarise(self.stored)
        return self._summary

    @property
    def verdict(self) -> Verdict:
        """The verdict on the whole comparison; `summary().coverage` has its reasons."""
        return self.summary().verdict

    def coverage(self) -> duckdb.DuckDBPyRelation:
        """Return how many ops and rows of each side were paired, and how."""
        return self.lake.sql(resources.sql("analysis/coverage"), {"comparison": self.name})

    def unmatched(self, most: int = 20) -> duckdb.DuckDBPyRelation:
        """Return the ops without counterpart, `most` per side, step and rank, each with those most similar to it."""
        return self.lake.sql(resources.sql("analysis/unmatched"), {"comparison": self.name, "most": most})

    def first_difference(self, **options: Any) -> FirstDifference:
        """Find the op at which the runs begin to differ, on each rank and over all of them.

        Options and errors: `lakeprobe.analysis.first_difference.first_difference`.
        """
        with query_errors():
            return differing.first_difference(self.lake._connection, self.stored, **options)

    def blame(self, **options: Any) -> Blame:
        """Find the ops that may be the cause, with evidence, and the path to the loss.

        Options and errors: `lakeprobe.analysis.blame.blame`.
        """
        with query_errors():
            return blaming.blame(self.lake._connection, self.lake.path, self.name, **options)

    def view(self, most: int = 8) -> Cell:
        """Return the page of this comparison for a notebook; `lake.view` writes it to a file."""
        from lakeprobe.view import cells, levels

        with query_errors():
            shown = levels.subject(self.lake.path, self.name)
            return cells.page_cell(self.lake._connection, self.lake.path, shown, most)

    def tree(self) -> Cell:
        """Return the tree of modules, open at the cause, for a notebook."""
        from lakeprobe.view import cells, levels

        with query_errors():
            shown = levels.subject(self.lake.path, self.name)
            return cells.tree_cell(self.lake._connection, self.lake.path, shown)

    def flow(self) -> Cell:
        """Return the error along the program, for a notebook."""
        return self.lake.flow(self.name)

    def write(self, folder: str | os.PathLike[str], format: str = "csv") -> list[Path]:
        """Write result files into `folder`, as csv or xlsx in msprobe's layout, or as json or parquet with types."""
        return files.write(self.stored, Path(folder), format)


def rows_of(relation: duckdb.DuckDBPyRelation) -> list[dict[str, Any]]:
    """The rows of a relation, each as values by column."""
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
