"""Makes one whole run of the ranks of a cut one: the mesh, the names, the layouts, then the tables of a unit.

The whole run is a run of the lake like any other. Its table `layouts` says which ranks' rows each row was made of.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field

from lakeprobe.analysis.transfers import keep_transfers
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import layout, staging, store, views
from lakeprobe.lake.connection import connect, define_macros, query_errors, set_spill_folder
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.log import Snapshot
from lakeprobe.lake.unit import read_dump
from lakeprobe.layouts import dtensor, framework_names, layout_file, placements, programs, unit
from lakeprobe.layouts import mesh as meshes
from lakeprobe.layouts.cut import Cut
from lakeprobe.layouts.fitting import fit
from lakeprobe.layouts.layout_file import LayoutFile
from lakeprobe.layouts.members import axes_of, keep_members
from lakeprobe.layouts.mesh import STAGES, Axis, Mesh
from lakeprobe.layouts.names import whole_names
from lakeprobe.layouts.whole import Whole, by_op, keep_merged, modules_of
from lakeprobe.output import few_ranges, shown
from lakeprobe.system import files

_MEMORY = "1GB"
"""What DuckDB keeps in memory while it merges; the rest lies on disk. The members of 64 ranks of 20 000 ops fit."""


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
    present = _check(lake, run, name, steps, may_replace=replace)
    reports, put = [], {}
    with query_errors(), staging.staged(lake, "merge-layout") as session, staging.reading(lake) as snapshot:
        for nth, step in enumerate(present):
            if steps and step not in steps:
                continue
            folder = session.folder / f"step{step}"
            folder.mkdir()
            ranks = tuple(key.rank for key in layout.units(snapshot, run) if key.step == step)
            theirs = _golden_unit(snapshot, golden, step, nth)
            with connect() as connection:
                define_macros(connection, ("along",))
                set_spill_folder(connection, session.folder / "spill")
                connection.execute(f"SET memory_limit = '{_MEMORY}'")
                views.define(connection, snapshot)
                cut = Cut(connection, snapshot, run, step, ranks, theirs, file or LayoutFile())
                reports.append(_merge_step(cut, folder))
            put[layout.unit_name(UnitKey(name, step, 0))] = folder
        files.sync_tree(session.folder)
        staging.publish(session, f"merge-layout {run}", put)
    return MergeReport(name, run, tuple(reports), time.monotonic() - started)


def _check(lake: Path, run: str, name: str, steps: Sequence[int], *, may_replace: bool) -> list[int]:
    """The steps of `run`. Raises UsageError if it or one of `steps` is not there, or if `name` cannot be given."""
    store.check(lake)
    layout.check_name(name, "run")
    present = sorted({key.step for key in layout.units(lake, run)})
    if not present:
        raise layout.unknown_run(lake, run)
    if name == run:
        raise UsageError(f"the merged run needs a name of its own, not {run}")
    if name in layout.runs(lake) and not may_replace:
        raise UsageError(f"{lake} has a run {name} already; give another name, or --replace it")
    for step in steps:
        if step not in present:
            raise UsageError(f"{run} has no step {step}; its steps are {few_ranges(present)}")
    return present


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
    if units and read_dump(layout.unit_place(lake, units[0]))["format"] != unit.FORMAT:
        raise UsageError(f"{lake} has a run {name}, which was not made by merging; rename that run")
    file = None if cuts == "auto" else layout_file.read(Path(cuts))
    report = merge_layout(target, name=name, lake=lake, golden=golden, file=file, replace=True)
    remarks = [f"{target} was merged into {name}: {report.steps[0].mesh}"]
    for step in report.steps:
        remarks += [f"step {step.step} {shown(op)}: {problem}" for op, problem in step.problems[:3]]
    return name, remarks


def _merge_step(cut: Cut, folder: Path) -> StepReport:
    """Write the tables of the merged unit of a step into `folder`."""
    keep_transfers(cut.connection, cut.run)
    mesh = programs.mesh_of(cut)
    pieces, piece_of = programs.pieces_of(cut, mesh)
    golden = programs.piece(cut, cut.golden) if cut.golden else None
    named = whole_names(pieces, golden)
    axes = axes_of(mesh, named)
    leaves = keep_members(cut, mesh, axes, piece_of, named)
    if factors := placements.halved(leaves.values(), axes):
        mesh = meshes.refined(mesh, factors)
        axes = axes_of(mesh, named)
        leaves = keep_members(cut, mesh, axes, piece_of, named)
    layout_file.check_axes(cut.file, {axis.name for axis in axes})
    order = programs.order_of(pieces, named, golden)
    spans = meshes.spans(mesh, axes, cut.ranks)
    placed = placements.decide(
        by_op(leaves, order),
        axes,
        cut.file.rules,
        lambda leaf: dtensor.said(leaf, spans) or framework_names.said(leaf, axes),
        modules_of(named),
    )
    whole = Whole(axes, leaves, order, placed)
    alone = fit(cut, whole, named, golden) if golden else []
    keep_merged(cut, whole)
    report = StepReport(cut.step, _text(mesh, axes), len(cut.ranks))
    report.rows = unit.write(cut, whole, [*named, alone], report.mesh, folder)
    report.left_out = dict(cut.rows("left_out"))
    report.problems = [(op, problem) for op, problem in cut.rows("problems")]
    unused = [rule for rule in cut.file.rules if not any(map(rule.fits, leaves.values()))]
    report.problems += [(rule.pattern.pattern, "this line of the layout file fits no tensor") for rule in unused]
    return report


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


def _text(mesh: Mesh, axes: Sequence[Axis]) -> str:
    """The mesh in words, with the stages and the micro-batches."""
    return str(Mesh((*(axis for axis in mesh.axes if axis.name == STAGES), *axes), mesh.coordinates))
