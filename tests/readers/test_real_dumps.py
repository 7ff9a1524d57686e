"""Nothing of a real dump is lost: dump.json can be rebuilt from the tables, for dumps of every kind and release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dump_oracle import canonical, data_of, naive_places, places, read
from real_dumps import DUMPS

BUNDLED = Path(__file__).parent.parent / "data" / "dumps"
PATTERNS = (
    "A_variants/fancy_*/step0", "A_variants/structure_mix", "A_variants/precision_high_mix/step0",
    "A_variants/async_tensor_list_L1", "B_pt_dist/L1_stat/wrong_peer/step0/rank1", "B_pt_dist/L1_tensor/*/step0/rank1",
    "B_pt_dist/mix_stat/golden/step0/rank0", "C_cross/ms_*/*/step0", "E_overflow/pt_log0/mix_stat/*/step0",
    "E_overflow/ms_fp16_overflow/L1_tensor/target/step0", "G_old_versions/1.0.4/*/*/step0",
    "G_old_versions/8.1.1/mix_stat",
    "resnet_gpu",
)  # fmt: skip


def found() -> list[Path]:
    folders = {path.parent for pattern in PATTERNS for path in DUMPS.glob(f"{pattern}/**/dump.json")}
    return sorted(folders | {path.parent for path in BUNDLED.rglob("dump.json")})


def load(path: Path) -> Any:
    """A side file's content; nothing where it is missing or empty."""
    return json.loads(path.read_text() or "{}") if path.is_file() else {}


@pytest.mark.sampled
@pytest.mark.parametrize("folder", found(), ids=str)
def test_nothing_is_lost(folder: Path) -> None:
    dump = json.loads((folder / "dump.json").read_text())
    result = read(folder)
    data = dump.pop("data")
    assert [op["op"] for op in result.ops] == list(data)
    rebuilt = data_of(result)
    for op, body in data.items():
        assert canonical(rebuilt[op]) == canonical(body), op
        if result.ops[0]["kind"] != "parameters_grad":
            assert list(rebuilt[op]) == list(body), op
    assert places(result.tensors) == list(naive_places(data))
    assert json.loads(result.summary.head) == dump
    assert (result.summary.ops, result.summary.tensor_rows) == (len(data), len(result.tensors))


@pytest.mark.sampled
@pytest.mark.parametrize("folder", found(), ids=str)
def test_stacks_and_parents(folder: Path) -> None:
    stack = load(folder / "stack.json")
    frames_of = {}
    for name, value in stack.items():
        if name.isdecimal():
            frames_of.update(dict.fromkeys(value[0], value[1]))
        else:
            frames_of[name] = value
    construct = load(folder / "construct.json")
    result = read(folder)
    frames = [row["frames"] for row in result.stacks]
    assert [row["stack"] for row in result.stacks] == list(range(len(frames)))
    assert len(set(map(tuple, frames))) == len(frames)
    for op in result.ops:
        assert (None if op["stack"] is None else frames[op["stack"]]) == frames_of.get(op["op"])
        parent = construct.get(op["op"])
        assert [op["parent"], op["micro_step"]] == (parent if isinstance(parent, list) else [parent, None])
