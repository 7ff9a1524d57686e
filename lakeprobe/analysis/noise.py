"""Finds where rounding noise ends in a comparison, which every analysis needs to say that an op differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeprobe.analysis.query import is_made, keep
from lakeprobe.errors import unknown

if TYPE_CHECKING:
    import duckdb

    from lakeprobe.lake.comparison import StoredComparison


def keep_noise_ends(
    stages: duckdb.DuckDBPyConnection,
    comparison: StoredComparison,
    *,
    noise: str | None = None,
    repeat: StoredComparison | None = None,
    is_asked: bool = True,
    also_bitwise: bool = False,
) -> None:
    """Create standing, the ops that stand out of rounding noise, and noise_ends, the first of them in each unit.

    `stages` has the views suspects, results and noise, and with a repeat the variables of `set_thresholds`. Only
    units in which ops round differently count, unless `also_bitwise`. No unit counts if not `is_asked`, because a
    threshold of the user decides what differs. Ops that differ between repeats of golden do not stand out: those
    measured as `noise`, or in the comparison `repeat`.

    Raises UsageError for a noise that the lake does not have.
    """
    if is_made(stages, "noise_ends", (comparison.name, noise, repeat and repeat.name, is_asked, also_bitwise)):
        return
    keep_repeat_rows(stages, noise, repeat)
    units = [
        unit.places | {"is_rounding": unit.is_rounding}
        for unit in comparison.units
        if is_asked and (unit.is_rounding or also_bitwise)
    ]
    asked = {"comparison": comparison.name, "units": units}
    if noise is None and repeat is None:
        keep(stages, "standing", "outstanding", asked)
    else:
        keep(stages, "outstanding", "outstanding", asked)
        keep(stages, "standing", "standing", {"comparison": comparison.name})
    keep(stages, "noise_ends", "noise_ends", {"units": units})


def keep_repeat_rows(
    stages: duckdb.DuckDBPyConnection, noise: str | None, repeat: StoredComparison | None = None
) -> None:
    """Create repeat_rows, the differences between repeats of golden: measured as `noise`, or from a comparison.

    Raises UsageError for a noise that the lake does not have.
    """
    if repeat is not None:
        units = [unit.places | {"comparison": repeat.name} for unit in repeat.units]
        keep(stages, "repeat_rows", "../noise/measure", {"golden": repeat.golden, "units": units})
    elif noise is not None:
        known = [name for (name,) in stages.execute("SELECT DISTINCT noise FROM noise ORDER BY noise").fetchall()]
        if noise not in known:
            raise unknown("the lake", "noise", noise, known, "measure it: lakeprobe noise GOLDEN REPEAT")
        keep(stages, "repeat_rows", "repeat_rows", {"noise": noise})
    else:
        keep(stages, "repeat_rows", "no_repeat_rows")
