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


def test_a_script_gives_the_verdict_of_verify(tmp_path):
    import subprocess
    import sys

    import numpy as np
    from mindspore import Tensor, ops

    x = Tensor(np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32))
    with lakeprobe.collect(None, run="ms", lake=tmp_path / "lake", task="tensor"):
        ops.grad(lambda x: ops.softmax(x, axis=-1).sum())(x)
        ops.cast(x, mindspore.bfloat16)
    script = tmp_path / "op.py"
    with Lake(tmp_path / "lake") as lake:
        lake.reproduce("ms", "Functional.softmax.0", script)
        cast = tmp_path / "cast.py"
        lake.reproduce("ms", "Functional.cast.0", cast)
    done = subprocess.run([sys.executable, "-I", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(("output.0", "gradient of input.0"))]
    assert [row[-1] for row in rows] == ["right", "right"]
    wrong = script.read_text().replace("mindspore.ops.softmax", "mindspore.ops.log_softmax")
    assert '"most_typical": ' in wrong
    compile(cast.read_text(), "cast.py", "exec")


def test_a_primitive_without_attributes_runs_and_another_says_which_are_missing(tmp_path):
    import numpy as np
    from mindspore import Tensor, nn, ops

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.tanh, self.total = ops.Tanh(), ops.ReduceSum(keep_dims=True)

        def construct(self, x):
            return self.total(self.tanh(x), -1)

    x = Tensor(np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32))
    net = Net()
    with lakeprobe.collect(net, run="ms", lake=tmp_path / "lake", task="tensor"):
        net(x)
    with Lake(tmp_path / "lake") as lake:
        lake.verify("ms")
        found = lake.sql("SELECT api, origin, status, problem FROM verifications ORDER BY place").fetchall()
    assert found == [
        ("tanh.Tanh", "device", "pass", None),
        ("tanh.Tanh", "recorded", "pass", None),
        (
            "total.ReduceSum",
            "device",
            "skip",
            "the dump does not have the attributes of the primitive: keep_dims, skip_mode",
        ),
    ]
