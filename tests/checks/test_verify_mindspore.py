"""Functions of MindSpore, run again: right ones pass, and what a dump does not hold is said."""

from __future__ import annotations

import pytest

from lakeprobe.session import Lake

mindspore = pytest.importorskip("mindspore")
import lakeprobe  # noqa: E402


def test_functions_run_forward_and_backward(tmp_path):
    import numpy as np
    from mindspore import Tensor, mint, ops

    weight = Tensor(np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32))
    x = Tensor(np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32))

    def loss(given):
        y = ops.gelu(mint.matmul(given, weight))
        return (ops.softmax(y, axis=-1) * y).sum()

    with lakeprobe.collect(None, run="ms", lake=tmp_path / "lake", task="tensor"):
        ops.grad(loss)(x)
    with Lake(tmp_path / "lake") as lake:
        found = lake.verify("ms")
        rows = found.rows.select("api, direction, origin, status, problem").fetchall()
    assert {row[0] for row in rows} >= {"gelu", "matmul", "softmax"}
    assert {row[3] for row in rows} == {"pass"}, rows
    assert ("matmul", "backward", "device") in {row[:3] for row in rows}
    assert ("gelu", "forward", "recorded") in {row[:3] for row in rows}
