"""Level L2: the device's own configuration files, equal to msprobe's, and the one line that says how to use them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import lakeprobe
from lakeprobe.collect import config, frameworks
from lakeprobe.collect.debugger import PrecisionDebugger
from lakeprobe.errors import UsageError

OP = "Functional.conv2d.0.forward"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "npu"


@pytest.fixture(autouse=True)
def pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has imported torch."""
    monkeypatch.setattr(frameworks, "name_of", lambda _model=None: "pytorch")


@pytest.fixture
def mindspore(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has imported MindSpore."""
    monkeypatch.setattr(frameworks, "name_of", lambda _model=None: "mindspore")


def refused(folder: Path, **content: Any) -> str:
    with pytest.raises(UsageError) as caught:
        config.parse({"level": "L2", "dump_path": str(folder), **content}, "config.json")
    message = str(caught.value)
    assert message.startswith("config.json: ")
    assert "\n" not in message
    return message


def written(folder: Path) -> tuple[str, Any]:
    """The one file in the folder."""
    (file,) = folder.iterdir()
    return file.name, json.loads(file.read_text())


# ---- PyTorch ------------------------------------------------------------------------------------------------


def test_pytorch_gets_a_file_and_the_calls_around_the_op(folder: Path) -> None:
    message = refused(folder, task="tensor", tensor={"list": [OP]}, step=[3, "5-6"], rank=[1])
    file = folder / "kernel_config.json"
    assert message == (
        f"config.json: level L2 is dumped by the device itself: {file} is written; there call torch_npu.npu.init_dump()"
        f' and torch_npu.npu.set_dump("{file}") before the forward of Functional.conv2d.0, step 3, 5, 6, rank 1, and '
        f"torch_npu.npu.finalize_dump() after it, then: lakeprobe ingest {folder}"
    )
    name, content = written(folder)
    assert name == file.name
    assert content == {"dump": {"dump_list": [], "dump_path": str(folder), "dump_mode": "all", "dump_op_switch": "on"}}


@pytest.mark.parametrize("scope", [[OP], [OP, OP]])
def test_pytorch_takes_the_op_in_scope(folder: Path, scope: list[str]) -> None:
    message = refused(folder, task="tensor", tensor={"list": [], "scope": scope})
    assert "before the forward of Functional.conv2d.0" in message


@pytest.mark.skipif(importlib.util.find_spec("msprobe") is None, reason="msprobe is not installed")
def test_pytorch_gets_what_msprobe_writes(folder: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    program = (
        "import sys; from msprobe.core.dump.kernel_dump.kernel_config import create_kernel_config_json as create; "
        "create(sys.argv[1], 1)"
    )
    subprocess.run([sys.executable, "-c", program, str(theirs)], check=True, capture_output=True)
    refused(folder, task="tensor", tensor={"list": [OP]})
    expected = json.loads((theirs / "kernel_config_1.json").read_text())
    expected["dump"]["dump_path"] = str(folder)
    assert written(folder)[1] == expected


def test_the_file_of_acl_config_is_used_as_it_is(folder: Path, tmp_path: Path) -> None:
    acl = tmp_path / "acl.json"
    for content, wrong in (
        (None, "cannot be read: No such file"),
        ("{", "is not JSON"),
        ("[]", "has no dump with a dump_path"),
        ('{"dump": {}}', "has no dump with a dump_path"),
    ):
        if content is not None:
            acl.write_text(content)
        assert wrong in refused(folder, task="tensor", tensor={"list": [OP]}, acl_config=str(acl))
    acl.write_text(json.dumps({"dump": {"dump_path": "/d/acl", "dump_mode": "all"}}))
    message = refused(folder, task="tensor", tensor={"list": ["Torch.mm.1.backward"]}, acl_config=str(acl))
    assert f"use {acl}; there call torch_npu.npu.init_dump()" in message
    assert "before the backward of Torch.mm.1," in message
    assert not folder.exists()


WRONG_FOR_PYTORCH: list[tuple[dict[str, Any], str]] = [
    ({}, "level L2 of pytorch needs task tensor, not statistics"),
    ({"task": "overflow_check"}, "level L2 of pytorch needs task tensor, not overflow_check"),
    ({"task": "tensor"}, "level L2 needs a list with the one op to dump, such as Functional.conv2d.0.forward"),
    ({"task": "tensor", "tensor": {"list": ["conv2d"]}}, "list should be a list of one full name, such as Functional"),
    ({"task": "tensor", "tensor": {"list": [OP, OP]}}, "list should be a list of one full name"),
    ({"task": "tensor", "tensor": {"list": [OP], "scope": [OP, OP]}}, "scope is not supported at level L2"),
    ({"task": "tensor", "tensor": {"scope": [OP, "Tensor.add.0.forward"]}}, "scope is not supported at level L2"),
    ({"task": "tensor", "tensor": {"list": [OP], "data_mode": ["input"]}}, "data_mode should be a list of one of all"),
    ({"task": "tensor", "tensor": {"list": [OP], "backward_input": ["a.pt"]}}, "backward_input is not supported: it"),
    ({"task": "tensor", "tensor": {"list": [OP]}, "dump_path": None}, "level L2 needs a dump_path, the folder that"),
    ({"task": "tensor", "tensor": {"list": [OP], "lists": []}}, "there is no key lists; did you mean list?"),
    ({"task": "tensor", "tensor": {"list": [OP]}, "stepp": [1]}, "there is no key stepp; did you mean step?"),
    ({"task": "tensor", "tensor": {"list": [OP]}, "enable_dataloader": True}, "enable_dataloader is not supported"),
]


@pytest.mark.parametrize(("content", "message"), WRONG_FOR_PYTORCH, ids=lambda value: str(value)[:60])
def test_a_mistake_leaves_no_file(folder: Path, content: dict[str, Any], message: str) -> None:
    assert message in refused(folder, **content)
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    message = refused(tmp_path / "file" / "npu", task="tensor", tensor={"list": [OP]})
    assert "cannot be written: Not a directory" in message
    (tmp_path / "npu" / "kernel_config.json").mkdir(parents=True)
    message = refused(tmp_path / "npu", task="tensor", tensor={"list": [OP]})
    assert "cannot be written: Is a directory" in message
    assert [file.name for file in (tmp_path / "npu").iterdir()] == ["kernel_config.json"]


def test_the_doors_of_users_say_it_before_training_starts(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"task": "tensor", "tensor": {"list": [OP]}}))
    with pytest.raises(UsageError, match="level L2 is dumped by the device itself"):
        PrecisionDebugger(config_path=path, level="L2", dump_path=str(folder))
    assert written(folder)[0] == "kernel_config.json"
    with pytest.raises(UsageError, match="level L2 needs a dump_path"):
        lakeprobe.collect(None, run="npu", lake=tmp_path / "lake", level="L2", task="tensor", list=[OP])
    assert not (tmp_path / "lake").exists()


# ---- MindSpore ----------------------------------------------------------------------------------------------

ASKED: list[dict[str, Any]] = [
    {},
    {"task": "statistics", "statistics": {"summary_mode": "statistics"}},
    {"task": "statistics", "statistics": {"summary_mode": "md5", "device": "device", "precision": "low"}},
    {"task": "statistics", "statistics": {"summary_mode": ["max", "mean", "nan count"], "data_mode": ["output"]}},
    {"task": "statistics", "rank": [0, 2], "step": [1, "3-4"], "async_dump": True},
    {"task": "tensor", "tensor": {"list": ["Default/MatMul-op1", "name-regex(.+MatMul.+)"], "data_mode": ["input"]}},
    {"task": "exception_dump", "rank": [1], "step": [3]},
]


@pytest.mark.usefixtures("mindspore")
@pytest.mark.parametrize("content", ASKED, ids=str)
def test_mindspore_gets_a_file_and_the_variable(folder: Path, content: dict[str, Any]) -> None:
    message = refused(folder, **content)
    task = content.get("task", "statistics")
    name, found = written(folder)
    assert name == ("kernel_graph_exception_check.json" if task == "exception_dump" else "kernel_kbyk_dump.json")
    assert message == (
        f"config.json: {'task exception_dump' if task == 'exception_dump' else 'level L2'} is dumped by the device "
        f"itself: {folder / name} is written; there run the training without lakeprobe, in an environment with "
        f"MINDSPORE_DUMP_CONFIG={folder / name} and without MS_ACL_DUMP_CFG_PATH, then: lakeprobe ingest {folder}"
    )
    assert found["common_dump_settings"]["path"] == str(folder)


@pytest.mark.usefixtures("mindspore")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"task": "structure"}, "level L2 of mindspore needs task statistics or tensor or exception_dump, not struct"),
        ({"statistics": {"data_mode": ["forward"]}}, "data_mode should be a list of one of all, input, output"),
        ({"statistics": {"summary_mode": ["maximum"]}}, "summary_mode should be one of max, min, mean"),
        ({"statistics": {"device": "gpu"}}, "device should be one of host, device"),
        ({"statistics": {"tensor_list": ["a"]}}, "tensor_list is not supported at level L2: name what is dumped"),
        ({"acl_config": "acl.json"}, "acl_config is not supported: it belongs to level L2 of PyTorch"),
    ],
    ids=str,
)
def test_a_mistake_with_mindspore(folder: Path, content: dict[str, Any], message: str) -> None:
    assert message in refused(folder, **content)
    assert not folder.exists()


@pytest.fixture
def of_msprobe(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], type]:
    """The classes of msprobe that write MindSpore's files; what they import of MindSpore is a stand-in."""
    pytest.importorskip("msprobe")
    found = Path(importlib.util.find_spec("msprobe").origin or "").parent  # type: ignore[union-attr]
    stand_in = ModuleType("mindspore")
    stand_in.__version__ = "2.8.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mindspore", stand_in)
    for name in ("msprobe.mindspore", "msprobe.mindspore.common", "msprobe.mindspore.dump.debugger"):
        package = ModuleType(name)
        package.__path__ = []
        monkeypatch.setitem(sys.modules, name, package)
    log = ModuleType("msprobe.mindspore.common.log")
    log.logger = SimpleNamespace(info=print, warning=print)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, log.__name__, log)
    settings = ModuleType("msprobe.mindspore.dump.debugger.debugger_config")
    settings.DebuggerConfig = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, settings.__name__, settings)

    def load(path: str) -> type:
        spec = importlib.util.spec_from_file_location("theirs", found / f"{path}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        (kind,) = [kind for name, kind in vars(module).items() if name.startswith("Kernel")]
        assert isinstance(kind, type)
        return kind

    return load


@pytest.mark.usefixtures("mindspore")
@pytest.mark.parametrize("content", ASKED, ids=str)
def test_mindspore_gets_what_msprobe_writes(
    folder: Path, of_msprobe: Callable[[str], type], content: dict[str, Any]
) -> None:
    refused(folder, **content)
    found = written(folder)[1]
    task = content.get("task", "statistics")
    section = content.get(task, {})
    file = {"exception_dump": "exception_dump/kernel_graph_exception_dump"}.get(task, "dump_processor/kernel_kbyk_dump")
    ends = (section.get("device", "host"), section.get("precision", "high")) if task == "statistics" else (None, None)
    asked = SimpleNamespace(
        dump_path=str(folder), task=task, list=section.get("list", []), data_mode=section.get("data_mode", ["all"]),
        summary_mode=section.get("summary_mode"), rank=content.get("rank", []),
        step=[1, 3, 4] if content.get("step") == [1, "3-4"] else content.get("step", []),
        async_dump=content.get("async_dump", False), stat_cal_mode=ends[0], device_stat_precision_mode=ends[1],
    )  # fmt: skip
    expected: dict[str, Any] = of_msprobe(f"mindspore/dump/{file}")(asked).dump_json
    for settings in (found, expected):  # msprobe's order of statistics is by chance
        settings["common_dump_settings"].get("statistic_category", []).sort()
    assert found == expected
