"""Counts how large the differences between two tensors are: few elements far off, or all of them a little."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakeprobe.errors import TensorError
from lakeprobe.tensors.reference import TensorReference, element_count, open_tensor

EDGES: NDArray[np.float64] = 10.0 ** np.arange(-9, 3.5, 0.5)
"""The edges of the bins: half decades of |target - golden| / rms(golden)."""
BINS = len(EDGES) + 3
"""Equal elements, those below the first edge, those between edges, those above the last, those that are not finite."""
MOST_ELEMENTS = 1 << 20
"""The number of elements that are counted. Those of a larger tensor are taken at equal distances."""


def difference_histogram(target: TensorReference, golden: TensorReference) -> NDArray[np.int64]:
    """Return how many elements fall into each of `BINS`: a 1-D array. The scale is the root mean square of golden.

    NaN at the same place on both sides, and the same infinity, count as equal. If golden is 0 everywhere, the scale is
    1. Raises TensorError for tensors of different sizes, without elements or of texts, and for contents that cannot be
    read.
    """
    count, other = element_count(target), element_count(golden)
    if count != other or count == 0:
        raise TensorError(f"{target.file} and {golden.file}: the tensors have {count} and {other} elements")
    stride = -(-count // MOST_ELEMENTS)
    ours, theirs = (_sampled(reference, stride) for reference in (target, golden))
    with np.errstate(all="ignore"):
        finite = np.isfinite(theirs)
        scale = float(np.sqrt(np.mean(np.abs(theirs[finite]) ** 2))) if finite.any() else 1.0
        difference = np.abs(ours - theirs) / (scale or 1.0)
    is_equal = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    is_odd = ~np.isfinite(difference) & ~is_equal
    bins = np.searchsorted(EDGES, difference[~is_equal & ~is_odd], side="right")
    between = np.bincount(bins, minlength=len(EDGES) + 1)
    return np.array([is_equal.sum(), *between, is_odd.sum()], np.int64)


def _sampled(reference: TensorReference, stride: int) -> NDArray[np.float64 | np.complex128]:
    whole = open_tensor(reference)
    if whole.dtype.kind in "SUmM":
        raise TensorError(f"{reference.file} holds texts or times, which have no distance")
    values = (whole.reshape(-1) if whole.flags.c_contiguous else whole.flat)[::stride]  # copies no whole tensor
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
