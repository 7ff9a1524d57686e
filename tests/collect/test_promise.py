"""What fails in the collector ends the collecting and not the training; steps are what was asked for; nothing stays."""

from __future__ import annotations

import copy
import io
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from memory import Memory, bodies, capture
from test_unit_sink import abandoned, notes, rows

import lakeprobe
from lakeprobe.collect.writing.unit_sink import UnitSink
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.journals import journal
from lakeprobe.journals.settle import settle

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.optim.optimizer import (  # noqa: E402
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)


def net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


def trained(model: Any, collector: Any = None, steps: int = 3) -> list[float]:
    torch.manual_seed(1)
    losses = []
    for _ in range(steps):
        if collector is not None:
            collector.start()
        loss = model(torch.randn(2, 4)).sum()
        loss.backward()
        losses.append(loss.item())
        if collector is not None:
            collector.stop()
            collector.step()
    return losses


def steps_of(lake: Path) -> list[tuple[int, bool]]:
    with lakeprobe.open(lake, create=True) as opened:
        return opened.sql("SELECT step, complete FROM dumps ORDER BY step").fetchall()


# ---- what fails ------------------------------------------------------------------------------------------------------


def broken(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("on purpose")


@pytest.mark.parametrize("place", ["Watcher.start", "Watcher.stop", "Watcher.next_step", "Modules.stop"])
def test_what_fails_is_said_in_one_line_and_the_training_goes_on(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from lakeprobe.collect.pytorch import modules, watcher

    kind, method = place.split(".")
    monkeypatch.setattr(getattr(watcher if kind == "Watcher" else modules, kind), method, broken)
    collector = lakeprobe.collect(net(), run="npu", lake=tmp_path / "lake", level="mix")
    assert trained(net(), collector) == trained(net())
    collector.close()
    line = "lakeprobe: on purpose; collecting of run npu ends here, the training goes on\n"
    assert capfd.readouterr().err == line
    monkeypatch.undo()
    collector._capture._watcher.stop()  # what could not be undone is not left to other tests


def test_on_failure_raise_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakeprobe.collect.pytorch.watcher import Watcher

    collector = lakeprobe.collect(net(), run="npu", lake=tmp_path / "lake", on_failure="raise")
    monkeypatch.setattr(Watcher, "start", broken)
    with pytest.raises(ZeroDivisionError):
        collector.start()
    collector.close()


def test_on_failure_is_warn_or_raise(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="on_failure should be one of warn, raise, not 'ignore'"):
        lakeprobe.collect(run="npu", lake=tmp_path / "lake", on_failure="ignore")


def test_a_start_that_fails_undoes_all_that_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakeprobe.collect.pytorch.collectives import Collectives

    model = net()
    before = torch.relu, nn.Module.__call__, torch.nn.functional.linear, torch.jit._script._script_impl
    monkeypatch.setattr(Collectives, "start", broken)
    collector = lakeprobe.collect(model, run="npu", lake=tmp_path / "lake", level="mix")
    collector.start()
    assert (torch.relu, nn.Module.__call__, torch.nn.functional.linear, torch.jit._script._script_impl) == before
    assert [module for module in model.modules() if module._forward_hooks or module._forward_pre_hooks] == []
    monkeypatch.undo()
    collector.start()  # it has given up
    assert torch.relu is before[0]
    collector.close()
    with lakeprobe.collect(model, run="other", lake=tmp_path / "lake"):  # and another one can run
        model(torch.ones(1, 4))
    assert len(rows(tmp_path / "lake", "ops", "other")) == 3


def test_what_the_lake_has_is_an_error_at_the_first_start_though_that_step_comes_later(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    with lakeprobe.collect(net(), run="npu", lake=lake, step=[2]) as collector:
        trained(net(), collector)
    again = lakeprobe.collect(net(), run="npu", lake=lake, step=[2])
    with pytest.raises(LakeError, match="has run npu step 2 rank 0 already"):
        again.start()
    again.close()
    assert capfd.readouterr().err == "lakeprobe: nothing was collected: the lake did not take the run\n"


def test_mistakes_of_the_caller_are_told(tmp_path: Path) -> None:
    collector = lakeprobe.collect(run="npu", lake=tmp_path / "lake", level="L0")
    with pytest.raises(UsageError, match="give start\\(\\) the model"):
        collector.start()
    collector.close()


def test_ops_that_cannot_be_encoded_keep_their_place(tmp_path: Path) -> None:
    from lakeprobe.collect.settings import Settings

    deep: Any = None
    for _ in range(2000):
        deep = [deep]
    sink = UnitSink(tmp_path / "lake", "npu", Settings())
    sink.begin(0, 0)
    for number, body in enumerate(({"output": []}, {"output": deep}, {"output": [object()]}, {"output": []})):
        sink.add(f"Torch.add.{number}.forward", body, parent=None, stack=None)
    sink.end()
    sink.close()
    assert [row[2] for row in rows(tmp_path / "lake", "ops", "npu")] == [f"Torch.add.{n}.forward" for n in range(4)]
    said = notes(tmp_path / "lake", "npu")
    assert any("Torch.add.1.forward could not be recorded" in note for note in said)
    assert any("only its class: object" in note for note in said)


def test_a_lake_that_is_removed_between_steps_is_not_made_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    collector = lakeprobe.collect(run="npu", lake=lake)
    for _ in range(3):
        collector.start()
        torch.relu(torch.ones(2))
        collector.stop()
        collector.step()
        shutil.rmtree(lake, ignore_errors=True)
    collector.close()
    said = capfd.readouterr().err
    assert said.startswith(f"lakeprobe: {lake} is not a lake; ")
    assert said.endswith("; collecting of run npu ends here, the training goes on\n")
    assert said.count("\n") == 1
    assert not lake.exists()


# ---- a journal that no unit can be made of ---------------------------------------------------------------------------


def damaged(lake: Path) -> Path:
    """The folder of a journal whose second record is none, and a whole run beside it."""
    with lakeprobe.collect(run="good", lake=lake):
        torch.relu(torch.ones(2))
    folder = abandoned(lake, ops=2)
    path = folder / "journal"
    content = path.read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    path.write_bytes(content[:length] + (2).to_bytes(8, "little") + b"\xc1\xc1" + content[length:])
    return folder


def program(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "lakeprobe", *words], capture_output=True, text=True, check=False)


def test_a_bad_journal_is_set_aside_and_keeps_no_other_run_out(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    folder = damaged(lake)
    settle(lake)
    first = capfd.readouterr().err
    assert first.startswith(f"lakeprobe: {folder}/journal holds what no lakeprobe writes: ")
    assert first.count("\n") == 1
    with lakeprobe.open(lake, create=True) as opened:  # said once
        assert opened.sql("SELECT run FROM ops").fetchall() == [("good",)]
    assert capfd.readouterr().err == ""
    reason = journal.set_aside(folder)
    assert reason is not None
    assert f"lakeprobe: {reason}\n" == first


def test_ls_and_check_tell_what_is_set_aside_and_recover_tries_again(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    folder = damaged(lake)
    settle(lake)
    listed = program("ls", "--lake", str(lake))
    assert (listed.returncode, listed.stderr.count("\n")) == (0, 1)
    assert listed.stderr.startswith("run=npu,step=0,rank=0 is set aside: ")
    assert listed.stderr.endswith(f"try again with: lakeprobe recover --lake {lake}, or remove {folder}\n")
    checked = program("check", "--lake", str(lake))
    assert checked.returncode == 1
    assert listed.stderr in checked.stderr
    again = program("recover", "--lake", str(lake))
    assert again.returncode == 2
    assert again.stderr.startswith(f"lakeprobe: {folder}/journal holds what no lakeprobe writes: ")
    content = (folder / "journal").read_bytes()
    (folder / "journal").write_bytes(content.replace((2).to_bytes(8, "little") + b"\xc1\xc1", b""))
    mended = program("recover", "--lake", str(lake))
    assert (mended.returncode, mended.stdout) == (0, "")
    assert mended.stderr.startswith("run npu step 0 rank 0 was left by a process that has ended; it is in the lake now")
    assert program("check", "--lake", str(lake)).returncode == 0


# ---- steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "expected"), [([2], [2]), ([0, 3], [0, 3]), (["1-2"], [1, 2])])
def test_the_steps_that_were_asked_for_are_collected_by_a_with(
    tmp_path: Path, asked: list[int | str], expected: list[int]
) -> None:
    with lakeprobe.collect(run="npu", lake=tmp_path / "lake", step=asked) as collector:
        for _ in range(5):
            torch.relu(torch.ones(2))
            collector.step()
    assert steps_of(tmp_path / "lake") == [(step, True) for step in expected]


@pytest.mark.parametrize(
    ("options", "start", "reason"),
    [
        ({"step": [7]}, True, "step 7 was the first asked for, and the training ended in step 1"),
        ({}, False, "start() was not called"),
        ({"list": ["conv2d"]}, True, "no op that was asked for ran between start() and stop()"),
        ({"level": "debug"}, True, "no value was saved in a step that was asked for"),
        ({"task": "overflow_check"}, True, "no NaN or inf was born"),
    ],
    ids=str,
)
def test_a_run_that_ends_with_no_unit_says_why(
    tmp_path: Path, options: dict[str, Any], start: bool, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    collector = lakeprobe.collect(run="npu", lake=tmp_path / "lake", **options)
    if start:
        collector.start()
    torch.relu(torch.ones(2))
    collector.stop()
    collector.step()
    collector.close()
    assert capfd.readouterr().err == f"lakeprobe: nothing was collected: {reason}\n"
    assert not list((tmp_path / "lake").glob("run=*"))


def test_a_rank_that_is_not_asked_for_says_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with lakeprobe.collect(run="npu", lake=tmp_path / "lake", rank=[3]):
        torch.relu(torch.ones(2))
    assert capfd.readouterr().err == ""


def test_modules_that_are_open_hold_up_nothing_that_is_finished(memory: Memory) -> None:
    model = nn.Sequential(nn.Sequential(net()))
    watched = capture(memory, model, level="mix")
    watched.start()
    seen: list[list[str]] = []
    model[0].register_forward_hook(lambda *_: seen.append(list(bodies(memory))))
    model(torch.ones(1, 4))
    watched.close()
    assert [name for name in seen[0] if name.startswith("Functional.linear")] == [
        "Functional.linear.0.forward",
        "Functional.linear.1.forward",
    ]
    assert list(bodies(memory))[-1] == "Module.0.Sequential.forward.0"


def test_backward_that_goes_twice_through_an_op_is_kept_once_and_told(memory: Memory) -> None:
    watched = capture(memory)
    watched.start()
    x = torch.ones(2, requires_grad=True)
    y = torch.tanh(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    watched.close()
    assert "Torch.tanh.0.backward" in bodies(memory)
    assert memory.notes == [
        "backward went through ops again 2 times, first through Tensor.sum.0.backward; the last time is recorded"
    ]


HOOKED: dict[str, Callable[[Any, Any], Any]] = {
    "any optimizer's step, after it": lambda _, act: register_optimizer_step_post_hook(act),
    "any optimizer's step, before it": lambda _, act: register_optimizer_step_pre_hook(act),
    "a module's forward": lambda model, act: model[0].register_forward_hook(act),
    "a module's backward": lambda model, act: model[2].register_full_backward_hook(act),
    "a gradient": lambda model, act: model[0].weight.register_hook(act),
    "a gradient, added up": lambda model, act: model[0].weight.register_post_accumulate_grad_hook(act),
}


@pytest.mark.parametrize("method", ["step", "stop", "close"])
@pytest.mark.parametrize("hooked", HOOKED)
def test_steps_can_end_inside_any_hook_of_torch(hooked: str, method: str, memory: Memory) -> None:
    def losses(watched: Any) -> list[float]:
        model, calls = net(), 0
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def act(*_: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 2 and watched is not None:
                getattr(watched, method)()

        handle = HOOKED[hooked](model, act)
        torch.manual_seed(1)
        if watched is not None:
            watched.start(model)
        seen = []
        for _ in range(3):
            loss = model(torch.randn(2, 4)).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            seen.append(loss.item())
        handle.remove()
        if watched is not None:
            watched.close()
            assert watched.recorder.failures == []
        return seen

    assert losses(capture(memory, level="mix")) == losses(None)
    assert [step.number for step in memory.steps] == ([0, 1] if method == "step" else [0])


def test_what_optimizers_and_clipping_run_is_theirs(memory: Memory) -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, foreach=False)
    watched = capture(memory, model, level="mix")
    watched.start()
    loss = model(torch.ones(2, 4)).square().sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    watched.close()
    parents = memory.steps[0].parents
    clipping = [op for op, parent in parents.items() if parent == "clip_grad"]
    stepping = [op for op, parent in parents.items() if parent == "optimizer"]
    assert "Torch.vector_norm.0.forward" in clipping
    assert "Tensor.addcdiv_.0.forward" in stepping
    assert parents["Functional.linear.0.forward"] == "Module.0.Linear.forward.0"
    assert parents["Tensor.square.0.forward"] is None


# ---- models are left as they are -------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_watched_model_can_be_pickled_saved_and_copied(level: str, tmp_path: Path) -> None:
    model = net()
    with lakeprobe.collect(model, run="npu", lake=tmp_path / "lake", level=level):
        model(torch.ones(1, 4)).sum().backward()
        twin = pickle.loads(pickle.dumps(model))
        file = io.BytesIO()
        torch.save(model, file)
        ema = copy.deepcopy(model)
        averaged = torch.optim.swa_utils.AveragedModel(model)
        for other in (ema, twin, averaged):
            other(torch.ones(1, 4))  # nobody's
        model.share_memory()
    file.seek(0)
    for other in (twin, ema, averaged, torch.load(file, weights_only=False)):
        for module in other.modules():
            assert not module._forward_hooks
            assert not module._forward_pre_hooks
        assert all(not parameter._post_accumulate_grad_hooks for parameter in other.parameters())
    modules = [row[2] for row in rows(tmp_path / "lake", "ops", "npu") if row[2].startswith("Module.")]
    assert [name for name in modules if name.endswith(".forward.0")] == [
        "Module.0.Linear.forward.0", "Module.1.Tanh.forward.0", "Module.2.Linear.forward.0",
    ]  # fmt: skip
    assert not [name for name in modules if name.endswith(".forward.1")]


class Counting(torch.Tensor):
    """Counts what torch asks it."""

    asked = 0

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.asked += 1
        return super().__torch_function__(function, types, args, kwargs or {})


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_subclass_of_tensor_sees_none_of_our_calls_and_keeps_its_class_and_attributes(
    level: str, memory: Memory
) -> None:
    def counted(watched: Any) -> tuple[int, type, Any]:
        model = nn.Sequential(nn.Identity(), nn.Linear(3, 3))
        leaf = torch.randn(2, 3, requires_grad=True)
        Counting.asked = 0
        if watched is not None:
            watched.start(model)
        x = (leaf * 1).as_subclass(Counting)
        x.origin = "here"
        y = model[0](x)
        model[1](y + 1).sum().backward()
        if watched is not None:
            watched.close()
            assert watched.recorder.failures == []
        return Counting.asked, type(y), y.origin

    assert counted(capture(memory, nn.Identity(), level=level)) == counted(None)


class Copying(nn.Module):
    """Copies and saves itself while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_forward_hook(_twice)

    def forward(self, x: Any) -> Any:
        self.copies = [copy.deepcopy(self), pickle.loads(pickle.dumps(self))]
        return self.linear(x)


def _twice(_: Any, __: Any, output: Any) -> Any:
    return output * 2


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_module_that_copies_itself_while_it_runs_gives_copies_without_our_hooks(level: str, memory: Memory) -> None:
    model = nn.Sequential(Copying())
    watched = capture(memory, model, level=level)
    watched.start()
    model(torch.ones(1, 4))
    watched.close()
    assert "Module.0.Copying.forward.0" in bodies(memory)
    for one in model[0].copies:
        kinds = ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks_always_called")
        assert [len(getattr(one, kind)) for kind in kinds] == [0, 0, 0]
        assert list(one._forward_hooks.values()) == [_twice]
        assert torch.equal(one(torch.ones(1, 4)), model[0](torch.ones(1, 4)))
    assert "__reduce_ex__" not in vars(nn.Module)


class Naming(torch.overrides.TorchFunctionMode):
    """A mode that looks at which functions it gets, in a table made at import and as they are found now."""

    table = frozenset({torch.nn.functional.dropout, torch.Tensor.mul, torch.add})

    def __init__(self) -> None:
        super().__init__()
        self.known: list[tuple[str, bool]] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        now = (torch.nn.functional.dropout, torch.Tensor.mul, torch.add)
        if function in self.table and function in now:
            self.known.append(function.__name__)
        return function(*args, **(kwargs or {}))


class Handling(torch.Tensor):
    """A subclass that has its own version of some functions."""

    table = Naming.table

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in cls.table:
            return function.__name__
        return super().__torch_function__(function, types, args, kwargs or {})


def test_a_handler_of_the_programs_gets_torchs_own_functions(memory: Memory) -> None:
    watched = capture(memory)
    watched.start()
    with Naming() as mode:
        x = torch.nn.functional.dropout(torch.ones(2).mul(2), 0.5)
        torch.add(x, x)
    with torch.device("cpu"):  # also a mode, which looks at no function that is recorded
        torch.ones(2).mul(3)
    handling = torch.ones(2).as_subclass(Handling)
    given = [torch.nn.functional.dropout(handling, p=0.5), handling.mul(2), torch.add(handling, other=1)]
    watched.close()
    assert mode.known == ["mul", "dropout", "add"]
    assert given == [*mode.known[1::-1], "add"]
    assert [name for name in bodies(memory) if name.endswith("forward")] == [
        "Tensor.mul.0.forward", "Functional.dropout.0.forward", "Torch.add.0.forward", "Tensor.mul.1.forward",
        "Functional.dropout.1.forward", "Tensor.mul.2.forward", "Torch.add.1.forward",
    ]  # fmt: skip


def test_lists_of_functions_that_torch_makes_once_have_its_own(memory: Memory) -> None:
    from torch.utils import _device

    lists = (_device._device_constructors, torch.overrides.get_testing_overrides)
    own = [set(each()) for each in lists]
    for each in lists:
        each.cache_clear()
    watched = capture(memory, risk_level="ALL")
    watched.start()
    with torch.device("meta"):
        made = torch.ones(2)
    watched.close()
    assert made.device.type == "meta"
    assert [set(each()) for each in lists] == own


def test_a_function_that_the_program_replaces_in_a_step_stays_replaced(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    functional, before = torch.nn.functional, torch.nn.functional.relu
    monkeypatch.setattr(functional, "relu", before)  # puts it back after this test
    watched = capture(memory)
    watched.start()
    recorded = functional.relu

    def faster(x: Any) -> Any:
        return recorded(x) * 3

    functional.relu = faster
    torch.fx.symbolic_trace(nn.Identity())  # torch's own functions come back for this
    assert functional.relu is faster
    watched.close()
    assert functional.relu is faster
    assert torch.equal(functional.relu(torch.ones(2)), torch.full((2,), 3.0))

    watched = capture(Memory())
    watched.start()  # and a program that ends in a step what it began before leaves torch's own
    functional.relu = before
    watched.close()
    assert functional.relu is before


def around(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("compiled", ["eager", "boundary"])
def test_a_patch_that_begins_in_one_step_and_ends_in_another_leaves_torchs_own(
    memory: Memory, compiled: str, between: bool
) -> None:
    owners = (nn.functional, "linear"), (nn.Module, "__call__"), (torch.Tensor, "relu"), (pickle, "dumps")
    own = [(owner, name, vars(owner).get(name)) for owner, name in owners]
    model = net()
    watched = capture(memory, model, level="mix", compiled=compiled)
    watched.start()
    with ExitStack() as patches:
        for owner, name in owners:
            patches.enter_context(patch.object(owner, name, around(getattr(owner, name))))
        model(torch.ones(1, 4))
        watched.step()
        if between:
            watched.stop()
    watched.start()
    model(torch.ones(1, 4)).relu()
    watched.close()
    assert [(owner, name, vars(owner).get(name)) for owner, name, _ in own] == own
    assert "Functional.linear.0.forward" in bodies(memory)


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_program_can_swap_tensors_in_a_step(level: str, memory: Memory) -> None:
    model = nn.Sequential(nn.Linear(5, 5))
    watched = capture(memory, model, level=level)
    watched.start()
    model(torch.ones(1, 5)).sum().backward()
    torch.utils.swap_tensors(model[0].weight, nn.Parameter(torch.ones(5, 5)))
    model(torch.ones(1, 5))
    watched.close()
    last = [name for name in bodies(memory) if name.endswith((".1.forward", "forward.1"))]
    assert last
    assert watched.recorder.failures == []
    assert not model[0].weight._post_accumulate_grad_hooks


# ---- kinds of tensors ------------------------------------------------------------------------------------------------


def output_of(memory: Memory, function: str, tensor: Any) -> dict[str, Any]:
    watched = capture(memory, risk_level="ALL")
    watched.start()
    getattr(torch, function)(tensor)
    watched.close()
    assert watched.recorder.failures == []
    assert list(bodies(memory)) == [f"Torch.{function}.0.forward"]
    (output,) = bodies(memory)[f"Torch.{function}.0.forward"]["output"]
    return dict(output)


@pytest.mark.filterwarnings("ignore")  # torch: these kinds are in beta, or deprecated
def test_sparse_quantized_and_nested_tensors_have_the_statistics_of_the_numbers_that_they_hold(memory: Memory) -> None:
    numbers = torch.tensor([[3.0, 0.0], [0.0, -4.0]])
    for tensor, layout in (
        (numbers.to_sparse(), "torch.sparse_coo"),
        (numbers.to_sparse_csr(), "torch.sparse_csr"),
        (torch.nested.nested_tensor([numbers[:1, 0], numbers[1:, 1]]), "nested"),
        (torch.quantize_per_tensor(numbers, 0.5, 0, torch.qint8), "quantized"),
    ):
        leaf = output_of(memory, "clone", tensor)
        assert (leaf["Max"], leaf["Min"], leaf["Norm"], leaf["layout"]) == (3.0, -4.0, 5.0, layout), layout


def test_a_tensor_of_tensors_is_recorded_by_its_components(memory: Memory) -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    leaf = output_of(memory, "relu", TwoTensor(torch.ones(2), torch.full((2,), 2.0)))
    assert {name: component["Max"] for name, component in leaf.items()} == {"a": 1.0, "b": 2.0}


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_model_that_nearly_fills_the_stack_trains(level: str, memory: Memory) -> None:
    limit = sys.getrecursionlimit()
    model: nn.Module = nn.Linear(2, 2)
    for _ in range(160):
        model = nn.Sequential(model)
    model(torch.ones(1, 2))  # fits without us
    capturing = capture(memory, model, level=level)
    capturing.start(model)
    inside = sys.getrecursionlimit()
    model(torch.ones(1, 2)).sum().backward()
    capturing.stop()
    assert (inside, sys.getrecursionlimit()) == (2 * limit, limit)
    assert len(bodies(memory)) == {"L0": 321, "L1": 4, "mix": 325}[level]


def test_a_limit_of_the_stack_that_the_program_sets_in_a_step_stays(memory: Memory) -> None:
    limit = sys.getrecursionlimit()
    capturing = capture(memory, net(), level="L1")
    capturing.start()
    sys.setrecursionlimit(limit + 77)
    try:
        capturing.stop()
        assert sys.getrecursionlimit() == limit + 77
    finally:
        sys.setrecursionlimit(limit)


def test_functions_can_be_pickled_in_a_step_and_are_torchs_own_afterwards(memory: Memory) -> None:
    capturing = capture(memory, None, level="L1")
    capturing.start()
    kept = [pickle.dumps(each) for each in (torch.relu, torch.nn.functional.gelu, torch.linalg.norm, torch.Tensor.exp)]
    capturing.stop()
    own = [torch.relu, torch.nn.functional.gelu, torch.linalg.norm, torch.Tensor.exp]
    assert [pickle.loads(each) for each in kept] == own


def test_a_function_that_a_model_kept_before_the_step_can_be_pickled_in_it(memory: Memory) -> None:
    functional, own = torch.nn.functional, vars(pickle).copy()
    kept = [functional.relu, torch.Tensor.norm, torch.tanh]
    layer = nn.TransformerEncoderLayer(4, 1, 4)  # keeps its activation
    capturing = capture(memory, None, level="L1")
    capturing.start()
    values = [*kept, functional.gelu, layer]  # gelu is ours
    file = io.BytesIO()
    torch.save(values, file)
    pickled = [pickle.dumps(values), bytes(ForkingPickler.dumps(values)), file.getvalue()]
    capturing.stop()
    assert vars(pickle) == own
    assert not hasattr(ForkingPickler, "reducer_override")
    assert not any(b"lakeprobe" in each for each in pickled)
    file.seek(0)
    for found in (*map(pickle.loads, pickled[:2]), torch.load(file, weights_only=False)):
        assert found[:4] == [*kept, functional.gelu]
        assert found[4].activation is functional.relu


def test_a_function_that_the_program_kept_in_a_step_can_be_pickled_after_it(memory: Memory) -> None:
    capturing = capture(memory, None, level="L1")
    capturing.start()
    kept = [torch.nn.functional.gelu, torch.Tensor.exp]
    capturing.stop()
    assert all(function is not own for function, own in zip(kept, (nn.functional.gelu, torch.Tensor.exp), strict=True))
    pickled = pickle.dumps(kept)
    assert pickle.loads(pickled) == kept
    script = f"import pickle, torch; print(pickle.loads({pickled!r}) == [torch.nn.functional.gelu, torch.Tensor.exp])"
    elsewhere = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert elsewhere.stdout == "True\n"
    capturing.start()
    assert [function.__module__ for function in kept] == ["torch.nn.functional", "torch"]
    capturing.stop()


class Entangled(nn.Module):
    """Gets and returns lists and dicts that contain themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x: Any, _: Any) -> Any:
        values = [self.layer(x)]
        named: dict[str, Any] = {"values": values}
        values.append(values)
        named["named"] = named
        return values, named


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_container_that_contains_itself_is_null_inside_itself(level: str, memory: Memory) -> None:
    model = nn.Sequential(Entangled())
    argument: list[Any] = [1]
    argument.append(argument)
    watched = capture(memory, model, level=level)
    watched.start()
    values, named = model[0](torch.ones(2, 4), argument)
    named["values"][0].sum().backward()
    watched.stop()
    assert values[1] is values
    assert named["named"] is named
    assert memory.notes == []
    body = bodies(memory)["Module.0.Entangled.forward.0"]
    assert body["input_args"][1] == [{"type": "int", "value": 1}, None]
    (leaf, inside), by_name = body["output"]
    assert (leaf["shape"], inside) == ([2, 1], None)
    assert by_name == {"values": [leaf, None], "named": None}
    assert "Module.0.Entangled.backward.0" in bodies(memory)


class Shared(nn.Module):
    """Gets a list that has its only tensor in a billion places, and returns another one."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, values: Any) -> Any:
        return doubled(self.layer(innermost(values)), 30)


def doubled(value: Any, times: int) -> Any:
    for _ in range(times):
        value = [value, value]
    return value


def innermost(value: Any) -> Any:
    while isinstance(value, list):
        value = value[0]
    return value


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_value_that_shares_its_parts_many_times_over_is_followed_only_so_far(level: str, memory: Memory) -> None:
    model = nn.Sequential(Shared())
    watched = capture(memory, model, level=level)
    watched.start()
    values = doubled(torch.ones(2, 4), 30)
    innermost(model[0](values)).sum().backward()
    watched.save("few", doubled(2.5, 3))
    watched.save("many", values)
    watched.stop()
    assert memory.notes == []
    assert bodies(memory)["few.0.debug"] == doubled({"type": "float", "value": 2.5}, 3)
    leaf = innermost(bodies(memory)["Module.0.Shared.forward.0"]["input_args"])
    assert (leaf["shape"], leaf["Mean"]) == ([2, 4], 1.0)
    assert innermost(bodies(memory)["many.0.debug"]) == leaf
    assert "Module.0.Shared.backward.0" in bodies(memory)


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_a_tensor_whose_class_hides_its_numbers_has_its_shape(memory: Memory) -> None:
    from torch.masked import masked_tensor

    masked = masked_tensor(torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool))
    capturing = capture(memory, None, level="L1")
    capturing.start()
    masked.sum(1)
    capturing.stop()
    assert memory.notes == []
    (leaf, *_) = bodies(memory)["Tensor.sum.0.forward"]["input_args"]
    assert (leaf["type"], leaf["shape"], leaf["Max"]) == ("torch.Tensor", [2, 3], None)


def test_gradients_that_come_in_a_batch_are_recorded_as_the_whole_batch(memory: Memory) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    capturing = capture(memory, None, level="L1")
    capturing.start()
    torch.autograd.grad(torch.sin(x), x, grad_outputs=torch.tensor([[1.0, 0.0], [0.0, 3.0], [5.0, -7.0]]),
                        is_grads_batched=True)  # fmt: skip
    capturing.stop()
    assert memory.notes == []
    (leaf,) = bodies(memory)["Torch.sin.0.backward"]["input"]
    assert (leaf["shape"], leaf["Max"], leaf["Min"]) == ([3, 2], 5.0, -7.0)
