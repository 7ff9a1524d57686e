"""msprobe's config.json, key by key: honoured or refused by name; every mistake is one line before training starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from real_dumps import DUMPS, needs_dumps

from lakeprobe.collect import config
from lakeprobe.collect.config import Configuration
from lakeprobe.collect.settings import Settings
from lakeprobe.errors import UsageError

OF_26 = {
    "task": "statistics", "dump_path": "./dump_path", "rank": [], "step": [], "level": "L1", "extra_info": True,
    "async_dump": False,
    "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"},
    "tensor": {"scope": [], "list": [], "data_mode": ["all"]},
    "acc_check": {"white_list": [], "black_list": [], "error_data_path": "./"},
}  # fmt: skip
OF_1_0 = {
    "task": "statistics", "dump_path": "./dump_path", "rank": [], "step": [0, 2], "level": "L1", "seed": 1234,
    "is_deterministic": False, "enable_dataloader": False, "acl_config": "",
    "tensor": {"scope": [], "list": [], "data_mode": ["all"], "backward_input": [], "file_format": "npy",
               "online_run_ut": False, "nfs_path": "", "host": "", "port": -1, "rank_list": []},
    "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "md5"},
    "overflow_check": {"overflow_nums": 1, "check_mode": "all"},
    "run_ut": {"white_list": [], "black_list": [], "error_data_path": "./"},
    "grad_probe": {"grad_level": "L1", "param_list": [], "bounds": [-1, 0, 1]},
    "free_benchmark": {"scope": [], "list": [], "fuzz_device": "npu", "pert_mode": "improve_precision"},
}  # fmt: skip


def parsed(**content: Any) -> Configuration:
    return config.parse(content, "config.json")


def test_the_files_that_releases_ship_are_read_as_they_are() -> None:
    assert config.parse(OF_26, "26") == Configuration(Settings(), dump_path="./dump_path")
    expected = Settings(step=(0, 2), summary_mode="md5")
    assert config.parse(OF_1_0, "1.0") == Configuration(expected, dump_path="./dump_path", seed=1234)
    assert config.parse(OF_1_0 | {"task": "tensor"}, "1.0").settings == Settings(step=(0, 2), task="tensor")


@needs_dumps
def test_the_configurations_that_made_the_shared_dumps_are_read_but_those_of_two_keys() -> None:
    read, refused = 0, set()
    for path in sorted(DUMPS.rglob("config.json")):
        if path.parent.name == ".dump_metadata":  # MindSpore's own
            continue
        content = json.loads(path.read_text())
        try:
            settings = config.load(path).settings
        except UsageError as error:
            refused.add(str(error).partition(" is not supported")[0].split()[-1])
            continue
        read += 1
        task = content.get("task") or "statistics"
        assert (settings.task, settings.level) == (task, content.get("level") or "L1")
        for key in ("scope", "list", "data_mode", "tensor_list"):
            if content.get(task, {}).get(key):
                assert list(getattr(settings, key)) == content[task][key]
    assert read > 100
    assert refused == {"bench_path"}


def test_every_key_of_the_configuration_reaches_the_settings() -> None:
    configuration = parsed(
        task="statistics", dump_path="/d/npu", rank=[1, "3", "5-7"], step=["0-2", 9], level="mix", extra_info=False,
        risk_level="ALL", seed=7, is_deterministic=True, async_dump=True, precision="high",
        statistics={"list": ["linear", "relu"], "data_mode": ["forward", "output"], "summary_mode": "xor",
                    "tensor_list": ["softmax"]},
    )  # fmt: skip
    assert configuration == Configuration(
        Settings(
            level="mix", task="statistics", summary_mode="xor", list=("linear", "relu"), tensor_list=("softmax",),
            data_mode=("forward", "output"), rank=(1, 3, 5, 6, 7), step=(0, 1, 2, 9), extra_info=False,
            risk_level="ALL", precision="high",
        ),
        dump_path="/d/npu", seed=7, deterministic=True,
    )  # fmt: skip
    assert parsed(level="L0", task="structure").settings == Settings(level="L0", task="structure")
    names = ["Functional.conv2d.0.forward", "Tensor.add.3.backward"]
    endless = parsed(task="overflow_check", overflow_check={"overflow_nums": -1, "check_mode": "all"}).settings
    assert endless == Settings(task="overflow_check", overflow_nums=-1)
    assert parsed(task="tensor", tensor={"scope": names}).settings == Settings(task="tensor", scope=tuple(names))
    modules = ["Module.a.Linear.forward.0", "Module.b.Linear.backward.0"]
    assert parsed(level="L0", statistics={"scope": modules}).settings.scope == tuple(modules)
    assert parsed(level="mix", statistics={"scope": [names[0], modules[1]]}).settings.level == "mix"


def test_null_and_empty_values_are_the_defaults() -> None:
    empty = dict.fromkeys(("task", "level", "rank", "step", "seed", "risk_level", "statistics", "dump_path"))
    assert parsed(**empty) == Configuration(Settings())
    assert parsed(task="", level="").settings == Settings()
    assert parsed(statistics={"scope": None, "list": [], "data_mode": [], "summary_mode": ""}).settings == Settings()


WRONG = [
    ({"levle": "L1"}, "there is no key levle; did you mean level?"),
    ({"nonsense_key": 1}, "there is no key nonsense_key"),
    ({"statistics": {"lists": []}}, "statistics: there is no key lists; did you mean list?"),
    ({"sumary_mode": "md5"}, "no key sumary_mode; did you mean summary_mode? It belongs to statistics or tensor"),
    ({"tensor": {"sead": 1}}, "tensor: there is no key sead; did you mean seed? It belongs to the top"),
    ({"statistics": {"level": "L0"}}, "statistics: there is no key level; it belongs to the top"),
    ({"list": ["a"]}, "there is no key list; it belongs to statistics or tensor or structure"),
    ({"tensor": {"tensor_list": ["a"]}}, "tensor: there is no key tensor_list; it belongs to statistics"),
    (
        {"task": "tensors"},
        (
            "task should be one of statistics, tensor, structure, overflow_check, grad_probe, free_benchmark, perturb, "
            'not "tensors"'
        ),
    ),
    ({"task": ["tensor"]}, "task should be one of"),
    ({"level": "L3"}, 'level should be one of L0, L1, L2, mix, debug, not "L3"'),
    ({"level": 1}, "level should be one of"),
    ({"dump_path": 3}, "dump_path should be a text, not 3"),
    ({"rank": 3}, "rank should be a list of whole numbers"),
    ({"rank": [-1]}, "rank should be a list of whole numbers"),
    ({"rank": [True]}, "rank should be a list of whole numbers"),
    ({"step": ["6-4"]}, "step should be a list of whole numbers"),
    ({"step": ["a"]}, "step should be a list of whole numbers"),
    ({"step": [1.5]}, "step should be a list of whole numbers"),
    ({"step": ["0-99999999"]}, "step should be a list of whole numbers"),
    ({"step": [None]}, "step should be a list of whole numbers"),
    ({"extra_info": "yes"}, 'extra_info should be true or false, not "yes"'),
    ({"async_dump": 1}, "async_dump should be true or false"),
    ({"risk_level": "LOW"}, "risk_level should be one of ALL, CORE, FOCUS"),
    ({"seed": "1"}, "seed should be a whole number"),
    ({"is_deterministic": 1}, "is_deterministic should be true or false"),
    ({"statistics": []}, None),
    ({"statistics": ["a"]}, "statistics should be an object"),
    ({"statistics": {"scope": "a"}}, "scope should be a list of texts"),
    ({"statistics": {"list": [1]}}, "list should be a list of texts"),
    ({"statistics": {"tensor_list": {}}}, "tensor_list should be a list of texts"),
    ({"statistics": {"summary_mode": "crc"}}, "summary_mode should be one of statistics, md5, xor"),
    ({"statistics": {"summary_mode": ["max"]}}, "summary_mode should be one of"),
    ({"statistics": {"data_mode": ["all", "input"]}}, "data_mode should be all alone"),
    ({"statistics": {"data_mode": ["inputs"]}}, "data_mode should be a list of all, forward, backward, input, output"),
    ({"statistics": {"data_mode": "all"}}, "data_mode should be a list of"),
    ({"task": "tensor", "statistics": {"summary_mode": "crc"}}, "statistics: summary_mode should be"),
    ({"statistics": {"scope": ["Torch.add.0.forward"]}}, "scope takes two names"),
    ({"statistics": {"scope": ["a", "b", "c"]}}, "scope takes two names"),
    ({"statistics": {"scope": ["Torch.add.0.forward", "relu"]}}, "relu in scope is not a full name at level L1"),
    (
        {"level": "L0", "statistics": {"scope": ["Torch.add.0.forward"] * 2}},
        "not a full name at level L0, such as Module",
    ),
    ({"statistics": {"scope": ["Module.a.A.forward.0"] * 2}}, "not a full name at level L1, such as Functional"),
    ({"statistics": {"scope": ["Torch.add.0.forward"] * 2, "list": ["a"]}}, "scope and list cannot both be given"),
    ({"task": "structure"}, "task structure needs level L0 or mix, not L1"),
    ({"task": "structure", "level": "debug"}, "task structure needs level L0 or mix, not debug"),
    ({"level": "debug", "statistics": {"list": ["a"]}}, "level debug records what is saved by name"),
]


@pytest.mark.parametrize(("content", "message"), WRONG, ids=lambda value: str(value)[:60])
def test_a_mistake_is_one_line_that_names_the_file_and_the_key(content: dict[str, Any], message: str | None) -> None:
    if message is None:
        assert parsed(**content) == Configuration(Settings())
        return
    with pytest.raises(UsageError) as caught:
        parsed(**content)
    assert str(caught.value).startswith("config.json: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


REFUSED = [
    {"task": "nan_check"}, {"task": "exception_dump"}, {"acl_config": "acl.json"},
    {"task": "overflow_check", "overflow_check": {"check_mode": "aicore"}},
    {"task": "run_ut"}, {"task": "acc_check"},
    {"task": "diff_check"}, {"enable_dataloader": True}, {"dump_enable": True},
    {"custom_op_namespaces": ["mine"]}, {"load": {"path": "x"}},
    {"statistics": {"backward_input": ["a.pt"]}}, {"statistics": {"file_format": "bin"}},
    {"statistics": {"slice": [{"dim": 0}]}}, {"statistics": {"request_id": "a"}}, {"statistics": {"bench_path": "x"}},
    {"statistics": {"diff_nums": 3}}, {"task": "tensor", "tensor": {"online_run_ut": True}},
    {"task": "tensor", "tensor": {"port": 8080}}, {"task": "tensor", "tensor": {"nfs_path": "/x"}},
]  # fmt: skip


@pytest.mark.parametrize("content", REFUSED, ids=str)
def test_what_is_not_supported_is_refused_by_name_with_the_reason(content: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(**content)
    message = str(caught.value)
    key, value = next((key, value) for key, value in content.items() if key != "task" or len(content) == 1)
    name, value = next(iter(value.items())) if isinstance(value, dict) and key != "load" else (key, value)
    assert f"{name} " in message
    assert " is not supported: " in message
    assert len(message.partition(" is not supported: ")[2]) > 15
    assert "\n" not in message


def test_what_only_the_device_can_do_is_told_with_the_way_into_the_lake() -> None:
    with pytest.raises(UsageError, match="run msprobe there, and read what it writes with: lakeprobe ingest FOLDER"):
        parsed(task="nan_check")


def test_a_section_of_another_task_may_hold_what_is_refused() -> None:
    assert parsed(tensor={"backward_input": ["a.pt"]}).settings == Settings()


def test_the_file_is_read_with_overrides_and_its_faults_are_told(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(OF_26), encoding="utf-8-sig")
    configuration = config.load(path, level="L0", task=None, dump_path="/d/npu")
    assert configuration == Configuration(Settings(level="L0"), dump_path="/d/npu")
    with pytest.raises(UsageError, match=r"cannot be read"):
        config.load(tmp_path / "none.json")
    for content, message in ((b"{,}", "is not JSON"), (b"\xff\xfe{", "is not JSON"), (b"[]", "should be an object")):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=message):
            config.load(path)
