"""Which ops of a comparison stand out of rounding noise, and where the noise ends.

Between two chips every op rounds in its own way, so nearly all tensors differ. The queries of sql/noise measure in the
comparison itself what ops of each kind add, and find what no rounding makes (docs/noise.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakeprobe import resources
from lakeprobe.lake.connection import set_variable
from lakeprobe.resources import file_pattern, quote_text

if TYPE_CHECKING:
    import duckdb

_STAGES = (
    "repeat",
    "ops",
    "leaves",
    "makers",
    "errors",
    "floors",
    "added",
    "shifts",
    "gradients",
    "evidence",
    "suspects",
)
"""The queries of sql/noise in their order; each makes the table noise_NAME."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """The file with what repeats of the golden run differ by, and the step and rank of golden that is compared."""

    file: Path
    step: int
    rank: int


def find_suspects(connection: duckdb.DuckDBPyConnection, is_first_step: bool) -> bool:
    """Make the table noise_suspects of a comparison whose rows are paired, measured and judged.

    `connection` has what `load_repeats` made, and the tables of `compare.unit` up to verdicts. `is_first_step` says
    that no step of the optimizer came before: parameters are the same to the last bit then. Sets the variables
    noise_ends, the place of the first op that stands out, and noise_error, the error up to which what lies behind it
    is noise. Returns whether anything rounds differently at all.
    """
    connection.execute(f"SET VARIABLE is_first_step = {str(is_first_step).lower()}")
    for stage in _STAGES:
        connection.execute(f"CREATE TEMP TABLE noise_{stage} AS {resources.sql(f'noise/{stage}')}")
    is_rounding, ends, error = connection.execute(resources.sql("noise/extent")).fetchall()[0]
    set_variable(connection, "noise_ends", ends)
    set_variable(connection, "noise_error", error)
    return bool(is_rounding)


def load_repeats(connection: duckdb.DuckDBPyConnection, repeats: Repeats | None) -> None:
    """Make noise_repeat_rows: what repeats of golden differ by. To be called while `connection` may read files."""
    if repeats is None:
        connection.execute(f"CREATE TEMP TABLE noise_repeat_rows AS {resources.sql('noise/no_repeat_rows')}")
        return
    connection.execute(f"SET VARIABLE noise_files = [{quote_text(file_pattern(repeats.file))}]")
    set_variable(connection, "golden_step", repeats.step)
    set_variable(connection, "golden_rank", repeats.rank)
    connection.execute(f"CREATE TEMP TABLE noise_repeat_rows AS {resources.sql('noise/repeat_rows')}")
