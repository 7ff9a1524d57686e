"""Moves the parameters of a model by a rounding, so that a run is a repeat of golden which differs by noise alone.

How far two such runs part is what a rounding does to this training, and no defect (TTrace, arXiv 2506.09280). The
framework's own part (`pytorch/perturbing.py`, `mindspore/perturbing.py`) reads and writes the parameters. Nothing here
takes from the framework's random numbers.
"""

import math
import zlib
from typing import NamedTuple

import numpy as np

from lakeprobe.collect.watching.values import Array

_AT_ONCE = 1 << 18
"""So many elements are moved at a time, which bounds the memory that this takes."""


class Float(NamedTuple):
    """A dtype that a parameter can have, as finfo describes it."""

    eps: float
    """The distance from 1 to the next number."""
    tiny: float
    """The smallest number that is not subnormal."""
    largest: float


def pieces(size: int) -> "list[slice]":
    """The parts of a flat array of `size` elements that are moved one after another."""
    return [slice(start, start + _AT_ONCE) for start in range(0, size, _AT_ONCE)]


class Noise:
    """The noise of one parameter: that of its name and of the seed, whatever other parameters there are."""

    def __init__(self, name: str, dtype: Float, *, perturb: float, seed: int) -> None:
        self._random = np.random.default_rng([seed, zlib.crc32(name.encode())])
        self._dtype = dtype
        self._relative = max(perturb, dtype.eps / 2)

    def moved(self, numbers: Array) -> Array:
        """The next piece of the parameter (float64), each number x as x·(1 + s·n) and rounded to the dtype by chance.

        n is standard normal. s is what was asked for, or half of the dtype's eps where that is more: less would round
        to nothing. By chance means that both neighbours in the dtype are as likely as they are near, so that the mean
        is right. The result is float64 still, at most half a spacing from the number that it is to be cast to. Zeros,
        NaN and inf stay, and no number becomes infinite.
        """
        with np.errstate(all="ignore"):
            moved = numbers * (1 + self._relative * self._random.standard_normal(numbers.size))
            moved += (self._random.random(numbers.size) - 0.5) * self._spacing(moved)
            moved = np.clip(moved, -self._dtype.largest, self._dtype.largest)
        return np.where(np.isfinite(numbers) & (numbers != 0), moved, numbers)

    def _spacing(self, numbers: Array) -> Array:
        """The distance of the dtype's numbers around each of `numbers`."""
        _, exponent = np.frexp(numbers)
        least = math.frexp(self._dtype.tiny)[1]
        spacing: Array = np.ldexp(self._dtype.eps, np.maximum(exponent, least) - 1)
        return spacing
