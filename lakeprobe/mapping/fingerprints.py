"""Fingerprints of tensors: what equal tensors have in common in two frameworks, as a number.

It stands for the digest, or for role, kind, size and range, with the range on a grid. Close statistics may fall on two
of its points, so that fingerprints propose and do not decide.
"""

from __future__ import annotations

from collections import Counter

import numpy

from lakeprobe.mapping.ops import Op
from lakeprobe.mapping.units import Columns, Numbers, Unit, row_codes

_GRID, _ORIGIN = 1e3, 1e6
"""Grid steps per factor e for statistics, and the grid point of 1."""

_TRIVIAL = (0.0, 1.0, -1.0)
"""Bounds that many tensors share."""


class Fingerprints(dict[Op, Counter[int]]):
    """The number of occurrences of each fingerprint in an op, counted when it is asked for.

    `codes`: the fingerprint of each leaf of the unit. -1 if it would say nothing, because all elements are 0, 1 or -1.
    """

    def __init__(self, codes: list[int]) -> None:
        super().__init__()
        self.codes = codes

    def __missing__(self, op: Op) -> Counter[int]:
        self[op] = found = Counter([code for leaf in op.leaves if (code := self.codes[leaf.place]) >= 0])
        return found

    @classmethod
    def of(cls, target: Unit, golden: Unit) -> tuple[Fingerprints, Fingerprints]:
        """Return the fingerprints of both units, which are equal for equal tensors."""
        both = target.columns, golden.columns
        keys = [numpy.concatenate(of_both) for of_both in zip(*map(_keys, both), strict=True)]
        says_nothing = numpy.concatenate([*map(_says_nothing, both)])
        codes = numpy.where(says_nothing, -1, row_codes(*keys)).tolist()
        return cls(codes[: len(target.leaves)]), cls(codes[len(target.leaves) :])


def _keys(columns: Columns) -> list[Numbers]:
    """Return what the fingerprint of each leaf stands for, as columns."""
    has_digest = columns.digest >= 0
    described = (columns.role, columns.kind, _on_grid(columns.max), _on_grid(columns.min))
    return [columns.digest, columns.elements, *(numpy.where(has_digest, 0, each) for each in described)]


def _says_nothing(columns: Columns) -> Numbers:
    is_trivial = numpy.isin(columns.max, _TRIVIAL) & numpy.isin(columns.min, _TRIVIAL)
    return numpy.asarray((columns.digest < 0) & (~columns.has_range | is_trivial))


def _on_grid(numbers: Numbers) -> Numbers:
    """Return the grid points of numbers. Those of negative ones are negative; 0, NaN and infinity have their own."""
    with numpy.errstate(divide="ignore", invalid="ignore"):
        points = numpy.copysign(numpy.round(numpy.log(numpy.abs(numbers)) * _GRID) + _ORIGIN, numbers)
    is_regular = numpy.isfinite(numbers) & (numbers != 0)
    return numpy.where(is_regular, points, numpy.where(numpy.isnan(numbers), 0.5, numbers + 0.0))
