"""Holds what is recorded of a program against msprobe's dump of it, op by op."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from memory import Memory, as_rounded, bodies, plain
from trial import STEPS, run

WITHOUT = "msprobe does not run it"


def dump_of(name: str, folder: Path) -> dict[str, Any] | None:
    """The ops of msprobe's dump.json of the second step at level mix; None where it fails. In a process of its own."""
    child = os.fork()
    if child == 0:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  msprobe says much
        try:
            _under_msprobe(name, folder)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    found = list(folder.glob("dump/step1/*/dump.json"))
    if not (folder / "ended").exists() or not found:
        return None
    data: dict[str, Any] = json.loads(found[0].read_text())["data"]
    return data


def _under_msprobe(name: str, folder: Path) -> None:
    import torch
    from kinds import PROGRAMS
    from msprobe.pytorch import PrecisionDebugger

    section = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}
    config = {"task": "statistics", "dump_path": str(folder / "dump"), "rank": [], "step": [1], "level": "mix"}
    (folder / "config.json").write_text(json.dumps(config | {"statistics": section}))
    torch.manual_seed(0)
    model, step = PROGRAMS[name]()
    debugger = PrecisionDebugger(config_path=str(folder / "config.json"))
    for number in range(STEPS):
        debugger.start(model)
        step(number)
        debugger.stop()
        debugger.step()
    (folder / "ended").touch()


def held_against_msprobe(name: str, folder: Path) -> str:
    """How what is recorded at level mix is other than in msprobe's dump; "yes" where it is not."""
    theirs = dump_of(name, folder)
    memory = Memory()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(name, memory, "mix")
    ours = bodies(memory) if memory.steps else {}
    if theirs is None:
        return WITHOUT if ours else "neither records it"
    missing, more = [op for op in theirs if op not in ours], [op for op in ours if op not in theirs]
    other = [op for op in ours if op in theirs and not _is_same(ours[op], _mended(theirs[op]))]
    told = [
        f"{len(ops)} of {len(theirs)} ops {what}, such as {ops[0]}"
        for ops, what in ((missing, "only there"), (more, "only here"), (other, "with other numbers"))
        if ops
    ]
    return "; ".join(told) or ("yes" if list(ours) == list(theirs) else "in another order")


def _is_same(ours: Any, theirs: Any) -> bool:
    return bool(plain(ours) == plain(as_rounded(theirs, ours)))


def _mended(value: Any) -> Any:
    """msprobe writes a device without a number as cpu:None."""
    if isinstance(value, dict):
        return {key: _mended(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_mended(item) for item in value]
    return "cpu" if value == "cpu:None" else value
