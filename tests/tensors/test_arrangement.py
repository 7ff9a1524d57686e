"""How one tensor lies in two programs: axes in another order, split or merged, parts in another order; or alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lakeprobe.tensors.arrangement import arrange
from lakeprobe.tensors.metrics import measure
from lakeprobe.tensors.npy import read_npy

Array = NDArray[np.float32]

WEIGHT: Array = np.random.default_rng(1).normal(size=(24, 16)).astype(np.float32)
IMAGE: Array = np.random.default_rng(2).normal(size=(2, 3, 8, 8)).astype(np.float32)


def by_heads(weight: Array) -> Array:
    """Query, key and value of 4 heads, 2 rows each: head by head instead of part by part."""
    return weight.reshape(3, 4, 2, -1).transpose(1, 0, 2, 3).reshape(weight.shape)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (WEIGHT, WEIGHT.T),
        (IMAGE, IMAGE.transpose(0, 2, 3, 1)),
        (IMAGE[:, 0], IMAGE[:, 0].transpose(0, 2, 1)),
        (IMAGE.swapaxes(0, 1), IMAGE),
        (IMAGE.transpose(0, 2, 1, 3), IMAGE.reshape(2, 3, 64).reshape(2, 3, 8, 8).reshape(6, 8, 8)),
        (IMAGE.reshape(48, 8), IMAGE.reshape(12, 32)),
        (WEIGHT[:, None], WEIGHT),
        (by_heads(WEIGHT), WEIGHT),
        (WEIGHT.T, by_heads(WEIGHT)),
    ],
    ids=["transposed", "NCHW", "square", "batch", "merged", "reshaped", "axis of 1", "fused", "fused and transposed"],
)
def test_one_tensor_in_two_layouts_is_found(tmp_path: Path, ours: Array, theirs: Array) -> None:
    rounding = 1 + np.float32(1e-6) * np.random.default_rng(3).normal(size=ours.shape).astype(np.float32)
    for one, other in ((ours * rounding, theirs), (theirs, ours * rounding)):
        np.save(tmp_path / "one.npy", one)
        np.save(tmp_path / "other.npy", np.ascontiguousarray(other))
        way = arrange(read_npy(tmp_path / "one.npy"), read_npy(tmp_path / "other.npy"))
        assert way is not None
        measured = measure(way.target, way.golden)
        assert measured.status == "measured"
        assert measured.max_abs_error is not None
        assert measured.max_abs_error < 1e-5


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (WEIGHT, WEIGHT * np.float32(1.5)),
        (WEIGHT, np.random.default_rng(4).permutation(WEIGHT.ravel()).reshape(WEIGHT.shape)),
        (WEIGHT, np.random.default_rng(5).normal(size=(16, 24)).astype(np.float32)),
        (np.ones((4, 6), np.float32), np.zeros((6, 4), np.float32)),
        (WEIGHT, WEIGHT[:12]),
    ],
    ids=["alike", "another order", "another tensor", "constants", "a part"],
)
def test_what_is_no_layout_is_none(tmp_path: Path, ours: Array, theirs: Array) -> None:
    np.save(tmp_path / "one.npy", ours)
    np.save(tmp_path / "other.npy", theirs)
    assert arrange(read_npy(tmp_path / "one.npy"), read_npy(tmp_path / "other.npy")) is None


def test_masks_at_the_limit_of_their_dtype_are_told(tmp_path: Path) -> None:
    for name, hidden in (("one", np.finfo(np.float64).min), ("other", -1e9)):
        np.save(tmp_path / f"{name}.npy", np.triu(np.full((8, 8), hidden), 1))
    assert arrange(read_npy(tmp_path / "one.npy"), read_npy(tmp_path / "other.npy")) is None
