"""Compares one unit with another: the unit of work of a comparison, a plain function of picklable arguments."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lakeprobe import metrics, resources
from lakeprobe.compare import limits, mapping_tables, noise, searching, stages
from lakeprobe.compare import rule as rules
from lakeprobe.compare.rule import Rule
from lakeprobe.compare.stages import Case, Pending, work_out
from lakeprobe.errors import LakeError, RuleError
from lakeprobe.lake.comparison import RESULTS_FILE, ROW_GROUP, STACKS_FILE, SUSPECTS_FILE
from lakeprobe.lake.connection import columns_of, connect, define_macros, lock, set_variable, useful_threads
from lakeprobe.lake.layout import UnitKey
from lakeprobe.mapping.files import Mappings
from lakeprobe.resources import file_pattern, quote_identifier, quote_text
from lakeprobe.system import files

if TYPE_CHECKING:
    import duckdb

_STATE = "SELECT dumped, is_structure, target_complete, golden_complete FROM comparison_kind"

_LIKE_A_THRESHOLD = 0.85
"""How like the name of a threshold a variable of a rule must be to be taken for a misspelt one (difflib's ratio)."""

_MACROS = (
    "dtype_class", "same_dtype", "same_type", "same_value", "same_extra", "same_statistic",
    "api_keys", "prefix_of", "module_of", "replaced_once", "layer_function", "layer_module",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PairTask:
    """Two units to hold against each other into the folder `staged`, which does not exist yet.

    Without a `rule` the frameworks of the units and the mappings decide which of the bundled ones it is.
    The folders of the units do not change while they are compared. `is_first_step`: neither run has an earlier step.
    `search`: whether to look for a mapping where names say little. `noise`: the file with what repeats of golden differ
    by.
    `seconds` and bytes of `memory` are what the comparison may take.
    """

    lake: Path
    target: UnitKey
    golden: UnitKey
    target_folder: Path
    golden_folder: Path
    staged: Path
    rule: Rule | None
    mappings: Mappings
    threads: int
    is_first_step: bool
    search: bool = True
    noise: Path | None = None
    seconds: float | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class PairReport:
    """By what two units were held against each other (statistics, tensor or digest; the rule), and how many rows.

    `is_rounding`: ops round differently in the two units (docs/noise.md).
    `dumped`: ops, kernels or saved values. `is_structure`: both dumps name their ops and record no values.
    `incomplete`: those of the two whose collecting process was cut off in the middle of the step.
    `idle`: names in the mapping files that the units do not have, each with its mapping and its side.
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
    """How the rows ended, where a mapping was searched."""
    own_metrics: tuple[str, ...] = ()
    """The metrics that only the rule knows."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Every threshold, as the rule left it."""


def compare_units_apart(task: PairTask) -> PairReport:
    """`compare_units` for a process that does nothing else: the system holds it to the limits of the task."""
    with limits.process_limits(task.seconds, task.memory):
        return compare_units(task)


def compare_units(task: PairTask) -> PairReport:
    """Write the results of one pair of units. Raises RuleError and LakeError."""
    import duckdb

    target, golden = task.target_folder, task.golden_folder
    task.staged.mkdir(parents=True)
    connection = connect(task.threads)
    origin = task.rule.origin if task.rule else "the default rule"
    try:
        limits.set_spill_folder(connection, task.staged / "spill")
        if task.memory is not None:
            limits.set_memory_limit(connection, task.memory)
        with limits.guarded(connection, task.seconds, origin):
            rule, pending = _prepare(connection, task, target, golden)
            origin = rule.origin
            rules.run(connection, rule)
            thresholds = _check_thresholds(connection, rule)
            _pair(connection, rule, pending)
            work_out(connection, rule, pending, "metrics")
            _check_metrics(connection, rule)
            own_metrics = _keep_metrics(connection, rule)
            for view in ("differences", "verdicts"):
                work_out(connection, rule, pending, view)
            idle = () if task.mappings.is_empty else tuple(_rows(connection, resources.sql("match/idle_lines")))
            is_rounding = _find_suspects(connection, task)
            searched = searching.write(connection, task.staged) if searching.is_asked(rule) else None
            rows = _write(connection, rule, task.staged / RESULTS_FILE)
            kind = str(_only_value(connection, "SELECT kind FROM comparison_kind"))
            dumped, is_structure, *whole = _rows(connection, _STATE)[0]
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        raise LakeError(f"{task.lake}: {rules.first_line(error)}") from error
    except duckdb.Error as error:
        raise RuleError(f"{origin}: {rules.first_line(error)}") from error
    finally:
        connection.close()
    shutil.copyfile(target / STACKS_FILE, task.staged / STACKS_FILE)
    files.sync_tree(task.staged)
    units = (task.target, task.golden)
    incomplete = tuple(key for key, is_whole in zip(units, whole, strict=True) if not is_whole)
    return PairReport(
        *units, kind, rule, rows, is_rounding, dumped, is_structure, incomplete, idle, searched, own_metrics, thresholds
    )


def _prepare(connection: duckdb.DuckDBPyConnection, task: PairTask, target: Path, golden: Path) -> tuple[Rule, Pending]:
    """Load both sides, set the thresholds, define the views that the rule names, and lock the connection.

    Returns the rule, and the stages that are not defined yet.
    """
    define_macros(connection, _MACROS)
    _load(connection, task, target, golden)
    _define_tensor_metrics(connection, task.threads)
    _create_table(connection, "thresholds", resources.sql("judge/thresholds"))
    for name, value in _rows(connection, "SELECT name, value FROM thresholds"):
        set_variable(connection, name, value)
    _create_table(connection, "uninitialised", resources.sql("judge/uninitialised"))
    _create_table(connection, "same_contents", metrics.same_contents())
    connection.execute("CREATE TABLE pairing (row INTEGER, target_row INTEGER, golden_row INTEGER, matched_by VARCHAR)")
    usual_rule, other_names = _rows(connection, "SELECT usual_rule, other_names FROM comparison_kind")[0]
    if task.search and task.rule is None and task.mappings.is_empty and searching.is_needed(connection, usual_rule):
        usual_rule = "cross_framework"
    rule = task.rule or rules.load(rules.default_name(usual_rule, task.mappings))
    connection.execute(resources.sql("match/search_layouts"))
    if searching.is_asked(rule):
        is_found = searching.create(connection, (target, golden) if task.search else None)
        other_names = other_names and not is_found
    mapping_tables.create(connection, task.mappings, other_names)
    is_mapped = bool(_only_value(connection, "SELECT other_names FROM comparison_kind"))
    pending = stages.define(connection, Case(rules.names(rule), is_mapped or not task.mappings.is_empty))
    # a join that does not swap its sides keeps the order of its left one, in which the results are to stand
    connection.execute("SET disabled_optimizers = 'build_side_probe_side'")
    lock(connection, task.lake)
    return rule, pending


def _load(connection: duckdb.DuckDBPyConnection, task: PairTask, target: Path, golden: Path) -> None:
    """Make the tables of both sides, and what the two can be held against each other by."""
    set_variable(connection, "target_unit", file_pattern(target))
    set_variable(connection, "golden_unit", file_pattern(golden))
    _create_table(connection, "comparison_kind", resources.sql("compare/kind"))
    rows = int(str(_only_value(connection, "SELECT rows FROM comparison_kind")))
    connection.execute(f"SET threads = {useful_threads(rows, task.threads)}")
    with ThreadPoolExecutor(task.threads) as beside:
        list(beside.map(partial(_load_side, connection), ("target", "golden"), (target, golden)))
    for side, folder in (("target", target), ("golden", golden)):
        joined = f"SELECT *, row_name(op, slot) AS name FROM {side}_leaves JOIN {side}_ops USING (seq)"
        connection.execute(f"CREATE VIEW {side} AS {joined}")
        stacks = quote_text(file_pattern(folder / STACKS_FILE))
        connection.execute(f"CREATE VIEW {side}_stacks AS SELECT stack, frames FROM read_parquet({stacks})")


def _load_side(connection: duckdb.DuckDBPyConnection, side: str, folder: Path) -> None:
    """Make the tables of one side, with a cursor of its own, so that the other can be made meanwhile."""
    with connection.cursor() as cursor:
        set_variable(cursor, "unit", file_pattern(folder))
        set_variable(cursor, "unit_folder", str(folder))
        for table in ("ops", "leaves", "contents"):
            _create_table(cursor, f"{side}_{table}", f"FROM unit_{table}(getvariable('unit'))")


def _define_tensor_metrics(connection: duckdb.DuckDBPyConnection, threads: int) -> None:
    """Give SQL the function tensor_metrics; numpy and all it needs are loaded only where there are tensors."""
    files = frozenset(file for (file,) in _rows(connection, resources.sql("compare/tensor_files")))
    if not files:
        connection.execute(f"CREATE MACRO tensor_metrics(target, golden) AS NULL::{metrics.struct_type()}")
        return
    from lakeprobe.tensors.udf import register

    register(connection, threads, files)


def _check_thresholds(connection: duckdb.DuckDBPyConnection, rule: Rule) -> dict[str, float]:
    """The thresholds as the rule leaves them. Raises RuleError for one that is no number, or is misspelt."""
    names = [name for (name,) in _rows(connection, "SELECT name FROM thresholds")]
    asked = ", ".join(f"getvariable({quote_text(name)})" for name in names)
    values = dict(zip(names, _rows(connection, f"SELECT {asked}")[0], strict=True))
    for name, value in values.items():
        if not isinstance(value, (int, float, Decimal)):
            raise RuleError(f"{rule.origin}: the threshold {name} is {value!r}; it must be a number (docs/rules.md)")
    for (variable,) in _rows(connection, "SELECT name FROM duckdb_variables()"):
        meant = get_close_matches(variable, names, n=1, cutoff=_LIKE_A_THRESHOLD)
        if meant and variable not in names:
            raise RuleError(
                f"{rule.origin}: there is no threshold {variable}; {meant[0]} is meant, or call it otherwise"
            )
    return {name: float(value) for name, value in values.items()}


def _check_metrics(connection: duckdb.DuckDBPyConnection, rule: Rule) -> None:
    missing = _only_value(connection, resources.sql("compare/metrics_missing"))
    if missing:
        raise RuleError(
            f"{rule.origin}: metrics has no row for {missing} pairs; every pair of one kind has one, or would pass "
            "unseen (docs/rules.md)"
        )


def _keep_metrics(connection: duckdb.DuckDBPyConnection, rule: Rule) -> tuple[str, ...]:
    """Define metrics_kept, what results keeps of the metrics. Returns those that only the rule knows."""
    found, passed_on = columns_of(connection, "metrics"), columns_of(connection, "paired")
    try:
        own = metrics.own(found, taken=passed_on)
    except ValueError as error:
        raise RuleError(f"{rule.origin}: the view metrics: {error} (docs/rules.md)") from error
    for column in found.keys() & passed_on.keys() - {"row"}:
        connection.execute(f"ALTER TABLE metrics DROP COLUMN {quote_identifier(column)}")
    connection.execute(f"CREATE VIEW metrics_kept AS {metrics.kept(own)}")
    return tuple(own)


def _pair(connection: duckdb.DuckDBPyConnection, rule: Rule, pending: Pending) -> None:
    searches = (stage for name, made in stages.SEARCHES.items() if name in rules.names(rule) for stage in made)
    for view in ("renamed_ops", *searches, "op_pairs", "pairs"):
        work_out(connection, rule, pending, view)
    if not _only_value(connection, resources.sql("compare/pairs_sound")):
        side, row, count = _rows(connection, resources.sql("compare/paired_twice"))[0]
        what = f"{count} times; a row has one counterpart at most" if count > 1 else "which does not exist"
        raise RuleError(f"{rule.origin}: pairs has the {side} row {row}, {what}")
    connection.execute(f"INSERT INTO pairing {resources.sql('compare/pairing')}")
    work_out(connection, rule, pending, "paired")
    if searching.is_asked(rule):
        work_out(connection, rule, pending, "left_over")


def _find_suspects(connection: duckdb.DuckDBPyConnection, task: PairTask) -> bool:
    """Write the ops that stand out of rounding noise; whether anything rounds differently at all."""
    repeats = noise.Repeats(task.noise, task.golden.step, task.golden.rank) if task.noise else None
    is_rounding = noise.find_suspects(connection, task.is_first_step, repeats)
    path = quote_text(str(task.staged / SUSPECTS_FILE))
    connection.execute(f"COPY (FROM noise_suspects ORDER BY nth) TO {path} (FORMAT parquet)")
    return is_rounding


def _write(connection: duckdb.DuckDBPyConnection, rule: Rule, path: Path) -> int:
    for side in ("target", "golden"):  # paired has what is still asked for, and writing takes the memory
        connection.execute(f"DROP TABLE {side}_leaves")
    query = resources.sql("compare/results")
    into = f"TO {quote_text(str(path))} (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE {ROW_GROUP})"
    connection.execute(f"COPY ({query}) {into}")
    in_order, each_once = connection.execute(resources.sql("compare/results_whole"), [file_pattern(path)]).fetchall()[0]
    if not each_once:
        _refuse(connection, rule)
    if not in_order:
        connection.execute(f"COPY (FROM ({query}) ORDER BY row) {into}")  # sorting first takes as long as all the rest
    return int(str(_only_value(connection, "SELECT count(*) FROM pairing")))


def _refuse(connection: duckdb.DuckDBPyConnection, rule: Rule) -> NoReturn:
    """Raise the RuleError that tells why a row of the results is there twice or has no outcome."""
    if _only_value(connection, "SELECT count(*) <> count(DISTINCT row) FROM metrics"):  # its verdicts are double too
        raise RuleError(f"{rule.origin}: metrics has a row more than once; a pair has one row of metrics at most")
    row, count = _rows(connection, resources.sql("compare/verdict_missing"))[0]
    raise RuleError(f"{rule.origin}: verdicts has the row {row} {count} times; every row of paired has one verdict")


def _create_table(connection: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
    connection.execute(f"CREATE TABLE {name} AS {query}")


def _only_value(connection: duckdb.DuckDBPyConnection, query: str) -> object:
    return _rows(connection, query)[0][0]


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[Any]:
    return connection.execute(query).fetchall()
