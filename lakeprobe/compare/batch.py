"""Compares many small pairs of units at once, where planning a pair's statements costs more than running them.

Each statement is written for one pair. A batch runs it once, in a lateral join with the table of the pairs: it then
reads the rows that have the number of a pair, and DuckDB carries the number through every join, group and window. The
results are those of `compare_units`, row for row, in one file for all pairs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from lakeprobe import metrics, resources
from lakeprobe.compare import limits, mapping_tables, noise, stages, unit
from lakeprobe.compare import rule as rules
from lakeprobe.compare.rule import Rule
from lakeprobe.compare.stages import Case
from lakeprobe.compare.unit import PairReport, PairTask
from lakeprobe.errors import LakeError
from lakeprobe.lake.comparison import BATCH, RESULTS_FILE, ROW_GROUP, STACKS_FILE, SUSPECTS_FILE
from lakeprobe.lake.connection import (
    COMPARISON_MACROS,
    connect,
    copy_to_parquet,
    define_macros,
    parsed,
    reason,
    set_spill_folder,
    set_variable,
)  # fmt: skip
from lakeprobe.mapping.files import Mappings
from lakeprobe.resources import file_pattern, quote_text
from lakeprobe.system import files, storage

if TYPE_CHECKING:
    import duckdb

_RULE = "same_framework"
"""The rule that batches know. All others, and all that needs a search or contents, are compared pair by pair."""

_LEAST, _MOST = 4, 64
"""Pairs in a batch. Fewer gain little."""

_BYTES, _EMPTY = 1 << 20, 16 << 10
"""Bytes of the tables of tensors, of both sides of a batch, and of a table with hardly any rows. A row takes 4.5 bytes
or more besides (measured), so a batch has at most some 230 000 rows, and takes less than 550 MB."""

_UNIT_ROWS = re.compile(
    r"unit_rows\((?:folder|getvariable\('(\w+)_unit'\)) \|\| '/(\w+)\.parquet', (?:held|getvariable\('\w+_held'\))\)"
)
"""How a statement names the rows of a unit in one of its files."""

_VIEW = re.compile(r"CREATE OR REPLACE VIEW (\w+) AS ([^;]*);")
"""A view of a bundled rule."""

_SIDES = ("target", "golden")

_OF_A_PAIR = re.compile(
    r"getvariable\('(is_first_step|is_first_recorded|is_after_equal|is_after_other_update|noise_ends|noise_error)'\)"
    r"|\$(is_first|is_after_equal|step|is_equal|is_rounding)\b"
)
"""The variables and parameters of statements that differ from pair to pair: columns of pairs_at_once."""


def batches(tasks: Sequence[PairTask], jobs: int) -> list[tuple[PairTask, ...]]:
    """Deal out `tasks`, in their order, as batches of pairs that are compared at once, enough for `jobs` processes.

    A task that is large, or cannot be in a batch, is one by itself.
    """
    most = min(_MOST, max(_LEAST, len(tasks) // max(1, jobs)))
    shared: dict[object, int] = {}
    for task in tasks:
        for place in (task.target_place, task.golden_place):
            shared[place.folder] = shared.get(place.folder, 0) + 1
    dealt: list[list[PairTask]] = []
    held = 0
    for task in tasks:
        size = _BYTES + 1
        if _is_plain(task):
            places = (task.target_place, task.golden_place)
            sizes = ((place.folder / "tensors.parquet").stat().st_size // shared[place.folder] for place in places)
            size = sum(max(0, size - _EMPTY) for size in sizes)
        if not dealt or held + size > _BYTES or len(dealt[-1]) == most:
            dealt.append([])
            held = 0
        dealt[-1].append(task)
        held += size
    return [tuple(some) for some in dealt]


def _is_plain(task: PairTask) -> bool:
    """Return whether nothing that was asked for needs a pair to be compared by itself."""
    return (
        task.rule is None
        and task.mappings.is_empty
        and task.noise is None
        and task.seconds is None
        and task.memory is None
        and not isinstance(task.lake, storage.RemotePath)
    )


def compare_batch(tasks: Sequence[PairTask]) -> list[PairReport]:
    """Write the results of some pairs of units. Raises RuleError and LakeError."""
    reports = _compare_at_once(tasks) if len(tasks) >= _LEAST else {}
    return [reports.get(number) or unit.compare_units(task) for number, task in enumerate(tasks)]


def _compare_at_once(tasks: Sequence[PairTask]) -> dict[int, PairReport]:
    """Write the results of the pairs that can be compared at once. Returns their reports by the number of the task."""
    import duckdb

    first = tasks[0].staged
    first.parent.mkdir(parents=True, exist_ok=True)
    rule = rules.load(_RULE)
    connection = connect(1, COMPARISON_MACROS)
    try:
        set_spill_folder(connection, first.with_name(f"{first.name}.spill"))
        with limits.guarded(connection, None, rule.origin):
            batch = _Batch(connection)
            try:
                _load(batch, tasks)
            except duckdb.Error:  # compared one by one, so that the message names the unit that cannot be read
                return {}
            if not _keep_plain(batch, tasks):
                return {}
            thresholds = _prepare(batch, rule)
            if not _pair(batch):
                return {}
            _judge(batch)
            _find_suspects(batch)
            return _write(batch, tasks, rule, thresholds)
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        raise LakeError(f"{tasks[0].lake}: {reason(error)}") from error
    finally:
        connection.close()


class _Batch(Struct):
    """The pairs that are compared at once.

    `tables` are in the schema `every` and have the rows of all pairs, with the column `pair`. `views` are the queries
    of what statements read besides.
    """

    connection: duckdb.DuckDBPyConnection
    tables: set[str] = field(default_factory=set)
    views: dict[str, str] = field(default_factory=dict)

    def create(self, name: str, statement: str, where: str = "true") -> None:
        """Create the table `name` from what `statement` returns for each pair, where that has `where`."""
        made = f"CREATE TABLE every.{name} AS {self._of_each(statement, where)}"
        self.connection.execute(parsed(self.connection, made))
        self.tables.add(name)

    def rows(self, statement: str, where: str = "true") -> list[Any]:
        """Return what `statement` returns for each pair, after the number of the pair."""
        asked = f"FROM ({self._of_each(statement, where)}) ORDER BY pair"
        return self.connection.execute(parsed(self.connection, asked)).fetchall()

    def copy(self, statement: str, order: str, path: Path) -> None:
        """Write what `statement` returns for each pair, in this order, into one file, with the target's step and rank.

        A file for each pair costs four times as much to write, and the summary five times as much to read.
        """
        rows = f"""
            SELECT k.step, k.rank, s.* EXCLUDE (pair)
            FROM ({self._of_each(statement)}) AS s
            JOIN pairs_at_once AS k USING (pair)
            ORDER BY pair, {order}
        """
        copy_to_parquet(self.connection, rows, path, ROW_GROUP)

    def keep(self, pairs: Sequence[int]) -> None:
        """Leave out all other pairs from here on."""
        self.connection.execute("DELETE FROM pairs_at_once WHERE pair NOT IN (SELECT unnest($1))", [pairs])

    def _of_each(self, statement: str, where: str = "true") -> str:
        read: dict[str, str] = {}
        self._add(read, set(), statement)
        ctes = ", ".join(f"{name} AS ({query}\n)" for name, query in read.items())
        scope = f"WITH {ctes} " if ctes else ""
        of_pair = _OF_A_PAIR.sub(lambda found: f"k.{found[1] or found[2]}", statement)
        return (
            f"SELECT k.pair, s.* FROM pairs_at_once AS k, LATERAL ({scope}SELECT * FROM (\n{of_pair}\n)) AS s "
            f"WHERE {where}"
        )

    def _add(self, read: dict[str, str], seen: set[str], statement: str) -> None:
        """Add to `read` the tables and views that `statement` reads, each view after those that it reads itself."""
        for name in sorted(_words(statement) & (self.tables | self.views.keys()) - seen):
            seen.add(name)
            if name in self.tables:
                read[name] = f"SELECT * EXCLUDE (pair) FROM every.{name} AS every_row WHERE every_row.pair = k.pair"
            else:
                self._add(read, seen, self.views[name])
                read[name] = self.views[name]


@cache
def _words(statement: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", re.sub("--.*", "", statement)))


def _load(batch: _Batch, tasks: Sequence[PairTask]) -> None:
    """Create the tables of both sides."""
    define_macros(batch.connection, unit.MACROS)
    batch.connection.execute("CREATE SCHEMA every")
    columns: list[list[Any]] = [list(range(len(tasks)))]
    for places in ([task.target_place for task in tasks], [task.golden_place for task in tasks]):
        columns.append([str(place.folder) for place in places])
        columns.append([place.held and place.held.step for place in places])
        columns.append([place.held and place.held.rank for place in places])
    columns.append([task.target.step for task in tasks])
    columns.append([task.target.rank for task in tasks])
    columns.append([task.is_first for task in tasks])
    columns.append([task.is_after_equal for task in tasks])
    columns.append([task.is_after_other_update for task in tasks])
    batch.connection.execute(resources.sql("compare/pairs_at_once"), columns)
    for number, side in enumerate(_SIDES):
        for file in ("dumps", "ops", "tensors", "contents", "stacks"):
            batch.views[f"{side}_{file}_rows"] = _rows_of(side, file, columns[1 + 3 * number])
    kind = _UNIT_ROWS.sub(r"\1_\2_rows", resources.sql("compare/kind"))
    batch.create("comparison_kind", kind)
    for side in _SIDES:
        for table, macro in (("ops", "unit_ops"), ("leaves", "unit_leaves")):
            _, statement = resources.sql(f"macros/{macro}").split("AS TABLE", 1)
            batch.create(f"{side}_{table}", _UNIT_ROWS.sub(rf"{side}_\2_rows", statement))
        batch.views[side] = unit.both_tables(side)


def _rows_of(side: str, file: str, folders: Sequence[str]) -> str:
    """Return the statement for the rows of a pair's unit in one of its files, as the macro unit_rows has them."""
    paths = ", ".join(quote_text(file_pattern(Path(folder) / f"{file}.parquet")) for folder in sorted(set(folders)))
    return f"""
        SELECT * EXCLUDE (step, rank, filename)
        FROM (
            SELECT NULL::INTEGER AS step, NULL::INTEGER AS rank WHERE false
            UNION ALL BY NAME
            FROM read_parquet([{paths}], hive_partitioning = false, filename = true, union_by_name = true)
        ) AS row_of_file
        WHERE
            row_of_file.filename = k.{side}_folder || '/{file}.parquet'
            AND (
                k.{side}_step IS NULL
                OR row_of_file.step = k.{side}_step AND row_of_file.rank = k.{side}_rank
            )"""


def _keep_plain(batch: _Batch, tasks: Sequence[PairTask]) -> bool:
    """Leave those pairs in the batch whose rule is that of batches. Returns whether there are any."""
    batch.views["match_exact"] = resources.sql("match/exact")
    are_same = dict(batch.rows(resources.sql("match/same_calls")))
    are_moved = {number for number, *_ in batch.rows(resources.sql("match/moved_calls"))}
    plain = [
        number
        for number, is_plain, dumped in batch.rows(resources.sql("compare/plain_pair"))
        if is_plain and number not in are_moved and (dumped != "ops" or are_same[number])
    ]
    batch.keep(plain)
    return bool(plain)


def _prepare(batch: _Batch, rule: Rule) -> dict[str, float]:
    """Create the tables that all pairs share, and the views of the stages. Returns the thresholds."""
    connection = batch.connection
    kind = "WITH comparison_kind AS (SELECT false AS cross_framework)"
    connection.execute(f"CREATE TEMP TABLE thresholds AS {kind} FROM ({resources.sql('judge/thresholds')})")
    thresholds = dict(connection.execute("SELECT name, value::DOUBLE FROM thresholds").fetchall())
    for name, value in thresholds.items():
        set_variable(connection, name, value)
    unit.create_shared_tables(connection)
    unit.define_no_tensor_metrics(connection)
    mapping_tables.create(connection, Mappings(), False)
    noise.load_repeats(connection, None)
    set_variable(connection, "unit_values", "")
    folder = connection.execute("SELECT any_value(target_folder) FROM pairs_at_once").fetchall()[0][0]
    for side in _SIDES:
        no_contents = f"FROM unit_contents({quote_text(file_pattern(Path(folder)))}) LIMIT 0"
        connection.execute(f"CREATE TEMP TABLE {side}_contents AS {no_contents}")
    case = Case(rule, is_mapped=False)
    batch.views.update({stage.name: resources.sql(stage.sql) for stage in stages.STAGES if stage.when(case)})
    batch.views.update(_VIEW.findall(rule.sql))
    return thresholds


def _pair(batch: _Batch) -> bool:
    """Pair the rows of all pairs. Leaves out those in which rows are exchanged; returns whether any is left."""
    for stage in ("op_pairs", "pairs"):
        batch.create(stage, batch.views.pop(stage))
    batch.create("pairing", resources.sql("compare/pairing"))
    batch.create("paired", batch.views.pop("paired"))
    exchanged = {pair for pair, *_ in batch.rows(resources.sql("match/exchanged"))}
    left = [pair for (pair,) in batch.connection.execute("SELECT pair FROM pairs_at_once ORDER BY pair").fetchall()]
    batch.keep([pair for pair in left if pair not in exchanged])
    return len(exchanged) < len(left)


def _judge(batch: _Batch) -> None:
    """Measure and judge the rows of all pairs."""
    for stage in ("metrics", "differences", "verdicts"):
        batch.create(stage, batch.views.pop(stage))
    batch.views["metrics_kept"] = metrics.kept({})


def _find_suspects(batch: _Batch) -> None:
    """As `noise.find_suspects`, for all pairs."""
    _create_noise(batch, noise.MEASURED)
    _note(batch, "is_equal", batch.rows(resources.sql("noise/nothing_differs")))
    _create_noise(batch, noise.TRACED)
    _note(batch, "is_first_step", batch.rows(resources.sql("noise/first_step")))
    _create_noise(batch, noise.CERTAIN)
    _note(batch, "rounds", batch.rows(resources.sql("noise/rounds"), "NOT k.is_equal"))
    _create_noise(batch, tuple(noise.BEYOND_ROUNDING), "k.rounds")
    _create_noise(batch, ("suspects",))
    extents = batch.rows(resources.sql("noise/extent"), "NOT k.is_equal")
    for place, column in enumerate(("is_rounding", "noise_ends", "noise_error"), start=1):
        _note(batch, column, [(extent[0], extent[place]) for extent in extents])


def _create_noise(batch: _Batch, queries: Sequence[str], where: str = "k.is_equal IS NOT true") -> None:
    for query in queries:
        batch.create(f"noise_{query}", resources.sql(f"noise/{query}"), where)


def _note(batch: _Batch, column: str, values: Sequence[tuple[int, object]]) -> None:
    """Put a value for each pair into a column of pairs_at_once."""
    for value in {value for _, value in values}:
        pairs = [pair for pair, its in values if its == value]
        statement = f"UPDATE pairs_at_once SET {column} = $value WHERE pair IN (SELECT unnest($pairs))"
        batch.connection.execute(statement, {"value": value, "pairs": pairs})


def _write(batch: _Batch, tasks: Sequence[PairTask], rule: Rule, thresholds: dict[str, float]) -> dict[int, PairReport]:
    """Write the files of the pairs, into the folder of the first. Returns their reports by the number of the task."""
    batch.create("results", resources.sql("compare/results"))
    states = [state for state in batch.rows(resources.sql("compare/batch_states")) if state[1]]
    if not states:
        return {}
    # a pair that is not whole is compared by itself, which says what is wrong
    batch.keep([number for number, *_ in states])
    first = tasks[states[0][0]]
    first.staged.mkdir(parents=True)
    batch.copy("FROM results", "row", first.staged / f"{BATCH}{RESULTS_FILE}")
    batch.copy("FROM noise_suspects", "nth", first.staged / f"{BATCH}{SUSPECTS_FILE}")
    batch.copy("FROM target_stacks_rows", "stack", first.staged / f"{BATCH}{STACKS_FILE}")
    files.sync_tree(first.staged)
    reports = {}
    for number, _, is_rounding, kind, rows, dumped, is_structure, *complete in states:
        units = (tasks[number].target, tasks[number].golden)
        incomplete = tuple(key for key, is_complete in zip(units, complete, strict=True) if not is_complete)
        reports[number] = PairReport(
            *units, kind, rule, rows, bool(is_rounding), dumped, is_structure, incomplete, (),
            thresholds=thresholds, batch=first.target,
        )  # fmt: skip
    return reports
