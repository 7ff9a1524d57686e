"""Which ops of a comparison stand out of rounding noise, and where the noise ends.

Between two chips every op rounds in its own way, so nearly all tensors differ. The queries of sql/noise measure in the
comparison itself the error that ops of each kind add, and find what rounding cannot produce (docs/noise.md).
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe import resources
from lakeprobe.lake import views
from lakeprobe.lake.connection import parsed, set_variable
from lakeprobe.resources import file_pattern, quote_text

if TYPE_CHECKING:
    import duckdb

MEASURED = ("nearest", "ops", "leaves")
"""The queries of sql/noise that measure the error of each row, in order; each makes the table noise_NAME."""

TRACED = ("repeat", "makers", "repeated")
"""The queries that find what made each value, and what repeats of golden explain of what ops take."""

CERTAIN = (
    "factors", "outputs", "gradient_sums", "inputs", "conditions", "errors", "floors", "largest_before",
    "arguments", "missing", "wiring", "sources", "given_gradients", "made", "zeros", "stopped", "nonfinite", "evidence",
)  # fmt: skip
"""The queries that find what rounding cannot produce: how far ops err, and a query for each kind of evidence.

Of a kind that sql/noise/possible.sql excludes nothing is asked: the statement would take its time without a row.
"""

BEYOND_ROUNDING = {
    "added": "no_added", "laws": "no_shifts", "shifts": "no_shifts", "near_shifts": "no_shifts",
    "passed_shifts": "no_shifts", "functions": "no_shifts", "gradients": "no_gradients",
}  # fmt: skip
"""The queries that find errors larger than rounding, each with the empty table that replaces it where nothing rounds
differently: there the bits tell what differs, and measuring errors takes a quarter of the noise analysis."""


class Repeats(Struct, frozen=True):
    """The file of a noise, measured on repeats of the golden run, and the step and rank of golden that is compared."""

    file: Path
    step: int
    rank: int


def parse_ahead(connection: duckdb.DuckDBPyConnection) -> threading.Thread:
    """Parse the queries of the noise analysis on a thread of its own, while both sides are loaded and paired.

    Returns the thread, for which nobody has to wait: what it has not parsed yet is parsed when its turn comes.
    """
    import duckdb

    queries = (*MEASURED, *TRACED, *CERTAIN, *BEYOND_ROUNDING, "suspects")
    other = connection.cursor()

    def parse() -> None:
        with suppress(duckdb.Error):  # the comparison has failed and closed it
            for query in queries:
                parsed(other, _creating(query, query))

    thread = threading.Thread(target=parse, daemon=True)
    thread.start()
    return thread


def find_suspects(
    connection: duckdb.DuckDBPyConnection,
    step: int,
    is_first: bool,
    is_after_equal: bool,
    is_after_other_update: bool,
) -> bool:
    """Make the table noise_suspects of a comparison whose rows are paired, measured and judged.

    `connection` has the tables of `load_repeats`, and those of `compare.unit` up to verdicts. `is_first`: neither run
    has a step before `step`; `is_after_equal`: the last one of each is the same; `is_after_other_update`: from
    that one the optimizer moved the parameters otherwise. If anything differs, sets the variables noise_ends, the place
    of the first op that stands out, and noise_error, the error up to which later rows are noise.
    Returns whether ops round differently in the two runs.
    """
    _run(connection, MEASURED)
    (is_equal,) = connection.execute(parsed(connection, resources.sql("noise/nothing_differs"))).fetchall()[0]
    if is_equal:
        connection.execute(f"CREATE TEMP TABLE noise_suspects AS {views.empty(views.SUSPECTS, with_partitions=False)}")
        return False
    _run(connection, TRACED)
    recorded = {"is_first": is_first, "is_after_equal": is_after_equal, "step": step}
    (begins,) = connection.execute(parsed(connection, resources.sql("noise/first_step")), recorded).fetchall()[0]
    known = {
        "is_first_step": begins, "is_first_recorded": is_first, "is_after_equal": is_after_equal,
        "is_after_other_update": is_after_other_update,
    }  # fmt: skip
    for name, holds in known.items():
        connection.execute(f"SET VARIABLE {name} = $holds", {"holds": bool(holds)})
    (possible,) = connection.execute(parsed(connection, resources.sql("noise/possible"))).fetchall()[0]
    for query in CERTAIN:
        _create(connection, query, query if possible.get(query, True) else "no_evidence")
    (rounds,) = connection.execute(parsed(connection, resources.sql("noise/rounds"))).fetchall()[0]
    for name, empty in BEYOND_ROUNDING.items():
        _create(connection, name, name if rounds else empty)
    _create(connection, "suspects", "suspects")
    is_rounding, ends, error = connection.execute(parsed(connection, resources.sql("noise/extent"))).fetchall()[0]
    set_variable(connection, "noise_ends", ends)
    set_variable(connection, "noise_error", error)
    return bool(is_rounding)


def _run(connection: duckdb.DuckDBPyConnection, queries: tuple[str, ...]) -> None:
    for query in queries:
        _create(connection, query, query)


def _create(connection: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
    connection.execute(parsed(connection, _creating(name, query)))


def _creating(name: str, query: str) -> str:
    return f"CREATE TEMP TABLE noise_{name} AS {resources.sql(f'noise/{query}')}"


def load_repeats(connection: duckdb.DuckDBPyConnection, repeats: Repeats | None) -> None:
    """Make noise_repeat_rows, the differences between repeats of golden and golden, while files can be read."""
    connection.execute(f"CREATE TEMP TABLE noise_repeat_rows AS {views.empty(views.NOISE, with_partitions=False)}")
    if repeats is None:
        return
    connection.execute(f"SET VARIABLE noise_files = [{quote_text(file_pattern(repeats.file))}]")
    set_variable(connection, "golden_step", repeats.step)
    set_variable(connection, "golden_rank", repeats.rank)
    connection.execute(f"INSERT INTO noise_repeat_rows BY NAME {resources.sql('noise/repeat_rows')}")
