"""The histogram of a difference against numpy's own, and what has no histogram."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lakeprobe.errors import TensorError
from lakeprobe.tensors import TensorReference, read_tensor
from lakeprobe.tensors import histogram as module
from lakeprobe.tensors.histogram import BINS, EDGES, difference_histogram


def saved(path: Path, array: Any) -> TensorReference:
    np.save(path, array)
    return read_tensor(path)


def test_counts_are_those_of_numpy(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    golden = random.normal(size=(40, 25)).astype(np.float32)
    target = golden * (1 + random.normal(size=golden.shape) * 10.0 ** random.uniform(-9, 4, golden.shape))
    target[:3] = golden[:3]
    found = difference_histogram(saved(tmp_path / "t.npy", target), saved(tmp_path / "g.npy", golden))
    wide = golden.astype(np.float64)
    distance = (np.abs(target - wide) / np.sqrt((wide**2).mean())).ravel()
    unequal = distance[target.ravel() != wide.ravel()]
    wanted, _ = np.histogram(unequal, [0, *EDGES, np.inf])
    assert len(found) == BINS
    assert found[0] == 75
    assert found[1:-1].tolist() == wanted.tolist()
    assert found[-1] == 0
    assert (wanted > 0).sum() > 15


def test_what_is_not_finite_and_a_golden_of_zeros(tmp_path: Path) -> None:
    target = np.array([np.nan, np.inf, np.inf, 1, np.nan, 0.5])
    golden = np.array([np.nan, np.inf, -np.inf, np.nan, 1, 1])
    found = difference_histogram(saved(tmp_path / "t.npy", target), saved(tmp_path / "g.npy", golden))
    assert (found[0], found[-1], found.sum()) == (2, 3, 6)
    zeros = difference_histogram(saved(tmp_path / "a.npy", np.full(3, 0.02)), saved(tmp_path / "z.npy", np.zeros(3)))
    assert zeros[1 + np.searchsorted(EDGES, 0.02)] == 3


def test_large_tensors_are_sampled_in_either_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ELEMENTS", 10)
    golden = np.arange(1.0, 65).reshape(8, 8).astype(ml_dtypes.bfloat16)
    target = golden.astype(np.float64)
    target.ravel()[::7] += 1  # those that are taken
    sides = [saved(tmp_path / "t.npy", np.asfortranarray(target)), saved(tmp_path / "g.npy", golden.astype(np.float32))]
    assert difference_histogram(*sides)[0] == 0
    assert difference_histogram(*sides).sum() == 10


def test_what_has_no_distance_is_said(tmp_path: Path) -> None:
    three, four = saved(tmp_path / "3.npy", np.ones(3)), saved(tmp_path / "4.npy", np.ones(4))
    with pytest.raises(TensorError, match="have 3 and 4 elements"):
        difference_histogram(three, four)
    texts = saved(tmp_path / "t.npy", np.array(["a", "b", "c"]))
    with pytest.raises(TensorError, match="holds texts or times"):
        difference_histogram(three, texts)
