"""What the ranks of a step run: the mesh that their records show, and each program once.

Ranks at one stage and with the same experts run one program.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakeprobe.analysis.transfers import keep_transfers
from lakeprobe.errors import UsageError
from lakeprobe.lake.layout import UnitKey
from lakeprobe.layouts import dtensor
from lakeprobe.layouts import mesh as meshes
from lakeprobe.layouts.cut import Cut
from lakeprobe.layouts.mesh import STAGES, Mesh, Seen
from lakeprobe.layouts.names import Named, Op, Piece
from lakeprobe.output import few_ranges


def mesh_of(cut: Cut) -> Mesh:
    """The mesh of the ranks: the layout file's, or what their records show. Raises LakeError if they do not show it."""
    if cut.file.axes:
        return meshes.given(cut.ranks, cut.file.axes)
    if len(cut.ranks) == 1:
        return Mesh((), {cut.ranks[0]: {}})
    keep_transfers(cut.connection, cut.run)
    shorter = cut.rows("sequence", cut.run_and_step | cut.golden_unit) if cut.golden else []
    return meshes.inferred(
        Seen(
            cut.ranks,
            dict(cut.rows("pipeline", {"step": cut.step})),
            _groups(cut),
            dict(cut.rows("data_signatures", cut.run_and_step)),
            dict(cut.rows("parameter_signatures", cut.run_and_step)),
            bool(cut.rows("experts", cut.run_and_step)),
            bool(shorter[0][0]) if shorter else None,
        )
    )


def _groups(cut: Cut) -> dict[tuple[int, ...], bool]:
    """The groups of collectives, and whether one is within a module."""
    groups = {tuple(members): within for members, within in cut.rows("groups", cut.run_and_step)}
    for (recorded,) in cut.rows("device_meshes", cut.run_and_step):
        for group in dtensor.groups(recorded):
            groups.setdefault(group, False)
    return groups


def pieces_of(cut: Cut, mesh: Mesh) -> tuple[list[Piece], dict[int, int]]:
    """The programs of the ranks, each once, and which of them a rank runs. Raises UsageError for a rank without one."""
    programs = dict(cut.rows("programs", cut.run_and_step))
    expert_axis = _expert_axis(cut, mesh)
    found: dict[tuple[int, int, str], int] = {}
    pieces: list[Piece] = []
    piece_of = {}
    keyed = sorted(
        ((mesh.at(rank, STAGES), mesh.at(rank, expert_axis) if expert_axis else 0, programs.get(rank, "")), rank)
        for rank in cut.ranks
    )
    for key, rank in keyed:
        if key not in found:
            found[key] = len(pieces)
            pieces.append(piece(cut, UnitKey(cut.run, cut.step, rank), key[0], key[1]))
        piece_of[rank] = found[key]
    if idle := sorted(rank for rank, number in piece_of.items() if not pieces[number].ops):
        raise UsageError(
            f"{cut.run} has no call of a module or API on rank {few_ranges(idle)} of step {cut.step}, by which ranks "
            "are merged; compare it as it is, as checkpoints, folders of tensors and debug points are"
        )
    return pieces, piece_of


def _expert_axis(cut: Cut, mesh: Mesh) -> str | None:
    """The axis along which ranks have other experts: one of its own, or that of the data."""
    signatures = dict(cut.rows("experts", cut.run_and_step))
    for axis in sorted(mesh.cutting, key=lambda axis: not axis.name.startswith("ep")) if signatures else ():
        lines: dict[tuple[int, ...], set[str]] = {}
        for rank in cut.ranks:
            place = tuple(mesh.at(rank, other.name) for other in mesh.axes if other != axis)
            lines.setdefault(place, set()).add(signatures.get(rank, ""))
        if any(len(line) > 1 for line in lines.values()):
            return axis.name
    return None


def piece(cut: Cut, unit: UnitKey, stage: int = 0, expert: int = 0) -> Piece:
    """The program of one unit."""
    asked = {"run": unit.run, "step": unit.step, "rank": unit.rank}
    ops = tuple(Op(*row) for row in cut.rows("ops", asked))
    found: list[tuple[str, str]] = []
    for _, candidates in cut.rows("optimized", asked):
        fresh = [(path, slot) for path, slot in candidates if (path, slot) not in found]
        if fresh and (not found or list(found[-1]) not in candidates):
            found.append(fresh[0])
    return Piece(stage, expert, ops, tuple(found))


def order_of(pieces: Sequence[Piece], named: Sequence[Sequence[Named]], golden: Piece | None) -> dict[str, float]:
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
