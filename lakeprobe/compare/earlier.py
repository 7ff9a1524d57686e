"""Finds the steps before which the two runs were equal to the last bit, so that what differs in them is no rounding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from lakeprobe import resources
from lakeprobe.compare.plan import Pair
from lakeprobe.lake import layout
from lakeprobe.lake.connection import connect, parsed, set_variable
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.log import Snapshot
from lakeprobe.resources import file_pattern
from lakeprobe.system import storage

if TYPE_CHECKING:
    import duckdb

Units = Mapping[int, Mapping[int, UnitKey]]
"""The units of a run, by step and rank."""
Step = tuple[tuple[str, int], tuple[str, int]]
"""A run and a step of it, of the target and of golden."""


def pairs_after_equal_steps(snapshot: Snapshot, pairs: Collection[Pair]) -> set[Pair]:
    """Return those of `pairs` before whose steps both runs have a step, the last of each being equal on all ranks.

    Steps are equal if their tensors are, to the last bit of what was recorded. What cannot be read counts as different.
    """
    runs = {run: _by_step(snapshot, run) for run in {unit.run for pair in pairs for unit in pair}}
    before = {
        step: earlier
        for step in {_step(pair) for pair in pairs}
        if all(earlier := tuple(_last_before(runs[run], number) for run, number in step))
    }
    if not before:
        return set()
    with connect(1, ("unit_rows",)) as connection:
        storage.connect(connection, snapshot.lake)
        equal = {step for step, earlier in before.items() if _are_equal(connection, snapshot, *earlier)}
    return {pair for pair in pairs if _step(pair) in equal}


def _step(pair: Pair) -> Step:
    target, golden = pair
    return (target.run, target.step), (golden.run, golden.step)


def _by_step(snapshot: Snapshot, run: str) -> Units:
    steps: dict[int, dict[int, UnitKey]] = defaultdict(dict)
    for unit in layout.units(snapshot, run):
        steps[unit.step][unit.rank] = unit
    return steps


def _last_before(units: Units, step: int) -> Mapping[int, UnitKey]:
    earlier = [number for number in units if number < step]
    return units[max(earlier)] if earlier else {}


def _are_equal(
    connection: duckdb.DuckDBPyConnection,
    snapshot: Snapshot,
    target: Mapping[int, UnitKey],
    golden: Mapping[int, UnitKey],
) -> bool:
    return target.keys() == golden.keys() and all(
        _have_equal_tensors(connection, snapshot, unit, golden[rank]) for rank, unit in target.items()
    )


def _have_equal_tensors(
    connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, target: UnitKey, golden: UnitKey
) -> bool:
    import duckdb

    for side, unit in (("target", target), ("golden", golden)):
        place = layout.unit_place(snapshot, unit)
        set_variable(connection, f"{side}_file", file_pattern(place.folder / "tensors.parquet"))
        connection.execute(f"SET VARIABLE {side}_held = $held", {"held": place.condition})
    try:
        found = connection.execute(parsed(connection, resources.sql("compare/equal_units"))).fetchall()
    except duckdb.Error:
        return False
    return found == [(True,)]
