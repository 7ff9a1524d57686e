"""A capture against msprobe 26.2.0, which watches the same training in a process of its own.

Names, order, bodies, parents and stacks must be equal, numbers bit by bit. What msprobe gets wrong is named below.
"""

import glob
import importlib.util
import json
from pathlib import Path
from typing import Any

import msprobe_runs
import pytest
from memory import Memory, Step, as_rounded, plain, tensors

from lakeprobe.collect import frameworks
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.watching.capture import Capture

torch = pytest.importorskip("torch")
if importlib.util.find_spec("msprobe") is None:
    pytest.skip("msprobe is not installed", allow_module_level=True)

import models  # noqa: E402

RUNS = [
    ("transformer", "L0", "statistics", "statistics"),
    ("transformer", "L1", "statistics", "statistics"),
    ("transformer", "mix", "statistics", "statistics"),
    ("transformer", "mix", "tensor", "statistics"),
    ("transformer", "mix", "structure", "statistics"),
    ("transformer", "L0", "statistics", "xor"),
    ("bfloat16", "mix", "statistics", "xor"),
    ("bfloat16", "mix", "statistics", "statistics"),
    ("reentrant", "L0", "statistics", "statistics"),
    ("reentrant", "L1", "statistics", "statistics"),
    ("reentrant", "mix", "statistics", "statistics"),
    ("not_reentrant", "L0", "statistics", "statistics"),
    ("odd", "L0", "statistics", "statistics"),
    ("odd", "L1", "statistics", "statistics"),
    ("odd", "mix", "tensor", "statistics"),
    ("odd", "mix", "statistics", "statistics", 'risk_level="ALL"'),
    ("odd", "mix", "statistics", "statistics", "batches=3"),
    ("transformer", "L1", "statistics", "statistics", 'list=["linear", "softmax"]'),
    ("transformer", "mix", "statistics", "statistics", 'list=["Module.blocks.1.mlp.Sequential.forward.0"]'),
    ("transformer", "mix", "statistics", "statistics", 'list=["norm2"]'),
    ("transformer", "L0", "statistics", "statistics", 'list=["norm"]'),
    ("transformer", "mix", "statistics", "statistics", 'data_mode=["forward"]'),
    ("transformer", "mix", "statistics", "statistics", 'data_mode=["backward", "output"]'),
    ("transformer", "mix", "statistics", "statistics", 'data_mode=["input"]'),
    ("transformer", "L1", "statistics", "statistics", 'data_mode=["output"]'),
    ("transformer", "mix", "statistics", "statistics", 'tensor_list=["layer_norm", "LayerNorm"]'),
    ("transformer", "mix", "statistics", "statistics", "extra_info=false"),
    ("transformer", "L1", "statistics", "statistics", "step=[1]"),
    (
        "transformer", "L1", "statistics", "statistics",
        'scope=["Functional.layer_norm.1.forward", "Functional.softmax.1.forward"]',
    ),
    (
        "transformer", "L0", "statistics", "statistics",
        'scope=["Module.blocks.0.norm2.LayerNorm.forward.0", "Module.blocks.1.attention.query.Linear.forward.0"]',
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], Path]:
    """msprobe's dump of each run."""
    return msprobe_runs.dumps_of(models.__file__, RUNS, tmp_path_factory)


@pytest.fixture(params=RUNS, ids=lambda run: "-".join(run))
def run(request: pytest.FixtureRequest, dumps: dict[tuple[str, ...], Path]) -> tuple[list[Step], list[dict[str, Any]]]:
    """A run as a capture saw it, and as msprobe did: per step what is in dump.json, construct.json and stack.json."""
    name, level, task, summary_mode, *keys = request.param
    folder_of_run = dumps[request.param]
    memory = Memory()
    chosen = msprobe_runs.options(keys)
    batches = chosen.pop("batches", 1)
    lists = {key: tuple(value) if isinstance(value, list) else value for key, value in chosen.items()}
    settings = Settings(level=level, task=task, summary_mode=summary_mode, **lists)
    captures = []

    def watch(model: Any) -> Capture:
        captures.append(frameworks.capture(model, settings, memory))
        return captures[0]

    losses = models.train(name, watch, batches=batches)
    assert losses == json.loads((folder_of_run / "losses.json").read_text()), "watching changed the training"
    assert captures[0].recorder.failures == []
    theirs = []
    for step in memory.steps:
        (folder,) = folder_of_run.glob(f"step{step.number}/*")
        files = ("dump.json", "construct.json", "stack.json")
        theirs.append(
            {file: json.loads((folder / file).read_text()) if (folder / file).exists() else {} for file in files}
        )
    return memory.steps, theirs


def test_equal(run: tuple[list[Step], list[dict[str, Any]]], request: pytest.FixtureRequest) -> None:
    for ours, theirs in zip(*run, strict=True):
        structure = theirs["dump.json"]["task"] == "structure"
        data = theirs["dump.json"]["data"]
        construct = theirs["construct.json"]
        stacks = {name: tuple(lines) for names, lines in theirs["stack.json"].values() for name in names}
        if structure:
            assert set(ours.bodies) <= set(construct)
        else:
            assert list(ours.bodies) == list(data)
        for name, body in ours.bodies.items():
            if not structure:
                seen = _as_far(body, name, data[name], request)
                assert plain(seen) == plain(as_rounded(mended(data[name]), seen)), name
            if "parameters_grad" not in name:
                assert construct.get(name) == ours.parents[name], name
            assert (name in stacks) == (ours.stacks[name] is not None), name
            if name in stacks:
                assert shared_frames(stacks[name]) == shared_frames(ours.stacks[name]), name
        # What msprobe's order of construct.json follows from, tests/collect/test_export_of_collected.py
        began = [place for place in ours.began.values() if place is not None]
        assert len(set(began)) == len(began)
        if construct and "extra_info" not in request.node.name:
            groups = [[name for name in names if name in ours.began] for names, _ in theirs["stack.json"].values()]
            assert [group for group in groups if group] == _by_stack(ours)


def test_equal_contents(dumps: dict[tuple[str, ...], Path]) -> None:
    compared = 0
    for name, level, task, summary_mode, *keys in [run for run in RUNS if "tensor" in str(run[2:])]:
        folder = dumps[name, level, task, summary_mode, *keys]
        kept = tuple(json.loads(keys[0].partition("=")[2])) if keys else ()
        memory = Memory()
        settings = Settings(level=level, task=task, tensor_list=kept)
        models.train(name, lambda model, settings=settings, memory=memory: frameworks.capture(model, settings, memory))
        for step in memory.steps:
            for leaf in tensors(list(step.bodies.values())):
                (file,) = folder.glob(f"step{step.number}/*/dump_tensor_data/{glob.escape(leaf['data_name'])}")
                theirs = torch.load(file)
                assert str(theirs.dtype) == leaf["dtype"]
                assert torch.equal(theirs, torch.from_numpy(leaf["tensor"].copy())), leaf["data_name"]
                compared += 1
    assert compared > 1000


def _as_far(body: Any, name: str, theirs: Any, request: pytest.FixtureRequest) -> Any:
    """msprobe leaves out the results of the API that ends a range."""
    ends_range = f'"{name}"]' in request.node.name and "output" not in theirs
    return {key: value for key, value in body.items() if key != "output"} if ends_range else body


def _by_stack(step: Step) -> list[list[str]]:
    """The ops of each call stack, both in the order in which they began."""
    groups: dict[Any, list[str]] = {}
    for name in sorted((name for name, stack in step.stacks.items() if stack), key=lambda name: step.began[name] or 0):
        groups.setdefault(step.stacks[name], []).append(name)
    return list(groups.values())


def mended(value: Any) -> Any:
    """msprobe writes a device without a number as cpu:None."""
    if isinstance(value, dict):
        return {key: mended(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mended(item) for item in value]
    return "cpu" if value == "cpu:None" else value


def shared_frames(stack: Any) -> list[str]:
    """The frames inside the training loop, which both runs have."""
    lines = list(stack)
    last = max(index for index, line in enumerate(lines) if ", in train, " in line)
    return lines[: last + 1]
