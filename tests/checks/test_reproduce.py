"""Scripts for one op: they run with torch and numpy alone, and say what verify says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lakeprobe.checks.reproduce import literal, reproduce, reproduce_config
from lakeprobe.errors import UsageError

torch = pytest.importorskip("torch")
import lakeprobe  # noqa: E402


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    from torch.nn import functional

    folder = tmp_path_factory.mktemp("reproduce") / "lake"
    with lakeprobe.collect(None, run="golden", lake=folder, task="tensor"):
        torch.manual_seed(0)
        x = torch.randn(4, 8, requires_grad=True)
        mask = torch.tensor([[False, True] * 4])
        scores = functional.softmax(x.masked_fill(mask, float("-inf")), dim=-1)
        small = functional.gelu((scores * 3).to(torch.bfloat16))
        functional.dropout(small, 0.5).float().sum().backward()
    return folder


def ran(script, *arguments, path=""):
    """Run a script where lakeprobe cannot be imported; its exit code and what it prints."""
    done = subprocess.run(
        [sys.executable, str(script.path), *arguments], capture_output=True, text=True, check=False,
        env=dict(os.environ, PYTHONPATH=path), cwd=script.path.parent,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.sampled
@pytest.mark.parametrize("op", ["Tensor.masked_fill.0.forward", "Functional.dropout.0"])
def test_a_script_runs_alone_and_finds_a_right_op_right(place, tmp_path, op):
    code, said = ran(reproduce("golden", op, tmp_path / "op.py", lake=place))
    assert code == 0, said
    assert "right" in said
    assert "gradient of input.0" in said
    assert "lakeprobe" not in (tmp_path / "op.py").read_text()


def test_a_script_finds_a_wrong_op_wrong(place, tmp_path):
    script = reproduce("golden", "Functional.softmax.0", tmp_path / "op.py", lake=place, backward=False)
    (tmp_path / "sitecustomize.py").write_text(
        "import torch\nright = torch.nn.functional.softmax\n"
        "def wrong(x, *a, **k):\n    y = right(x, *a, **k)\n    return y * 1.001 if x.dtype == torch.float32 else y\n"
        "torch.nn.functional.softmax = wrong\n"
    )
    code, said = ran(script, path=str(tmp_path))
    assert code == 1
    assert "WRONG" in said
    assert "gradient" not in said


def test_without_contents_arguments_are_random_with_the_recorded_statistics(place, tmp_path):
    script = reproduce("golden", "Functional.softmax.0", tmp_path / "op.py", lake=place, random=True)
    with np.load(script.data) as arrays:
        assert arrays["input.0"].min() == -np.inf
        assert arrays["input.0"].shape == (4, 8)


def test_numbers_that_are_not_finite_are_legal_source():
    value = {"a": [float("nan"), float("-inf"), 1.5, None, True], "b": 'quote " and \n'}
    assert str(eval(literal(value))) == str(value)


def test_msprobes_config_is_read(tmp_path):
    dump = Path(__file__).parents[1] / "data"
    found = next(
        (path for path in sorted(dump.rglob("dump.json")) if "Functional.relu.0.forward" in path.read_text()), None
    )
    if found is None:
        pytest.skip("no bundled dump has a relu")
    config = tmp_path / "config_op.json"
    config.write_text(
        json.dumps({"dump_json_path": str(found), "api_name": "Functional.relu.0", "data_mode": "random_data"})
    )
    script = reproduce_config(config, tmp_path / "relu.py")
    assert '"function": "torch.nn.functional.relu"' in script.path.read_text()


@pytest.mark.parametrize(
    ("run", "op", "message"),
    [
        ("golden", "Functional.gelu.7", "has none of the API calls asked for"),
        ("none", "Functional.gelu.0", "has no run none"),
    ],
)
def test_what_cannot_be_reproduced_is_said(place, tmp_path, run, op, message):
    with pytest.raises(UsageError, match=message):
        reproduce(run, op, tmp_path / "op.py", lake=place)
    assert list(tmp_path.iterdir()) == []


def test_a_config_that_is_none_is_refused(tmp_path):
    (tmp_path / "c.json").write_text("[]")
    with pytest.raises(UsageError, match=r"is not a config_op\.json"):
        reproduce_config(tmp_path / "c.json")
