"""Trainings that msprobe watches, each named by words: NAME LEVEL TASK SUMMARY_MODE [KEY=JSON …].

A module of models (`models.py`, `mindspore_models.py`) is the program that trains them: `python models.py RUNS.json`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

Run = tuple[str, ...]


def options(keys: Sequence[str]) -> dict[str, Any]:
    """What the words KEY=JSON ask for; `batches` too, which is the training's."""
    return {key: json.loads(value) for key, _, value in (text.partition("=") for text in keys)}


def dumps_of(program: str, runs: Sequence[Run], folders: pytest.TempPathFactory) -> dict[Run, Path]:
    """msprobe's dump of each run, beside it its losses.json."""
    found = {run: folders.mktemp("run") for run in runs}
    file = folders.mktemp("runs") / "runs.json"
    file.write_text(json.dumps([[str(folder), *run] for run, folder in found.items()]))
    subprocess.run([sys.executable, program, str(file)], check=True, capture_output=True)
    return found


def make(file: str, debugger: Any, train: Callable[..., list[float]]) -> None:
    """The program: trains the runs one after the other, each in a process of its own with msprobe's `debugger`."""
    for folder, *run in json.loads(Path(file).read_text()):
        child = os.fork()
        if child == 0:
            _under_msprobe(debugger, train, folder, *run)
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)


def _under_msprobe(
    debugger: Any, train: Callable[..., list[float]], folder: str, name: str, level: str, task: str, mode: str,
    *keys: str,
) -> None:  # fmt: skip
    section: dict[str, Any] = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": mode}
    config: dict[str, Any] = {"task": task, "dump_path": folder, "rank": [], "step": [], "level": level, task: section}
    asked = options(keys)
    batches = asked.pop("batches", 1)
    for key, value in asked.items():
        (section if key in section or key == "tensor_list" else config)[key] = value
    path = Path(folder, "config.json")
    path.write_text(json.dumps(config))
    losses = train(name, lambda _model: debugger(config_path=str(path)), batches=batches)
    Path(folder, "losses.json").write_text(json.dumps(losses))
