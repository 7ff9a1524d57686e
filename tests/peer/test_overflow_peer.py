"""On every real dump with NaN or inf the planted op is named first, and golden is clean; msprobe blames the mask."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from real_dumps import CHECKOUT, DUMPS, needs_dumps

import lakeprobe
from lakeprobe.analysis.overflow import Overflow, overflow

Leaf = dict[str, Any]

PLANTED = {
    "E_overflow/pt_log0": (0, "Torch.log.0.forward"),
    "E_overflow/pt_fp16_overflow": (0, "Torch.matmul.2.forward"),
    "E_overflow/ms_fp16_overflow/L1_tensor": (0, "Functional.matmul.2.forward"),
    "E_overflow/ms_fp16_overflow/L0_stat": (0, "Cell.layers.1.attn.Attention.forward.0"),
    "B_pt_dist": (3, "Torch.log.1.forward"),
}
"""What was changed (INDEX.md, Defects): rank and op; of the dump of cells, the cell in which it was changed."""


def pairs() -> list[tuple[Path, Path]]:
    found = [(path, path.parent / "golden") for path in sorted(DUMPS.glob("E_overflow/*/*/target"))]
    found += [(path, path.parent / "golden") for path in sorted(DUMPS.glob("B_pt_dist/*/log0"))]
    return [(target, golden) for target, golden in found if golden.is_dir()]


def planted(target: Path) -> tuple[int, str]:
    place = str(target.relative_to(DUMPS))
    return next(told for start, told in PLANTED.items() if place.startswith(start))


PAIRS = pairs()
pytestmark = needs_dumps


@pytest.mark.sampled
@pytest.mark.parametrize(("target", "golden"), PAIRS, ids=[str(target.relative_to(DUMPS)) for target, _ in PAIRS])
def test_the_planted_op_is_named_first(target: Path, golden: Path, tmp_path: Path) -> None:
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        result = lake.compare(target, golden, name="pair", tensors="none")
        npu, gpu = result.stored.target, result.stored.golden
        for how in ({}, {"golden": gpu}, {"comparison": "pair"}):
            found = overflow(lake._connection, npu, **how)
            first = rows(found, "births")[0]
            assert (first["rank"], first["op"]) == planted(target), how
            assert (first["step"], first["level"], first["origin"]) == (0, "critical", "born")
            assert all(first[told] for told in ("came_in", "came_out", "code", "advice"))
            assert_levels(found, target, golden if how else None)
        clean = overflow(lake._connection, gpu)
        assert len(clean.births) == 0
        assert clean.count("critical") == 0


def test_the_way_over_the_ranks(tmp_path: Path) -> None:
    """Rank 3 reduces with 2, sends to 0; 1 hears of it from 2 (INDEX.md, truth_log0_step0.json)."""
    target = DUMPS / "B_pt_dist" / "L1_stat" / "log0"
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        lake.ingest(target, run="npu")
        spread = rows(overflow(lake._connection, "npu", steps=[0]), "spread")
    ways = {row["rank"]: (row["received_from"], row["through"]) for row in spread}
    assert ways == {
        3: (None, None),
        2: ([3], "Distributed.all_reduce.1.forward"),
        0: ([3], "Distributed.irecv.0.forward"),
        1: ([2], "Distributed.batch_isend_irecv.0.forward"),
    }


MASK = {"Tensor.masked_fill", "Functional.softmax", "Torch.softmax"}
JUMPS_OF_HEALTHY_STEPS = {"Torch.log"}


@pytest.mark.parametrize("side", ["target", "golden"])
def test_levels_are_those_of_msprobe(side: str, tmp_path: Path) -> None:
    """msprobe 26.2's graph_visualize -oc on E_overflow/pt_log0/mix_stat: the same, but for three kinds.

    msprobe takes the mask's -inf for an overflow, and a norm that jumps for one where nothing is NaN or inf; and it
    gives no level to gradients of parameters.
    """
    theirs = json.loads((CHECKOUT / "tests/data/overflow/msprobe_levels_pt_log0_mix.json").read_text())[side]
    with lakeprobe.open(tmp_path / "lake", create=True) as lake:
        lake.ingest(DUMPS / "E_overflow/pt_log0/mix_stat" / side, run="npu")
        found = overflow(lake._connection, "npu", steps=[0])
        ours = {row["op"]: row["level"] for row in rows(found, "ops") if "parameters_grad" not in row["op"]}
    blamed = {op for op in theirs if op not in ours}
    assert {op.rsplit(".", 2)[0] for op in blamed} == MASK | (JUMPS_OF_HEALTHY_STEPS if side == "golden" else set())
    assert ours == {op: level for op, level in theirs.items() if op not in blamed}


def rows(found: Overflow, name: str) -> list[dict[str, Any]]:
    relation = getattr(found, name)
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


# ---- the levels once more, in plain Python over dump.json --------------------------------------------------


def assert_levels(found: Overflow, target: Path, golden: Path | None) -> None:
    """Every op has the level that the numbers in dump.json give it.

    Left out are ops whose record is that of another call, and without golden those with a mask: only golden tells the
    oracle what was meant.
    """
    ours = {(row["step"], row["rank"], row["op"]): row["level"] for row in rows(found, "ops")}
    for path in sorted(target.glob("step*/*/dump.json")):
        step, rank = int(path.parts[-3].removeprefix("step")), rank_of(path)
        data = json.loads(path.read_text())["data"]
        before = False
        beside = path_of(golden, path) if golden else None
        trusted = json.loads(beside.read_text())["data"] if beside else {}
        for op, entry in data.items():
            if "Distributed.irecv" in op or "Distributed.isend" in op:
                continue
            if golden is None and any(word in op for word in ("masked_fill", "softmax", "__setitem__")):
                continue
            level = level_of(entry, trusted.get(op, {}))
            if before and level == "critical" and "parameters_grad" in op:
                level = "high"  # it has no input of its own; what came in was not finite
            assert ours.get((step, rank, op)) == level, (path, op)
            before |= level in ("critical", "medium") or (level == "high" and has_bad(entry))


def rank_of(path: Path) -> int:
    name = path.parent.name
    return int(name.removeprefix("rank")) if name.startswith("rank") else 0


def path_of(golden: Path, path: Path) -> Path:
    """The dump of golden beside that of the target; folders named by process have one rank."""
    step, unit = path.parts[-3:-1]
    [found] = (golden / step).glob(f"{unit if unit.startswith('rank') else '*'}/dump.json")
    return found


def level_of(entry: dict[str, Any], golden: dict[str, Any]) -> str | None:
    sides = {"in": ("input_args", "input_kwargs", "parameters"), "out": ("output",)}
    if "input" in entry:
        sides["in"] = ("input",)
    if "input" not in entry and not any(
        key in entry for key in ("input_args", "input_kwargs", "output", "is_recompute")
    ):
        sides = {"in": (), "out": tuple(entry)}  # gradients of parameters, by name
    bad, norms = {"in": False, "out": False}, {"in": 0.0, "out": 0.0}
    for side, keys in sides.items():
        for key in keys:
            beside = dict(leaves(golden.get(key)))
            for path, leaf in leaves(entry.get(key)):
                marks = marks_of(leaf)
                bad[side] |= bool(marks) and not marks <= marks_of(beside.get(path, {}))
                if key != "parameters":
                    norms[side] = max(norms[side], size_of(leaf))
    if bad["out"]:
        return "high" if bad["in"] else "critical"
    if sides["in"] and norms["out"] > 100 * (norms["in"] or 1):
        return "high"
    return "medium" if bad["in"] else None


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Leaf]]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    elif isinstance(value, dict) and ("dtype" in value or "value" in value):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))


def has_bad(entry: dict[str, Any]) -> bool:
    return any(marks_of(leaf) for _, leaf in leaves(list(entry.values())))


def marks_of(leaf: Leaf) -> set[str]:
    """What a tensor holds beside finite numbers; a mean of NaN between inf and -inf tells nothing."""
    low, high, mean = leaf.get("Min"), leaf.get("Max"), leaf.get("Mean")
    ends = {repr(float(end)) for end in (low, high) if end is not None and not math.isfinite(end)}
    if mean is not None and math.isnan(mean) and ends != {"inf", "-inf"}:
        ends.add("nan")
    if not ends and mean is not None and math.isinf(mean):
        ends.add("mean")
    return ends


def size_of(leaf: Leaf) -> float:
    low, high, norm = leaf.get("Min"), leaf.get("Max"), leaf.get("Norm")
    if norm is None or low is None or not (math.isfinite(low) and math.isfinite(high)):
        return 0.0
    return norm if math.isfinite(norm) else max(abs(low), abs(high))
