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


def test_two_chips_round_what_ops_computed_and_nothing_else(tmp_path: Path) -> None:
    inputs.statistics(tmp_path / "chips", ranks=1, ops=300, rounding=1e-6)
    inputs.statistics(tmp_path / "chip", ranks=1, ops=300)
    assert data(tmp_path / "chips" / "golden", 0) == data(tmp_path / "chip" / "golden", 0)
    off: dict[float, float] = {}
    sides = [data(tmp_path / folder / "target", 0) for folder in ("chips", "chip")]
    for name, entry in list(sides[1].items())[: len(sides[1]) // 2]:
        rounded = dict(zip(numbers(entry), numbers(sides[0][name]), strict=True))
        assert all(abs(ours - exact) <= 1e-6 * abs(exact) for exact, ours in rounded.items())
        assert all(off.setdefault(exact, ours) == ours for exact, ours in rounded.items())
    assert 0.3 < sum(exact != ours for exact, ours in off.items()) / len(off) < 0.95
    weights = [entry["input_args"][1] for name, entry in sides[0].items() if name.startswith("Functional.linear.0.f")]
    assert weights == [sides[1]["Functional.linear.0.forward"]["input_args"][1]]


def numbers(value: Any) -> list[float]:
    """Return the statistics in the order of the dump."""
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    if not isinstance(value, dict):
        return []
    own = [value[key] for key in inputs.STATISTICS if isinstance(value.get(key), float)]
    return own + [number for inner in value.values() for number in numbers(inner)]
