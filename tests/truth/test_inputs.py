"""The dumps that the benchmarks of speed are measured on: large, whole, and off from the middle on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks import inputs


def data(folder: Path, rank: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "step0" / f"rank{rank}" / "dump.json").read_text())["data"]
    return found


def test_a_job_of_many_ranks(tmp_path: Path) -> None:
    inputs.statistics(tmp_path, ranks=8, ops=300)
    target, golden = (data(tmp_path / side, 5) for side in inputs.SIDES)
    assert list(target) == list(golden)
    assert len(golden) >= 300
    differing = [target[name] != golden[name] for name in golden]
    assert differing.index(True) == len(golden) // 2
    groups = {tuple(entry["input_kwargs"]["group"]["group_ranks"]) for entry in golden.values()
              if "group" in entry.get("input_kwargs", {})}  # fmt: skip
    assert groups == {(4, 5), (5, 7)}
    sends = [entry["input_args"][1]["value"] for name, entry in golden.items() if name.startswith("Distributed.isend.")]
    assert set(sends) == {6}
    stacks = json.loads((tmp_path / "golden" / "step0" / "rank5" / "stack.json").read_text())
    assert {op for ops, _ in stacks.values() for op in ops} >= {name for name in golden if ".forward" in name}
