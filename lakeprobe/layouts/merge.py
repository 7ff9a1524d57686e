"""Makes one whole run of the ranks of a cut one: the mesh, the names, the layouts, then the tables of a unit.

The whole run is a run of the lake like any other. Its table `layouts` says which ranks' rows each row was made of.

Statistics merge exactly over shards: max and min, the mean by counts, the norm by squares. Those of a partial sum are
taken from the collective that adds it up; without one, and without contents, the mean alone is known.
Contents are put together, or added up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from lakeprobe import resources
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import layout, staging, store, views
from lakeprobe.lake.connection import connect, define_macros, query_errors, set_spill_folder
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.log import Snapshot
from lakeprobe.lake.unit import UnitWriter, read_dump
from lakeprobe.layouts import dtensor, framework_names, layout_file, parts, placements
from lakeprobe.layouts import mesh as meshes
from lakeprobe.layouts import names as naming
from lakeprobe.layouts.layout_file import LayoutFile
from lakeprobe.layouts.mesh import MICRO, STAGES, Axis, Mesh, Seen
from lakeprobe.layouts.names import Named, Op, Piece
from lakeprobe.layouts.placements import ACROSS_STAGES, COPY, DIFFER, OWN_BOUNDS, SHARD, SUM, Key, Leaf, Placement
from lakeprobe.output import few_ranges, shown
from lakeprobe.schema import arrow_schema
from lakeprobe.system import files
from lakeprobe.version import __version__

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from lakeprobe.layouts.contents import Order

_MEMORY = "1GB"
"""What DuckDB keeps in memory while it merges; the rest lies on disk. The members of 64 ranks of 20 000 ops fit."""

_OWN_TO_RANKS = frozenset((DIFFER, SUM))

FORMAT = "lakeprobe merged"
"""The value of dumps.format for a merged unit."""


class StepReport(Struct):
    """What became of one step: the mesh, how many rows the whole has, what was left out and why, and contradictions."""

    step: int
    mesh: str
    ranks: int
    rows: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)


class MergeReport(Struct, frozen=True):
    """The merged run and a report for each of its steps."""

    run: str
    source: str
    steps: tuple[StepReport, ...]
    seconds: float


def merge_layout(
    run: str,
    *,
    name: str,
    lake: Path,
    golden: str | None = None,
    file: LayoutFile | None = None,
    steps: Sequence[int] = (),
    replace: bool = False,
) -> MergeReport:
    """Merge the ranks of `run` into the run `name` of one rank. `golden` has the names and shapes of the whole.

    Raises UsageError for a run that the lake does not have, and LakeError if its mesh cannot be told.
    """
    started = time.monotonic()
    store.check(lake)
    layout.check_name(name, "run")
    units = layout.units(lake, run)
    if not units:
        raise layout.unknown_run(lake, run)
    if name == run:
        raise UsageError(f"the merged run needs a name of its own, not {run}")
    if name in layout.runs(lake) and not replace:
        raise UsageError(f"{lake} has a run {name} already; give another name, or --replace it")
    present = sorted({unit.step for unit in units})
    for step in steps:
        if step not in present:
            raise UsageError(f"{run} has no step {step}; its steps are {few_ranges(present)}")
    chosen = [(nth, step) for nth, step in enumerate(present) if not steps or step in steps]
    reports = []
    with query_errors(), staging.staged(lake, "merge-layout") as session, staging.reading(lake) as snapshot:
        put = {}
        for nth, step in chosen:
            folder = session.folder / f"step{step}"
            folder.mkdir()
            with connect() as connection:
                define_macros(connection, ("along",))
                set_spill_folder(connection, session.folder / "spill")
                connection.execute(f"SET memory_limit = '{_MEMORY}'")
                views.define(connection, snapshot)
                work = _Step(connection, snapshot, run, golden, step, nth, file)
                reports.append(work.write(folder))
            put[layout.unit_name(UnitKey(name, step, 0))] = folder
        files.sync_tree(session.folder)
        staging.publish(session, f"merge-layout {run}", put)
    return MergeReport(name, run, tuple(reports), time.monotonic() - started)


def whole_of(lake: Path, target: str, golden: str, cuts: str) -> tuple[str, list[str]]:
    """The name of the run that `target` is merged into for a comparison with `golden`, and remarks on what was merged.

    `cuts` is "auto" or the path of a layout file. The run is TARGET_whole, and is made again each time. Raises
    UsageError for a side that is not a run of the lake, or for a run of that name that was not merged from `target`.
    """
    missing = [side for side in (target, golden) if side not in layout.runs(lake)]
    if missing:
        raise UsageError(f"{missing[0]} is not a run of {lake}; ingest it first, then compare with --cuts")
    name = f"{target}_whole"
    units = layout.units(lake, name)
    if units and read_dump(layout.unit_place(lake, units[0]))["format"] != FORMAT:
        raise UsageError(f"{lake} has a run {name}, which was not made by merging; rename that run")
    file = None if cuts == "auto" else layout_file.read(Path(cuts))
    report = merge_layout(target, name=name, lake=lake, golden=golden, file=file, replace=True)
    remarks = [f"{target} was merged into {name}: {report.steps[0].mesh}"]
    for step in report.steps:
        remarks += [f"step {step.step} {shown(op)}: {problem}" for op, problem in step.problems[:3]]
    return name, remarks


class _Step:
    """One step of a cut run on its way to a unit."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        snapshot: Snapshot,
        run: str,
        golden: str | None,
        step: int,
        nth: int,
        file: LayoutFile | None,
    ) -> None:
        self._sql = connection
        self._snapshot = snapshot
        self._run, self._step, self._file = run, step, file or LayoutFile()
        self._ranks = tuple(unit.rank for unit in layout.units(snapshot, run) if unit.step == step)
        self._golden = _golden_unit(snapshot, golden, step, nth)
        self._axes: tuple[Axis, ...] = ()
        self._columns: list[str] = []
        self._numbers: dict[Key, int] = {}
        self._known: dict[Key, Leaf] = {}
        self._decided: dict[Key, Placement] = {}
        self._alone: list[Named] = []

    def write(self, folder: Path) -> StepReport:
        """Write the tables of the merged unit into `folder`."""
        mesh = self._mesh()
        pieces, piece_of = self._pieces(mesh)
        golden = self._piece(self._golden, 0, 0) if self._golden else None
        named = naming.whole_names(pieces, golden)
        leaves = self._keep_all(mesh, piece_of, named)
        if factors := placements.halved(leaves.values(), self._axes):
            mesh = meshes.refined(mesh, factors)
            leaves = self._keep_all(mesh, piece_of, named)
        layout_file.check_axes(self._file, {axis.name for axis in self._axes})
        order = _order(pieces, named, golden)
        spans = meshes.spans(mesh, self._axes, self._ranks)
        decided = placements.decide(
            _by_op(leaves, order),
            self._axes,
            self._file.rules,
            lambda leaf: dtensor.said(leaf, spans) or framework_names.said(leaf, self._axes),
            _modules(named),
        )
        if golden is not None:
            scopes = parts.Scopes(named)
            added = _added({op.op for op in golden.ops}, decided, leaves, scopes)
            self._leave_out(added, "the cut adds it", decided, leaves, order)
            self._leave_out(parts.in_parts(decided, scopes), parts.REASON, decided, leaves, order)
            self._add_alone(parts.golden_alone(golden.ops, order, scopes), golden, decided, leaves, order)
        report = StepReport(self._step, str(_with(mesh, self._axes)), len(self._ranks))
        self._known, self._decided = leaves, decided
        self._keep_placements(decided, leaves, self._scale(decided, leaves, order))
        self._write(folder, report, named, order)
        unused = [rule for rule in self._file.rules if not any(map(rule.fits, leaves.values()))]
        report.problems += [(rule.pattern.pattern, "this line of the layout file fits no tensor") for rule in unused]
        return report

    def _keep_all(self, mesh: Mesh, piece_of: Mapping[int, int], named: Sequence[Sequence[Named]]) -> dict[Key, Leaf]:
        """Keep the tables of a mesh; gives the leaves of the whole."""
        has_micros = any(op.micro for ops in named for op in ops)
        self._axes = (
            *mesh.cutting,
            *((Axis(MICRO, 1 + max(op.micro for ops in named for op in ops), "calls"),) if has_micros else ()),
        )
        self._columns = ["micro" if axis.name == MICRO else f"c{number}" for number, axis in enumerate(self._axes)]
        self._keep_names(mesh, piece_of, named)
        self._keep_members()
        self._keep_reductions(mesh)
        return self._leaves()

    # -- what the run shows of its mesh -------------------------------------------------------------------------

    def _mesh(self) -> Mesh:
        if self._file.axes:
            return meshes.given(self._ranks, self._file.axes)
        if len(self._ranks) == 1:
            return Mesh((), {self._ranks[0]: {}})
        before, groups = self._transfers()
        asked = {"run": self._run, "step": self._step}
        parameters = dict(self._query("layouts/parameter_signatures", asked))
        data = dict(self._query("layouts/data_signatures", asked))
        has_experts = bool(self._query("layouts/experts", asked))
        shorter = self._query("layouts/sequence", asked | self._golden_key()) if self._golden else []
        seen = Seen(
            self._ranks, before, groups, data, parameters, has_experts, bool(shorter[0][0]) if shorter else None
        )
        return meshes.inferred(seen)

    def _transfers(self) -> tuple[dict[int, int], dict[tuple[int, ...], bool]]:
        """The rank before each in the pipeline, and the groups of collectives with whether one is within a module."""
        from lakeprobe.analysis.transfers import keep_transfers

        keep_transfers(self._sql, self._run)
        asked = {"run": self._run, "step": self._step}
        before = dict(self._query("layouts/pipeline", {"step": self._step}))
        groups = {tuple(members): within for members, within in self._query("layouts/groups", asked)}
        for (recorded,) in self._query("layouts/device_meshes", asked):
            for group in dtensor.groups(recorded):
                groups.setdefault(group, False)
        return before, groups

    def _query(self, file: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        return self._sql.execute(resources.sql(file), parameters).fetchall()

    def _keep(self, table: str, query: str, parameters: Mapping[str, Any] | None = None) -> None:
        self._sql.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {query}", parameters)

    def _golden_key(self) -> dict[str, Any]:
        assert self._golden is not None
        return {"golden": self._golden.run, "golden_step": self._golden.step, "golden_rank": self._golden.rank}

    def _any_golden(self) -> dict[str, Any]:
        return self._golden_key() if self._golden else {"golden": "", "golden_step": 0, "golden_rank": 0}

    # -- names --------------------------------------------------------------------------------------------------

    def _pieces(self, mesh: Mesh) -> tuple[list[Piece], dict[int, int]]:
        """The programs of the ranks, each once, and which of them a rank runs."""
        asked = {"run": self._run, "step": self._step}
        programs = dict(self._query("layouts/programs", asked))
        expert_axis = self._expert_axis(mesh)
        found: dict[tuple[int, int, str], int] = {}
        pieces: list[Piece] = []
        piece_of = {}
        keyed = sorted(
            ((mesh.at(rank, STAGES), mesh.at(rank, expert_axis) if expert_axis else 0, programs[rank]), rank)
            for rank in self._ranks
        )
        for key, rank in keyed:
            if key not in found:
                found[key] = len(pieces)
                pieces.append(self._piece(UnitKey(self._run, self._step, rank), key[0], key[1]))
            piece_of[rank] = found[key]
        return pieces, piece_of

    def _expert_axis(self, mesh: Mesh) -> str | None:
        """The axis along which ranks have other experts: one of its own, or that of the data."""
        signatures = dict(self._query("layouts/experts", {"run": self._run, "step": self._step}))
        for axis in sorted(mesh.cutting, key=lambda axis: not axis.name.startswith("ep")) if signatures else ():
            lines: dict[tuple[int, ...], set[str]] = {}
            for rank in self._ranks:
                place = tuple(mesh.at(rank, other.name) for other in mesh.axes if other != axis)
                lines.setdefault(place, set()).add(signatures.get(rank, ""))
            if any(len(line) > 1 for line in lines.values()):
                return axis.name
        return None

    def _piece(self, key: UnitKey, stage: int, expert: int) -> Piece:
        asked = {"run": key.run, "step": key.step, "rank": key.rank}
        ops = tuple(Op(*row) for row in self._query("layouts/ops", asked))
        return Piece(stage, expert, ops, self._blocks(asked))

    def _blocks(self, asked: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        """The parameters in the order in which the optimizer takes them, by the values that it is given."""
        rows = self._query("layouts/optimized", asked)
        found: list[tuple[str, str]] = []
        for _, candidates in rows:
            fresh = [(path, slot) for path, slot in candidates if (path, slot) not in found]
            if fresh and (not found or list(found[-1]) not in candidates):
                found.append(fresh[0])
        return tuple(found)

    def _keep_names(self, mesh: Mesh, piece_of: Mapping[int, int], named: Sequence[Sequence[Named]]) -> None:
        import pyarrow as pa

        rows = [(piece, *op[:4]) for piece, ops in enumerate(named) for op in ops]
        self._register(
            "cut_names",
            rows,
            {"piece": pa.int32(), "op": pa.string(), "whole": pa.string(), "micro": pa.int32(), "reason": pa.string()},
        )
        types = {"rank": pa.int32(), "piece": pa.int32()}
        types |= {column: pa.int32() for column in self._columns if column != "micro"}
        ranks = [
            (rank, piece_of[rank], *(mesh.at(rank, axis.name) for axis in self._axes if axis.name != MICRO))
            for rank in self._ranks
        ]
        self._register("cut_ranks", ranks, types)

    def _register(self, table: str, rows: Sequence[Sequence[Any]], types: Mapping[str, pa.DataType]) -> None:
        import pyarrow as pa

        columns = list(zip(*rows, strict=True)) if rows else [()] * len(types)
        arrays = [pa.array(column, type=kind) for column, kind in zip(columns, types.values(), strict=True)]
        self._sql.register("passed", pa.table(arrays, names=list(types)))
        self._keep(table, "FROM passed")
        self._sql.unregister("passed")

    # -- leaves -------------------------------------------------------------------------------------------------

    def _keep_members(self) -> None:
        import pyarrow as pa

        asked = {"run": self._run, "step": self._step}
        self._keep("cut_leaves", resources.sql("layouts/leaf_numbers"), asked)
        self._keep("cut_members", resources.sql("layouts/members"), asked)
        self._keep("golden_leaves", resources.sql("layouts/golden_leaves"), self._any_golden())
        self._register(
            "alone_leaves", [], {"leaf": pa.int32(), "op": pa.string(), "slot": pa.string(), "repeat": pa.int32()}
        )

    def _keep_reductions(self, mesh: Mesh) -> None:
        """Create reductions: the values that collectives add up over an axis, and what they give."""
        import pyarrow as pa

        if not mesh.axes or self._file.axes:
            self._transfers()
        rows = [(list(axes), sorted(group)) for group, axes in meshes.spans(mesh, self._axes, self._ranks).items()]
        rows += [([ACROSS_STAGES], sorted(group)) for group in meshes.across_stages(mesh, self._ranks)]
        self._register("axis_groups", rows, {"axes": pa.list_(pa.int32()), "members": pa.list_(pa.int32())})
        self._keep("reductions_single", resources.sql("layouts/reductions"), {"run": self._run, "step": self._step})
        self._keep("reductions", resources.sql("layouts/reductions_in_turn"))

    def _leaves(self) -> dict[Key, Leaf]:
        """The leaves of the whole, from all ranks."""
        columns = self._columns
        equal, present = [], []
        for number, column in enumerate(columns):
            others = ", ".join(other for other in columns if other != column)
            grouped = f", {others}" if others else ""
            self._keep(
                f"equal_{number}",
                f"SELECT leaf, bool_and(same) AS same, max(there) AS there FROM ("
                f"SELECT leaf, min(sig) = max(sig) AS same, count(DISTINCT {column}) AS there "
                f"FROM cut_members GROUP BY leaf{grouped}) GROUP BY leaf",
            )
            equal.append(f"equal_{number}.same")
            present.append(f"equal_{number}.there")
        self._keep("ragged", "SELECT leaf FROM cut_members GROUP BY leaf HAVING min(shape) <> max(shape)")
        ragged = []
        for number, column in enumerate(columns):
            others = ", ".join(("leaf", *(other for other in columns if other != column)))
            self._keep(
                f"ragged_{number}",
                f"SELECT leaf, max(shapes) > 1 AS is_ragged FROM (SELECT leaf, count(DISTINCT shape) AS shapes "
                f"FROM cut_members JOIN ragged USING (leaf) GROUP BY {others}) GROUP BY leaf",
            )
            ragged.append(f"coalesce(ragged_{number}.is_ragged, false)")
        joins = "".join(f" LEFT JOIN ragged_{number} USING (leaf)" for number in range(len(columns)))
        joins += "".join(f" JOIN equal_{number} USING (leaf)" for number in range(len(columns)))
        rows = self._sql.execute(
            f"SELECT leaves.*, [{', '.join(equal)}]::BOOLEAN[], [{', '.join(present)}]::INTEGER[], "
            f"[{', '.join(ragged)}]::BOOLEAN[] "
            f"FROM ({resources.sql('layouts/leaves')}) AS leaves{joins}"
        ).fetchall()
        found = {}
        for (
            leaf,
            op,
            slot,
            repeat,
            role,
            kind,
            direction,
            shape,
            members,
            totals,
            values,
            whole,
            reduced,
            reduction,
            value,
            number,
            theirs,
            extra,
            is_constant,
            is_unknown,
            is_whole,
            same,
            present_on,
            uneven,
        ) in rows:
            key = Key(op, slot, repeat)
            self._numbers[key] = leaf
            found[key] = Leaf(
                key, role, kind, direction, None if shape is None else tuple(shape),
                members, totals and tuple(totals), values,
                None if whole is None else tuple(whole), tuple(same), tuple(present_on),
                frozenset(reduced or ()), value, number, theirs, extra, is_constant, is_unknown, tuple(uneven),
                reduction, is_whole,
            )  # fmt: skip
        return found

    def _leave_out(
        self,
        ops: set[str],
        reason: str,
        decided: dict[Key, Placement],
        leaves: dict[Key, Leaf],
        order: dict[str, float],
    ) -> None:
        """Leave out calls that have no place in the whole."""
        for key in [key for key in decided if key.op in ops]:
            del decided[key], leaves[key]
        for op in ops:
            del order[op]
        self._sql.execute(
            "UPDATE cut_names SET whole = NULL, reason = $reason WHERE list_contains($ops, whole)",
            {"ops": sorted(ops), "reason": reason},
        )

    def _add_alone(
        self,
        alone: Sequence[Op],
        golden: Piece,
        decided: dict[Key, Placement],
        leaves: dict[Key, Leaf],
        order: dict[str, float],
    ) -> None:
        """Add ops that golden alone has: what another op has as well is known, the rest is not."""
        if not alone:
            return
        assert self._golden is not None
        import pyarrow as pa

        self._alone = [Named(op.op, op.op, 0, None, op.parent) for op in alone]
        places = {op.op: float(place) for place, op in enumerate(golden.ops)}
        rows = [(op.op, places[op.op]) for op in alone]
        self._register("golden_alone", rows, {"op": pa.string(), "place": pa.float64()})
        self._keep("alone_leaves", resources.sql("layouts/alone_leaves"), self._golden_key())
        known = [self._numbers[key] for key, placed in decided.items() if parts.is_known(placed)]
        self._keep("beside", resources.sql("layouts/beside"), self._golden_key() | {"known": known})
        self._sql.execute(f"INSERT INTO cut_leaves BY NAME {resources.sql('layouts/alone_numbers')}")
        self._sql.execute(f"INSERT INTO cut_members BY NAME {resources.sql('layouts/alone_members')}")
        self._keep("golden_leaves", resources.sql("layouts/golden_leaves"), self._golden_key())
        by_number = {number: key for key, number in self._numbers.items()}
        found = self._sql.execute(
            "SELECT leaf, op, slot, repeat, role, kind, shape, source, same_shape FROM alone_leaves "
            "LEFT JOIN beside USING (leaf) ORDER BY leaf"
        ).fetchall()
        for leaf, op, slot, repeat, role, kind, shape, source, same_shape in found:
            key = Key(op, slot, repeat)
            count = len(self._axes)
            placed = Placement([COPY] * count, [None] * count, "golden", "inferred")
            if source is not None:
                other = decided[by_number[source]]
                placed = replace(other, source="golden", certainty="inferred")
                if not same_shape:
                    placed.dimensions = [None if one is None else 0 for one in placed.dimensions]
            elif kind == "tensor":
                placed.unknown = parts.REASON
            self._numbers[key], decided[key] = leaf, placed
            whole = None if shape is None else tuple(shape)
            direction = "backward" if op.endswith("backward") else "forward"
            leaves[key] = Leaf(
                key, role, kind, direction, whole, 1, None, 1, whole, (True,) * count, (1,) * count, frozenset(), leaf,
            )  # fmt: skip
            order[op] = places[op]

    # -- what gradients are multiplied by -----------------------------------------------------------------------

    def _scale(self, decided: Mapping[Key, Placement], leaves: Mapping[Key, Leaf], order: Mapping[str, float]) -> float:
        """What backward values are multiplied by: 1/n where each of n ranks averages its loss over its own data."""
        if self._golden is None:
            return 1.0
        first = [
            (order.get(key.op, 0.0), key)
            for key, leaf in leaves.items()
            if leaf.direction == "backward" and leaf.kind == "tensor" and SHARD in decided[key].ways
        ]
        for _, key in sorted(first)[:20]:
            leaf, ways = leaves[key], decided[key].ways
            copies = prod(size for size, way in zip(leaf.present, ways, strict=True) if way == COPY)
            asked = {"leaf": self._numbers[key], "copies": copies}
            [(ratio,)] = self._query("layouts/ratio", asked)
            if ratio is None:
                continue
            data = [n for n, axis in enumerate(self._axes) if axis.name[:2] in ("dp", "cp")]
            sizes = [leaf.present[n] for n in data if ways[n] == SHARD]
            for most in range(1 << len(sizes)):
                product = prod(size for nth, size in enumerate(sizes) if most >> nth & 1)
                if abs(ratio / product - 1) < 0.2:
                    return 1.0 / product
            return 1.0
        return 1.0

    def _keep_placements(self, decided: Mapping[Key, Placement], leaves: Mapping[Key, Leaf], scale: float) -> None:
        import pyarrow as pa

        rows = [
            (self._numbers[key], placed.merged_ways, placed.dimensions, placed.text(self._axes) or None, placed.source,
             placed.certainty, placed.problem, placed.reason, placed.number,
             placed.added if placed.resolved else None, placed.repeats(leaves[key]), placed.blocks,
             placed.unknown, placed.is_reordered)
            for key, placed in decided.items()
        ]  # fmt: skip
        self._register(
            "decided", rows,
            {"leaf": pa.int32(), "ways": pa.list_(pa.string()), "dimensions": pa.list_(pa.int32()),
             "layout": pa.string(), "source": pa.string(), "certainty": pa.string(), "problem": pa.string(),
             "reason": pa.string(), "number": pa.string(), "reduced": pa.list_(pa.int32()), "repeats": pa.bool_(),
             "blocks": pa.list_(pa.int32()), "unknown": pa.string(), "is_reordered": pa.bool_()},
        )  # fmt: skip
        self._sql.execute(f"SET VARIABLE backward_scale = {scale!r}::DOUBLE")
        places = f"[{', '.join(self._columns)}]::INTEGER[]"
        self._sql.execute(
            f"CREATE OR REPLACE TEMP VIEW placed_members AS SELECT *, {places} AS places, "
            "coalesce(list_product(list_transform(shape, lambda extent: CAST(extent AS DOUBLE))), 1) AS elements "
            "FROM cut_members"
        )
        self._keep("farthest", resources.sql("layouts/farthest"))
        self._keep("carriers", resources.sql("layouts/carriers"))
        self._pick()
        self._keep("chosen", resources.sql("layouts/chosen"))
        self._keep("merged", resources.sql("layouts/merged"))

    def _pick(self) -> None:
        """Create picked_members: of copies one, of shards and partial sums all, with their coordinates as `places`."""
        extents, picks, wanted = [], [], []
        for number, column in enumerate(self._columns):
            extents += [f"min({column}) AS least_{number}", f"max({column}) AS most_{number}"]
            picks.append(
                f"CASE ways[{number + 1}] WHEN 'last' THEN most_{number} WHEN 'copy' THEN least_{number} "
                f"WHEN 'differ' THEN farthest.copy[{number + 1}] END AS pick_{number}"
            )
            wanted.append(f"(pick_{number} IS NULL OR {column} = pick_{number})")
        self._keep(
            "picks",
            f"SELECT leaf, {', '.join(picks) or 'true'} FROM (SELECT leaf, {', '.join(extents) or 'true'} "
            "FROM cut_members GROUP BY leaf) JOIN decided USING (leaf) LEFT JOIN farthest USING (leaf)",
        )
        self._sql.execute(
            "CREATE OR REPLACE TEMP VIEW picked_members AS SELECT placed_members.* "
            f"FROM placed_members JOIN picks USING (leaf) WHERE {' AND '.join(wanted) or 'true'}"
        )

    # -- the unit -----------------------------------------------------------------------------------------------

    def _write(
        self,
        folder: Path,
        report: StepReport,
        named: Sequence[Sequence[Named]],
        order: Mapping[str, float],
    ) -> None:
        import pyarrow as pa

        from lakeprobe.layouts.contents import merged_contents

        self._register("whole_order", sorted(order.items(), key=lambda item: (item[1], item[0])),
                       {"op": pa.string(), "place": pa.float64()})  # fmt: skip
        for variable, value in {
            "cut_run": self._run,
            "cut_step": self._step,
            "golden_run": self._golden.run if self._golden else "",
            "golden_step": self._golden.step if self._golden else 0,
            "golden_rank": self._golden.rank if self._golden else 0,
        }.items():
            self._sql.execute(f"SET VARIABLE {variable} = $value", {"value": value})
        contents, changed, orders = merged_contents(self._sql, folder, self._axes)
        self._keep_interleaved(orders)
        self._register("made_contents", changed, {
            "leaf": pa.int32(), "content": pa.string(), "shape": pa.list_(pa.int64()),
            "max": pa.float64(), "min": pa.float64(), "mean": pa.float64(), "norm": pa.float64(), "layout": pa.string(),
            "problem": pa.string()})  # fmt: skip
        self._keep("whole_rows", resources.sql("layouts/whole_rows"))
        ranks = [
            rank for (rank,) in self._sql.execute("SELECT DISTINCT first_rank FROM whole_rows ORDER BY 1").fetchall()
        ]
        self._keep(
            "first_tensors",
            resources.sql("layouts/first_tensors"),
            {"run": self._run, "step": self._step, "ranks": ranks} | self._any_golden(),
        )
        self._register("whole_parents", _parents([*named, self._alone]), {
            "op": pa.string(), "parent": pa.string(), "api": pa.string(),
            "api_type": pa.string(), "kind": pa.string(), "module_class": pa.string(), "direction": pa.string(),
            "call": pa.int32(),
            "stem": pa.string()})  # fmt: skip
        self._keep(
            "whole_ops", resources.sql("layouts/whole_ops"), {"run": self._run, "step": self._step} | self._any_golden()
        )
        self._keep("whole_stacks", resources.sql("layouts/whole_stacks"), {"run": self._run, "step": self._step})
        with UnitWriter(folder) as writer:
            for table in ("ops", "tensors", "stacks", "layouts"):
                found = self._sql.sql(resources.sql(f"layouts/unit_{table}")).to_arrow_table().cast(arrow_schema(table))
                for batch in found.to_batches() or [pa.RecordBatch.from_pylist([], schema=arrow_schema(table))]:
                    writer.write(table, batch)
            writer.write_rows("undumped", [])
            writer.write_rows("contents", contents)
            [counts] = self._query("layouts/counts")
            row = read_dump(layout.unit_place(self._snapshot, UnitKey(self._run, self._step, self._ranks[0])))
            row |= {
                "format": FORMAT, "ops": counts[0], "tensor_rows": counts[1], "digests": counts[2], "files": counts[3],
                "unreadable": 0, "contents": len(contents), "content_bytes": sum(one["length"] for one in contents),
                "tensor_storage": "copy", "source": f"{self._run} ({report.mesh})", "fingerprint": self._fingerprint(),
                "notes": [f"merged from {report.ranks} ranks of {self._run}: {report.mesh}"],
                "reader_version": __version__,
            }  # fmt: skip
            writer.write_rows("dumps", [row])
            writer.close()
        report.rows = counts[1]
        report.left_out = dict(self._query("layouts/left_out"))
        report.problems = [(name, problem) for name, problem in self._query("layouts/problems")]

    def _keep_interleaved(self, orders: Mapping[int, Mapping[int, Order]]) -> None:
        """Create interleaved: the leaves whose shards are ordered otherwise than what uses them expects."""
        import pyarrow as pa

        from lakeprobe.layouts.interleaving import contradictions

        leaves = {number: key for key, number in self._numbers.items()}
        by_key = {leaves[number]: found for number, found in orders.items()}
        found = contradictions(self._known, self._decided, by_key, self._axes)
        rows = [(self._numbers[key], problem) for key, problem in found.items()]
        self._register("interleaved", rows, {"leaf": pa.int32(), "problem": pa.string()})

    def _fingerprint(self) -> str:
        import xxhash

        state = xxhash.xxh3_128()
        for rank in self._ranks:
            row = read_dump(layout.unit_place(self._snapshot, UnitKey(self._run, self._step, rank)))
            state.update(json.dumps([rank, row["fingerprint"]]).encode())
        return state.hexdigest()


def _golden_unit(snapshot: Snapshot, golden: str | None, step: int, nth: int) -> UnitKey | None:
    """The unit of golden that has the names and shapes of a step: the same step, or the one at the same place."""
    if golden is None:
        return None
    units = layout.units(snapshot, golden)
    if not units:
        raise layout.unknown_run(snapshot, golden)
    if len({unit.rank for unit in units}) > 1:
        raise LakeError(f"{golden} has several ranks; merge it first: lakeprobe merge-layout {golden} --as WHOLE")
    same = [unit for unit in units if unit.step == step]
    return same[0] if same else units[min(nth, len(units) - 1)]


def _with(mesh: Mesh, axes: Sequence[Axis]) -> Mesh:
    """The mesh with the micro-batches as an axis."""
    return Mesh((*(axis for axis in mesh.axes if axis.name == STAGES), *axes), mesh.coordinates)


def _order(pieces: Sequence[Piece], named: Sequence[Sequence[Named]], golden: Piece | None) -> dict[str, float]:
    """The place of each op in the whole: golden's, or after the op before it on its rank."""
    order: dict[str, float] = {}
    theirs = {op.op: float(place) for place, op in enumerate(golden.ops)} if golden else {}
    stages = 1 + max(piece.stage for piece in pieces)
    for piece, ops in zip(pieces, named, strict=True):
        last = max((place for place, op in enumerate(piece.ops) if op.direction == "backward"), default=len(ops))
        before, count = -1.0, 0
        for place, (op, own) in enumerate(zip(ops, piece.ops, strict=True)):
            if op.whole is None or op.whole in order:
                before = before if op.whole is None else order[op.whole]
                continue
            if golden is None:
                is_back = own.direction != "forward"
                phase = 1 if is_back else 2 if place > last else 0
                stage = stages - piece.stage if is_back else piece.stage
                order[op.whole] = phase * 1e12 + stage * 1e9 + place
            elif op.whole in theirs:
                before = order[op.whole] = theirs[op.whole]
            else:
                count += 1
                order[op.whole] = before + count * 1e-7
    return order


def _added(
    theirs: set[str], decided: Mapping[Key, Placement], leaves: Mapping[Key, Leaf], scopes: parts.Scopes
) -> set[str]:
    """The calls that golden does not make and that belong to the cut: they are given a rank's own, or part of a sum.

    So do calls without a value, by which DTensor finds out shapes, and calls beside those that exchange tensors. Any
    other call whose result alone differs is a finding.
    """
    fresh: dict[str, list[Key]] = {}
    for key in decided:
        if key.op not in theirs:
            fresh.setdefault(key.op, []).append(key)
    has_mesh = any('"device_mesh"' in (leaf.record or "") for leaf in leaves.values())
    added = set()
    for op, keys in fresh.items():
        is_local = any(
            leaves[key].role == "input"
            and (
                decided[key].reason is not None
                or decided[key].unknown == OWN_BOUNDS
                or not _OWN_TO_RANKS.isdisjoint(decided[key].ways)
            )
            for key in keys
        )
        tensors = [leaves[key] for key in keys if leaves[key].kind == "tensor"]
        forward = op.removesuffix("backward") + "forward"
        is_beside = (has_mesh and scopes.of.get(op) == "") or scopes.has_parts(op) or scopes.has_parts(forward)
        if is_local or is_beside or (tensors and all(leaf.is_unknown for leaf in tensors)):
            added |= {op, op.removesuffix("forward") + "backward"} & set(fresh)
    return added


def _modules(named: Sequence[Sequence[Named]]) -> dict[str, str]:
    """The path of the module that makes each call of the whole."""
    paths = {}
    for ops in named:
        whole_of = {op.op: op.whole for op in ops}
        for op in ops:
            parent = whole_of.get(op.parent, op.parent) if op.parent else None
            if op.whole is not None and parent is not None and parent.startswith(("Module.", "Cell.")):
                paths[op.whole] = parent.rsplit(".", 3)[0]
    return paths


def _by_op(leaves: Mapping[Key, Leaf], order: Mapping[str, float]) -> list[list[Leaf]]:
    """The leaves of each op, in the order of the whole."""
    ops: dict[str, list[Leaf]] = {}
    for key, leaf in leaves.items():
        ops.setdefault(key.op, []).append(leaf)
    for own in ops.values():
        own.sort(key=lambda leaf: ({"input": 0, "parameters": 1}.get(leaf.role, 2), leaf.key.slot, leaf.key.repeat))
    return [ops[op] for op in sorted(ops, key=lambda op: (order.get(op, 0.0), op))]


def _parents(named: Sequence[Sequence[Named]]) -> list[tuple[Any, ...]]:
    """What the rows of ops have of each op of the whole that follows from its name."""
    from lakeprobe.readers import names

    rows: dict[str, tuple[Any, ...]] = {}
    for ops in named:
        whole_of = {op.op: op.whole for op in ops}
        for op in ops:
            if op.whole is not None and op.whole not in rows:
                parsed = names.parse(op.whole)
                parent = whole_of.get(op.parent, op.parent) if op.parent else None
                rows[op.whole] = (
                    op.whole, parent, parsed.api, parsed.api_type, parsed.kind, parsed.module_class, parsed.direction,
                    parsed.call, parsed.stem,
                )  # fmt: skip
    return list(rows.values())
