"""The promises of collecting in MindSpore: what is transformed or compiled, and what fails, trains to the same bits."""

from __future__ import annotations

import copy
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from memory import Memory, capture

import lakeprobe
from lakeprobe.collect.writing.unit_sink import UnitSink

mindspore = pytest.importorskip("mindspore")

from mindspore import Tensor, nn, ops  # noqa: E402


@pytest.fixture(autouse=True)
def dynamic_graph() -> None:
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.act = nn.Dense(4, 8), nn.GELU()
        self.drop, self.last = nn.Dropout(p=0.5), nn.Dense(8, 1)
        self.own = OwnGradient()

    def construct(self, x: Tensor) -> Tensor:
        return self.last(self.drop(self.act(self.first(x))))


class OwnGradient(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return x * x

    def bprop(self, x: Tensor, _out: Tensor, gradient: Tensor) -> tuple[Tensor]:
        return (gradient * 3 * x,)


class Compiled(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(4, 4)

    @mindspore.jit
    def construct(self, x: Tensor) -> Tensor:
        return ops.tanh(self.dense(x))


def curve(x: Tensor) -> Tensor:
    return ops.tanh(x) * 2


def total(x: Tensor) -> Tensor:
    return ops.tanh(x).sum()


def slope(x: Tensor) -> Tensor:
    return mindspore.grad(total)(x).sum()


compiled_curve = mindspore.jit(curve)
PROGRAMS: dict[str, Callable[[Any, Any, Tensor], Any]] = {
    "value_and_grad": lambda net, _, x: mindspore.value_and_grad(
        lambda x: net(x).sum(), None, list(net.trainable_params())
    )(x),
    "grad": lambda net, _, x: mindspore.grad(lambda x: net(x).sum())(x),
    "vmap": lambda _, __, x: mindspore.vmap(curve)(x),
    "jvp": lambda _, __, x: mindspore.jvp(curve, x, x),
    "vjp": lambda _, __, x: mindspore.vjp(curve, x)[0],
    "jacfwd": lambda _, __, x: mindspore.jacfwd(curve)(x),
    "jacrev": lambda _, __, x: mindspore.jacrev(curve)(x),
    "grad of grad": lambda _, __, x: mindspore.grad(slope)(x),
    "jit": lambda _, __, x: compiled_curve(x),
    "grad through jit": lambda _, __, x: mindspore.grad(lambda x: compiled_curve(x).sum())(x),
    "a cell that jit compiles": lambda _, cell, x: mindspore.grad(lambda x: cell(x).sum())(x),
    "recompute": lambda net, _, x: mindspore.grad(lambda x: mindspore.recompute(net.first, x).sum())(x),
    "a watched cell with a gradient of its own": lambda net, _, x: mindspore.grad(
        lambda x: net.own(net.first(x)).sum()
    )(x),
    "a gradient of one's own": lambda _, __, x: mindspore.grad(lambda x: OwnGradient()(x).sum())(x),
}


def digest(values: Any) -> str:
    """A hash over all bits of nested tensors."""
    state = hashlib.sha256()
    waiting = [values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (tuple, list)):
            waiting += reversed(value)
        else:
            state.update(np.ascontiguousarray(value.asnumpy()).tobytes())
    return state.hexdigest()


def run(name: str, memory: Memory | None = None, level: str = "mix") -> str:
    """A hash of what a program gives, of the parameters and of the random numbers."""
    mindspore.set_seed(0)
    net, cell = Net(), nn.SequentialCell(Compiled())
    parameters = [*net.get_parameters(), *cell.get_parameters()]
    x = Tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))
    watched = None if memory is None else capture(memory, [net, cell], level=level)
    if watched is not None:
        watched.start()
    try:
        result = PROGRAMS[name](net, cell, x)
    finally:
        if watched is not None:
            watched.close()
    if watched is not None:
        assert watched.recorder.failures == []
    return digest([result, parameters, mindspore.get_rng_state()])


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_transformed_or_compiled_gives_the_same_bits(name: str, level: str, memory: Memory) -> None:
    assert run(name, memory, level) == run(name)


def test_a_function_that_the_program_replaces_in_a_step_stays_replaced(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops, "relu", ops.relu)  # puts it back after this test
    watched = capture(memory)
    watched.start()
    recorded = ops.relu

    def faster(x: Any) -> Any:
        return recorded(x) * 3

    ops.relu = faster
    compiled_curve(Tensor(np.ones((1, 4), np.float32)))  # MindSpore's own functions come back for this
    assert ops.relu is faster
    watched.close()
    assert ops.relu is faster


def test_a_copy_of_a_watched_cell_is_not_watched(memory: Memory) -> None:
    net = Net()
    seen: list[Any] = []
    net.first.register_forward_hook(lambda *_: seen.append(1))
    before = list(net.first._forward_hook.values())
    x = Tensor(np.ones((1, 4), np.float32))
    watched = capture(memory, net, level="L0")
    watched.start()
    twin = copy.deepcopy(net)
    twin(x)
    assert len(net.first._forward_hook) == 2
    watched.close()
    assert list(twin.first._forward_hook.values()) == before
    assert [len(twin.first._forward_pre_hook), len(seen)] == [0, 1]
    assert memory.steps[-1].bodies == {}


def test_a_failure_ends_the_collecting_and_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any, **__: Any) -> NoReturn:
        raise OSError(28, "No space left on device")

    def trained(watch: bool) -> str:
        mindspore.set_seed(0)
        net = Net()
        collector = lakeprobe.collect(net, run="npu", lake=tmp_path, level="mix") if watch else None
        seen = []
        for step in range(3):
            if collector is not None:
                collector.start()
            if collector is not None and step == 1:
                monkeypatch.setattr(UnitSink, "add", full)
            parameters = list(net.trainable_params())
            x = Tensor(np.full((2, 4), step, np.float32))
            seen.append(mindspore.value_and_grad(lambda x: net(x).sum(), None, parameters)(x))
            if collector is not None:
                collector.stop()
                collector.step()
        if collector is not None:
            collector.close()
        return digest([seen, mindspore.get_rng_state()])

    alone = trained(watch=False)
    assert trained(watch=True) == alone
    assert capfd.readouterr().err.count("No space left on device; collecting of run npu ends here") == 1
    assert net_is_free()


def net_is_free() -> bool:
    """Whether nothing of ours is in MindSpore any more."""
    return nn.Cell.__call__.__module__ == nn.Cell.__module__ and ops.tanh.__module__.startswith("mindspore")


LSTM = """
import atexit, json, sys
atexit.register(print, "Python has ended", flush=True)  # the last to be called, as the first that was registered
import mindspore, numpy as np
from mindspore import Tensor, nn, ops
import lakeprobe

mindspore.set_context(mode=mindspore.PYNATIVE_MODE)

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(16, 16, batch_first=True), nn.Dense(16, 4)

    def construct(self, x):
        return self.head(self.lstm(x)[0])

def trained(lake):
    mindspore.set_seed(0)
    np.random.seed(0)
    net = Net()
    x, parameters = Tensor(np.random.randn(4, 8, 16).astype(np.float32)), list(net.trainable_params())
    gradients_of = mindspore.value_and_grad(lambda x: net(x).square().mean(), None, parameters)
    collector = None if lake is None else lakeprobe.collect(net, run="npu", lake=lake, level="mix", on_failure="raise")
    found = []
    for _ in range(2):
        if collector is not None:
            collector.start()
        loss, gradients = gradients_of(x)
        found.append([value.asnumpy().astype(float).sum().hex() for value in (loss, *gradients)])
        if collector is not None:
            collector.stop()
            collector.step()
    if collector is not None:
        collector.close()
    return found

print(json.dumps([trained(None), trained(sys.argv[1])]), flush=True)
"""


def test_an_lstm_trains_to_the_same_bits_and_python_ends_in_good_order(tmp_path: Path) -> None:
    """What comes after Python has ended is MindSpore's: see docs/collect.md, MindSpore."""
    for number in range(2):
        lake = tmp_path / str(number)
        ended = subprocess.run([sys.executable, "-c", LSTM, str(lake)], capture_output=True, text=True, check=False)
        lines = [line for line in ended.stdout.splitlines() if line.startswith(("[", "Python"))]
        assert lines[-1] == "Python has ended", ended.stderr
        alone, watched = json.loads(lines[0])
        assert watched == alone
        with lakeprobe.open(lake, create=True) as opened:
            assert opened.sql("SELECT step, complete FROM dumps ORDER BY step").fetchall() == [(0, True), (1, True)]
            assert (
                opened.sql("SELECT op FROM ops WHERE op = 'Cell.lstm.LSTM.backward.0'").fetchall()
                == [("Cell.lstm.LSTM.backward.0",)] * 2
            )
