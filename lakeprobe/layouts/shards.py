"""Says which rank's shard carries the difference of a row of a merged run, and which slice of the whole that is.

With contents each shard is held against golden's slice. With statistics only what the ranks should have in common can
be: of copies that differ, the one that is farthest from golden carries it, and of equal shards all but the first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from math import inf, isnan, prod
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lakeprobe import resources

if TYPE_CHECKING:
    import duckdb

    from lakeprobe.lake.comparison import StoredComparison

_BLOCKS = re.compile(r"(\d+) blocks")
_SECTIONS = re.compile(r"sections of (\d+(?:, \d+)*)")

_CARRIES = 10.0
"""A shard carries a difference if its own is this many times as large as the smallest of the others."""


class Shard(Struct, frozen=True):
    """A rank's part of a row: the slice of the whole in words, and its relative difference from golden's."""

    rank: int
    micro: int
    part: str
    error: float | None
    is_carrier: bool


class Carried(Struct, frozen=True):
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
    is_merged = connection.execute("FROM layouts WHERE run = $run LIMIT 1", {"run": compared.target}).fetchall()
    if unit is None or not is_merged:
        return None
    asked = {
        "comparison": compared.name, "op": op, "step": step, "target": compared.target, "golden": compared.golden,
        "golden_step": unit.golden_step, "golden_rank": unit.golden_rank,
    }  # fmt: skip
    rows = connection.execute(resources.sql("layouts/carried"), asked).fetchall()
    if not rows:
        return None
    slot, layout, problem, scale, carriers = *rows[0][:4], rows[0][-1]
    measured = [_measured(nth, len(rows), row, layout or "", scale or 1.0) for nth, row in enumerate(rows)]
    known = [error for _, _, _, error in measured if error is not None]
    least, most = (min(known), max(known)) if known else (0.0, 0.0)
    stands_out = most > _CARRIES * least and most > 0
    named = () if len(known) == len(measured) else carriers or ()
    shards = tuple(
        Shard(
            rank, micro, part, error,
            bool(error is not None and error * 2 >= most) if stands_out else rank in named,
        )
        for rank, micro, part, error in measured
    )  # fmt: skip
    return Carried(op, slot, layout, problem, shards)


def _measured(
    nth: int, count: int, row: tuple[Any, ...], layout: str, scale: float
) -> tuple[int, int, str, float | None]:
    """Rank, micro-batch, slice and relative difference of the shard `nth` of a row of `count`.

    If there are more shards than slices, some are copies: each is held against the slice that it is nearest to.
    """
    rank, micro, shape, whole_shape, ours, theirs, distance = row[4:11]
    if not shape or not whole_shape or len(shape) != len(whole_shape):
        return rank, micro, "", distance
    slices = prod(max(1, have // extent) if extent else 1 for extent, have in zip(shape, whole_shape, strict=True))
    if any(extent and have % extent for extent, have in zip(shape, whole_shape, strict=True)):
        candidates = _uneven(shape, whole_shape)
    else:
        candidates = [_indexes(one, shape, whole_shape, layout) for one in (range(slices) if slices < count else [nth])]
    found: list[tuple[float | None, list[list[int]]]] = [(distance, candidates[0])]
    if ours is not None and theirs is not None and "partial" not in layout:
        found = [(_difference(ours, theirs, indexes, scale), indexes) for indexes in candidates]
    error, indexes = min(found, key=lambda one: inf if one[0] is None else one[0])
    words = [_words(axis, one) for axis, one in enumerate(indexes) if len(one) != whole_shape[axis]]
    return rank, micro, ", ".join(words), error


def _indexes(nth: int, shape: Sequence[int], whole: Sequence[int], layout: str) -> list[list[int]]:
    """The indexes along each axis of the whole that the shard `nth`, in the order of ranks, has."""
    counts = [max(1, have // extent) if extent else 1 for extent, have in zip(shape, whole, strict=True)]
    places: list[int] = []
    for count in reversed(counts):
        nth, place = divmod(nth, count)
        places.insert(0, place)
    found = _BLOCKS.search(layout)
    blocks = int(found[1]) if found else 1
    parts = _SECTIONS.search(layout)
    indexes = []
    for extent, count, place in zip(shape, counts, places, strict=True):
        sections = [int(one) for one in parts[1].split(", ")] if count > 1 and parts else []
        if sections and sum(sections) == extent:
            firsts = accumulate(sections, initial=0)
            bounds = [(count * first + place * one, one) for first, one in zip(firsts, sections, strict=False)]
            indexes.append([index for start, one in bounds for index in range(start, start + one)])
            continue
        if count > 1 and "zig-zag" in layout:
            width = extent // (2 * blocks)
            pairs = [(2 * count * block + place, 2 * count * (block + 1) - 1 - place) for block in range(blocks)]
            starts = [start * width for pair in pairs for start in pair]
        else:
            each = blocks if count > 1 and extent % blocks == 0 else 1
            width = extent // each
            starts = [(block * count + place) * width for block in range(each)]
        indexes.append([index for start in starts for index in range(start, start + width)])
    return indexes


def _uneven(shape: Sequence[int], whole: Sequence[int]) -> list[list[list[int]]]:
    """The first and the last slice of this shape: which of them a shard has whose rank has more or less than others."""
    first = [list(range(extent)) for extent in shape]
    last = [list(range(have - extent, have)) for extent, have in zip(shape, whole, strict=True)]
    return [first, last]


def _words(axis: int, indexes: Sequence[int]) -> str:
    """Indexes along an axis, as ranges: [8:16] of axis 0."""
    starts = [index for nth, index in enumerate(indexes) if nth == 0 or indexes[nth - 1] != index - 1]
    stops = [index + 1 for nth, index in enumerate(indexes) if nth + 1 == len(indexes) or indexes[nth + 1] != index + 1]
    ranges = ", ".join(f"{start}:{stop}" for start, stop in zip(starts, stops, strict=True))
    return f"[{ranges}] of axis {axis}"


def _difference(
    ours: dict[str, Any], theirs: dict[str, Any], indexes: Sequence[Sequence[int]], scale: float
) -> float | None:
    """The norm of the difference of a shard and golden's slice, relative to the slice's; None if they do not fit.

    It is infinite where only one of them is NaN or infinite.
    """
    import numpy as np

    from lakeprobe.errors import TensorError
    from lakeprobe.tensors.reference import TensorReference, open_tensor

    try:
        shard, whole = (open_tensor(TensorReference.of(one)) for one in (ours, theirs))
    except TensorError:
        return None
    if shard.shape != tuple(map(len, indexes)):
        return None
    with np.errstate(all="ignore"):
        part, own = whole[np.ix_(*indexes)].astype(np.float64), shard.astype(np.float64) * scale
        is_same = (own == part) | (np.isnan(own) & np.isnan(part))
        error = float(np.linalg.norm((own - part)[~is_same]))
        return inf if isnan(error) else error / (float(np.linalg.norm(part[np.isfinite(part)])) or 1.0)
