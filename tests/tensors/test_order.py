"""The words for the order in which the elements of one tensor lie in another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakeprobe.errors import TensorError
from lakeprobe.tensors import read_tensor
from lakeprobe.tensors.order import order, order_or_none

CUBE = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
MATRIX = CUBE[0]
SQUARE = MATRIX[:, :4]
SHUFFLED = np.random.default_rng(1).permutation(CUBE.reshape(-1)).reshape(CUBE.shape)


def said(folder: Path, target: Any, golden: Any) -> str | None:
    for name, array in (("target", target), ("golden", golden)):
        np.save(folder / f"{name}.npy", array)
    return order(read_tensor(folder / "target.npy"), read_tensor(folder / "golden.npy"))


@pytest.mark.parametrize(
    ("target", "golden", "expected"),
    [
        (MATRIX.T, MATRIX, "transposed"),
        (SQUARE.T, SQUARE, "transposed"),
        (CUBE.transpose(2, 0, 1), CUBE, "its axes lie in the order 2, 0, 1"),
        (CUBE.transpose(0, 2, 1), CUBE, "its axes lie in the order 0, 2, 1"),
        (MATRIX[[2, 0, 1, 3]], MATRIX, "the same rows in another order"),
        (MATRIX[:, [1, 0, 2, 4, 3]], MATRIX, "the same columns in another order"),
        (CUBE[[1, 2, 0]], CUBE, "the same slices along axis 0 in another order"),
        (CUBE[:, :, ::-1], CUBE, "the same slices along axis 2 in another order"),
        (CUBE.reshape(4, 15), CUBE, "the same elements in the shape [4, 15] instead of [3, 4, 5]"),
        (SHUFFLED, CUBE, "the same elements in another order"),
        (SHUFFLED.reshape(-1), CUBE, "the same elements in another order"),
        (CUBE.reshape(-1)[::-1], CUBE.reshape(-1), "the same elements in another order"),
        (CUBE + 1, CUBE, None),
        (MATRIX[:2], MATRIX, None),
        (np.ones(1), np.ones(1), None),
    ],
)
def test_the_order_is_named(tmp_path: Path, target: Any, golden: Any, expected: str | None) -> None:
    assert said(tmp_path, target, golden) == expected


def test_one_changed_element_is_no_other_order(tmp_path: Path) -> None:
    for changed in (MATRIX.T.copy(), MATRIX[[2, 0, 1, 3]], CUBE.transpose(2, 0, 1).copy(), CUBE.reshape(4, 15).copy()):
        changed.reshape(-1)[-1] += 1
        assert said(tmp_path, changed, MATRIX if changed.size == MATRIX.size else CUBE) is None


def test_a_side_that_cannot_be_read_has_no_order(tmp_path: Path) -> None:
    said(tmp_path, MATRIX, MATRIX)
    sides = [read_tensor(tmp_path / f"{name}.npy") for name in ("target", "golden")]
    (tmp_path / "target.npy").unlink()
    assert order_or_none(*sides) is None
    with pytest.raises(TensorError, match=r"target\.npy"):
        order(*sides)
