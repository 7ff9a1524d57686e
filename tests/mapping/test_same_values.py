"""Whether statistics allow two tensors to be one: the same answer for two leaves, and for columns of many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lakeprobe.mapping import ops, tensors

MASK = float(np.finfo(np.float32).min)
Four = tuple[float, float, float, float]

CASES = {
    "as far apart as devices round": ((2.0, -1.0, 0.1, 9.0), (2.00001, -1.0, 0.1, 9.0), True),
    "another extreme": ((2.0, -1.0, 0.1, 9.0), (2.1, -1.0, 0.1, 9.0), False),
    "scores beside a mask": ((2.9041234, MASK, -1e38, np.inf), (2.9041229, MASK, -1e38, np.inf), True),
    "other scores beside a mask": ((2.9041234, MASK, -1e38, np.inf), (3.6093751, MASK, -1e38, np.inf), False),
    "scores of 16 bits beside a mask": ((2.96875, MASK, -1e38, np.inf), (2.96875, MASK, -1e38, np.inf), False),
    "scores beside -10000": ((2.9041234, -1e4, -4e3, 5e4), (3.6093751, -1e4, -4e3, 5e4), False),
    "float16, rounded to neighbours": ((2.001953125, -1.0, 0.0500183, 9.0078125), (2.0, -1.0, 0.0499878, 9.0), True),
    "float16, five spacings apart": ((2.009765625, -1.0, 0.05, 9.0), (2.0, -1.0, 0.05, 9.0), False),
    "float32, as far apart as float16 may be": ((2.0019532, -1.0, 0.05, 9.0), (2.0, -1.0, 0.05, 9.0), False),
    "bfloat16, sums rounded to neighbours": ((2.0, -1.0, 0.05, 9.0625), (2.0, -1.0, 0.05, 9.0), True),
    "bfloat16, an extreme beside": ((2.015625, -1.0, 0.05, 9.0), (2.0, -1.0, 0.05, 9.0), False),
    "a mask": ((0.0, MASK, -1e38, np.inf), (0.0, MASK, -1e38, np.inf), True),
    "numbers of which one is large": ((12345.0, -5.0, 3.0, 2e4), (12345.1, -5.001, 3.0, 2e4), True),
}


MIXED = {
    "float32, computed from float16": ((2.0019532, -1.0, 0.05, 9.01), (2.0, -1.0, 0.05, 9.0), ops.DIGITS_OF_HALF, True),
    "float32 beside float16": ((2.9031234, -1.0, 0.05, 9.0), (2.90234375, -1.0, 0.05, 9.0), ops.DIGITS_OF_HALF, True),
    "further apart than float16 rounds": ((2.005, -1.0, 0.05, 9.0), (2.0, -1.0, 0.05, 9.0), ops.DIGITS_OF_HALF, False),
    "float32 beside bfloat16": ((2.005, -1.0, 0.05, 9.06), (2.0, -1.0, 0.05, 9.0), ops.DIGITS_OF_BFLOAT, True),
    "further apart than bfloat16 rounds": (
        (2.02, -1.0, 0.05, 9.1),
        (2.0, -1.0, 0.05, 9.0),
        ops.DIGITS_OF_BFLOAT,
        False,
    ),
    "both in bfloat16": ((2.015625, -1.0, 0.05, 9.0), (2.0, -1.0, 0.05, 9.0), ops.DIGITS_OF_BFLOAT, False),
}
"""Two tensors, the digits of the coarsest type that one of the two runs computes in, and whether they may be one."""


@pytest.mark.parametrize(("target", "golden", "same"), CASES.values(), ids=list(CASES))
def test_two_tensors(target: Four, golden: Four, same: bool) -> None:
    assert answers(target, golden, ops.DIGITS) == (same, same)


@pytest.mark.parametrize(("target", "golden", "digits", "same"), MIXED.values(), ids=list(MIXED))
def test_two_tensors_in_mixed_precision(target: Four, golden: Four, digits: float, same: bool) -> None:
    assert answers(target, golden, digits) == answers(golden, target, digits) == (same, same)


def answers(target: Four, golden: Four, digits: float) -> tuple[bool | None, bool]:
    """The answers for two leaves, of which the target's run has so many digits, and for columns of one leaf each."""
    leaves: list[Any] = [
        SimpleNamespace(
            **dict(zip(("max", "min", "mean", "norm"), numbers, strict=True)), digest=None, elements=64,
            op=SimpleNamespace(digits=of_run),
        )
        for numbers, of_run in ((target, digits), (golden, ops.DIGITS))
    ]  # fmt: skip
    columns: list[Any] = [
        SimpleNamespace(
            **{name: np.array([getattr(leaf, name)]) for name in ("max", "min", "mean", "norm")},
            digest=np.array([-1]),
            elements=np.array([64]),
            digits=leaf.op.digits,
            **dict.fromkeys(("has_range", "has_norm", "has_mean"), np.array([True])),
        )
        for leaf in leaves
    ]
    first = np.array([0])
    (of_columns,) = tensors.same_values(columns[0], first, columns[1], first).tolist()
    return bool(ops.same_values(*leaves)), of_columns
