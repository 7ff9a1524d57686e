"""The entry points of collecting (collect, PrecisionDebugger, ptdbg's switches), with a stand-in for a capture."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from test_unit_sink import notes, rows

import lakeprobe
from lakeprobe.collect import frameworks, switches
from lakeprobe.collect.debugger import PrecisionDebugger
from lakeprobe.collect.session import collect
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.sink import Sink
from lakeprobe.errors import UsageError
from lakeprobe.lake import layout


class FakeCapture:
    """Begins a step with the first op and ends it with the step, as that of torch does."""

    made: ClassVar[list[FakeCapture]] = []

    def __init__(self, model: Any, settings: Settings, sink: Sink) -> None:
        self.model, self.settings, self.sink = model, settings, sink
        self.current_step = 0
        self.rank: int | None = None
        self.running = self.begun = False
        FakeCapture.made.append(self)

    def claim(self, rank: int | None = None) -> None:
        self.sink.claim(self.current_step, rank)

    def start(self, model: Any = None, rank: int | None = None) -> None:
        self.model = model or self.model
        self.rank = rank
        self.running = True
        self._begin()

    def _begin(self) -> None:
        if not self.begun:
            self.begun, self.count = True, 0
            self.sink.begin(self.current_step, self.rank)

    def op(self) -> None:
        """The model runs an op."""
        if self.running:
            body: dict[str, Any] = {"output": [{"type": "int", "value": self.count}]}
            self.sink.add(f"Torch.add.{self.count}.forward", body, parent=None, stack=["a frame"])
            self.count += 1

    def stop(self) -> None:
        self.running = False

    def give_up(self) -> None:
        self.running = self.begun = False

    def step(self) -> None:
        running = self.running
        self.stop()
        if self.begun:
            self.begun = False
            self.sink.end()
        self.current_step += 1
        if running:
            self.start(rank=self.rank)

    def save(self, name: str, value: Any, backward: bool) -> None:
        self._begin()
        body: Any = {"type": "float", "value": value}
        self.sink.add(f"{name}.0.debug", body, parent=None, stack=None)

    def close(self) -> None:
        self.stop()
        if self.begun:
            self.begun = False
            self.sink.end()
        self.sink.close()


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(frameworks, "capture", FakeCapture)
    FakeCapture.made = []
    yield
    PrecisionDebugger.close()
    switches.close()
    switches._script = switches._Script()


def capture() -> FakeCapture:
    return FakeCapture.made[-1]


def units(lake: Path) -> list[str]:
    return [layout.unit_name(key) for key in layout.units(lake)]


def configured(folder: Path, **content: Any) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(content))
    return str(path)


# ---- collect ----------------------------------------------------------------------------------------------


def test_each_step_of_a_with_is_a_unit_and_the_last_needs_no_ops(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with collect("model", run="npu", lake=lake, level="mix", task="statistics", step=["0-5"]) as collector:
        for ops in (2, 3, 1):
            for _ in range(ops):
                capture().op()
            collector.step()
    assert capture().settings == Settings(level="mix", step=(0, 1, 2, 3, 4, 5))
    assert units(lake) == [f"run=npu/step={step}/rank=0" for step in range(3)]
    assert [len(rows(lake, "ops", "npu", step)) for step in range(3)] == [2, 3, 1]


def test_an_exception_in_a_with_leaves_the_step_marked_incomplete(tmp_path: Path) -> None:
    def train() -> None:
        with collect(run="npu", lake=tmp_path / "lake"):
            capture().op()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()
    assert len(rows(tmp_path / "lake", "ops", "npu")) == 1
    assert notes(tmp_path / "lake", "npu")[0].startswith("incomplete")


def test_start_and_stop_leave_out_what_runs_between(tmp_path: Path) -> None:
    collector = collect(run="npu", lake=tmp_path / "lake")
    capture().op()
    collector.start("model", rank=2)
    capture().op()
    collector.stop()
    capture().op()
    collector.start(rank=2)
    capture().op()
    collector.save("loss", 2.5)
    collector.close()
    collector.close()
    assert [row[2] for row in rows(tmp_path / "lake", "ops", "npu", rank=2)] == [
        "Torch.add.0.forward", "Torch.add.1.forward", "loss.0.debug",
    ]  # fmt: skip
    assert notes(tmp_path / "lake", "npu", rank=2) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "L2"}, "collect: level L2"),
        ({"task": "tensors"}, "collect: task should be one of"),
        ({"scope": ["a"], "list": ["b"]}, "scope and list cannot both be given"),
        ({"task": "structure"}, "task structure needs level L0 or mix"),
        ({"task": "tensor", "tensor_list": ["a"]}, "there is no key tensor_list; it belongs to statistics"),
        ({"run": "a/b"}, "cannot name a run"),
        ({"lake": __file__}, "cannot be made a lake"),
    ],
    ids=str,
)
def test_a_mistake_is_told_before_anything_is_watched(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(lakeprobe.errors.LakeprobeError, match=re.escape(message)):
        collect("model", **{"run": "npu", "lake": tmp_path / "lake", **options})
    assert FakeCapture.made == []
    assert not units(tmp_path / "lake")


SCRIPT = """
import sys
sys.path[:0] = [{tests!r}]
import test_debugger
from lakeprobe.collect import frameworks, session
frameworks.capture = test_debugger.FakeCapture
collector = session.collect(run="npu", lake={lake!r})
collector.start()
test_debugger.capture().op()
{end}
"""


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("end", "complete"),
    [("collector.stop()", True), ("", False), ("1 / 0", False), ("sys.exit(0)", False)],
)
def test_a_program_that_ends_without_close_still_fills_the_lake_and_a_running_step_is_incomplete(
    tmp_path: Path, end: str, complete: bool
) -> None:
    lake = tmp_path / "lake"
    script = SCRIPT.format(tests=str(Path(__file__).parent), lake=str(lake), end=end)
    subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert len(rows(lake, "ops", "npu")) == 1
    assert (notes(lake, "npu") == []) is complete


def test_a_forked_child_leaves_the_step_to_its_parent(tmp_path: Path) -> None:
    collector = collect(run="npu", lake=tmp_path / "lake")
    collector.start()
    capture().op()
    child = os.fork()
    if not child:
        collector._close_at_exit()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    capture().op()
    collector.close()
    assert len(rows(tmp_path / "lake", "ops", "npu")) == 2
    assert notes(tmp_path / "lake", "npu") == []


# ---- PrecisionDebugger ------------------------------------------------------------------------------------


def test_a_script_of_msprobe_fills_the_lake_beside_its_dump_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEPROBE_LAKE", raising=False)
    path = configured(tmp_path, task="tensor", dump_path=str(tmp_path / "npu"), level="L0", tensor={"list": ["conv"]})
    debugger = PrecisionDebugger(config_path=path)
    for _ in range(2):
        debugger.start(model="model")
        capture().op()
        debugger.stop()
        capture().op()
        debugger.step()
    debugger.close()
    assert (capture().model, capture().settings) == ("model", Settings(level="L0", task="tensor", list=("conv",)))
    assert units(tmp_path / "lake") == ["run=npu/step=0/rank=0", "run=npu/step=1/rank=0"]
    assert len(rows(tmp_path / "lake", "ops", "npu", step=1)) == 1


def test_arguments_go_before_the_file_and_the_environment_names_the_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEPROBE_LAKE", str(tmp_path / "other"))
    path = configured(tmp_path, task="statistics", dump_path="/nowhere/npu", level="L0", step=[1])
    PrecisionDebugger(path, "tensor", "/nowhere/gpu", "mix", [3])
    PrecisionDebugger.set_init_step(3)
    PrecisionDebugger.start("model", rank_id=1)
    capture().op()
    PrecisionDebugger.close()
    assert capture().settings == Settings(level="mix", task="tensor", step=(3,))
    assert units(tmp_path / "other") == ["run=gpu/step=3/rank=1"]


def test_there_is_one_debugger(tmp_path: Path) -> None:
    first = PrecisionDebugger(run="npu", lake=tmp_path / "lake")
    assert PrecisionDebugger(level="L9") is first
    assert len(FakeCapture.made) == 1
    first.close()
    with pytest.raises(UsageError, match="there is no PrecisionDebugger"):
        PrecisionDebugger.start()


def test_values_are_saved_at_level_debug_only_as_in_msprobe(tmp_path: Path) -> None:
    for level in ("L1", "debug"):
        debugger = PrecisionDebugger(level=level, run=level, lake=tmp_path / "lake")
        debugger.save(1.5, "loss")
        debugger.step()
        debugger.close()
    assert units(tmp_path / "lake") == ["run=debug/step=0/rank=0"]


def test_a_bad_configuration_leaves_no_debugger(tmp_path: Path) -> None:
    for content, message in (
        ({"task": "structure", "level": "L2", "dump_path": "/d"}, "level L2 of"),
        ({"task": "statistics"}, "needs a dump_path"),
        ({"dump_path": "/"}, "has no name"),
    ):
        with pytest.raises(UsageError, match=message):
            PrecisionDebugger(configured(tmp_path, **content))
        with pytest.raises(UsageError, match="there is no PrecisionDebugger"):
            PrecisionDebugger.stop()
    with pytest.raises(UsageError, match="PrecisionDebugger: step should be"):
        PrecisionDebugger(step=4, run="npu")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["module_dump", "module_dump_end", "register_custom_api", "restore_custom_api"])
def test_methods_that_are_not_supported_say_so(name: str) -> None:
    with pytest.raises(UsageError, match=rf"PrecisionDebugger\.{name} is not supported: "):
        getattr(PrecisionDebugger, name)("model", "name")


def test_token_ranges_and_odd_steps_are_refused(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(run="npu", lake=tmp_path / "lake")
    with pytest.raises(UsageError, match="token_range is not supported"):
        debugger.start("model", token_range=[0, 1])
    for step in (-1, "1", True):
        with pytest.raises(UsageError, match="set_init_step takes"):
            debugger.set_init_step(step)  # type: ignore[arg-type]


# ---- ptdbg's switches -------------------------------------------------------------------------------------


def switched(tmp_path: Path, *arguments: Any, **options: Any) -> Settings:
    switches.set_dump_path(tmp_path / "npu.pkl")
    switches.register_hook("model", switches.acc_cmp_dump)
    switches.set_dump_switch("ON", *arguments, **options)
    switches.set_dump_switch("OFF")
    return capture().settings


def test_each_on_and_off_is_a_step_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEPROBE_LAKE", raising=False)
    switches.set_dump_path(str(tmp_path / "npu.pkl"), dump_tag="first")
    switches.register_hook("model", switches.acc_cmp_dump, rank=3)
    for mode in ("all", "api_stack", "stack"):
        switches.set_dump_switch("ON", mode=mode)
        capture().op()
        switches.set_dump_switch("OFF", mode=mode)
        capture().op()
    switches.close()
    assert units(tmp_path / "lake") == [f"run=npu.first/step={step}/rank=3" for step in range(3)]
    assert [len(rows(tmp_path / "lake", "ops", "npu.first", step, 3)) for step in range(3)] == [1, 1, 1]
    assert [made.settings.task for made in FakeCapture.made] == ["tensor", "structure"]


def test_a_script_that_runs_again_overwrites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEPROBE_LAKE", raising=False)
    for ops in (1, 2):
        switches.set_dump_path(str(tmp_path / "npu.pkl"))
        switches.register_hook("model", switches.acc_cmp_dump, rank=0)
        switches.set_dump_switch("ON")
        for _ in range(ops):
            capture().op()
        switches.set_dump_switch("OFF")
        switches.close()
        assert len(rows(tmp_path / "lake", "ops", "npu", 0, 0)) == ops


def test_modes_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEPROBE_LAKE", raising=False)
    usual = {"level": "L1", "task": "tensor", "risk_level": "ALL"}
    ops = ("Tensor.permute.1.forward", "Functional.linear.0.backward")
    both = ["Tensor_permute_1_forward", "Functional.linear.0.backward"]
    assert switched(tmp_path) == Settings(**usual)
    assert switched(tmp_path, mode="list", scope=both) == Settings(**usual, list=ops)
    assert switched(tmp_path, mode="range", scope=both) == Settings(**usual, scope=ops)
    assert switched(tmp_path, mode="api_list", api_list=["relu"]) == Settings(**usual, list=("relu",))
    structure = {**usual, "task": "structure"}
    assert switched(tmp_path, mode="stack", scope=both) == Settings(**structure, list=ops)
    assert switched(tmp_path, mode="api_stack", filter_switch="OFF") == Settings(**usual)
    summary = {**usual, "task": "statistics"}
    assert switched(tmp_path, dump_mode=["input"], summary_only=True) == Settings(**summary, data_mode=("input",))
    assert switched(tmp_path, summary_mode="md5") == Settings(**summary, summary_mode="md5")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "acl"}, "mode acl is not supported: the device's own dumper does this"),
        ({"mode": "some"}, "mode should be one of"),
        ({"mode": "list"}, "mode list needs a scope"),
        ({"mode": "range", "scope": ["Torch_add_0_forward"]}, "scope takes two names"),
        ({"mode": "range", "scope": ["relu", "gelu"]}, "relu in scope is not the name of an op"),
        ({"mode": "api_list"}, "mode api_list needs an api_list"),
        ({"filter_switch": True}, "filter_switch should be one of ON, OFF"),
        ({"dump_mode": ["sideways"]}, "data_mode should be a list of"),
        ({"summary_mode": "min"}, "summary_mode should be one of all, summary, md5"),
    ],
    ids=str,
)
def test_a_wrong_switch_is_one_line(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        switched(tmp_path, **options)
    assert FakeCapture.made == []


def test_what_the_switches_lack_is_refused_by_name() -> None:
    for call, message in (
        (lambda: switches.set_dump_switch("MAYBE"), "switch should be one of ON, OFF"),
        (lambda: switches.set_dump_switch("ON"), "call set_dump_path first"),
        (lambda: switches.register_hook("model", "stack"), "hook should be acc_cmp_dump or overflow_check"),
        (lambda: switches.register_hook("model", switches.acc_cmp_dump, dump_mode="acl"), "dump_mode acl"),
        (lambda: switches.register_hook("model", switches.acc_cmp_dump, overflow_nums=2), "overflow_nums"),
        (lambda: switches.set_overflow_check_switch("ON"), "goes with register_hook\\(model, overflow_check\\)"),
        (lambda: switches.set_backward_input(["a.npy"]), "set_backward_input is not supported"),
    ):
        with pytest.raises(UsageError, match=message):
            call()
    switches.set_dump_switch("OFF")


def test_seed_all_makes_random_numbers_and_algorithms_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    import random

    import numpy as np

    for name in ("PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG", "HCCL_DETERMINISTIC"):
        monkeypatch.setenv(name, "")
    drawn = []
    for _ in range(2):
        switches.seed_all(7, mode=True)
        drawn.append((random.random(), np.random.rand(), torch.rand(2).tolist()))
    assert drawn[0] == drawn[1]
    assert torch.are_deterministic_algorithms_enabled()
    switches.seed_all(8)
    assert not torch.are_deterministic_algorithms_enabled()
    assert random.random() != drawn[0][0]
    with pytest.raises(UsageError, match="rm_dropout"):
        switches.seed_all(rm_dropout=True)
