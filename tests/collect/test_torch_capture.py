"""What a capture promises beside equality with msprobe: it disturbs nothing, loses nothing, its numbers are right."""

import contextlib
import os
import sys
import zlib
from collections import UserDict, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Barrier, Event, Thread
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from memory import Memory, bodies, capture, tensors

from lakeprobe.bounds import MOST_LEAVES
from lakeprobe.collect import frameworks
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.watching.capture import Capture
from lakeprobe.errors import LakeError, UsageError

torch = pytest.importorskip("torch")

import models  # noqa: E402

from lakeprobe.collect.pytorch.functions import places  # noqa: E402
from lakeprobe.collect.pytorch.modules import _Part  # noqa: E402


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_stop_leaves_torch_and_the_model_as_they_were(memory: Memory, level: str) -> None:
    model = models.Transformer()
    functions = [(place.owner, place.attribute, vars(place.owner).get(place.attribute)) for place in places()]
    clip = torch.nn.utils.clip_grad_norm_
    watched = capture(memory, model, level=level)
    watched.start()
    watched.start()
    loss = model(torch.zeros(1, 8, dtype=torch.long)).sum()
    loss.backward()
    watched.stop()
    watched.stop()
    assert [(owner, name, vars(owner).get(name)) for owner, name, _ in functions] == functions
    assert torch.nn.utils.clip_grad_norm_ is clip
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert not module._forward_hooks_always_called
    for parameter in model.parameters():
        assert not parameter._post_accumulate_grad_hooks
    before = len(bodies(memory))
    model(torch.zeros(1, 8, dtype=torch.long)).sum().backward()
    watched.stop()
    assert len(bodies(memory)) == before


def test_a_function_kept_from_within_a_step_records_nothing_after_it(memory: Memory) -> None:
    watched = capture(memory)
    watched.start()
    kept = torch.relu
    watched.stop()
    kept(torch.ones(2))
    assert "Torch.relu.0.forward" not in bodies(memory)


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_an_exception_stops_nothing(memory: Memory, level: str) -> None:
    class Failing(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("on purpose")

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(4, 4)
            self.failing = Failing()
            self.last = torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            y = self.first(x)
            with pytest.raises(RuntimeError):
                torch.matmul(y, torch.ones(7, 7))
            with pytest.raises(ValueError, match="on purpose"):
                self.failing(y)
            return torch.matmul(self.last(y), torch.ones(4, 4))

    watched = capture(memory, Model(), level=level)
    watched.start()
    watched._model(torch.ones(2, 4)).sum().backward()
    watched.close()
    found, parents = bodies(memory), memory.steps[-1].parents
    if level != "L0":
        assert set(found["Torch.matmul.0.forward"]) == {"input_args", "input_kwargs"}
        assert set(found["Torch.matmul.1.forward"]) == {"input_args", "input_kwargs", "output"}
        assert "Torch.matmul.1.backward" in found
        assert "Functional.linear.1.forward" in found
        assert "Functional.linear.0.backward" in found
    if level != "L1":
        assert set(found["Module.failing.Failing.forward.0"]) == {"input_args", "input_kwargs"}
        assert "output" in found["Module.last.Linear.forward.0"]
        assert set(found["Module.last.Linear.parameters_grad.0"]) == {"weight", "bias"}
    if level == "mix":
        assert parents["Functional.linear.1.forward"] == "Module.last.Linear.forward.0"
        assert parents["Torch.matmul.1.forward"] is None


def test_only_the_outermost_call_is_recorded_and_none_of_ours(memory: Memory) -> None:
    watched = capture(memory, summary_mode="md5", task="tensor", risk_level="ALL")
    watched.start()
    torch.nn.functional.cross_entropy(torch.randn(3, 4).t().contiguous().t(), torch.tensor([0, 1, 2]))
    watched.close()
    names = [name for name in bodies(memory) if ".cross_entropy" in name or ".aminmax" in name or ".reshape" in name]
    assert names == ["Functional.cross_entropy.0.forward"] or names == []
    assert len(bodies(memory)) <= 3


def test_counters_go_on_after_stop_and_begin_anew_after_step(memory: Memory) -> None:
    watched = capture(memory, step=(0, 2))
    for _ in range(3):
        watched.start()
        torch.relu(torch.ones(2))
        watched.stop()
        torch.relu(torch.ones(2))
        watched.start()
        torch.relu(torch.ones(2))
        watched.stop()
        watched.step()
    watched.close()
    watched.close()
    assert [step.number for step in memory.steps] == [0, 2]
    assert all(step.ended for step in memory.steps)
    assert memory.closed
    for step in memory.steps:
        assert list(step.bodies) == ["Torch.relu.0.forward", "Torch.relu.1.forward"]


def test_gradients_of_an_earlier_step_are_not_recorded_under_its_names(memory: Memory) -> None:
    watched = capture(memory)
    watched.start()
    late = torch.relu(torch.ones(2, requires_grad=True)).sum()
    watched.step()
    late.backward()
    watched.close()
    assert bodies(memory) == {}


def test_gradients_that_are_added_up_elsewhere_are_recorded_when_they_are_there(memory: Memory) -> None:
    """As Megatron does it: a hook of the parameter's node adds the gradient to main_grad, and takes it away."""
    part = torch.nn.Linear(3, 1)
    nodes = []
    for parameter in part.parameters():
        parameter.main_grad = torch.zeros_like(parameter)

        def add(*_: Any, parameter: Any = parameter) -> None:
            parameter.main_grad += parameter.grad
            parameter.grad = None

        nodes.append(parameter.view_as(parameter).grad_fn.next_functions[0][0])
        nodes[-1].register_hook(add)
    model = torch.nn.Sequential(part)
    watched = capture(memory, model, level="L0")
    watched.start()
    for _ in range(2):
        model(torch.arange(3.0)).backward()
    watched.close()
    assert [parameter.main_grad.max().item() for parameter in part.parameters()] == [4.0, 2.0]
    found = [bodies(memory)[f"Module.0.Linear.parameters_grad.{number}"] for number in range(2)]
    assert [(body["weight"][0]["Max"], body["bias"][0]["Max"]) for body in found] == [(2.0, 1.0), (4.0, 2.0)]


def test_a_gradient_that_comes_without_those_of_the_other_parameters_is_an_op_of_its_own(memory: Memory) -> None:
    part = torch.nn.Linear(3, 1)
    model = torch.nn.Sequential(part)
    watched = capture(memory, model, level="L0")
    watched.start()
    for inputs in (None, [part.weight], [part.weight], None):
        model(torch.arange(3.0)).backward(inputs=inputs)
    watched.close()
    found = [bodies(memory)[f"Module.0.Linear.parameters_grad.{number}"] for number in range(4)]
    maxima = [{name: leaf["Max"] for name, (leaf,) in body.items()} for body in found]
    assert maxima == [{"bias": 1.0, "weight": 2.0}, {"weight": 4.0}, {"weight": 6.0}, {"bias": 2.0, "weight": 8.0}]


def test_the_op_of_an_lstm_is_recorded_which_msprobe_leaves_out_and_the_page_of_differences_says_so(
    memory: Memory,
) -> None:
    watched = capture(memory)
    watched.start()
    torch.nn.LSTM(2, 3)(torch.ones(4, 1, 2))
    watched.close()
    assert "VF.lstm.0.forward" in bodies(memory)
    page = Path(__file__).parents[2] / "docs" / "differences.md"
    assert "| `VF.lstm` (LSTM of torch.nn) | not recorded" in page.read_text(encoding="utf-8")


def test_two_captures_at_once_are_refused(memory: Memory) -> None:
    first, second = capture(memory), capture(Memory())
    first.start()
    with pytest.raises(UsageError, match="another capture is running"):
        second.start()
    first.close()
    second.start()
    second.close()


def test_modules_need_a_model(memory: Memory) -> None:
    with pytest.raises(UsageError, match="give start"):
        capture(memory, level="mix").start()


def test_digest_and_contents_are_those_of_the_moment(memory: Memory) -> None:
    watched = capture(memory, task="tensor", summary_mode="md5")
    x = torch.randn(100, 70)
    watched.start()
    expected = [x.numpy().copy()]
    for _ in range(3):
        x.mul_(2)
        expected.append(x.numpy().copy())
    torch.relu(x.t())
    # What the version counter does not see: the same memory by another tensor.
    x.data.add_(1)
    expected.append(x.numpy().copy())
    torch.relu(x)
    # Nor this, which is not an operation of torch.
    x.numpy()[3, 4] = 1000
    expected.append(x.numpy().copy())
    torch.relu(x)
    watched.close()
    found = bodies(memory)
    for call in range(3):
        body = found[f"Tensor.mul_.{call}.forward"]
        _same(body["input_args"][0], expected[call])
        _same(body["output"][0], expected[call + 1])
    _same(found["Torch.relu.0.forward"]["input_args"][0], expected[3].T)
    _same(found["Torch.relu.1.forward"]["input_args"][0], expected[4])
    _same(found["Torch.relu.2.forward"]["input_args"][0], expected[5])


def _same(leaf: dict[str, Any], array: Any) -> None:
    assert np.array_equal(leaf["tensor"], array)
    assert not leaf["tensor"].flags.writeable
    assert leaf["md5"] == f"{zlib.crc32(np.ascontiguousarray(array)):08x}"
    assert (leaf["Max"], leaf["Min"]) == (array.max(), array.min())
    assert leaf["Norm"] == pytest.approx(np.linalg.norm(array.astype(np.float64)), rel=1e-6)


@pytest.mark.parametrize("shape", [(3,), (100, 100), (7, 1, 1000)])
@pytest.mark.parametrize("special", [None, float("nan"), float("inf"), float("-inf"), -0.0])
def test_statistics_are_those_of_float64(memory: Memory, shape: tuple[int, ...], special: float | None) -> None:
    x = torch.rand(shape) if special == 0 else torch.randn(shape)
    if special is not None:
        x.view(-1)[1] = special
    watched = capture(memory)
    watched.start()
    torch.relu(x)
    watched.close()
    (leaf,) = bodies(memory)["Torch.relu.0.forward"]["input_args"]
    exact = x.numpy().astype(np.float64)
    numbers = [leaf[key] for key in ("Max", "Min", "Mean", "Norm")]
    with np.errstate(invalid="ignore"):
        expected = [exact.max(), exact.min(), exact.mean(), np.linalg.norm(exact)]
    assert numbers == pytest.approx(expected, rel=1e-4, abs=1e-6, nan_ok=True)
    assert repr(leaf["Min"]) == repr(torch.min(x).item())


def test_saved_values_and_their_gradients(memory: Memory) -> None:
    watched = capture(memory, level="debug")
    for _ in range(2):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        watched.save("y", {"value": y, "more": [x, 4]})
        watched.save("y", y, backward=False)
        y.sum().backward()
        watched.step()
    watched.close()
    assert [step.number for step in memory.steps] == [0, 1]
    for step in memory.steps:
        assert list(step.bodies) == ["y.0.debug", "y_grad.0.debug", "y.1.debug"]
        assert step.bodies["y.0.debug"]["value"]["Max"] == 6
        gradient = step.bodies["y_grad.0.debug"]
        assert gradient["value"]["Max"] == 1
        assert gradient["more"][0]["Max"] == 3
        assert gradient["more"][1] is None


def test_equal_stacks_are_one_object(memory: Memory) -> None:
    watched = capture(memory)
    watched.start()
    for _ in range(2):
        torch.relu(torch.ones(2))
    torch.relu(torch.ones(2))
    watched.close()
    first, second, third = memory.steps[-1].stacks.values()
    assert first is second
    assert first is not None
    assert third is not None
    assert first[0].startswith(f"File {__file__}, line ")
    assert first[0].endswith("in test_equal_stacks_are_one_object, \n torch.relu(torch.ones(2))")
    assert first[0] != third[0]


def test_an_error_of_the_sink_waits_for_the_end_of_the_step() -> None:
    class Full(Memory):
        def add(self, *_args: Any, **_options: Any) -> None:
            raise LakeError("the disk is full")

    watched = capture(Full(), task="tensor")
    watched.start()
    assert torch.relu(torch.ones(2)).sum() == 2
    with pytest.raises(LakeError, match="disk is full"):
        watched.stop()


def test_what_cannot_be_measured_is_said_and_stops_nothing(
    memory: Memory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_self: Any, _tensor: Any) -> None:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr("lakeprobe.collect.pytorch.tensors.Tensors.measure", fail)
    watched = capture(memory)
    watched.start()
    torch.relu(torch.ones(2))
    watched.close()
    (leaf,) = bodies(memory)["Torch.relu.0.forward"]["input_args"]
    assert leaf["shape"] == [2]
    assert leaf["Max"] is None
    assert "2 values could not be recorded, the first: torch.float32[2]: no such kernel" in capsys.readouterr().err


def test_a_note_quotes_the_beginning_of_a_long_message(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_self: Any, _tensor: Any) -> None:
        raise RuntimeError("no such kernel, " + "only another one, " * 1000)

    monkeypatch.setattr("lakeprobe.collect.pytorch.tensors.Tensors.measure", fail)
    watched = capture(memory)
    watched.start()
    torch.relu(torch.ones(2))
    watched.close()
    (note,) = memory.notes
    assert note.startswith("2 values could not be recorded, the first: torch.float32[2]: no such kernel, only another")
    assert note.endswith("…")
    assert len(note) < 400


def test_a_complex_number_is_recorded_as_a_scalar(memory: Memory) -> None:
    watched = capture(memory)
    watched.start()
    x = torch.ones(2) * 1j
    torch.add(x, 2 + 1j, alpha=-2j)
    watched.close()
    assert bodies(memory)["Tensor.__mul__.0.forward"]["input_args"][1] == {"type": "complex", "value": "1j"}
    added = bodies(memory)["Torch.add.0.forward"]
    assert added["input_args"][1] == {"type": "complex", "value": "(2+1j)"}
    assert complex(added["input_kwargs"]["alpha"]["value"]) == -2j
    assert memory.notes == []


def leaves_in(value: Any) -> int:
    """The number of leaves as readers count them."""
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        return 1
    if isinstance(value, (dict, list)):
        return sum(leaves_in(member) for member in (value.values() if isinstance(value, dict) else value))
    return 1


@pytest.mark.parametrize(
    "value",
    [
        [*range(100_001)],
        {"x": [*range(50_000)], "y": [*range(50_001)]},
        [[0] * 400 for _ in range(300)],
        (torch.ones(2),) * 100_001,
    ],
    ids=["list", "dict", "nested", "tensors"],
)
def test_an_op_with_more_members_than_are_read_is_not_lost(value: Any, memory: Memory) -> None:
    class Part(torch.nn.Module):
        def forward(self, x: Any, _value: Any, **_others: Any) -> Any:
            return (x * 2, *value) if isinstance(value, tuple) else (x * 2, value)

    model = torch.nn.Sequential(Part())
    watched = capture(memory, model, level="L0")
    watched.start()
    model[0](torch.ones(2), value, again=value)
    watched.save("saved", value)
    watched.close()
    ops = bodies(memory)
    assert {"Module.0.Part.forward.0", "saved.0.debug", "saved_grad.0.debug"} <= ops.keys()
    assert max(leaves_in(body) for body in ops.values()) <= MOST_LEAVES
    (note,) = memory.notes
    assert "only the first 24000 members of an op's arguments or results are recorded" in note
    rest = ops["saved.0.debug"]
    while "type" not in rest:
        rest = (rest if isinstance(rest, list) else [*rest.values()])[-1]
    assert rest == {"type": f"builtins.{type(value).__name__}"}


def test_modes_of_torch_see_nothing_of_us(memory: Memory) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Seeing(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    watched = capture(memory)
    x = torch.ones(2)
    watched.start()
    with Seeing():
        torch.relu(x)
    watched.close()
    assert seen == ["aten.relu.default"]
    assert bodies(memory)["Torch.relu.0.forward"]["output"][0]["Max"] == 1


@pytest.mark.parametrize("compiled", ["eager", "boundary"])
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_the_profiler_takes_stacks_in_a_step(memory: Memory, level: str, compiled: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    watched = capture(memory, model, level=level, compiled=compiled)
    watched.start()
    with torch.profiler.profile(with_stack=True):  # looks for the module in the frames of its call
        model(torch.ones(1, 2)).sum().backward()
    watched.close()
    assert watched.recorder.failures == []
    assert bodies(memory)


@pytest.mark.parametrize("compiled", ["eager", "boundary"])
def test_arguments_of_a_module_may_have_any_name(memory: Memory, compiled: str) -> None:
    class Part(torch.nn.Module):
        def forward(this, x: Any, **others: Any) -> Any:  # noqa: N805
            return x + sum(others.values())

    model = torch.nn.Sequential(Part())
    watched = capture(memory, model, level="L0", compiled=compiled)
    watched.start()
    model[0](torch.ones(1), module=1, function=2, args=3, kwargs=4)
    watched.close()
    recorded = bodies(memory)["Module.0.Part.forward.0"]["input_kwargs"]
    assert {name: leaf["value"] for name, leaf in recorded.items()} == {
        "module": 1,
        "function": 2,
        "args": 3,
        "kwargs": 4,
    }


@pytest.mark.parametrize("where", ["after it enters", "before it leaves"])
def test_an_interrupt_of_ours_leaves_no_hook_and_breaks_no_later_call(
    memory: Memory, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter = _Part.enter

    def interrupted(part: _Part) -> None:
        if where == "after it enters":
            enter(part)
        raise KeyboardInterrupt

    part = torch.nn.Linear(2, 2)
    model = torch.nn.Sequential(part)
    watched = capture(memory, model, level="L0")
    watched.start()
    with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
        patched.setattr(_Part, "enter" if where == "after it enters" else "leave", interrupted)
        model(torch.ones(1, 2))
    model(torch.ones(1, 2)).sum().backward()
    watched.close()
    assert watched.recorder.failures == []
    kinds = ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks", "_forward_hooks_with_kwargs",
             "_forward_hooks_always_called")  # fmt: skip
    assert [len(getattr(part, kind)) for kind in kinds] == [0] * 5


@pytest.mark.parametrize("call", ["pause", "end", "begin"])
def test_an_interrupt_at_the_end_of_a_step_ends_nothing(
    memory: Memory, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    watched = capture(memory)
    watched.start()
    torch.relu(torch.ones(2))
    with monkeypatch.context() as patched:
        patched.setattr(Memory, call, interrupted)
        with pytest.raises(KeyboardInterrupt):
            watched.step()
    watched.step()
    torch.sigmoid(torch.ones(2))
    watched.close()
    assert [*memory.steps[0].bodies] == ["Torch.relu.0.forward"]
    assert [*bodies(memory)] == ["Torch.sigmoid.0.forward"]


@pytest.fixture
def impatient() -> Iterator[None]:
    """Python switches between threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], None]) -> None:
    """Run `work` in four threads at once. Raises what one of them raises."""
    together = Barrier(4)

    def begin(number: int) -> None:
        together.wait()
        work(number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(begin, range(4)))


@pytest.mark.usefixtures("impatient")
def test_threads_never_get_one_number_twice(memory: Memory) -> None:
    recorder = capture(memory).recorder
    numbers: list[int] = []
    in_threads(lambda _: numbers.extend([recorder.count("op") for _ in range(50_000)]))
    assert sorted(numbers) == list(range(200_000))


@pytest.mark.usefixtures("impatient")
def again(watched: Capture) -> None:
    watched.stop()
    watched.start()


@pytest.mark.parametrize(("end", "steps"), [(Capture.step, [[0], [0, 1]]), (again, [[0, 1, 2]])])
def test_an_op_of_another_thread_that_outlasts_its_step_changes_no_other(
    end: Callable[[Capture], None], steps: list[list[int]], memory: Memory
) -> None:
    begun, end_it = Event(), Event()

    class Waits:
        @classmethod
        def __torch_function__(cls, *_: Any) -> Any:
            begun.set()
            end_it.wait(10)
            return torch.ones(2)

    x = torch.ones(2)
    watched = capture(memory)
    watched.start()
    thread = Thread(target=lambda: torch.add(x, Waits()))  # type: ignore[call-overload]
    thread.start()
    begun.wait(10)
    end(watched)
    torch.add(x, x)
    end_it.set()
    thread.join()
    torch.add(x, x)
    watched.close()
    names = [[f"Torch.add.{number}.forward" for number in numbers] for numbers in steps]
    assert [[*step.bodies] for step in memory.steps] == names
    complete = [["output" in body for body in step.bodies.values()] for step in memory.steps]
    assert complete == [[False, *[True] * (len(steps[0]) - 1)], *([True] * len(step) for step in steps[1:])]
    assert memory.notes == [
        "a step ended before 1 op of another thread, the first Torch.add.0.forward; what came later is left out"
    ]
    assert watched.recorder.failures == []


class Strict(Memory):
    """Takes no op after the end of a step."""

    def add(self, op: str, body: Any, **options: Any) -> None:
        assert not self.steps[-1].ended, f"{op} came after the end"
        super().add(op, body, **options)


@pytest.mark.usefixtures("impatient")
def test_steps_end_while_other_threads_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Handled(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *given: Any) -> Any:
            return super().__torch_function__(*given)

    memory = Strict()
    before = dict(vars(torch.Tensor))

    def work(number: int) -> None:
        x = torch.full((2,), float(number), requires_grad=True)
        if number % 2:
            x = x.as_subclass(Handled)
        for _ in range(40):
            torch.mul(x, x).sum().backward()

    watched = capture(memory)
    watched.start()
    failures: list[Any] = []
    monkeypatch.setattr("threading.excepthook", failures.append)
    threads = [Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        torch.add(torch.ones(2), 1)
        watched.step()
    torch.add(torch.ones(2), 1)  # a handler of another thread hid those before, all of them on a busy machine
    watched.close()
    assert watched.recorder.failures == []
    assert failures == []
    assert dict(vars(torch.Tensor)) == before
    assert len(memory.steps) > 1
    assert "Torch.add.0.forward" in memory.steps[-1].bodies


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_threads_with_a_model_each_do_not_end_modules_of_each_other(memory: Memory, level: str) -> None:
    models = [torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)) for _ in range(4)]
    watched = capture(memory, models, level=level)
    watched.start()

    def train(number: int) -> None:
        for _ in range(20):
            models[number](torch.ones(2, 4)).square().mean().backward()

    in_threads(train)
    watched.close()
    assert watched.recorder.failures == []
    assert len(bodies(memory)) == 4 * 20 * {"L0": 8, "mix": 18}[level]
    parents = [(op, parent) for op, parent in memory.steps[-1].parents.items() if op.startswith("Module.") and parent]
    assert [pair for pair in parents if pair[0].split(".")[1] != pair[1].split(".")[1]] == []


def test_a_forked_worker_is_not_watched(memory: Memory) -> None:
    watched = capture(memory, task="tensor")
    watched.start()
    child = os.fork()
    if child == 0:
        torch.relu(torch.ones(2))
        os._exit(len(bodies(memory)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    torch.relu(torch.ones(2))
    watched.close()
    assert len(bodies(memory)) == 1


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64", "int8", "bool", "complex64", "float8_e4m3fn"])
def test_contents_of_every_dtype(memory: Memory, name: str) -> None:
    x = torch.tensor([[0.0, 1.0], [2.0, -3.0]]).to(getattr(torch, name)).t()
    watched = capture(memory, level="debug", task="tensor")
    watched.save("x", x)
    watched.close()
    (leaf,) = tensors(bodies(memory)["x.0.debug"])
    assert leaf["tensor"].dtype.name == name
    assert leaf["tensor"].shape == (2, 2)
    assert np.array_equal(leaf["tensor"].astype(np.complex64), x.to(torch.complex64).numpy())


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64", "complex32"])
def test_numbers_of_dtypes_that_torch_has_few_kernels_for(memory: Memory, name: str) -> None:
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip("this torch lacks it")
    x = torch.tensor([[0, 1], [2, 3]]).to(dtype)
    watched = capture(memory, level="debug")
    watched.save("x", {"all": x.t(), "one": x[1, 1], "none": x[:0]})
    watched.close()
    assert watched.recorder.failures == []
    found = bodies(memory)["x.0.debug"]
    assert (found["all"]["Max"], found["all"]["Min"]) == (3, 0)
    assert found["all"]["wide"] == (1.5, 14**0.5, 0, 0, 0, 1)
    assert found["one"]["Max"] == 3
    assert found["none"]["Max"] is None


@pytest.mark.parametrize("summary_mode", ["statistics", "md5", "xor"])
@pytest.mark.parametrize("name", ["int4", "uint3", "bits8", "bits1x8", "float4_e2m1fn_x2"])
def test_dtypes_without_numbers_are_no_failure(memory: Memory, name: str, summary_mode: str) -> None:
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip("this torch lacks it")
    x = torch.full((2, 8), 7, dtype=torch.uint8).view(dtype)
    watched = capture(memory, level="debug", summary_mode=summary_mode)
    watched.save("x", [x, x.view(-1)[0]])
    watched.close()
    assert watched.recorder.failures == []
    assert [leaf.get("Max") for leaf in bodies(memory)["x.0.debug"]] == [None, None]


def test_keys_that_are_no_text_are_the_same_in_each_run_and_lose_nothing(memory: Memory) -> None:
    watched = capture(memory, level="debug", task="tensor")
    keys = [1, "1", object(), object()]
    watched.save("x", {key: torch.full((1,), number) for number, key in enumerate(keys, 1)})
    watched.close()
    found = bodies(memory)["x.0.debug"]
    names = ["1", "1#2", "<object object>", "<object object>#2"]
    assert [(name, leaf["Max"]) for name, leaf in found.items()] == list(zip(names, [1, 2, 3, 4], strict=True))
    assert [leaf["data_name"] for leaf in found.values()] == [f"x.0.debug.{name}.pt" for name in names]


@dataclass
class Partly:
    """Has one field from the start, and one later."""

    given: torch.Tensor
    later: torch.Tensor = field(init=False)


def test_a_dataclass_is_recorded_before_it_has_all_its_fields(memory: Memory) -> None:
    watched = capture(memory, level="debug")
    watched.save("x", Partly(torch.ones(2)))
    watched.close()
    assert watched.recorder.failures == []
    assert bodies(memory)["x.0.debug"]["given"]["Max"] == 1
    assert list(bodies(memory)["x.0.debug"]) == ["given"]


class Slots:
    """Keeps a tensor in a slot, and has one that is not set."""

    __slots__ = ("later", "x")

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


class Batch:
    """Keeps a tensor behind others, with what is none, and has what must not be asked for."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x
        self.at = object()
        self.within = [Slots(x), Slots(x)]
        self.model = torch.nn.Linear(2, 2)
        self.itself = self

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")

    @property
    def costly(self) -> Any:
        raise AssertionError("a property was asked for")


class Store(Mapping[str, torch.Tensor]):
    """Keeps its items in an attribute, and counts what is taken out."""

    def __init__(self, **items: torch.Tensor) -> None:
        self.items_ = items
        self.taken = 0

    def __getitem__(self, name: str) -> torch.Tensor:
        self.taken += 1
        return self.items_[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.items_)

    def __len__(self) -> int:
        return len(self.items_)


X = torch.full((2,), 3.0)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (UserDict(x=X, n=5), {"x": 3.0, "n": 5}),
        (MappingProxyType({"x": X}), {"x": 3.0}),
        (SimpleNamespace(x=X, n=5), {"x": 3.0, "n": 5}),
        (deque([X, 5]), [3.0, 5]),
        (Slots(X), {"x": 3.0}),
        (Store(x=X), {"items_": {"x": 3.0}}),
        (Batch(X), {"x": 3.0, "within": [{"x": 3.0}, {"x": 3.0}], "itself": None}),
        (partial(max, X), {"args": [3.0]}),
        ([torch.nn.Linear(2, 2), object(), len, Slots, {1}, SimpleNamespace], [None] * 6),
    ],
    ids=lambda value: type(value).__name__,
)
def test_tensors_in_objects_are_recorded_without_running_code_of_theirs(value: Any, found: Any, memory: Memory) -> None:
    def values(leaf: Any) -> Any:
        if isinstance(leaf, list):
            return [*map(values, leaf)]
        if isinstance(leaf, dict) and "type" not in leaf:
            return {name: values(item) for name, item in leaf.items()}
        return leaf and leaf.get("Max", leaf.get("value"))

    watched = capture(memory, level="debug")
    watched.save("x", value, backward=False)
    watched.close()
    assert watched.recorder.failures == []
    assert values(bodies(memory)["x.0.debug"]) == found
    assert not isinstance(value, Store) or value.taken == 0


def test_objects_whose_tensors_cannot_be_seen_are_leaves_of_their_class_and_counted(memory: Memory) -> None:
    generator = (x for x in [X])
    large = Slots(X)
    large.x = [[number] for number in range(2000)]  # type: ignore[assignment]
    watched = capture(memory, level="debug")
    watched.save("x", [generator, {X}, {"x": X}.values(), iter([X]), large], backward=False)
    watched.close()
    assert [leaf["type"].split(".")[-1] for leaf in bodies(memory)["x.0.debug"]] == [
        "generator", "set", "dict_values", "list_iterator", "Slots",
    ]  # fmt: skip
    assert memory.notes == [
        "5 values could not be recorded, the first: a generator: UnseenError: its tensors are in no attribute"
    ]
    assert watched.recorder.failures[-1] == "a Slots: UnseenError: it holds more than 1000 objects"
    assert next(generator) is X


def test_what_is_no_model_is_told_and_leaves_nothing_running() -> None:
    refused = frameworks.capture("model", Settings(level="L0"), Memory())
    with pytest.raises(UsageError, match=r"a model should be a torch.nn.Module, or a list of them, not a str"):
        refused.start()
    watched = frameworks.capture(torch.nn.Linear(2, 2), Settings(level="L0"), Memory())
    watched.start()
    watched.close()


class Tied(torch.nn.Module):
    """Has one parameter under two names, and a place without one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Parameter(torch.ones(2))
        self.second = torch.nn.Parameter(torch.zeros(2))
        self.again = self.first
        self.register_parameter("none", None)

    def forward(self, x: Any) -> Any:
        return x * self.first + self.second * self.again


class Named(Tied):
    """Names its parameters itself, as wrappers for training on many devices do."""

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        return ((name.upper(), parameter) for name, parameter in super().named_parameters(*args, **kwargs))


def test_parameters_have_the_names_that_their_module_gives_them(memory: Memory) -> None:
    watched = capture(memory, torch.nn.Sequential(Tied(), Named()), level="L0")
    watched.start()
    watched._model(torch.ones(2)).sum().backward()
    watched.close()
    found = bodies(memory)
    assert list(found["Module.0.Tied.forward.0"]["parameters"]) == ["first", "second"]
    assert list(found["Module.1.Named.forward.0"]["parameters"]) == ["FIRST", "SECOND"]
