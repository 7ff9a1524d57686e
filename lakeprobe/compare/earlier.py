"""Finds what went before the steps of two runs: steps equal to the last bit, and other updates of the parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

from msgspec import Struct

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

_AT_ONCE = 8
"""How many steps are asked for their updates at once: planning takes as long as reading two, and all are in memory."""


class Earlier(Struct, frozen=True):
    """Pairs of units, by what went before them.

    `equal`: both runs have a step before, the last of each being equal on all ranks to the last bit of what was
    recorded. `other_updates`: from that step, which is not equal, the optimizer moved the parameters otherwise
    (sql/compare/other_updates). What cannot be read is neither.
    """

    equal: frozenset[Pair]
    other_updates: frozenset[Pair]


def look_back(snapshot: Snapshot, pairs: Collection[Pair]) -> Earlier:
    """Return which of `pairs` follow equal steps, and which other updates."""
    runs = {run: _by_step(snapshot, run) for run in {unit.run for pair in pairs for unit in pair}}
    before = {
        step: earlier
        for step in {_step(pair) for pair in pairs}
        if all(earlier := tuple(_last_before(runs[run], number) for run, number in step))
    }
    if not before:
        return Earlier(frozenset(), frozenset())
    with connect(1, ("unit_rows", "element_type", "epsilon")) as connection:
        storage.connect(connection, snapshot.lake)
        equal = {step for step, earlier in before.items() if _are_equal(connection, snapshot, *earlier)}
        parted = [
            (step, (*earlier, *(runs[run][number] for run, number in step)))
            for step, earlier in before.items()
            if step not in equal
        ]
        others: set[Step] = set()
        for start in range(0, len(parted), _AT_ONCE):
            others |= _other_updates(connection, snapshot, dict(parted[start : start + _AT_ONCE]))
    return Earlier(
        frozenset(pair for pair in pairs if _step(pair) in equal),
        frozenset(pair for pair in pairs if _step(pair) in others),
    )


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


def _other_updates(
    connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, steps: Mapping[Step, Sequence[Mapping[int, UnitKey]]]
) -> set[Step]:
    """Return the steps before which the optimizer moved parameters otherwise.

    `steps`: with the units of target and golden, before and in each. A step counts by the lowest rank that all have.
    """
    import duckdb

    common = {step: set.intersection(*map(set, units)) for step, units in steps.items()}
    asked = [step for step, ranks in common.items() if ranks]
    if not asked:
        return set()
    units, files = [], set()
    for number, step in enumerate(asked):
        for (is_later, side), ranks in zip(product((False, True), ("target", "golden")), steps[step], strict=True):
            place = layout.unit_place(snapshot, ranks[min(common[step])])
            file = place.folder / "tensors.parquet"
            files.add(file_pattern(file))
            unit = {"pair": number, "side": side, "is_later": is_later, "file": str(file)}
            units.append({**unit, "step": None, "rank": None, **(place.condition or {})})
    connection.execute("SET VARIABLE files = $files", {"files": sorted(files)})
    try:
        found = connection.execute(
            parsed(connection, resources.sql("compare/other_updates")), {"units": units}
        ).fetchall()
    except duckdb.Error:  # of steps that can be read each is known
        if len(asked) == 1:
            return set()
        return set().union(*(_other_updates(connection, snapshot, {step: steps[step]}) for step in asked))
    return {asked[number] for (number,) in found}
