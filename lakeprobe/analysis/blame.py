"""Finds the op that causes a difference, the evidence for it, and the path of the difference to the loss.

sql/analysis/blame/events.sql and ranked.sql explain the order of the suspects. SQL decides; this module runs the stages
one after the other, and searches the path from the cause to the loss.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappop, heappush
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from msgspec import Struct

from lakeprobe import hints, resources
from lakeprobe.analysis.noise import keep_noise_ends
from lakeprobe.analysis.query import (
    add_rows,
    answer,
    keep,
    keep_leaf_errors,
    keep_units,
    set_thresholds,
    stage_connection,
)
from lakeprobe.analysis.summary import outcomes_in_lake
from lakeprobe.analysis.transfers import keep_compared_transfers
from lakeprobe.analysis.verdict import Coverage, coverage_of
from lakeprobe.errors import UsageError
from lakeprobe.lake import comparison as comparisons
from lakeprobe.lake import layout
from lakeprobe.lake.comparison import StoredComparison

if TYPE_CHECKING:
    import duckdb

_Node = tuple[int, int]
"""A rank, and the place of an op on it."""


_Edge = tuple[int, int, int, int, str, str | None]
"""How a difference reached an op: rank and place of the op, those of the earlier op, how that is known, and the meeting
of ranks that carried it."""


_COST_OF_GUESS = 1000
"""The cost of a hop that only the order of the ops suggests; other hops cost 1."""


class Blame(Struct, frozen=True):
    """The cause of a step's difference. The SQL files describe the relations.

    `suspects`: the short list, the cause first (sql/analysis/blame/suspects.sql). `path`: the ops from the cause to the
    loss (path.sql). `spread`: how the difference reached the other ranks (spread.sql). `counts`: the number of events
    of each grade; `suspects` shows at most `most` of them. `coverage`: how much of the steps was compared. `verified`:
    what verifications in the lake say of the suspects (verified.sql).
    """

    comparison: str
    step: int
    suspects: duckdb.DuckDBPyRelation
    path: duckdb.DuckDBPyRelation
    spread: duckdb.DuckDBPyRelation
    counts: duckdb.DuckDBPyRelation
    coverage: Coverage
    verified: duckdb.DuckDBPyRelation
    is_latest: bool = True
    """Whether it is of the comparison that was made last, which `show` takes if none is named."""

    def __repr__(self) -> str:
        return f"<blame for the differences of {self.comparison} in step {self.step}>"


def blame(
    connection: duckdb.DuckDBPyConnection,
    lake: Path,
    name: str,
    step: int | None = None,
    most: int = 5,
    repeat: str | None = None,
    noise: str | None = None,
) -> Blame:
    """Find the ops that may have caused the differences in the comparison `name`, and the path to the loss.

    `connection` has the views of `lake`. `most` is the length of the list. Without `step`, blame takes the first step
    with a suspect, or the first step if none has one. `repeat` is another run of golden's program, which the lake has a
    comparison of with golden: differences that it shows too are noise. `noise` is the name of repeats that were
    measured.

    Raises UsageError for a comparison or step that does not exist, and for a repeat that was not compared with golden.
    """
    comparison = comparisons.load(lake, name)
    steps = sorted({unit.step for unit in comparison.units})
    if step is not None and step not in steps:
        raise UsageError(f"the comparison {name} has no step {step}; it has {', '.join(map(str, steps))}")
    asked = [unit for unit in comparison.units if unit.step == step and not repeat]  # a repeat has steps of its own
    run_steps = {number for unit in asked for number in (unit.step, unit.golden_step)}
    compared = None if repeat else comparison  # a repeat has another run and comparison
    with stage_connection(connection, run_steps, {unit.step for unit in asked}, compared=compared) as stages:
        set_thresholds(stages, comparison.thresholds)
        keep_compared_transfers(stages, comparison.target, comparison.golden)
        repeated = _repeat_of(lake, comparison, repeat) if repeat else None
        _keep_repeat(stages, comparison, repeated)
        keep_leaf_errors(stages, name)
        chosen = _rank_steps(stages, comparison, steps if step is None else [step], noise, repeated)
        outcomes = outcomes_in_lake(stages if step is None else connection, name)  # stages have this step alone
        covered = coverage_of(comparison, outcomes, () if step is None else (step,))
        return _answer(connection, stages, comparison, chosen, most, covered, comparisons.latest(lake) == name)


def _repeat_of(lake: Path, comparison: StoredComparison, run: str) -> StoredComparison:
    """Return the comparison of `run` with golden. Raises UsageError if the lake has none."""
    for name in layout.comparisons(lake):
        found = comparisons.load(lake, name)
        if {found.target, found.golden} == {run, comparison.golden}:
            return found
    raise UsageError(
        f"{lake} has no comparison of {run} with {comparison.golden}, the golden run of {comparison.name}; "
        f"make one: {hints.command('compare', quote(run), quote(comparison.golden))}"
    )


def _keep_repeat(
    stages: duckdb.DuckDBPyConnection, comparison: StoredComparison, repeat: StoredComparison | None
) -> None:
    """Create repeat_errors: how far each op of golden differs from itself in the repeat."""
    if repeat is None:
        keep(stages, "repeat_errors", "blame/no_repeat")
        return
    keep_leaf_errors(stages, repeat.name)
    keep_units(stages, comparison)
    keep(stages, "repeat_errors", "blame/repeat", {"is_golden": comparison.golden == repeat.golden})


def _rank_steps(
    stages: duckdb.DuckDBPyConnection,
    comparison: StoredComparison,
    steps: list[int],
    noise: str | None,
    repeat: StoredComparison | None,
) -> int:
    """Create blame_ranked for the first of `steps` that has a suspect, or else for the first. Returns that step.

    Where no op rounds differently, the differences themselves are the evidence. They are not complete: an argument may
    act a step later, and another path may pass on values that agree. If they give no event, or what comes before the
    first suspect explains it, the noise analysis (sql/noise) is used.
    """
    for step in steps:
        keep_noise_ends(stages, comparison, noise=noise, repeat=repeat)
        _rank(stages, comparison, step)
        if not stages.table("blame_ranked").limit(1).fetchall() or _is_explained(stages, comparison):
            keep_noise_ends(stages, comparison, noise=noise, repeat=repeat, also_bitwise=True)
            _rank(stages, comparison, step)
        if _has_suspect(stages):
            return step
    keep_noise_ends(stages, comparison, noise=noise, repeat=repeat)
    _rank(stages, comparison, steps[0])
    return steps[0]


def _is_explained(stages: duckdb.DuckDBPyConnection, comparison: StoredComparison) -> bool:
    query = resources.sql("analysis/blame/earlier_fact")
    [(is_explained,)] = stages.execute(query, {"comparison": comparison.name, "target": comparison.target}).fetchall()
    return bool(is_explained)


def _has_suspect(stages: duckdb.DuckDBPyConnection) -> bool:
    return bool(stages.execute("SELECT 1 FROM blame_ranked WHERE grade = 'suspect' LIMIT 1").fetchall())


def _rank(stages: duckdb.DuckDBPyConnection, comparison: StoredComparison, step: int) -> None:
    """Create blame_ranked for one step, and the tables that it reads."""
    keep_units(stages, comparison, step)
    name = {"comparison": comparison.name}
    target = {"target": comparison.target}
    runs = target | {"golden": comparison.golden}
    keep(stages, "blame_leaves", "blame/leaves", name | {"step": step})
    keep(stages, "blame_ops", "blame/ops", name | runs)
    keep(stages, "blame_noise", "blame/noise")
    keep(stages, "blame_meetings", "blame/meetings")
    keep(stages, "blame_incoming", "blame/incoming")
    keep(stages, "blame_growth", "blame/growth")
    keep(stages, "blame_unexplained", "blame/unexplained", name)
    keep(stages, "blame_makers", "blame/makers", name | runs)
    keep(stages, "blame_events", "blame/events")
    keep(stages, "blame_elsewhere", "blame/elsewhere", name | runs)
    keep(stages, "blame_races", "blame/races", name | target)
    keep(stages, "blame_ranked", "blame/ranked")


def _answer(
    connection: duckdb.DuckDBPyConnection,
    stages: duckdb.DuckDBPyConnection,
    comparison: StoredComparison,
    step: int,
    most: int,
    covered: Coverage,
    is_latest: bool,
) -> Blame:
    runs = {"target": comparison.target, "golden": comparison.golden}
    keep(stages, "blame_cause", "blame/cause")
    keep(stages, "blame_spread", "blame/spread")
    keep(stages, "blame_ends", "blame/ends", {"comparison": comparison.name, "target": comparison.target})
    ranks_on_path = _keep_hops(stages, comparison.name, step)
    keep(stages, "blame_listed", "blame/listed", {"most": most})
    asked_of = {"comparison": comparison.name, "ranks": _ranks_listed(stages)}
    suspects = answer(connection, stages, "blame/suspects", asked_of | runs)
    suspects = _contradictions(connection, comparison, step, most, suspects, _has_suspect(stages))
    ops = [op for (op,) in suspects.select("op").fetchall() if op is not None]
    asked = {"ops": ops, "runs": list(runs.values()), "step": step}
    return Blame(
        comparison=comparison.name,
        step=step,
        suspects=suspects,
        path=answer(connection, stages, "blame/path", {"target": comparison.target, "ranks": ranks_on_path}),
        spread=answer(connection, stages, "blame/spread"),
        counts=answer(connection, stages, "blame/counts"),
        coverage=covered,
        verified=answer(connection, stages, "blame/verified", asked),
        is_latest=is_latest,
    )


def _ranks_listed(stages: duckdb.DuckDBPyConnection) -> list[int]:
    """Return the ranks of both runs on the short list: only their files are read."""
    query = "SELECT rank, golden_rank FROM blame_listed LEFT JOIN compared_units USING (step, rank)"
    return sorted({rank for pair in stages.execute(query).fetchall() for rank in pair if rank is not None})


def _contradictions(
    connection: duckdb.DuckDBPyConnection,
    comparison: StoredComparison,
    step: int,
    most: int,
    suspects: duckdb.DuckDBPyRelation,
    has_suspect: bool,
) -> duckdb.DuckDBPyRelation:
    """Return the ops of a merged run whose copies on several ranks differ, or `suspects` if there are none.

    Copies are equal to the last bit, so this counts where nothing stands out of rounding noise, and before the op that
    stands out most.
    """
    import pyarrow as pa

    [suspect] = suspects.select("op").limit(1).fetchall() if has_suspect else [None]
    asked = {"target": comparison.target, "step": step, "most": most, "suspect": suspect[0] if suspect else None}
    found = connection.sql(resources.sql("layouts/contradictions"), params=asked).to_arrow_table()
    if not found.num_rows:
        return suspects
    rest = suspects.to_arrow_table() if has_suspect else suspects.limit(0).to_arrow_table()
    together = pa.concat_tables([found, rest], promote_options="permissive").select(suspects.columns).slice(0, most)
    numbered = pa.array(range(1, together.num_rows + 1), together.schema.field("nth").type)
    return connection.from_arrow(together.set_column(together.schema.get_field_index("nth"), "nth", numbered))


def _keep_hops(stages: duckdb.DuckDBPyConnection, comparison: str, step: int) -> list[int]:
    """Create blame_hops: the ops of the path from the cause to the loss, in order. Returns their ranks."""
    stages.execute(
        "CREATE OR REPLACE TEMP TABLE blame_hops "
        "(nth INTEGER, step INTEGER, rank INTEGER, seq INTEGER, how VARCHAR, from_rank INTEGER, meeting VARCHAR)"
    )
    hops = _path(stages, comparison)
    if hops:
        rows = [(nth, step, *node, how, origin, meeting) for nth, (node, how, origin, meeting) in enumerate(hops, 1)]
        add_rows(stages, "blame_hops", rows)
    return sorted({rank for (rank, _), *_ in hops})


_Hop = tuple[_Node, str | None, int | None, str | None]
"""An op of the path, how the difference reached it, and from which rank by which meeting."""


def _path(stages: duckdb.DuckDBPyConnection, comparison: str) -> list[_Hop]:
    """Return the path from the cause to the loss of its rank, or else to the loss of the first rank that it reached."""
    found = stages.execute("SELECT rank, target_seq FROM blame_cause WHERE target_seq IS NOT NULL").fetchall()
    if not found:
        return []
    cause: _Node = found[0]
    sources = dict(stages.execute("SELECT rank, from_rank FROM blame_spread").fetchall())
    for end in stages.execute("SELECT rank, seq FROM blame_ends ORDER BY nth LIMIT 2").fetchall():
        edges = _edges(stages, comparison, _ranks_between(cause[0], end[0], sources))
        hops = _walk(edges, cause, end)
        if hops:
            return hops
    return []


def _ranks_between(cause: int, end: int, sources: dict[int, int]) -> list[int]:
    """Return the ranks that the difference crossed from `cause` to `end`; `sources` maps a rank to the one before."""
    ranks = [end]
    while (before := sources.get(ranks[-1])) is not None and before not in ranks:
        ranks.append(before)
    return sorted({cause, *ranks})


def _edges(stages: duckdb.DuckDBPyConnection, comparison: str, ranks: list[int]) -> list[_Edge]:
    """Return the edges of the ops of `ranks` that differ, in the order of the ops, the largest error of each first."""
    keep(stages, "blame_edges", "blame/edges", {"comparison": comparison, "ranks": ranks})
    return stages.execute(
        "SELECT rank, seq, from_rank, from_seq, how, meeting FROM blame_edges "
        "ORDER BY rank, seq, error DESC, from_rank, from_seq DESC"
    ).fetchall()


def _edges_of(edges: list[_Edge], node: _Node) -> Iterator[tuple[_Node, str, str | None]]:
    """Yield the earlier ops that may have passed the difference on to `node`. A path meets few of all ops."""
    for at in range(bisect_left(edges, node), len(edges)):
        rank, seq, from_rank, from_seq, how, meeting = edges[at]
        if (rank, seq) != node:
            return
        yield (from_rank, from_seq), how, meeting


def _walk(edges: list[_Edge], cause: _Node, end: _Node) -> list[_Hop]:
    """Return the shortest path from `cause` to `end` (Dijkstra, backwards) with the fewest guessed hops.

    Returns no path if more than half of it would be guessed.
    """
    steps: dict[_Node, tuple[_Node, str, str | None]] = {}
    costs = {end: 0}
    queue = [(0, end)]
    while queue:
        cost, node = heappop(queue)
        if node == cause:
            return _hops(cause, end, steps)
        if cost > costs[node]:
            continue
        for origin, how, meeting in _edges_of(edges, node):
            is_before_cause = origin[0] == cause[0] and origin[1] < cause[1]
            total = cost + (_COST_OF_GUESS if how == "order" else 1)
            if not is_before_cause and total < costs.get(origin, _COST_OF_GUESS**3):
                costs[origin] = total
                steps[origin] = (node, how, meeting)
                heappush(queue, (total, origin))
    return []


def _hops(cause: _Node, end: _Node, steps: dict[_Node, tuple[_Node, str, str | None]]) -> list[_Hop]:
    hops: list[_Hop] = [(cause, None, None, None)]
    node = cause
    while node != end:
        origin = node
        node, how, meeting = steps[origin]
        hops.append((node, how, origin[0] if origin[0] != node[0] else None, meeting))
    guesses = sum(how == "order" for _, how, _, _ in hops)
    return hops if guesses * 2 <= len(hops) else []
