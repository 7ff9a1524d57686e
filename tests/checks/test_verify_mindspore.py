"""Functions of MindSpore, run again: right ones pass, and what a dump does not hold is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeprobe.session import Lake

mindspore = pytest.importorskip("mindspore")
import lakeprobe  # noqa: E402


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A lake with the run ms."""
    import numpy as np
    from mindspore import Tensor, mint, ops

    random = np.random.default_rng(0)
    weight = Tensor(random.standard_normal((8, 4)).astype(np.float32))
    x = random.standard_normal((3, 8)).astype(np.float32)
    x[0, :3] = -0.0

    def loss(given):
        y = ops.gelu(mint.matmul(ops.relu(given), weight))
        y = ops.sin(y)
        return (ops.softmax(y, axis=-1) * ops.erf(y)).sum() + y.shape[0]

    folder = tmp_path_factory.mktemp("verify_mindspore") / "lake"
    with lakeprobe.collect(None, run="ms", lake=folder, task="tensor"):
        ops.grad(loss)(Tensor(x))
        ops.shape(Tensor(x).to(mindspore.float16))
    with Lake(folder) as opened:
        yield opened


def test_functions_run_forward_and_backward(lake):
    rows = lake.verify("ms").rows.select("api, direction, origin, status, problem").fetchall()
    assert {row[0] for row in rows} >= {"gelu", "matmul", "softmax", "sin", "relu", "erf", "shape", "to"}
    assert {row[3] for row in rows} == {"pass"}, rows
    found = {row[:3] for row in rows}
    assert {
        ("matmul", "backward", "device"),
        ("gelu", "forward", "recorded"),
        ("shape", "forward", "recorded"),
    } <= found


def test_every_planted_op_is_named_and_no_other(lake, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}:{Path(lakeprobe.__file__).parents[1]}")
    rows = lake.verify("ms", name="planted", imports=["planted_mindspore"]).rows
    assert set(rows.filter("status <> 'pass'").select("api, direction, origin, status").fetchall()) == {
        ("gelu", "forward", "device", "error"),
        ("sin", "forward", "device", "error"),
        ("sin", "backward", "device", "error"),
        ("relu", "forward", "device", "error"),
        ("erf", "backward", "device", "error"),
        ("softmax", "forward", "device", "warning"),
        ("softmax", "backward", "device", "warning"),
    }


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


def test_primitives_run_with_the_attributes_that_were_recorded(tmp_path):
    """MindSpore has no convolution in float64, so that its reference is ours."""
    import numpy as np
    from mindspore import Parameter, Tensor, nn, ops

    random = np.random.default_rng(1)

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.total, self.norm = ops.ReduceSum(keep_dims=True), ops.BatchNorm(True, 1e-3)
            self.conv = ops.Conv2D(4, (3, 2), pad_mode="pad", pad=(1, 2, 0, 1), stride=2, dilation=2, group=2)
            self.same = ops.Conv2D(2, 3, pad_mode="same", stride=2)
            self.weight = Parameter(Tensor(random.standard_normal((4, 1, 3, 2)).astype(np.float32)), name="weight")
            self.second = Parameter(Tensor(random.standard_normal((2, 4, 3, 3)).astype(np.float32)), name="second")
            self.ones = Parameter(Tensor(np.ones(4, np.float32)), name="ones")
            self.moments = [Parameter(Tensor(np.ones(4, np.float32)), name=name, requires_grad=False) for name in "mv"]

        def construct(self, x):
            y = self.norm(self.conv(x, self.weight), self.ones, self.ones, *self.moments)[0]
            return self.total(self.same(y, self.second), -1).sum()

    net = Net()
    with lakeprobe.collect(net, run="ms", lake=tmp_path / "lake", task="tensor"):
        mindspore.value_and_grad(net, 0, net.trainable_params())(
            Tensor(random.standard_normal((2, 2, 9, 8)).astype(np.float32))
        )
    with Lake(tmp_path / "lake") as lake:
        lake.verify("ms")
        found = lake.sql("SELECT api, direction, slot, origin, status FROM verifications ORDER BY ALL").fetchall()
        recorded = lake.sql("SELECT api, extra ->> '$.attributes.keep_dims' FROM ops WHERE api = 'total.ReduceSum'")
        assert recorded.fetchall()[0] == ("total.ReduceSum", "true")
        lake.reproduce("ms", "Primitive.conv.Conv2D.0", tmp_path / "op.py")
    assert {row[0] for row in found} == {"conv.Conv2D", "same.Conv2D", "norm.BatchNorm", "total.ReduceSum", "sum"}
    assert {row for row in found if row[4] != "pass"} == {  # the kernel leaves them unwritten
        ("norm.BatchNorm", "forward", f"output.{place}", "device", "skip") for place in (1, 2)
    }
    assert {row[2] for row in found if row[0] == "same.Conv2D" and row[1] == "backward"} == {"input.0", "input.1"}
    script = (tmp_path / "op.py").read_text()
    assert '"pad_mode": "pad"' in script
    assert "lakeprobe" not in script
    compile(script, "op.py", "exec")


def test_a_primitive_of_a_dump_without_attributes_says_which_are_missing(tmp_path):
    """Such as a dump of msprobe."""
    from lakeprobe.checks.calls import Call, CannotRunError
    from lakeprobe.checks.mindspore.runner import _find

    with pytest.raises(CannotRunError, match="does not have the attributes of the primitive: keep_dims, skip_mode"):
        _find(Call("", "Primitive", "total.ReduceSum", []))
    with pytest.raises(CannotRunError, match="a program that jit compiled"):
        _find(Call("", "Jit", "Adam", []))
    assert _find(Call("", "Primitive", "tanh.Tanh", [])).name == "Tanh"
