"""Merges ranks side by side: a metric of a comparison, with a row per row name and a column per rank.

Cells are those of msprobe's merge_result. They come from comparisons in a lake and from msprobe's own result files. One
metric of one step is merged at a time, so memory does not grow with their number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe import metrics, resources
from lakeprobe.analysis.query import answer, keep, stage_connection
from lakeprobe.errors import UsageError, unknown
from lakeprobe.lake import comparison, layout
from lakeprobe.lake.comparison import StoredComparison
from lakeprobe.lake.connection import CELL_MACROS, columns_of, define_macros, quiet
from lakeprobe.readers import result_tables
from lakeprobe.readers.result_tables import ResultFile
from lakeprobe.system.files import expanded

if TYPE_CHECKING:
    import duckdb
    import pyarrow

NAME = "NPU Name"
"""The header of the row names, as in msprobe's workbook."""

_GRADIENTS = "Requires_grad Consistent"
_RESULT = "Result"
_DIGESTS = (_RESULT, "MD5")
"""The metrics of a comparison of digests, which measures nothing."""

_SOURCES = ("NPU Name", "Bench Name", "NPU max", "Bench max", "NPU MD5", "BENCH MD5")
"""The columns that a cell needs besides the metric itself."""


class Merge(Struct, frozen=True):
    """What to merge: the sources, and what they have. The step is None if only files without a step are merged."""

    comparisons: tuple[StoredComparison, ...]
    files: tuple[ResultFile, ...]
    layout: str
    steps: tuple[int | None, ...]
    ranks: tuple[int, ...]
    metrics: tuple[str, ...]
    apis: tuple[str, ...]


class Sheet(Struct, frozen=True):
    """One metric of one step.

    `rows` has the text columns "NPU Name", rank0, rank1 …, in the order of the run; NULL where a rank lacks the row.
    `count` is the number of all rows, of which `rows` may have the first ones only. `absent` are the APIs that were
    asked for and that no rank has in this step.
    """

    step: int | None
    metric: str
    rows: duckdb.DuckDBPyRelation
    count: int
    absent: tuple[str, ...]


def sources(lake: Path, given: Iterable[str]) -> tuple[tuple[StoredComparison, ...], tuple[Path, ...]]:
    """Split `given` into comparisons of `lake` and paths. Raises UsageError for a name that is neither."""
    known = layout.comparisons(lake)
    names = [name for name in given if name in known]
    paths = [name for name in given if name not in known]
    if strange := [name for name in paths if not expanded(name).exists()]:
        raise unknown(lake, "comparison", strange[0], known, "there is no such path either")
    return tuple(comparison.load(lake, name) for name in names), tuple(map(Path, paths))


def plan(
    comparisons: Iterable[StoredComparison] = (),
    files: Iterable[Path] = (),
    apis: Iterable[str] = (),
    metrics: Iterable[str] = (),
    steps: Sequence[int] = (),
    ranks: Sequence[int] = (),
) -> Merge:
    """Check what to merge: comparisons of one lake, and msprobe's result files or folders of them.

    `apis` select rows by the beginning of their names up to a dot: `Distributed.all_reduce` selects
    `Distributed.all_reduce.0.forward.input.0`, and neither `Distributed.all_reduce_coalesced.…` nor
    `Module.Distributed.all_reduce.…`. None means all rows. (msprobe searches the name anywhere, as a regular
    expression.) `metrics` are headers of msprobe's table; none means all that msprobe merges. `steps` selects steps of
    the comparisons; a single one is also the step of the files. `ranks` selects ranks of both.

    Raises UsageError if sources do not fit together or lack what is asked for, and DumpError for damaged files.
    """
    stored = tuple(comparisons)
    found = tuple(file for file in result_tables.find(files) if not ranks or file.rank in ranks)
    of_ranks = [unit for one in stored for unit in one.units if not ranks or unit.rank in ranks]
    units = [unit for unit in of_ranks if not steps or unit.step in steps]
    present = sorted({unit.step for unit in units})
    if ranks and not of_ranks and not found:
        raise UsageError(f"no source has the rank {', '.join(map(str, ranks))}")
    if not stored and not found:
        raise UsageError("no sources to merge; give a comparison, or a folder with result files")
    if of_ranks and not units:
        names = " and ".join(one.name for one in stored)
        raise UsageError(f"{names}: no unit has the step {', '.join(map(str, steps))}")
    if found and len(present or steps) > 1:
        listed = f"the comparison has {len(present)}" if present else f"{len(steps)} were given"
        raise UsageError(f"the result files have no step, {listed}; choose one with --step")
    kind = _only_layout({unit.kind for unit in units} | {file.layout for file in found})
    all_steps: list[int | None] = list(present or steps) or [None]
    _check_ranks([(unit.step, unit.rank) for unit in units], {(all_steps[0], file.rank) for file in found})
    return Merge(
        comparisons=stored,
        files=found,
        layout=kind,
        steps=tuple(all_steps),
        ranks=tuple(sorted({unit.rank for unit in units} | {file.rank for file in found})),
        metrics=_chosen(tuple(metrics), kind, stored, found),
        apis=tuple(apis),
    )


def _check_ranks(of_comparisons: list[tuple[int, int]], of_files: set[tuple[int | None, int]]) -> None:
    """Raise UsageError where two sources have the same rank in the same step."""
    counts = Counter[tuple[int | None, int]](of_comparisons) + Counter(of_files)
    twice = [unit for unit, count in counts.items() if count > 1]
    if twice:
        step, rank = twice[0]
        where = "" if step is None else f" of step {step}"
        raise UsageError(f"two of the sources have rank {rank}{where}; a rank has one column, so leave one source out")


def _only_layout(layouts: set[str]) -> str:
    if len(layouts) > 1:
        raise UsageError(
            f"the sources compare {' and '.join(sorted(layouts))}, which have different metrics; merge them separately"
        )
    return layouts.pop()


def _chosen(
    asked: tuple[str, ...], layout: str, comparisons: tuple[StoredComparison, ...], files: tuple[ResultFile, ...]
) -> tuple[str, ...]:
    """Return the metrics to show: those of the sources, including metrics that users added to msprobe or by a rule."""
    headers = {header for file in files for header in file.headers}
    own = [metric for one in comparisons for metric in one.metrics]
    added = [metric for file in files for metric in file.metrics]
    known = dict.fromkeys([*_declared(layout), *own, *added, _GRADIENTS])
    usual = [metric for metric in known if comparisons or metric in headers or metric == "MD5"]
    allowed = dict.fromkeys([*usual, _RESULT])
    if unknown := [metric for metric in asked if metric not in allowed]:
        raise UsageError(f"{unknown[0]!r} is not a metric of {layout}; use {', '.join(allowed)}")
    return tuple(dict.fromkeys(asked or usual))


def _declared(layout: str) -> tuple[str, ...]:
    """Return the headers of the metrics that lakeprobe declares for a layout."""
    return _DIGESTS if layout == "digest" else metrics.headers(layout)


def sheets(connection: duckdb.DuckDBPyConnection, merge: Merge, most: int | None = None) -> Iterator[Sheet]:
    """Yield a sheet for each metric of `merge`. `connection` has the views of the lake of its comparisons, if any.

    Sheets have their first `most` rows, or all. Raises UsageError if no row belongs to an API that was asked for, and
    DumpError for damaged files.
    """
    with stage_connection(connection, ranks=merge.ranks if merge.comparisons else ()) as stages:
        for step, metric in _each(stages, merge, most):
            asked = {"apis": list(merge.apis)}
            absent = stages.execute(resources.sql("analysis/merge/absent_apis"), asked).fetchall()
            [(count,)] = stages.execute("SELECT count(*) FROM merge_names").fetchall()
            rows = connection.from_arrow(_side_by_side(stages, merge.ranks))
            yield Sheet(step, metric, rows, count, tuple(api for (api,) in absent))


def found(sheets: Iterator[Sheet], merge: Merge) -> Iterable[Sheet]:
    """Return the sheets. Raises UsageError if none has a row of the APIs asked for."""
    if not merge.apis:
        return sheets
    made = list(sheets)
    if all(set(sheet.absent) == set(merge.apis) for sheet in made):
        raise _no_row(merge)
    return made


def _no_row(merge: Merge) -> UsageError:
    return UsageError(f"no row belongs to {' or '.join(merge.apis)}; give the beginning of a row's name up to a dot")


def _side_by_side(stages: duckdb.DuckDBPyConnection, ranks: Sequence[int]) -> pyarrow.Table:
    """Return the rows of a sheet from the tables merge_shown and merge_cells."""
    import pyarrow as pa

    columns = {NAME: stages.sql("SELECT name FROM merge_shown ORDER BY number").to_arrow_table()["name"]}
    query = resources.sql("analysis/merge/column")
    for rank in ranks:
        columns[f"rank{rank}"] = stages.sql(query, params={"rank": rank}).to_arrow_table()["text"]
    return pa.table(columns)


def rows(connection: duckdb.DuckDBPyConnection, sheet: Sheet) -> duckdb.DuckDBPyRelation:
    """Return a sheet in the long form: step, rank, name, metric, value, text, with a row per cell that a rank has.

    `value` is the number in the cell, a percentage as a fraction; NULL if the cell has no number.
    """
    with stage_connection(connection) as stages:
        stages.register("merge_sheet", sheet.rows.to_arrow_table())
        return answer(connection, stages, "merge/rows", {"step": sheet.step, "metric": sheet.metric})


def _each(stages: duckdb.DuckDBPyConnection, merge: Merge, most: int | None) -> Iterator[tuple[int | None, str]]:
    """Yield every step and metric, with its rows in merge_names and merge_shown, and its cells in merge_cells."""
    own = metrics.own_of_results(columns_of(stages, "results")) if merge.comparisons else {}
    _define_cells(stages)
    _keep_files(stages, merge, _pattern(merge.apis))
    for step in merge.steps:
        named: tuple[StoredComparison, ...] | None = None
        for metric in merge.metrics:
            having = tuple(stored for stored in merge.comparisons if metric in _metrics_of(merge, stored))
            if having != named:  # usually all sources have a metric, and its sheet has the rows of the one before
                _keep_names(stages, merge, having, step, own, most)
                named = having
                _check_any(stages, merge)
            _keep_cells(stages, merge, having, step, own, metric)
            yield step, metric


def _metrics_of(merge: Merge, stored: StoredComparison) -> tuple[str, ...]:
    return (*_declared(merge.layout), _GRADIENTS, _RESULT, *stored.metrics)


def _keep_names(
    stages: duckdb.DuckDBPyConnection,
    merge: Merge,
    comparisons: Iterable[StoredComparison],
    step: int | None,
    own: Mapping[str, str],
    most: int | None,
) -> None:
    """Create merge_names, the rows of a sheet, merge_shown, and merge_numbers, where ranks have what is shown."""
    stages.execute("CREATE OR REPLACE TEMP TABLE merge_places (rank INTEGER, place INTEGER, name VARCHAR)")
    places = f"FROM ({resources.sql('analysis/merge/places')})"
    table = _lake_table(merge, "results", own)
    for stored in comparisons:
        chosen = {"comparison": stored.name, "step": step, "apis": _pattern(merge.apis)}
        stages.execute(f"INSERT INTO merge_places WITH merge_table AS ({table}) {places}", chosen)
    if merge.files:
        stages.execute(f"INSERT INTO merge_places WITH merge_table AS (FROM merge_files) {places}")
    stages.execute(resources.sql("analysis/merge/namesakes"))
    keep(stages, "merge_names", "merge/names")
    keep(stages, "merge_shown", "merge/shown", {"most": most})
    keep(stages, "merge_numbers", "merge/numbers")
    stages.execute("DROP TABLE merge_places")


def _keep_cells(
    stages: duckdb.DuckDBPyConnection,
    merge: Merge,
    comparisons: Iterable[StoredComparison],
    step: int | None,
    own: Mapping[str, str],
    metric: str,
) -> None:
    """Create merge_cells: the texts of a metric."""
    stages.execute("CREATE OR REPLACE TEMP TABLE merge_cells (rank INTEGER, number BIGINT, text VARCHAR)")
    cells = f"FROM ({resources.sql('analysis/merge/cells')})"
    shown = {"layout": merge.layout, "metric": metric}
    table = _lake_table(merge, "results_numbered", own)
    for stored in comparisons:
        chosen = shown | {"comparison": stored.name, "step": step}
        stages.execute(f"INSERT INTO merge_cells WITH merge_table AS ({table}) {cells}", chosen)
    if merge.files:
        table = resources.sql("analysis/merge/files_numbered")
        stages.execute(f"INSERT INTO merge_cells WITH merge_table AS ({table}) {cells}", shown)


def _lake_table(merge: Merge, results: str, own: Mapping[str, str]) -> str:
    """Return the query for msprobe's table of the rows `results`, including the metrics `own` that rules added."""
    return (
        f"WITH results AS ({resources.sql(f'analysis/merge/{results}')}), "
        f"cell_texts AS ({resources.sql('reports/cell_texts')}), "
        f"metric_cells AS ({metrics.cells(merge.layout, own)}), "
        f"cells AS ({resources.sql('reports/cells')}) {resources.sql('analysis/merge/lake_table')}"
    )


def _check_any(stages: duckdb.DuckDBPyConnection, merge: Merge) -> None:
    """Raise UsageError if the only step has no row of the APIs. One of several steps may lack what others have."""
    found = stages.execute("SELECT count(*) > 0 FROM merge_names").fetchall()
    if merge.apis and len(merge.steps) == 1 and found == [(False,)]:
        raise _no_row(merge)


def _define_cells(stages: duckdb.DuckDBPyConnection) -> None:
    """Define the macros for cells of our tables. A value stands in place of its digest."""
    stages.execute("CREATE OR REPLACE TEMP MACRO digest_of_text(text) AS text")
    define_macros(stages, CELL_MACROS)


def _keep_files(stages: duckdb.DuckDBPyConnection, merge: Merge, pattern: str) -> None:
    """Load the selected rows of all result files into the temporary table merge_files."""
    import duckdb
    import pyarrow as pa

    headers = list(dict.fromkeys([*_SOURCES, *(metric for metric in merge.metrics if metric != "MD5")]))
    table = resources.sql("analysis/merge/file_table")
    statement = "CREATE OR REPLACE TEMP TABLE merge_files AS"
    ends = Counter[int]()
    """How many rows of each rank were read: a rank may have several files, one after the other."""
    with quiet(duckdb.connect()) as reader:
        for file in merge.files:
            texts = result_tables.texts(reader, file, headers)
            places = range(ends[file.rank], ends[file.rank] + len(texts))
            ends[file.rank] = places.stop
            stages.register("file_texts", texts.append_column("place", pa.array(places, pa.int64())))
            stages.execute(f"{statement} FROM ({table})", {"rank": file.rank, "apis": pattern})
            stages.unregister("file_texts")
            statement = "INSERT INTO merge_files"


def _pattern(apis: Sequence[str]) -> str:
    """Return a regular expression for names that begin with one of `apis` up to a dot, or for all names."""
    return rf"^(?:{'|'.join(map(re.escape, apis))})(?:\.|$)" if apis else ""
