"""Compares one unit with another: a plain function of picklable arguments, so that it can run in any process."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct, field

from lakeprobe import metrics, resources
from lakeprobe.compare import limits, mapping_tables, noise, searching, stages
from lakeprobe.compare import rule as rules
from lakeprobe.compare.rule import Rule
from lakeprobe.compare.stages import Case, Pending, materialize
from lakeprobe.errors import LakeError, RuleError
from lakeprobe.lake import damage
from lakeprobe.lake.comparison import RESULTS_FILE, ROW_GROUP, STACKS_FILE, SUSPECTS_FILE
from lakeprobe.lake.connection import (
    COMPARISON_MACROS,
    columns_of,
    connect,
    define_macros,
    lock,
    parsed,
    quiet,
    reason,
    set_spill_folder,
    set_variable,
    useful_threads,
    write_parquet,
)
from lakeprobe.lake.connection import MACROS as USERS_MACROS
from lakeprobe.lake.layout import UnitKey, UnitPlace
from lakeprobe.mapping.files import Mappings
from lakeprobe.resources import file_pattern, quote_identifier, quote_text
from lakeprobe.system import files, storage
from lakeprobe.system.process_limits import end_soon, process_limits

if TYPE_CHECKING:
    import duckdb

_KIND = "SELECT usual_rule, other_names, are_collected, dumped FROM comparison_kind"
_STATE = "SELECT dumped, is_structure, target_complete, golden_complete FROM comparison_kind"

_LIKE_A_THRESHOLD = 0.85
"""A variable of a rule this similar to the name of a threshold (difflib's ratio) counts as a misspelling."""

MACROS = (
    "dtype_class", "same_dtype", "same_type", "same_value", "same_extra", "same_statistic",
    "api_keys", "is_recomputation", "prefix_of", "module_of", "replaced_once", "layer_function", "layer_module",
    "distance_of", "is_alike",
)  # fmt: skip


class PairTask(Struct, frozen=True):
    """Two units to compare, where they are, and the folder `staged` for the result, which does not exist yet.

    Without a `rule`, the frameworks of the units and the mappings choose a bundled one. The folders of the units do not
    change while they are compared. `is_first`: neither run has an earlier step; `is_after_equal`: the last one of each
    is the same; `is_after_other_update`: from that one the optimizer moved the parameters otherwise. `search` allows a
    search for a mapping where names say little. `noise` is the file of differences between repeats of golden. `seconds`
    and bytes of `memory` limit the comparison.
    """

    lake: Path
    target: UnitKey
    golden: UnitKey
    target_place: UnitPlace
    golden_place: UnitPlace
    staged: Path
    rule: Rule | None
    mappings: Mappings
    threads: int
    is_first: bool
    is_after_equal: bool = False
    is_after_other_update: bool = False
    search: bool = True
    noise: Path | None = None
    seconds: float | None = None
    memory: int | None = None


class PairReport(Struct, frozen=True):
    """How two units were compared (kind: statistics, tensor or digest; the rule), and how many rows there are.

    `is_rounding`: ops round differently in the two units (docs/noise.md). `dumped`: as in sql/compare/kind.sql.
    `is_structure`: both dumps name their ops and record no values. `incomplete`: the units whose collecting process
    ended in the middle of the step. `idle`: names in the mapping files that the units do not have, each with its
    mapping and its side.
    """

    target: UnitKey
    golden: UnitKey
    kind: str
    rule: Rule
    rows: int
    is_rounding: bool
    dumped: str
    is_structure: bool
    incomplete: tuple[UnitKey, ...]
    idle: tuple[tuple[str, str, str], ...]
    searched: searching.Counts | None = None
    """How the rows ended, if a mapping was searched."""
    own_metrics: tuple[str, ...] = ()
    """The metrics that only the rule defines."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Every threshold, as the rule left it."""
    batch: UnitKey | None = None
    """The target of the pair in whose folder the rows are, together with those of others."""


def compare_units_isolated(task: PairTask) -> PairReport:
    """Run `compare_units` within the limits of the task, in a process that does nothing else."""
    with process_limits(task.memory):
        return compare_units(task, end_soon)


def compare_units(task: PairTask, when_over: limits.WhenOver = lambda: None) -> PairReport:
    """Write the results of one pair of units. Calls `when_over` when time is over. Raises RuleError and LakeError."""
    import duckdb

    target, golden = task.target_place, task.golden_place
    task.staged.mkdir(parents=True)
    macros = COMPARISON_MACROS if task.rule is None else USERS_MACROS
    connection, writer = connect(task.threads, macros), quiet(duckdb.connect(config={"threads": 1}))
    for opened in (connection, writer):
        storage.connect(opened, task.lake)
    origin = task.rule.origin if task.rule else "the default rule"
    noise.parse_ahead(connection)
    try:
        set_spill_folder(connection, task.staged / "spill")
        if task.memory is not None:
            limits.set_memory_limit(connection, task.memory)
            limits.set_memory_limit(writer, task.memory)
        with limits.guarded(connection, task.seconds, origin, when_over):
            rule, pending = _prepare(connection, task, target, golden)
            origin = rule.origin
            rules.run(connection, rule)
            thresholds = _check_thresholds(connection, rule)
            _pair(connection, rule, pending)
            materialize(connection, rule, pending, "metrics")
            _check_metrics(connection, rule)
            own_metrics = _keep_metrics(connection, rule)
            for view in ("differences", "verdicts"):
                materialize(connection, rule, pending, view)
            idle = _idle_lines(connection, task.mappings, rule)
            is_rounding = _find_suspects(writer, connection, task)
            searched = searching.write(writer, connection, task.staged) if searching.is_used(rule) else None
            rows = _write(writer, connection, rule, task.staged / RESULTS_FILE)
            copy_stacks(writer, target, task.staged / STACKS_FILE)
            kind = str(_only_value(connection, "SELECT kind FROM comparison_kind"))
            dumped, is_structure, *whole = _rows(connection, _STATE)[0]
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        raise LakeError(f"{task.lake}: {reason(error)}") from error
    except duckdb.Error as error:
        raise damage.of_query(error) or RuleError(f"{origin}: {reason(error)}") from error
    finally:
        connection.close()
        writer.close()
    files.sync_tree(task.staged)
    units = (task.target, task.golden)
    incomplete = tuple(key for key, is_whole in zip(units, whole, strict=True) if not is_whole)
    return PairReport(
        *units, kind, rule, rows, is_rounding, dumped, is_structure, incomplete, idle, searched, own_metrics, thresholds
    )


def _prepare(
    connection: duckdb.DuckDBPyConnection, task: PairTask, target: UnitPlace, golden: UnitPlace
) -> tuple[Rule, Pending]:
    """Load both sides, set the thresholds, define the views that the rule names, and lock the connection.

    Returns the rule, and the stages that are not defined yet.
    """
    define_macros(connection, MACROS)
    _load(connection, task, target, golden)
    _define_tensor_metrics(connection, task.threads)
    _create_table(connection, "thresholds", resources.sql("judge/thresholds"))
    for name, value in _rows(connection, "SELECT name, value FROM thresholds"):
        set_variable(connection, name, value)
    create_shared_tables(connection)
    connection.execute(
        "CREATE TEMP TABLE pairing (row INTEGER, target_row INTEGER, golden_row INTEGER, matched_by VARCHAR)"
    )
    usual_rule, other_names, are_collected, dumped = _rows(connection, _KIND)[0]
    if are_collected:
        _number_by_name(connection)
    if usual_rule == "same_framework" and dumped == "ops" and not searching.have_same_calls(connection):
        _renumber(connection, "match/recomputed")
        if task.search and task.rule is None and task.mappings.is_empty and searching.is_needed(connection):
            usual_rule = "cross_framework"
    rule = task.rule or rules.load(rules.default_name(usual_rule, task.mappings))
    if searching.is_used(rule):
        is_found = searching.create(connection, (target, golden) if task.search else None)
        other_names = other_names and not is_found
    mapping_tables.create(connection, task.mappings, other_names)
    is_mapped = bool(_only_value(connection, "SELECT other_names FROM comparison_kind"))
    if _reads_stacks(rule):
        _load_stacks(connection)
    pending = stages.define(connection, Case(rule, is_mapped or not task.mappings.is_empty))
    noise.load_repeats(
        connection, noise.Repeats(task.noise, task.golden.step, task.golden.rank) if task.noise else None
    )
    # results keep the order of the left side, as long as joins do not swap their sides
    connection.execute("SET disabled_optimizers = 'build_side_probe_side'")
    lock(connection)
    return rule, pending


def _idle_lines(
    connection: duckdb.DuckDBPyConnection, mappings: Mappings, rule: Rule
) -> tuple[tuple[str, str, str], ...]:
    """Return the names in the user's mapping files that the runs do not have: mapping, side and name."""
    files = [] if mappings.is_empty else ["idle_lines"]
    if mappings.layers and _reads_stacks(rule):
        files.append("idle_layers")
    return tuple(row for file in files for row in _rows(connection, resources.sql(f"match/{file}")))


def _reads_stacks(rule: Rule) -> bool:
    return not rules.names(rule).isdisjoint(stages.WITH_STACKS)


def create_shared_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables that are the same for every pair."""
    _create_table(connection, "uninitialised", resources.sql("judge/uninitialised"))
    _create_table(connection, "same_contents", metrics.same_contents())
    connection.execute(parsed(connection, resources.sql("match/search_layouts")))


def _load(connection: duckdb.DuckDBPyConnection, task: PairTask, target: UnitPlace, golden: UnitPlace) -> None:
    """Create the tables of both sides, and find by what the two can be compared."""
    for side, unit in (("target", target), ("golden", golden)):
        set_variable(connection, f"{side}_unit", file_pattern(unit.folder))
        connection.execute(f"SET VARIABLE {side}_held = $held", {"held": unit.condition})
    _create_table(connection, "comparison_kind", resources.sql("compare/kind"))
    rows = _rows(connection, "SELECT rows FROM comparison_kind WHERE rows IS NOT NULL")
    if not rows:
        folders = f"{target.folder} or of {golden.folder}"
        raise LakeError(f"dumps.parquet of {folders} is damaged; read both dumps again with --replace")
    connection.execute(f"SET threads = {useful_threads(rows[0][0], task.threads)}")
    for side, unit in (("target", target), ("golden", golden)):
        _load_side(connection, side, unit)
        connection.execute(f"CREATE VIEW {side} AS {both_tables(side)}")


def both_tables(side: str) -> str:
    """Return the query for the leaves of a side with their ops."""
    return f"SELECT *, row_name(op, slot) AS name FROM {side}_leaves JOIN {side}_ops USING (seq)"


def _load_side(connection: duckdb.DuckDBPyConnection, side: str, unit: UnitPlace) -> None:
    """Create the tables of one side."""
    set_variable(connection, "unit_values", str(unit.values))
    of_unit = f"getvariable('{side}_unit'), getvariable('{side}_held')"
    for table in ("ops", "leaves", "contents"):
        _create_table(connection, f"{side}_{table}", f"FROM unit_{table}({of_unit})")


def _load_stacks(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables of both sides' call stacks, which few rules read."""
    for side in ("target", "golden"):
        _create_table(connection, f"{side}_stacks", _stacks(side))


def _stacks(side: str) -> str:
    """Return the query for the call stacks of a side."""
    rows = f"unit_rows(getvariable('{side}_unit') || '/{STACKS_FILE}', getvariable('{side}_held'))"
    return f"SELECT stack, frames FROM {rows}"


def _number_by_name(connection: duckdb.DuckDBPyConnection) -> None:
    """Number backward calls by their names where order would pair the gradients of different calls."""
    _create_table(connection, "moved_calls", resources.sql("match/moved_calls"))
    if _only_value(connection, "SELECT count(*) FROM moved_calls"):
        _renumber(connection, "match/numbered_by_name")


def _renumber(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    """Number the calls of both sides as the query does, which reads the ops and stacks of a run."""
    for side in ("target", "golden"):
        read = f"WITH ops AS (FROM {side}_ops), stacks AS ({_stacks(side)}) FROM ({resources.sql(query)})"
        connection.execute(parsed(connection, f"CREATE OR REPLACE TEMP TABLE {side}_ops AS {read}"))


def copy_stacks(writer: duckdb.DuckDBPyConnection, unit: UnitPlace, path: Path) -> None:
    """Write the call stacks of the unit into `path`."""
    stacks = unit.folder / STACKS_FILE
    if unit.held is None:
        with stacks.open("rb") as source, path.open("wb") as copy:
            shutil.copyfileobj(source, copy)
        return
    is_of_unit = f"step = {unit.held.step} AND rank = {unit.held.rank}"
    table = f"read_parquet({quote_text(file_pattern(stacks))}, hive_partitioning = false)"
    rows = f"FROM {table} WHERE {is_of_unit} ORDER BY stack"
    writer.execute(f"COPY (SELECT * EXCLUDE (step, rank) {rows}) TO {quote_text(str(path))} (FORMAT parquet)")


def _define_tensor_metrics(connection: duckdb.DuckDBPyConnection, threads: int) -> None:
    """Define the SQL functions on tensors. numpy is loaded only if there are tensors."""
    files = frozenset(file for (file,) in _rows(connection, resources.sql("compare/tensor_files")))
    if not files:
        define_no_tensor_metrics(connection)
        return
    from lakeprobe.tensors.udf import register

    register(connection, threads, files)


def define_no_tensor_metrics(connection: duckdb.DuckDBPyConnection) -> None:
    """Define the SQL functions on tensors for units without contents."""
    connection.execute(f"CREATE MACRO tensor_metrics(target, golden) AS NULL::{metrics.struct_type()}")
    connection.execute("CREATE MACRO tensor_order(target, golden) AS NULL::VARCHAR")
    connection.execute(f"CREATE MACRO standard_measures(target, golden) AS NULL::{metrics.standard_type()}")


def _check_thresholds(connection: duckdb.DuckDBPyConnection, rule: Rule) -> dict[str, float]:
    """Return the thresholds as the rule leaves them. Raises RuleError for one that is misspelt or no number from 0."""
    names = [name for (name,) in _rows(connection, "SELECT name FROM thresholds")]
    asked = ", ".join(f"getvariable({quote_text(name)})" for name in names)
    values = dict(zip(names, _rows(connection, f"SELECT {asked}")[0], strict=True))
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            raise RuleError(f"{rule.origin}: the threshold {name} is {value!r}; it must be a number (docs/rules.md)")
        if not 0 <= value < math.inf:
            raise RuleError(f"{rule.origin}: the threshold {name} is {value}; it must be finite, and 0 or more")
    others = [name for (name,) in _rows(connection, "SELECT name FROM duckdb_variables()") if name not in values]
    for variable in others:
        meant = get_close_matches(variable, names, n=1, cutoff=_LIKE_A_THRESHOLD)
        if meant:
            raise RuleError(
                f"{rule.origin}: {variable} is not a threshold; write {meant[0]}, or give the variable another name"
            )
    return {name: float(value) for name, value in values.items()}


def _check_metrics(connection: duckdb.DuckDBPyConnection, rule: Rule) -> None:
    missing = _only_value(connection, resources.sql("compare/metrics_missing"))
    if missing:
        raise RuleError(
            f"{rule.origin}: the view metrics lacks {missing} pairs; it must have a row for every pair of one kind "
            "(docs/rules.md)"
        )


def _keep_metrics(connection: duckdb.DuckDBPyConnection, rule: Rule) -> tuple[str, ...]:
    """Define metrics_kept, the metrics that results keep. Returns the names of those that only the rule defines."""
    found, passed_on = columns_of(connection, "metrics"), columns_of(connection, "paired")
    try:
        own = metrics.own(found, taken=passed_on)
    except ValueError as error:
        raise RuleError(f"{rule.origin}: the view metrics: {error} (docs/rules.md)") from error
    for column in found.keys() & passed_on.keys() - {"row"}:
        connection.execute(f"ALTER TABLE metrics DROP COLUMN {quote_identifier(column)}")
    connection.execute(parsed(connection, f"CREATE VIEW metrics_kept AS {metrics.kept(own)}"))
    return tuple(own)


def _pair(connection: duckdb.DuckDBPyConnection, rule: Rule, pending: Pending) -> None:
    searches = (stage for name, made in stages.SEARCHES.items() if name in rules.names(rule) for stage in made)
    for view in ("renamed_ops", *searches, "op_pairs", "pairs"):
        materialize(connection, rule, pending, view)
    if not _only_value(connection, resources.sql("compare/pairs_sound")):
        side, row, count = _rows(connection, resources.sql("compare/paired_twice"))[0]
        what = f"{count} times; a row has at most one counterpart" if count > 1 else "which does not exist"
        raise RuleError(f"{rule.origin}: pairs has the {side} row {row}, {what}")
    connection.execute(parsed(connection, f"INSERT INTO pairing {resources.sql('compare/pairing')}"))
    materialize(connection, rule, pending, "paired")
    if "pairs" not in rules.names(rule):  # else the rule says how rows pair
        _exchange(connection)
    if searching.is_used(rule):
        materialize(connection, rule, pending, "left_over")


def _exchange(connection: duckdb.DuckDBPyConnection) -> None:
    """Pair what an addition or multiplication takes in the other order by its values (sql/match/exchanged.sql)."""
    _create_table(connection, "exchanged", resources.sql("match/exchanged"))
    if _only_value(connection, "SELECT count(*) FROM exchanged"):
        connection.execute(parsed(connection, resources.sql("match/exchange")))
        connection.execute(
            parsed(connection, f"CREATE OR REPLACE TEMP TABLE paired AS {resources.sql('compare/paired')}")
        )


def _find_suspects(writer: duckdb.DuckDBPyConnection, connection: duckdb.DuckDBPyConnection, task: PairTask) -> bool:
    """Write the ops that stand out of rounding noise. Returns whether any op rounds differently."""
    is_rounding = noise.find_suspects(
        connection, task.target.step, task.is_first, task.is_after_equal, task.is_after_other_update
    )
    write_parquet(writer, connection, "FROM noise_suspects ORDER BY nth", task.staged / SUSPECTS_FILE, ROW_GROUP)
    return is_rounding


def _write(writer: duckdb.DuckDBPyConnection, connection: duckdb.DuckDBPyConnection, rule: Rule, path: Path) -> int:
    for side in ("target", "golden"):  # paired has all that is still needed, and writing needs the memory
        connection.execute(f"DROP TABLE {side}_leaves")
    query = resources.sql("compare/results")
    write_parquet(writer, connection, query, path, ROW_GROUP)
    rows = int(str(_only_value(connection, "SELECT count(*) FROM paired")))
    check = resources.sql("compare/results_whole")
    in_order, each_once = writer.execute(parsed(writer, check), [file_pattern(path), rows]).fetchall()[0]
    if not each_once:
        _refuse(connection, rule)
    if not in_order:  # a join that spills to the disk may give its rows in another order
        # sorting first takes as long as all the rest
        write_parquet(writer, connection, f"FROM ({query}) ORDER BY row", path, ROW_GROUP)
    return rows


def _refuse(connection: duckdb.DuckDBPyConnection, rule: Rule) -> NoReturn:
    """Raise the RuleError that says why results have a row twice, or a row without an outcome."""
    if _only_value(connection, "SELECT count(*) <> count(DISTINCT row) FROM metrics"):  # then verdicts repeat it too
        raise RuleError(f"{rule.origin}: the view metrics has a row more than once; each pair may have one")
    row, count = _rows(connection, resources.sql("compare/verdict_missing"))[0]
    raise RuleError(f"{rule.origin}: the view verdicts has the row {row} {count} times, not once")


def _create_table(connection: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
    connection.execute(parsed(connection, f"CREATE TEMP TABLE {name} AS {query}"))


def _only_value(connection: duckdb.DuckDBPyConnection, query: str) -> object:
    return _rows(connection, query)[0][0]


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[Any]:
    return connection.execute(parsed(connection, query)).fetchall()
