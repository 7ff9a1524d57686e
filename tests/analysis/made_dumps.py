"""Small dumps written by tests: calls of ops, forwards and backwards, on some ranks of a step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Op = dict[str, Any]
Data = dict[str, Op]


def call(inputs: list[Any], outputs: list[Any], **kwargs: Any) -> Op:
    return {"input_args": inputs, "input_kwargs": kwargs, "output": outputs}


def back(inputs: list[Any], outputs: list[Any]) -> Op:
    return {"input": inputs, "output": outputs}


def write(
    root: Path,
    ranks: dict[int, Data],
    step: int = 0,
    framework: str = "pytorch",
    parents: dict[str, str] | None = None,
) -> Path:
    """A dump of one step with these ops on these ranks."""
    for rank, data in ranks.items():
        folder = root / f"step{step}" / f"rank{rank}"
        folder.mkdir(parents=True)
        head = {"task": "statistics", "level": "mix", "framework": framework, "dump_data_dir": None}
        (folder / "dump.json").write_text(json.dumps({**head, "data": data}, indent=1))
        stacks = {op: [f"File model.py, line 7, in forward, \n {op}"] for op in data if "backward" not in op}
        (folder / "stack.json").write_text(json.dumps(stacks))
        (folder / "construct.json").write_text(json.dumps({op: (parents or {}).get(op) for op in data}))
    return root
