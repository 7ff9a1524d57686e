"""DuckDB connections: one with the views of a lake, a locked one that runs rules, and a writer for the locked one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe import resources
from lakeprobe.errors import LakeError, RuleError
from lakeprobe.lake import damage
from lakeprobe.lake.interrupting import interruptible
from lakeprobe.resources import quote_text

if TYPE_CHECKING:
    import duckdb

COMPARISON_MACROS = (
    "element_type", "epsilon", "is_low_precision", "rounding_of", "has_kink", "has_steps", "is_activation",
    "hides_products", "value_at", "overwrites", "is_written", "is_written_element", "is_mask", "finite_part",
    "difference", "exact_difference", "magnitude", "relative", "is_device", "may_be_relaid", "same_shape", "is_within",
    "sights", "known_before", "root_elements", "ordered_sum", "row_name", "unit_rows", "unit_ops", "unit_leaves",
    "tensor_reference", "unit_contents", "is_root", "is_module", "is_normalisation", "divides_gradients", "solves",
    "is_sum", "is_product", "is_addend", "is_cast", "is_periodic", "has_few_bits", "makes_zeros_from", "place_after",
    "shift_unit", "kin_spread", "usual_shift", "moved_from", "calibration", "keeps_total", "spreads_gradient",
    "sums_to_zero", "steepest", "is_reduction", "value_key", "is_attention", "picks_rows", "writes_at", "is_epsilon",
    "is_multiplication", "multiplies_once", "moves_in_repeat", "moved_by", "is_repeated", "rounding_band",
    "other_digest", "message_of", "is_in_place", "are_far_apart",
)  # fmt: skip
"""The macros that the statements of a comparison use."""

MACROS = (
    *COMPARISON_MACROS, "is_finding", "is_of_values", "user_frames", "user_frame", "leaf_text", "farthest_statistic",
    "statistic_text", "requires_grad_text", "fields_text", "folder_of", "run_of", "step_of", "rank_of", "comparison_of",
    "compared_step_of", "compared_rank_of", "noise_of", "compacted_rows", "gathered_rows", "batched_rows", "group_text",
    "verification_of", "perturbation_of", "perturbation_status", "pre_check", "standard_status", "is_recomputation",
    "recorded_statistics", "extremes_key", "is_trained_apart", "side_text", "gives_in", "takes_in",
)  # fmt: skip
"""The macros that a user's SQL may use, and those that they use."""

CELL_MACROS = (
    "is_rank_argument", "cell_number", "cell_statistic", "cell_dtype", "cell_shape", "cell_difference",
    "cell_percent", "cell_metric", "cell_flag", "cell_text", "cell_digest", "csv_cell", "json_number",
)  # fmt: skip
"""The macros that format values as msprobe's tables do, and for csv and JSON."""

_parsed: dict[str, duckdb.Statement] = {}
"""Statements as DuckDB parsed them, by their text."""
_MOST_PARSED = 1000

_SHARE_OF_DISK = 10
"""A query may fill at most one part in this many of the free disk, because several may run at once."""

_ROWS_PER_THREAD = 122_880
"""DuckDB hands a thread this many rows of a table at a time. More threads than such chunks only cost time."""

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    # An ASOF join compares every row with every other where DuckDB expects few rows on one side. It expects too few
    # after filters on steps and ranks: finding the makers of 57 000 tensors took 1.08 s so, and 0.05 s by sorting.
    "asof_loop_join_threshold": 0,
    # After every 16 MB DuckDB would compress the tables in memory, for 0.4 of 6 s of an analysis of 64 ranks.
    "checkpoint_threshold": "1TB",
}


def connect(threads: int | None = None, macros: Iterable[str] = MACROS) -> duckdb.DuckDBPyConnection:
    """Return a connection to an empty in-memory database with lakeprobe's macros, or some. The caller closes it.

    Each macro takes 0.6 ms.
    """
    import duckdb

    connection = duckdb.connect(config=_CONFIG | ({"threads": threads} if threads else {}))
    define_macros(connection, macros)
    return interruptible(quiet(connection))


def quiet(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return `connection`, which was just opened and draws no progress bar.

    DuckDB draws it on stdout, among the rows, if a statement takes more than 2 s. Cursors do not inherit the setting.
    """
    _set_progress(connection, "SET enable_progress_bar_print = false")
    return connection


def _set_progress(connection: duckdb.DuckDBPyConnection, setting: str) -> None:
    """Execute `setting`. In Jupyter without ipywidgets DuckDB refuses it, and neither follows queries nor draws."""
    import duckdb

    with suppress(duckdb.InvalidInputException):
        connection.execute(setting)


def keep_footers(connection: duckdb.DuckDBPyConnection) -> None:
    """Keep the footers of Parquet files, which do not change, for the statements of an analysis: each reads the files.

    With hundreds of small files, parsing the footers again takes a sixth of the analysis.
    """
    connection.execute("SET parquet_metadata_cache = true")


def share_done(connection: duckdb.DuckDBPyConnection) -> Callable[[], float]:
    """Let DuckDB follow the queries of `connection`; returns what it estimates to be done of one, from 0 to 1.

    The function is for another thread, while the query runs. Where DuckDB cannot follow queries, it returns 0.
    """
    _set_progress(connection, "SET enable_progress_bar = true")
    return lambda: max(connection.query_progress(), 0.0) / 100


KEYBOARD = "Query interrupted"
"""The text of the RuntimeError that DuckDB raises on Ctrl-C."""


_CARETS = re.compile(r"\n *\^+ *$")
"""The line below an error of DuckDB that points into the line above it, which says nothing in a message of one line."""


_WRAPPED = re.compile(r'\{"exception_type":"[^"]*","exception_message":("(?:[^"\\]|\\.)*")')
"""An error of a thread that writes, in the text of another error."""


@contextmanager
def query_errors() -> Iterator[None]:
    """Turn an error of DuckDB into a RuleError or LakeError. It may be raised as late as when rows are fetched.

    Also turns the RuntimeError that DuckDB raises on Ctrl-C into KeyboardInterrupt.
    """
    import duckdb

    try:
        yield
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        gone = "; run lakeprobe check to see what is missing" if "No files found" in str(error) else ""
        raise LakeError(f"{reason(error)}{gone}") from error
    except duckdb.Error as error:
        wrong = RuleError(_CARETS.sub("", str(error)).strip())
        raise damage.of_query(error) or wrong from error
    except RuntimeError as error:
        if str(error) == KEYBOARD:
            raise KeyboardInterrupt from error
        raise


def reason(error: Exception) -> str:
    """Return in one line what DuckDB says is wrong. What one of its threads met is in the text as JSON."""
    text = str(error).strip()
    if wrapped := _WRAPPED.search(text):
        text = f"IO Error: {json.loads(wrapped[1])}"
    return text.splitlines()[0]


def useful_threads(rows: int, most: int) -> int:
    """Return how many of `most` threads are useful for tables of `rows` rows."""
    return max(1, min(most, rows // _ROWS_PER_THREAD))


def parsed(connection: duckdb.DuckDBPyConnection, text: str) -> duckdb.Statement:
    """Return the one statement `text`, for any connection. DuckDB parses it once in a process.

    Parsing takes a fifth of a comparison of two small units.
    """
    if text not in _parsed:
        if len(_parsed) == _MOST_PARSED:  # some texts name files
            _parsed.clear()
        [_parsed[text]] = connection.extract_statements(text)
    return _parsed[text]


def define_macros(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Define macros of sql/macros on `connection`."""
    for name in names:
        connection.execute(parsed(connection, resources.sql(f"macros/{name}")))


def set_variable(connection: duckdb.DuckDBPyConnection, name: str, value: str | float) -> None:
    """Set the SQL variable `name`, which `getvariable(name)` returns."""
    literal = quote_text(value) if isinstance(value, str) else f"'{float(value)!r}'::DOUBLE"
    connection.execute(f"SET VARIABLE {resources.quote_identifier(name)} = {literal}")


def write_parquet(
    writer: duckdb.DuckDBPyConnection, connection: duckdb.DuckDBPyConnection, query: str, path: Path, row_group: int
) -> None:
    """Write the rows that `query` returns on the locked `connection` to `path`, in their order.

    `writer` is a connection to another database, which runs no SQL of users. Rows pass between them as an Arrow stream.
    """
    writer.register("passed", connection.sql(query).__arrow_c_stream__())
    copy_to_parquet(writer, "FROM passed", path, row_group)
    writer.unregister("passed")


def copy_to_parquet(connection: duckdb.DuckDBPyConnection, query: str, path: Path, row_group: int) -> None:
    """Write the rows that `query` returns to `path`, in their order, as all results are written."""
    form = f"FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE {row_group}"
    connection.execute(f"COPY ({query}) TO {quote_text(str(path))} ({form})")


def columns_of(connection: duckdb.DuckDBPyConnection, relation: str) -> dict[str, str]:
    """Return the columns of one of our tables or views, each with its SQL type."""
    found = connection.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM {relation})").fetchall()
    return dict(found)


def records(relation: duckdb.DuckDBPyRelation) -> list[dict[str, Any]]:
    """Return the rows of a relation as dicts."""
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def set_spill_folder(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Let queries spill to `folder`, which DuckDB creates when needed and removes at the end.

    By default DuckDB creates a folder .tmp in the working directory. The parent of `folder` must exist.
    """
    most = shutil.disk_usage(folder.parent).free // _SHARE_OF_DISK
    connection.execute(f"SET temp_directory = {quote_text(str(folder))}")
    connection.execute(f"SET max_temp_directory_size = '{most}B'")


def lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Restrict `connection` to its own tables from here on. It can neither read nor write files, nor change settings.

    It can still spill to `temp_directory`. Tables that no statement may change must be temporary: a statement may open
    a connection of its own (json_execute_serialized_sql), which does not see our temporary tables.
    """
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET autoload_known_extensions = false")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
