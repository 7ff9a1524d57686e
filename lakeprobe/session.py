"""Opens a lake in Python: ingest, compare and SQL as methods. The command line and Jupyter use it."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Sequence
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
from lakeprobe.analysis import signs as signing
from lakeprobe.analysis import watch as watching
from lakeprobe.analysis.beginnings import Beginning, beginnings
from lakeprobe.analysis.blame import Blame
from lakeprobe.analysis.communication import Communication
from lakeprobe.analysis.first_difference import FirstDifference
from lakeprobe.analysis.merge import Sheet
from lakeprobe.analysis.overflow import Overflow
from lakeprobe.analysis.signs import Signs
from lakeprobe.analysis.summary import Summary, outcomes_in_lake, summarise
from lakeprobe.analysis.verdict import Coverage, Verdict, coverage_of
from lakeprobe.analysis.watch import Anomaly
from lakeprobe.changes import USUAL_MODES
from lakeprobe.checks import LIMIT, SEED
from lakeprobe.compare.run import CompareReport, publish_comparison
from lakeprobe.compare.run import compare as run_compare
from lakeprobe.errors import LakeError, RuleError, TensorError, UsageError
from lakeprobe.journals import settle as settling
from lakeprobe.lake import audits, guard, layout, log, shards, staging, store, upkeep, views
from lakeprobe.lake import comparison as comparisons
from lakeprobe.lake.comparison import StoredComparison
from lakeprobe.lake.connection import connect, query_errors, records, share_done
from lakeprobe.lake.shards import Pending
from lakeprobe.lake.staging import Reader
from lakeprobe.output import shown
from lakeprobe.reports import files, notebook, op_text
from lakeprobe.reports import picture as pictures
from lakeprobe.reports.lake_text import lake_text
from lakeprobe.reports.picture import DriftReport
from lakeprobe.reports.terminal import comparison_text
from lakeprobe.work import Progress, default_jobs

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

    from lakeprobe.checks.perturb import PerturbReport
    from lakeprobe.checks.reproduce import Script
    from lakeprobe.checks.verify import VerifyReport
    from lakeprobe.compare.repeats import NoiseReport
    from lakeprobe.export import ExportReport
    from lakeprobe.ingest import IngestReport
    from lakeprobe.lake.compaction import CompactReport
    from lakeprobe.layouts.merge import MergeReport
    from lakeprobe.layouts.shards import Carried
    from lakeprobe.mapping.files import Mappings
    from lakeprobe.mapping.propose import Proposal
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
            settling.settle(self.path)
        self._measures = False
        self._reader = Reader(self.path)
        self._opened = ExitStack()
        self._opened.callback(self._reader.close)
        # DuckDB's Python binding prints leak messages at exit for a connection that is still open
        self._finalizer = weakref.finalize(self, self._opened.close)
        notebook.register()

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

    def _repr_html_(self) -> str:
        """Show in a notebook what the lake holds."""
        return notebook.page(self.ls if store.exists(self.path) else self.__repr__)

    def _ipython_key_completions_(self) -> list[str]:
        """Complete lake["…"] with the names of the comparisons."""
        return self.comparisons

    def __getitem__(self, name: str) -> ComparisonResult:
        """Return the comparison `name`, whose name a notebook completes. Raises UsageError and LakeError."""
        return self.comparison(name)

    @property
    def runs(self) -> list[str]:
        """The names of the runs."""
        return layout.runs(self.path)

    @property
    def monitored(self) -> list[str]:
        """The names of the runs that have series."""
        return layout.monitored(self.path)

    @property
    def comparisons(self) -> list[str]:
        """The names of the comparisons."""
        return layout.comparisons(self.path)

    def rm(self, name: str) -> None:
        """Remove a run, comparison, noise, verification or perturbation; comparisons keep their rows.

        Raises UsageError and LakeError.
        """
        upkeep.remove(self.path, name)
        self._see_changes()

    def rename(self, name: str, new: str) -> None:
        """Rename a run, comparison, noise, verification or perturbation; comparisons follow what they use.

        Raises UsageError and LakeError.
        """
        upkeep.rename(self.path, name, new)
        self._see_changes()

    def compact(self, run: str, *, split: bool = False, by: str = "step") -> CompactReport:
        """Put all ranks of each step of `run` into one file per table, or with `split` into files of their own again.

        With `by="rank"`, all steps of each rank are put into one file per table, except units with copied contents.

        No answer changes: many ranks and steps are read faster. Raises UsageError and LakeError, also if the run
        changes meanwhile; the lake is then as it was.
        """
        from lakeprobe.lake import compaction

        report = compaction.split(self.path, run) if split else compaction.compact(self.path, run, by)
        self._see_changes()
        return report

    def note(self, name: str, text: str | None = None) -> str:
        """Return the note on a run or comparison, after setting it to `text` if that is given. Raises UsageError."""
        if text is not None:
            upkeep.write_note(self.path, name, text)
        return upkeep.note(self.path, name)

    def ingest(
        self,
        path: str | os.PathLike[str],
        *,
        run: str | None = None,
        tensors: str = "copy",
        replace: bool = False,
        steps: Sequence[int] = (),
        ranks: Sequence[int] = (),
        shard: str | None = None,
        jobs: int = 1,
    ) -> IngestReport:
        """Read what lies under `path` (folder, file or archive): dumps into runs, result tables into tables.

        A run is named after its folder, or `run` if there is one only. `tensors` says where tensor contents go: `copy`
        into the lake, `link` to the dump's files, or `none`. Of dumps only those of `steps` and `ranks` are read, if
        any are named. What is in the lake already is left alone; `replace` reads it again. `jobs` is the number of
        processes; from a script, more than one needs the usual `if __name__ == "__main__":`. `shard`, such as "3/8",
        reads a share of one run, which is in the lake once all shards have finished (`publish`).

        Raises DumpError, LakeError and UsageError; the lake is then as it was before.
        """
        from lakeprobe.ingest import ingest as run_ingest  # the readers, which a query does not need

        report = run_ingest(
            path, lake=self.path, run=run, tensors=tensors, replace=replace, steps=steps, ranks=ranks, shard=shard,
            jobs=jobs,
        )  # fmt: skip
        self._see_changes()
        return report

    def publish(self, name: str) -> int:
        """Put the run or comparison `name`, which was made in shards, into the lake. Return how many units it has.

        The last shard to finish does this by itself, unless it was killed or did not see the others. Raises LakeError
        unless all shards have finished, and UsageError if none waits.
        """
        if shards.whole(self.path, name).kind == "run":
            from lakeprobe.ingest.run import publish_run

            units = publish_run(self.path, name)
        else:
            units = publish_comparison(self.path, name)
        self._see_changes()
        return units

    def pending(self) -> list[Pending]:
        """Return the runs and comparisons that shards have begun and nobody has published, and how far they are."""
        return shards.pending(self.path)

    def export(
        self,
        run: str,
        out: str | os.PathLike[str],
        *,
        steps: Sequence[int] = (),
        ranks: Sequence[int] = (),
        replace: bool = False,
        jobs: int = 1,
    ) -> ExportReport:
        """Write `run` as msprobe's dump folders: OUT/stepN/rankR.

        Only the units of `steps` and `ranks` are written, if any are given. `out` must be new or empty; `replace`
        replaces an earlier export there. `jobs` is the number of processes.

        Raises UsageError for a run, step or rank that does not exist, for a folder with other files, and for kernel
        dumps; LakeError and TensorError if a file cannot be read or written.
        """
        from lakeprobe.export import export as run_export  # numpy and the readers: 0.2 s that a query does not need

        return run_export(self.path, run, Path(out), steps=steps, ranks=ranks, replace=replace, jobs=jobs)

    def compare(
        self,
        target: str | os.PathLike[str],
        golden: str | os.PathLike[str],
        *,
        rule: str | None = None,
        mappings: Mappings | None = None,
        search: bool = True,
        steps: Sequence[int] = (),
        ranks: Sequence[int] = (),
        name: str | None = None,
        noise: str | None = None,
        cuts: str | None = None,
        tensors: str | None = None,
        replace: bool = False,
        jobs: int = 1,
        timeout: float | None = None,
        memory: str | None = None,
    ) -> ComparisonResult:
        """Compare the run `target` with the run `golden` by `rule`, and store the result as the comparison `name`.

        A side is the name of a run in the lake, or a path with dumps, which are ingested first (`tensors` and `replace`
        as in `ingest`). @step1 and @rank0 after either selects one step and rank. If `steps` and `ranks` are given,
        only those take part.

        Without a rule, the frameworks of the runs and the `mappings` (`lakeprobe.mapping.files.read`) choose a bundled
        one. Between two frameworks or implementations a mapping is searched unless `search` is False.
        Differences that repeats of golden show too, measured as `noise`, do not stand out.

        With `cuts` the ranks of target, a run of the lake, are first merged into the run TARGET_whole, by golden's
        names and shapes and what is inferred ("auto"), or by a layout file (docs/cuts.md).

        The comparison replaces an earlier one of the same units, and with `replace` any other of its name. `timeout`
        (seconds) and `memory` ("4GB") limit each pair of units, which then runs in a process of its own. If the lake is
        read-only, the comparison is in a temporary one: `.lake` of the result.

        Raises UsageError, DumpError, RuleError and LakeError; the lake then stays as it was.
        """
        if cuts is not None:
            from lakeprobe.layouts.merge import whole_of  # numpy, which other comparisons need not load

            target, _ = whole_of(self.path, str(target), str(golden), cuts)
        report = run_compare(
            target, golden, lake=self.path, rule=rule, mappings=mappings, search=search, steps=steps, ranks=ranks,
            name=name, noise=noise, tensors=tensors, replace=replace, jobs=jobs, timeout=timeout, memory=memory,
        )  # fmt: skip
        self._see_changes()
        return ComparisonResult(self if report.lake == self.path else Lake(report.lake), report.name, report)

    def compare_shard(
        self,
        target: str,
        golden: str,
        shard: str,
        *,
        rule: str | None = None,
        mappings: Mappings | None = None,
        search: bool = True,
        steps: Sequence[int] = (),
        ranks: Sequence[int] = (),
        name: str | None = None,
        noise: str | None = None,
        replace: bool = False,
        jobs: int = 1,
        timeout: float | None = None,
        memory: str | None = None,
    ) -> Pending:
        """Compare a share of the units of two runs of this lake: `shard` is such as "3/8", counted from 0.

        The comparison is in the lake once all shards have finished: the last one publishes it. Returns how far they
        are. The other options and errors are those of `compare`; a shard does not replace an equal comparison unless
        `replace` says so, and UsageError is raised for a side that is a path and for a lake that cannot be written to.
        """
        report = run_compare(
            target, golden, lake=self.path, rule=rule, mappings=mappings, search=search, steps=steps, ranks=ranks,
            name=name, noise=noise, replace=replace, jobs=jobs, timeout=timeout, memory=memory, shard=shard,
        )  # fmt: skip
        self._see_changes()
        assert report.pending is not None  # it is there for every shard
        return report.pending

    def merge_layout(
        self,
        run: str,
        name: str,
        *,
        like: str | None = None,
        layout: str | os.PathLike[str] | None = None,
        steps: Sequence[int] = (),
        replace: bool = False,
    ) -> MergeReport:
        """Merge the ranks of `run`, each of which has a part of the model or the data, into the run `name` of one rank.

        `like` is a run of one rank that has the names and shapes of the whole, usually golden. `layout` is a layout
        file with the axes and placements that cannot be inferred. The table `layouts` says how each row was cut, and
        of which ranks' rows it was made (docs/cuts.md). Raises UsageError, and LakeError if the mesh cannot be told.
        """
        from lakeprobe.layouts import layout_file
        from lakeprobe.layouts.merge import merge_layout as run_merge  # numpy, which a query does not need

        file = None if layout is None else layout_file.read(Path(layout))
        report = run_merge(run, name=name, lake=self.path, golden=like, file=file, steps=steps, replace=replace)
        self._see_changes()
        return report

    def measure_noise(
        self,
        golden: str | os.PathLike[str],
        *repeats: str | os.PathLike[str],
        name: str | None = None,
        steps: Sequence[int] = (),
        ranks: Sequence[int] = (),
        jobs: int = 1,
    ) -> NoiseReport:
        """Compare every repeat with `golden`, and store the differences under `name` (by default golden's name).

        The sides are those of `compare`; each comparison stays in the lake as NAME_REPEAT. A noise of that name is
        replaced. Raises UsageError, DumpError, RuleError and LakeError.
        """
        from lakeprobe.compare.repeats import measure

        report = measure(golden, repeats, lake=self.path, name=name, steps=steps, ranks=ranks, jobs=jobs)
        self._see_changes()
        return report

    def verify(
        self,
        run: str,
        *ops: str,
        name: str | None = None,
        device: str = "cpu",
        standard: str = "rounding",
        random: bool = False,
        seed: int = SEED,
        skip: Sequence[str] = (),
        modules: Sequence[str] = (),
        steps: Sequence[int] = (),
        ranks: Sequence[int] = (),
        of: str | None = None,
        most: int = 20,
        imports: Sequence[str] = (),
        limit: float = LIMIT,
        replace: bool = False,
        save_errors: str | os.PathLike[str] | None = None,
        jobs: int = 1,
    ) -> Verification:
        """Run ops of `run` again and keep what came out. Options and errors: `lakeprobe.checks.verify.verify`."""
        from lakeprobe.checks.verify import verify as run_verify  # numpy, which a query does not need

        report = run_verify(
            run, ops, lake=self.path, name=name, device=device, standard=standard, random=random, seed=seed, skip=skip,
            modules=modules, steps=steps, ranks=ranks, of=of, most=most, imports=imports, limit=limit, replace=replace,
            save_errors=save_errors, jobs=jobs,
        )  # fmt: skip
        self._see_changes()
        return Verification(self, report.name, report)

    def reproduce(
        self,
        run: str,
        op: str,
        out: str | os.PathLike[str] | None = None,
        *,
        step: int | None = None,
        rank: int | None = None,
        backward: bool = True,
        random: bool = False,
        seed: int = SEED,
    ) -> Script:
        """Write a script that runs one op as `run` called it. Options and errors: `lakeprobe.checks.reproduce`."""
        from lakeprobe.checks.reproduce import reproduce as write_script

        return write_script(
            run, op, out, lake=self.path, step=step, rank=rank, backward=backward, random=random, seed=seed
        )

    def perturb(
        self,
        run: str,
        *ops: str,
        name: str | None = None,
        modes: Sequence[str] = USUAL_MODES,
        device: str = "cpu",
        random: bool = False,
        seed: int = SEED,
        skip: Sequence[str] = (),
        steps: Sequence[int] = (),
        ranks: Sequence[int] = (),
        of: str | None = None,
        most: int = 20,
        imports: Sequence[str] = (),
        limit: float = LIMIT,
        jobs: int = 1,
    ) -> PerturbReport:
        """Run ops of `run` with changed inputs, and keep what that did. Options: `lakeprobe.checks.perturb.perturb`."""
        from lakeprobe.checks.perturb import perturb as run_perturb

        report = run_perturb(
            run, ops, lake=self.path, name=name, modes=modes, device=device, random=random, seed=seed, skip=skip,
            steps=steps, ranks=ranks, of=of, most=most, imports=imports, limit=limit, jobs=jobs,
        )  # fmt: skip
        self._see_changes()
        return report

    def code_mapping(self, run: str) -> duckdb.DuckDBPyRelation:
        """Return the kernels of a run of a static graph with their lines of code (sql/reports/code_mapping.sql)."""
        return self.sql(resources.sql("reports/code_mapping"), {"run": run})

    def perturbation(self, name: str) -> duckdb.DuckDBPyRelation:
        """Return the ops that changes of their inputs moved too far, the worst of each op and mode."""
        return self.sql(resources.sql("reports/perturbation_findings"), {"perturbation": name})

    def verification(self, name: str) -> Verification:
        """Return a verification that the lake has. Raises UsageError."""
        from lakeprobe.checks import stored

        stored.check(self.path, name)
        return Verification(self, name)

    def map(self, target: str, golden: str, *, step: int | None = None, rank: int | None = None) -> Proposal:
        """Propose which names of the runs `target` and `golden` belong together, by their first common step and rank.

        `.yaml("data")`, `.yaml("cell")` and `.yaml("layer")` of the result are mapping files. Raises UsageError if a
        run is not in the lake or they have no such step and rank, and LakeError if a file of the lake cannot be read.
        """
        from lakeprobe.mapping.propose import propose

        return propose(target, golden, lake=self.path, step=step, rank=rank)

    def check(self) -> list[str]:
        """Return what is wrong with the lake, a line each: files that are gone or left over, audits that fail."""
        store.check(self.path)
        lines = staging.unfit(self.path)
        if not lines:
            lines += [f"{audit.name}: {audit.promise} ({len(rows)} rows)" for audit, _, rows in audits.run(self.sql)]
        return lines

    def recover(self) -> None:
        """Make units of what interrupted processes collected, including data that was set aside."""
        settling.recover(store.check(self.path), again=True)
        self._see_changes()

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

        The lake stays open for what this returns. For what is made of that (`.limit(5)`), keep the lake in a variable.
        Raises RuleError if the query fails, and LakeError if the lake does not exist or one of its files cannot be
        read.
        """
        store.check(self.path)
        self._define_tensor_metrics(query)
        with query_errors():
            rows = self._connection.sql(query, params=parameters)
        if rows is not None:  # a statement such as SET has none
            weakref.finalize(rows, _let_go, self).atexit = False
        return rows

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
            guard.write(self._connection, rows, Path(into))
        return None

    def share_done(self) -> Callable[[], float]:
        """Return a function that estimates, in another thread, how much of the running query is done: from 0 to 1."""
        return share_done(self._connection)

    def _define_tensor_metrics(self, query: str) -> None:
        """Give SQL the functions on tensors where `query` may name one: they take numpy, 0.1 s."""
        is_named = any(name in query.lower() for name in ("tensor_metrics", "standard_measures"))
        if is_named and not self._measures:
            from lakeprobe.tensors.udf import register

            register(self._connection, default_jobs())
            self._measures = True

    def ls(self) -> str:
        """Return what the lake holds as a text: its runs, comparisons, result tables and checks."""
        runs = self.sql(resources.sql("reports/runs"))
        monitored = self.sql(resources.sql("reports/monitored"))
        comparisons = [(name, self._covered_or_none(name)) for name in self.comparisons]
        return lake_text(self.path, runs, comparisons, monitored)

    def _covered_or_none(self, comparison: str) -> Coverage | None:
        try:
            return self.covered(comparison)
        except LakeError:  # a damaged one
            return None

    def show(
        self,
        op: str,
        *,
        runs: Sequence[str] = (),
        comparison: str | None = None,
        steps: Sequence[int] = (),
        ranks: Sequence[int] = (),
        most: int = 4,
        whole_stack: bool = False,
    ) -> str:
        """Return ops as a text: their tensors and values in each run side by side, module and call stack.

        `op` is a name, a part of one, a module's path, or a glob. `runs` are the runs to show, by default both sides of
        `comparison`, which is by default the last one made, or all runs if there is no comparison. Raises UsageError if
        there is no such op, run or comparison.
        """
        absent = [run for run in runs if run not in self.runs]
        if absent:
            raise layout.unknown_run(self.path, absent[0])
        compared = None if runs else comparison or comparisons.latest(self.path)
        stored = comparisons.load(self.path, compared) if compared else None
        asked = op_text.Asked(op, runs, steps, ranks)
        if stored is None or not (comparison or {stored.target, stored.golden} <= set(self.runs)):
            compared = None
        else:
            names = self.sql(resources.sql("reports/op_counterparts"), {"comparison": compared}).fetchall()
            asked = op_text.Asked(op, (stored.target, stored.golden), steps, ranks, dict(names))
        found = op_text.find(self.sql, asked)
        if not found:
            raise UsageError(self._why_no_op(asked))
        return op_text.ops_text(self.sql, found, most, comparison=compared, whole_stack=whole_stack)

    def _why_no_op(self, asked: op_text.Asked) -> str:
        """Say that no op has the name, and name similar ones, or that none has it in the steps and ranks asked for."""
        found = op_text.find(self.sql, op_text.Asked(asked.pattern, asked.runs))
        if not found:
            alike = self.sql(resources.sql("reports/similar_api"), {"pattern": asked.pattern}).fetchall()
            advice = f"did you mean {alike[0][0]}?" if alike else _LIST_OPS
            return f"no op or module has {asked.pattern} in its name; {advice}"
        chosen = [f"step {', '.join(map(str, asked.steps))}"] if asked.steps else []
        chosen += [f"rank {', '.join(map(str, asked.ranks))}"] if asked.ranks else []
        units = sorted({(op.step, op.rank) for op in found})
        known = ", ".join(f"step {step} rank {rank}" for step, rank in units[:8])
        return (
            f"no op of {' '.join(chosen)} has {asked.pattern} in its name; "
            f"there are some in {known}{', …' if len(units) > 8 else ''}"
        )

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

    def communication(self, name: str, *, steps: Sequence[int] = (), laws: bool = True) -> Communication:
        """Return the communication between the ranks of a run, and the results that break a law of their collective.

        `name` is a run, or a comparison, which stands for its target and adds the meetings that carry a difference.
        Without `steps` it has all. Without `laws` it does not list every result by law, which takes longer. Raises
        UsageError if the lake has neither, or lacks a step.
        """
        run, comparison = self._run_of(name)
        stored = comparisons.load(self.path, comparison) if comparison else None
        with query_errors():
            return communicating.communication(self._connection, run, stored, steps, laws)

    def transfers(self, run: str) -> duckdb.DuckDBPyRelation:
        """Return every collective call, send and receive of `run`, a row each, with its group, partners and tensors.

        Raises UsageError if the lake has no such run.
        """
        run, _ = self._run_of(run)
        with query_errors():
            return communicating.transfers(self._connection, run)

    def overflow(
        self,
        name: str,
        *,
        golden: str | None = None,
        steps: Sequence[int] = (),
        level: str = "medium",
        most: int | None = None,
    ) -> Overflow:
        """Find where NaN and inf are born in a run, or in the target of a comparison, and how they spread.

        Values that are not finite in the run `golden` under the same names, or on the golden side of the comparison,
        are expected. `level` is the mildest that `ops` lists; `most` limits `births` and `ops`. Raises UsageError for a
        run, golden run, step or level that does not exist, and for both a golden run and a comparison.
        """
        run, comparison = self._run_of(name)
        thresholds = comparisons.load(self.path, comparison).thresholds if comparison else None
        with query_errors():
            return overflowing.overflow(
                self._connection, run, golden=golden, comparison=comparison, steps=steps, level=level, most=most,
                thresholds=thresholds,
            )  # fmt: skip

    def drift(
        self,
        golden: str,
        *runs: str,
        names: str | Sequence[str] = (),
        metric: str = "norm",
        steps: Sequence[int] = (),
        ranks: Sequence[int] = (),
        threshold: float = drifting.THRESHOLD,
        noise: str | None = None,
    ) -> DriftReport:
        """Follow `metric` of the rows that `names` select, in `runs` and in `golden`, over all steps and ranks.

        A name is an op, a row, a module's path (layers.1.mlp), or the beginning of one. Without names, drift follows
        the parameter gradients, their norm over all parameters, and the loss. `steps` and `ranks` are golden's; none
        means all. `threshold` is a share of golden's tensor. Up to three times the difference between repeats of
        golden, measured as `noise`, counts as noise.

        Raises UsageError for a run, name, metric, step, rank or noise that does not exist, and where nothing is left
        to follow.
        """
        with query_errors():
            return DriftReport.of(
                drifting.drift(self._connection, golden, runs, names, metric, steps, ranks, threshold, noise)
            )

    def series_drift(self, golden: str, run: str, threshold: float = drifting.THRESHOLD) -> duckdb.DuckDBPyRelation:
        """Return where the series of the monitored run `run` leave those of `golden`, the earliest first.

        Columns and errors: `lakeprobe.analysis.drift.series_drift`.
        """
        with query_errors():
            return drifting.series_drift(self._connection, golden, run, threshold)

    def draw_series(
        self, golden: str, run: str, path: str | os.PathLike[str], threshold: float = drifting.THRESHOLD
    ) -> Path:
        """Write a picture of the series that leave those of `golden`, as PNG or SVG by the suffix of `path`.

        Errors: `series_drift`, and UsageError without matplotlib, or if no series leaves.
        """
        with query_errors():
            return pictures.write(drifting.followed_series(self._connection, golden, run, threshold), path)

    def signs(self, golden: str, run: str) -> Signs:
        """Compare the signs of gradients of two runs that were monitored with the metric signs.

        Errors: `lakeprobe.analysis.signs.signs`.
        """
        with query_errors():
            return signing.signs(self._connection, golden, run)

    def export_series(
        self, run: str, out: str | os.PathLike[str], form: str = "monitor", *, digits: int = 6, steps_in_file: int = 1
    ) -> list[Path]:
        """Write the series of the monitored run `run` into the new folder `out`, for another tool. Returns the files.

        `form` is monitor or grad_probe, the files of msprobe's, or tensorboard. Options and errors:
        `lakeprobe.export.series.export_series`.
        """
        from lakeprobe.export.series import export_series

        with query_errors():
            return export_series(self._connection, run, out, form, digits=digits, steps_in_file=steps_in_file)

    def watch(self, run: str, rules: Sequence[str] = watching.RULES, last: int | None = None) -> list[Anomaly]:
        """Return what `rules` find in the series of the monitored run `run`, the earliest step first.

        A rule is the name of a bundled one, or the path of an .sql file. With `last` the rules see only that many of
        the last steps. Raises UsageError and RuleError.
        """
        with query_errors():
            return watching.watch(self._connection, run, [watching.load(rule) for rule in rules], last)

    def merge(
        self,
        *sources: str,
        apis: Iterable[str] = (),
        metrics: Iterable[str] = (),
        steps: Sequence[int] = (),
        ranks: Sequence[int] = (),
    ) -> list[Sheet]:
        """Return the ranks of comparisons side by side, a sheet per step and metric.

        A source is a comparison, a result file of msprobe, or a folder of those. `apis` select rows by the beginning of
        their names up to a dot, `metrics` are headers of msprobe's table, and `steps` and `ranks` select those;
        without them everything is merged. Raises UsageError if sources do not fit together or lack what is asked for,
        and DumpError for damaged files.
        """
        comparisons, files = merging.sources(self.path, sources)
        with query_errors():
            planned = merging.plan(comparisons, files, apis, metrics, steps, ranks)
            return list(merging.found(merging.sheets(self._connection, planned), planned))

    def view(
        self,
        name: str,
        path: str | os.PathLike[str] | None = None,
        *,
        format: str = "html",
        steps: Sequence[int] = (),
        ranks: Sequence[int] = (),
        most: int = 8,
        all_units: bool = False,
        progress: Progress | None = None,
    ) -> Path:
        """Write a page that shows the comparison or run `name`. Options and errors: `lakeprobe.view.files.write`."""
        from lakeprobe.view.files import write

        to = None if path is None else Path(path)
        with query_errors():
            return write(
                self._connection, self.path, name, to, format=format, steps=steps, ranks=ranks, most=most,
                all_units=all_units, progress=progress,
            )  # fmt: skip

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
        raise layout.unknown_run(self.path, name, kind="run or comparison")


def _let_go(lake: Lake) -> None:
    """Do nothing. What waits to call this keeps the lake open."""


_LIST_OPS = 'list them: lakeprobe sql "select distinct op from ops"'


class Verification:
    """The ops of a run that were run again: `findings` has what is wrong, `rows` all results."""

    def __init__(self, lake: Lake, name: str, report: VerifyReport | None = None) -> None:
        """Read the verification `name` of `lake`; `report` is given if it was made just now."""
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
        return verification_files.write(records(rows), Path(folder))


LAYOUTS = ("lakeprobe", "msprobe")
"""Whose workbook to write."""


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
        """Show the summary in IPython."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """Show the summary in a notebook."""
        return notebook.page(self.__str__)

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
        stored = self.stored
        units = [unit.places for unit in stored.units if unit.is_structure]
        asked = {
            "comparison": self.name,
            "target": stored.target,
            "golden": stored.golden,
            "most": most,
            "units": units,
        }
        return self.lake.sql(resources.sql("analysis/unmatched"), asked)

    def first_difference(
        self,
        *,
        steps: Sequence[int] = (),
        ranks: Sequence[int] = (),
        threshold: float | None = None,
        paired: bool = False,
        noise: str | None = None,
    ) -> FirstDifference:
        """Find the op at which the runs begin to differ, on each rank and over all of them.

        A leaf differs if its difference is beyond rounding noise, or, with `threshold`, if its error is larger; an
        error of 1 is as large as the tensor, and 0 as threshold finds all that is not equal. Differences between
        repeats of golden, measured as `noise`, are noise too. `paired` skips ops without counterpart. `steps` and
        `ranks` limit what is shown; the explanation considers all ranks.

        Raises UsageError for an invalid threshold, and for a step, rank or noise that does not exist.
        """
        with query_errors():
            return differing.first_difference(
                self.lake._connection, self.stored, steps=steps, ranks=ranks, threshold=threshold, paired=paired,
                noise=noise,
            )  # fmt: skip

    def blame(
        self, *, step: int | None = None, most: int = 5, repeat: str | None = None, noise: str | None = None
    ) -> Blame:
        """Find the ops that may be the cause, with evidence, and the path to the loss.

        `most` is the length of the list. Without `step`, blame takes the first step with a suspect, or the first step
        if none has one. `repeat` is another run of golden's program that was compared with golden, `noise` the name of
        repeats that were measured: differences that those show too are noise.

        Raises UsageError for a step that does not exist, and for a repeat that was not compared with golden.
        """
        with query_errors():
            return blaming.blame(self.lake._connection, self.lake.path, self.name, step, most, repeat, noise)

    def shards(self, op: str, *, step: int | None = None) -> Carried | None:
        """Say which ranks' shards carry the difference of `op`, if the target was merged; None if it was not.

        Without `step` it is the first step. Raises LakeError if a file cannot be read.
        """
        from lakeprobe.layouts.shards import carried

        first = min(unit.step for unit in self.stored.units) if step is None else step
        with query_errors():
            return carried(self.lake._connection, self.stored, op, first)

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

    def write(self, folder: str | os.PathLike[str], format: str = "csv", *, layout: str = "lakeprobe") -> list[Path]:
        """Write result files into `folder`; returns them. Raises UsageError and LakeError.

        csv is in msprobe's layout, a file per step and rank; json and parquet have typed rows. xlsx is one workbook
        with an overview, the findings and all rows, or with the `layout` msprobe a file per step and rank like csv.
        """
        if layout not in LAYOUTS:
            raise UsageError(f"the layout {layout} is unknown; use one of {', '.join(LAYOUTS)}")
        if format != "xlsx" or layout == "msprobe":
            return files.write(self.stored, Path(folder), format)
        from lakeprobe.reports import book  # openpyxl, which takes 0.2 s

        with query_errors(), staging.reading(self.lake.path) as snapshot, connect() as connection:
            views.define(connection, snapshot)
            found = differing.first_difference(connection, self.stored)
            return [book.write(self.stored, self.summary(), found, Path(folder))]
