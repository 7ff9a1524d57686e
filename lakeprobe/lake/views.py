"""The views of a lake on a DuckDB connection: tables of units, of comparisons and of other tools.

The views read the files that the log named when they were defined, each by its path. Later changes do not affect them,
and no folder has to be searched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe import resources
from lakeprobe.lake import layout, tables
from lakeprobe.lake.comparison import BATCH, PAIRS_FILE, RESULTS_FILE, SUSPECTS_FILE
from lakeprobe.lake.connection import parsed
from lakeprobe.lake.log import Snapshot
from lakeprobe.resources import file_pattern, quote_identifier, quote_text
from lakeprobe.schema import MERGED_TABLES, UNIT_TABLES, table
from lakeprobe.system import storage
from lakeprobe.system.files import refuse_special

if TYPE_CHECKING:
    import duckdb

RESULTS, SUSPECTS, PAIRS, NOISE, SERIES = "results", "suspects", "pairs", "noise", "series"
VERIFICATIONS, PERTURBATIONS = "verifications", "perturbations"
REFERENCES = "tensor_references"
_COMPARED = {RESULTS: RESULTS_FILE, SUSPECTS: SUSPECTS_FILE, PAIRS: PAIRS_FILE}
_PARTITIONS = {
    RESULTS: "comparison", SUSPECTS: "comparison", PAIRS: "comparison", NOISE: "noise", SERIES: "run",
    VERIFICATIONS: "verification", PERTURBATIONS: "perturbation",
}  # fmt: skip
_BUNDLED = {
    "api_table": ("apis", ("target_api", "golden_api")),
    "slot_table": ("slots", ("target_api", "golden_api", "direction", "target_slot", "golden_slot")),
    "class_table": ("classes", ("target_class", "golden_class")),
}
"""Views of the tables that lakeprobe ships: the PyTorch counterparts of MindSpore's APIs, arguments and cells."""

NAMES = frozenset((*UNIT_TABLES, *MERGED_TABLES, *_BUNDLED, *_PARTITIONS, REFERENCES))
"""The views that every lake has."""

OF_UNITS = ("ops", "tensors", "stacks", "undumped", "contents", REFERENCES)
"""The views with rows of units, but for dumps, which is small and says what else a run has."""
OF_COMPARISONS = (RESULTS, SUSPECTS, PAIRS)

_COMPACTED = {"compacted": ("rank",), "gathered": ("step", "rank")}
"""The forms of compacted files, of a step and of a rank: the columns that say of which unit a row is, because the names
of the folders do not."""

_DEPTH, _STALE = "lake_depth", "stale_units"
_NO_REFERENCES = "SELECT run, step, rank, content, tensor_reference('', contents) AS reference FROM contents"


def define(connection: duckdb.DuckDBPyConnection, lake: Path | Snapshot) -> None:
    """Define the views of a lake as it is now, or as in the snapshot, and one view per comparison and table."""
    snapshot = layout.snapshot_of(lake)
    storage.connect(connection, snapshot.lake)
    connection.execute(f"SET VARIABLE {_DEPTH} = $depth", {"depth": str(snapshot.lake).count("/") + 1})
    stale = _stale(snapshot)
    connection.execute(f"SET VARIABLE {_STALE} = $stale", {"stale": stale})
    for name in UNIT_TABLES:
        _define_unit_table(connection, snapshot, name, has_stale=bool(stale))
    for name in MERGED_TABLES:
        define_columns(connection, name, columns_of(name))
    for name in (*MERGED_TABLES, *_PARTITIONS):
        _define(connection, name, _files(snapshot, name))
    for name, (file, columns) in _BUNDLED.items():
        types = ", ".join(f"{quote_text(column)}: 'VARCHAR'" for column in columns)
        form = "header = true, delim = ',', quote = '\"', escape = '\"', auto_detect = false"
        source = f"read_csv({quote_text(file_pattern(resources.data(file)))}, {form}, columns = {{{types}}})"
        connection.execute(parsed(connection, f"CREATE OR REPLACE VIEW {name} AS FROM {source}"))
    comparisons = layout.comparisons(snapshot)
    tables.define(connection, snapshot, taken=(*NAMES, *comparisons))
    counts = Counter(name.lower() for name in comparisons)
    for name in comparisons:
        if name.lower() in NAMES:
            continue
        if counts[name.lower()] > 1:  # DuckDB ignores case, so one of them would answer for the other
            connection.execute(f"DROP VIEW IF EXISTS {quote_identifier(name)}")
            continue
        connection.execute(
            f"CREATE OR REPLACE VIEW {quote_identifier(name)} AS "
            f"SELECT * EXCLUDE (comparison) FROM results WHERE comparison = {quote_text(name)}"
        )


def share(connection: duckdb.DuckDBPyConnection, other: duckdb.DuckDBPyConnection) -> None:
    """Copy the variables that the views of `connection` use to `other`, a connection to the same database."""
    units = (name for table in UNIT_TABLES for name in (table, *(f"{form}_{table}" for form in _COMPACTED)))
    batched = map(_batched, OF_COMPARISONS)
    names = [_DEPTH, _STALE, *map(_variable, (*units, *MERGED_TABLES, *_PARTITIONS, *batched))]
    values = connection.execute("SELECT " + ", ".join(f"getvariable('{name}')" for name in names)).fetchall()[0]
    for name, value in zip(names, values, strict=True):
        if value is not None:
            other.execute(f"SET VARIABLE {name} = $value", {"value": value})


def define_over(connection: duckdb.DuckDBPyConnection, name: str, files: Sequence[Path], where: str = "true") -> None:
    """Define the view `name` over the rows with `where` of these files of one comparison, …/step=S/rank=K/FILE."""
    if files:
        storage.connect(connection, files[0])
    rows = []
    own = "compared_step_of(filename) AS step, compared_rank_of(filename) AS rank"
    for part, numbers, its in zip((name, _batched(name)), (own, "step, rank"), _by_form(files), strict=True):
        if its:
            _set_files(connection, part, its)
            rows.append(f"""
                SELECT
                    regexp_extract(filename, '/comparison=([^/]*)/(?:[^/=]*/)?step=', 1) AS comparison,
                    {numbers},
                    COLUMNS(lambda name: name NOT IN ('filename', 'comparison', 'step', 'rank'))
                FROM read_parquet(
                    getvariable('{_variable(part)}'), hive_partitioning = false, union_by_name = true, filename = true
                )
                WHERE {where}
            """)
    query = _union(rows) or empty(name)
    if files and name in _PARTITIONS:
        query = _with_all_columns(name, query, with_partitions=False)
    connection.execute(f"CREATE VIEW {name} AS {query}")


def _define(connection: duckdb.DuckDBPyConnection, name: str, files: Sequence[Path]) -> None:
    """Define a view of the lake. A file of an older release has NULL in columns that were added later."""
    own, batched = _by_form(files)
    _set_files(connection, name, own)
    rows = [resources.sql(f"catalog/{name}")] if own else []
    if batched:
        _set_files(connection, _batched(name), batched)
        rows.append(f"FROM batched_rows(getvariable('{_variable(_batched(name))}'))")
    query = _with_all_columns(name, _union(rows)) if rows else empty(name)
    connection.execute(parsed(connection, f"CREATE OR REPLACE VIEW {name} AS {query}"))


def _define_unit_table(
    connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, name: str, *, has_stale: bool
) -> None:
    """Define the view of a table of units: in folders of their own, in compacted steps and in compacted ranks."""
    columns = columns_of(name)
    own, *compacted = _unit_files(snapshot, name)
    left_out = f" ANTI JOIN (SELECT unnest(getvariable('{_STALE}'), max_depth := 2)) USING (run, step, rank)"
    rows, references = [], []
    if own:
        _set_files(connection, name, own)
        define_columns(connection, name, columns)
        rows.append(resources.sql(f"catalog/{name}"))
        references.append(resources.sql(f"catalog/{REFERENCES}"))
    for (form, places), files in zip(_COMPACTED.items(), compacted, strict=True):
        if files:
            part = f"{form}_{name}"
            _set_files(connection, part, files)
            define_columns(connection, part, dict.fromkeys(places, "INTEGER") | columns)
            source = f"{form}_rows(getvariable('{_variable(part)}'), columns_of_{part}())"
            rows.append(f"FROM {source}{left_out if has_stale else ''}")
            if name == "contents":
                found = resources.sql(f"catalog/{form}_references")
                references.append(f"FROM ({found}){left_out if has_stale else ''}")
    connection.execute(parsed(connection, f"CREATE OR REPLACE VIEW {name} AS {_union(rows) or empty(name)}"))
    if name == "contents":
        found = _union(references) or _NO_REFERENCES
        connection.execute(parsed(connection, f"CREATE OR REPLACE VIEW {REFERENCES} AS {found}"))


def _by_form(files: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """Return the files of one pair of units each, and those of batches."""
    own: list[Path] = []
    batched: list[Path] = []
    for file in files:
        (batched if file.name.startswith(BATCH) else own).append(file)
    return own, batched


def _batched(name: str) -> str:
    """Return what the files of batches are called that a view reads."""
    return f"batched_{name}"


def _union(queries: Sequence[str]) -> str:
    return queries[0] if len(queries) == 1 else " UNION ALL BY NAME ".join(f"({query})" for query in queries)


def _set_files(connection: duckdb.DuckDBPyConnection, name: str, files: Sequence[Path]) -> None:
    refuse_special(map(str, files))
    connection.execute(f"SET VARIABLE {_variable(name)} = $files", {"files": [file_pattern(file) for file in files]})


def define_columns(connection: duckdb.DuckDBPyConnection, name: str, types: Mapping[str, str]) -> None:
    """Define the macro columns_of_NAME, which is the schema for reading the files of a table."""
    columns = ", ".join(
        f"{quote_text(column)}: {{name: {quote_text(column)}, type: {quote_text(type)}, default_value: NULL}}"
        for column, type in types.items()
    )
    connection.execute(parsed(connection, f"CREATE OR REPLACE MACRO columns_of_{name}() AS MAP {{{columns}}}"))


def _variable(name: str) -> str:
    """Return the name of the variable with the files of a view."""
    return f"{name}_files"


def _with_all_columns(name: str, query: str, *, with_partitions: bool = True) -> str:
    """Return `query` with all columns of the table `name` in their order, then metrics that only rules define."""
    return f"({empty(name, with_partitions=with_partitions)}) UNION ALL BY NAME ({query})"


def _files(snapshot: Snapshot, name: str) -> list[Path]:
    """Return the files of a view that is not of units."""
    if name in MERGED_TABLES:
        return snapshot.files("run=", lambda file: file == f"{name}.parquet")
    if name == NOISE:
        return snapshot.files(layout.noise_name(""), lambda file: file == layout.NOISE_FILE)
    if name == SERIES:
        return snapshot.files("series/", lambda file: file == layout.SERIES_FILE)
    if name == VERIFICATIONS:
        return snapshot.files(layout.verification_name(""), lambda file: file == layout.VERIFICATION_FILE)
    if name == PERTURBATIONS:
        return snapshot.files(layout.perturbation_name(""), lambda file: file == layout.PERTURBATION_FILE)
    ends = (f"/{_COMPARED[name]}", f"/{BATCH}{_COMPARED[name]}")
    return snapshot.files(layout.comparison_name(""), lambda file: file.endswith(ends))


def _unit_files(snapshot: Snapshot, name: str) -> tuple[list[Path], list[Path], list[Path]]:
    """Return the files with a table of units: of one unit each, of compacted steps, and of compacted ranks."""
    own: list[Path] = []
    of_step: list[Path] = []
    of_rank: list[Path] = []
    for thing, place in snapshot.places.items():
        if thing.startswith("run="):
            folder = snapshot.lake / place.path
            if name == "values":
                stale = {layout.values_of(rank) for rank in place.stale}
                own += [folder / file for file in place.files if _is_values(file) and file.split("/")[0] not in stale]
            elif f"{name}.parquet" in place.files:
                kind = own if not place.held else of_rank if "/rank=" in thing else of_step
                kind.append(folder / f"{name}.parquet")
    return own, of_step, of_rank


def _is_values(file: str) -> bool:
    return file.rpartition("/")[2].startswith("values-")


def _stale(snapshot: Snapshot) -> list[dict[str, str | int]]:
    """Return the units whose rows in compacted files no longer count."""
    return [
        {"run": key.run, "step": key.step, "rank": key.rank}
        for name, place in snapshot.places.items() if place.stale
        for key in layout.units_of(name, place.stale)
    ]  # fmt: skip


def columns_of(name: str) -> dict[str, str]:
    """Return the columns of the table `name`, each with its SQL type."""
    return {column.name: column.type for column in table(name).columns}


def empty(name: str, *, with_partitions: bool = True) -> str:
    """Return a query with the columns of the table `name` and no rows."""
    types = columns_of(name)
    if with_partitions:
        types = {_PARTITIONS.get(name, "run"): "VARCHAR", "step": "INTEGER", "rank": "INTEGER"} | types
    columns = ", ".join(f"NULL::{type} AS {quote_identifier(column)}" for column, type in types.items())
    return f"SELECT {columns} WHERE false"
