"""Task overflow_check: the op that makes NaN or inf is kept and ends the training, those that hand it on are not."""

import collections
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memory import Memory
from test_unit_sink import notes, rows, violations

import lakeprobe
import lakeprobe.collect
from lakeprobe.collect import frameworks
from lakeprobe.collect.settings import Settings
from lakeprobe.errors import OverflowFoundError

torch = pytest.importorskip("torch")


class Model(torch.nn.Module):
    """Adds up, takes the logarithm inside a part inside a part, and goes on with the result."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4, bias=False)
        self.log = torch.nn.Sequential(Log(), torch.nn.ReLU())
        self.last = torch.nn.Linear(4, 4, bias=False)
        for layer in (self.first, self.last):
            torch.nn.init.ones_(layer.weight)

    def forward(self, x: Any) -> Any:
        mask = torch.triu(torch.ones(2, 4, dtype=torch.bool), 3)
        masked = torch.softmax(self.first(x).masked_fill(mask, -torch.inf), -1)
        return self.last(self.log(x)) + masked


class Log(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.log(x)


def captured(level: str, x: Any, overflow_nums: int = -1) -> tuple[Memory, Any]:
    memory, model = Memory(), Model()
    watched = frameworks.capture(
        model, Settings(level=level, task="overflow_check", overflow_nums=overflow_nums), memory
    )
    watched.start()
    try:
        model(x).sum().backward()
    finally:
        watched.close()
    return memory, watched


BORN = {
    "L0": ["Module.log.0.Log.forward.0"],
    "L1": ["Torch.log.0.forward"],
    "mix": ["Torch.log.0.forward"],
}


@pytest.mark.parametrize("level", BORN)
def test_only_where_it_is_born(level: str) -> None:
    x = torch.tensor([[1.0, 2.0, 0.0, 3.0], [1.0, 1.0, 1.0, 1.0]], requires_grad=True)
    memory, watched = captured(level, x)
    (step,) = memory.steps
    forward = [name for name in step.bodies if "forward" in name]
    assert forward == BORN[level]
    body = step.bodies[forward[0]]
    assert np.array_equal(body["input_args"][0]["tensor"], x.detach().numpy())
    assert np.array_equal(body["output"][0]["tensor"], torch.log(x).detach().numpy())
    assert watched.recorder.births.number == len(step.bodies)
    assert step.ended


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_of_finite_numbers_nothing_is_kept(level: str) -> None:
    memory, watched = captured(level, torch.ones(2, 4, requires_grad=True), overflow_nums=1)
    assert memory.steps[0].bodies == {}
    assert watched.recorder.births.number == 0


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_a_birth_in_backward(level: str) -> None:
    """The square root is finite, its gradient is not; the product with 0 after it makes NaN of inf: no birth."""
    memory = Memory()
    watched = frameworks.capture(
        torch.nn.Identity(), Settings(level=level, task="overflow_check", overflow_nums=1), memory
    )
    x = torch.zeros(3, requires_grad=True)
    watched.start()
    loss = torch.sqrt(torch.mul(x, 0)).sum()
    with pytest.raises(OverflowFoundError, match=r"Torch.sqrt.0.backward made NaN or inf"):
        loss.backward()
    (step,) = memory.steps
    assert step.ended
    assert list(step.bodies) == ["Torch.sqrt.0.backward"]
    assert np.isinf(step.bodies["Torch.sqrt.0.backward"]["output"][0]["tensor"]).all()


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("overflow_nums", [1, 2])
def test_training_ends_with_the_last_birth_asked_for(level: str, overflow_nums: int) -> None:
    memory, model = Memory(), Model()
    functions = torch.log, torch.nn.functional.linear
    watched = frameworks.capture(
        model, Settings(level=level, task="overflow_check", overflow_nums=overflow_nums), memory
    )
    watched.start()
    with torch.no_grad(), pytest.raises(OverflowFoundError, match=f"overflow_nums: {overflow_nums}"):
        collections.deque(map(model, [torch.zeros(2, 4)] * 5), maxlen=0)
    (step,) = memory.steps
    assert step.ended
    assert len(step.bodies) == overflow_nums
    assert (torch.log, torch.nn.functional.linear) == functions
    assert not any(module._forward_hooks for module in model.modules())
    watched.start()
    assert not watched.recorder.running, "what was to be found is found"
    watched.close()


SCRIPT = """
import sys, torch
import lakeprobe.collect
from lakeprobe.collect import switches
way, lake = sys.argv[1:]
x = torch.zeros(3, requires_grad=True)
def train():
    torch.relu(x)
    torch.sqrt(x).sum().backward()
if way == "with":
    with lakeprobe.collect(run="npu", lake=lake, task="overflow_check"):
        train()
elif way == "without":
    lakeprobe.collect(run="npu", lake=lake, task="overflow_check").start()
    train()
else:
    switches.set_dump_path(lake[:-4] + "npu")
    switches.register_hook(None, switches.overflow_check, overflow_nums=1)
    switches.set_overflow_check_switch("ON")
    train()
print("not reached")
"""


@pytest.mark.sampled
@pytest.mark.parametrize("way", ["with", "without", "switches"])
def test_the_script_ends_and_the_unit_is_whole(tmp_path: Path, way: str) -> None:
    lake = tmp_path / "lake"
    done = subprocess.run([sys.executable, "-c", SCRIPT, way, str(lake)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("lakeprobe.errors.OverflowFoundError: Torch.sqrt.0.backward")
    assert "not reached" not in done.stdout
    assert [row[2] for row in rows(lake, "ops", "npu")] == ["Torch.sqrt.0.backward"]
    assert notes(lake, "npu") == []
    assert len(rows(lake, "contents", "npu")) == 2
    assert violations(lake) == []
    with lakeprobe.open(lake, create=True) as opened:
        assert opened.sql("SELECT task, complete FROM dumps").fetchall() == [("overflow_check", True)]
