"""Says which rank's shard carries the difference of a row of a merged run, and which slice of the whole that is.

With contents each shard is held against golden's slice. With statistics only what the ranks should have in common can
be: of copies that differ, the one that is farthest from golden carries it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeprobe import resources

if TYPE_CHECKING:
    import duckdb

    from lakeprobe.lake.comparison import StoredComparison

_CARRIES = 10.0
"""A shard carries a difference if its own is so many times as large as the smallest one of another shard."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A rank's part of a row: the slice of the whole in words, and its relative difference from golden's."""

    rank: int
    micro: int
    part: str
    error: float | None
    is_carrier: bool


@dataclass(frozen=True, slots=True)
class Carried:
    """The shards of the row of an op that differs most."""

    op: str
    slot: str
    layout: str | None
    problem: str | None
    shards: tuple[Shard, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that carry the difference; all of them if no shard stands out."""
        carriers = tuple(dict.fromkeys(shard.rank for shard in self.shards if shard.is_carrier))
        return carriers or tuple(dict.fromkeys(shard.rank for shard in self.shards))


def carried(connection: duckdb.DuckDBPyConnection, compared: StoredComparison, op: str, step: int) -> Carried | None:
    """Which shards carry the difference of `op` of a merged run; None if the run was not merged.

    `connection` has the views of the lake.
    """
    unit = next((unit for unit in compared.units if unit.step == step), None)
    if unit is None:
        return None
    asked = {
        "comparison": compared.name, "op": op, "step": step, "target": compared.target, "golden": compared.golden,
        "golden_step": unit.golden_step, "golden_rank": unit.golden_rank,
    }  # fmt: skip
    rows = connection.execute(resources.sql("layouts/carried"), asked).fetchall()
    if not rows:
        return None
    slot, layout, problem, scale = rows[0][:4]
    measured = [_measured(row, scale or 1.0) for row in rows]
    known = [error for _, _, _, error in measured if error is not None]
    least, most = (min(known), max(known)) if known else (0.0, 0.0)
    stands_out = most > _CARRIES * least and most > 0
    shards = tuple(
        Shard(rank, micro, part, error, bool(stands_out and error is not None and error * 2 >= most))
        for rank, micro, part, error in measured
    )
    return Carried(op, slot, layout, problem, shards)


def _measured(row: tuple[Any, ...], scale: float) -> tuple[int, int, str, float | None]:
    """Rank, micro-batch, slice and relative difference of a shard."""
    rank, micro, shard_shape, whole_shape, ours, theirs, distance = row[4:]
    part, error = "", distance
    if shard_shape and whole_shape and len(shard_shape) == len(whole_shape):
        cut = [place for place, (own, whole) in enumerate(zip(shard_shape, whole_shape, strict=True)) if own != whole]
        part = ", ".join(f"axis {place}: {shard_shape[place]} of {whole_shape[place]}" for place in cut)
    if ours is not None and theirs is not None:
        found = _nearest(ours, theirs, scale)
        if found is not None:
            error, at = found
            part = at or part
    return rank, micro, part, error


def _nearest(ours: dict[str, Any], theirs: dict[str, Any], scale: float) -> tuple[float, str] | None:
    """The difference of a shard from the slice of golden that it is nearest to, and that slice."""
    import itertools

    import numpy as np

    from lakeprobe.errors import TensorError
    from lakeprobe.tensors.reference import TensorReference, open_tensor

    try:
        shard, whole = (open_tensor(TensorReference.of(one)) for one in (ours, theirs))
    except TensorError:
        return None
    if shard.ndim != whole.ndim or any(extent == 0 or have % extent for extent, have in zip(shard.shape, whole.shape, strict=True)):
        return None
    counts = [have // extent for extent, have in zip(shard.shape, whole.shape, strict=True)]
    best: tuple[float, str] | None = None
    wide = shard.astype(np.float64) * scale
    for places in itertools.islice(itertools.product(*map(range, counts)), 64):
        box = tuple(
            slice(place * extent, (place + 1) * extent) for place, extent in zip(places, shard.shape, strict=True)
        )
        with np.errstate(all="ignore"):
            slice_ = whole[box].astype(np.float64)
            error = float(np.linalg.norm(wide - slice_)) / (float(np.linalg.norm(slice_)) or 1.0)
        words = ", ".join(
            f"[{own.start}:{own.stop}] of axis {axis}" for axis, own in enumerate(box) if counts[axis] > 1
        )
        if best is None or error < best[0]:
            best = error, words
    return best


