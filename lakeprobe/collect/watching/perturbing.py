"""Moves a model's parameters by a rounding error, so that the run repeats golden with a difference of noise alone.

The difference between two such runs is the effect of a rounding error on this training, not a defect (TTrace,
arXiv 2506.09280). The framework's own part (`pytorch/perturbing.py`, `mindspore/perturbing.py`) reads and writes the
parameters. The framework's random number generators are not used.
"""

import math
import zlib
from typing import NamedTuple

import numpy as np

from lakeprobe.collect.watching.values import Array

_AT_ONCE = 1 << 18
"""The number of elements to move at a time, which bounds the memory use."""


class Float(NamedTuple):
    """The dtype of a parameter, as finfo describes it."""

    eps: float
    """The distance from 1 to the next larger number."""
    tiny: float
    """The smallest normal number."""
    largest: float


def pieces(size: int) -> "list[slice]":
    """Return the slices of a flat array of `size` elements that are moved one after another."""
    return [slice(start, start + _AT_ONCE) for start in range(0, size, _AT_ONCE)]


class Noise:
    """The noise of one parameter. It depends on the parameter's name and the seed, not on other parameters."""

    def __init__(self, name: str, dtype: Float, *, perturb: float, seed: int) -> None:
        self._random = np.random.default_rng([seed, zlib.crc32(name.encode())])
        self._dtype = dtype
        self._relative = max(perturb, dtype.eps / 2)

    def moved(self, numbers: Array) -> Array:
        """Move the next piece of the parameter (float64, 1-d).

        Each x becomes x·(1 + s·n), stochastically rounded to the dtype. n is standard normal. s is `perturb`, or half
        of the dtype's eps if that is more, because anything less would be rounded away. Stochastic rounding picks the
        two neighbours in the dtype with probabilities that keep the mean unbiased. The result is still float64, at most
        half a spacing from the number that the cast gives. Zeros, NaN and inf stay as they are, and no number becomes
        infinite.
        """
        with np.errstate(all="ignore"):
            moved = numbers * (1 + self._relative * self._random.standard_normal(numbers.size))
            moved += (self._random.random(numbers.size) - 0.5) * self._spacing(moved)
            moved = np.clip(moved, -self._dtype.largest, self._dtype.largest)
        return np.where(np.isfinite(numbers) & (numbers != 0), moved, numbers)

    def _spacing(self, numbers: Array) -> Array:
        """Return the spacing of the dtype's numbers at each of `numbers`."""
        _, exponent = np.frexp(numbers)
        least = math.frexp(self._dtype.tiny)[1]
        spacing: Array = np.ldexp(self._dtype.eps, np.maximum(exponent, least) - 1)
        return spacing
