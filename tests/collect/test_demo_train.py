"""The second act of `make demo`: a planted defect is named, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]

pytest.importorskip("torch")


def program(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_defect_is_the_first_difference_and_the_cause(tmp_path: Path) -> None:
    lake = ("--lake", str(tmp_path / "lake"))
    golden = program("demo/train.py", "golden_train", *lake)
    target = program("demo/train.py", "target_train", "--defect", *lake)
    assert golden != target
    said = program("-m", "lakeprobe", "compare", "target_train", "golden_train", *lake)
    first = said.partition("The first op that differs in step 0 rank 0: ")[2].partition("\nIt also")[0].split("\n  ")
    assert first[0] == "Functional.layer_norm.5.forward"
    assert first[2].split() == ["input.4:", "0.001", "against", "1e-05"]
    assert "in Module.blocks.2.norm2.LayerNorm.forward.0" in first
    assert "demo/train.py" in first[-1]
    blamed = program("-m", "lakeprobe", "blame", "target_train_vs_golden_train", *lake)
    assert "Functional.layer_norm.5.forward on rank 0: its argument input.4 is 0.001 against 1e-05" in blamed


def test_without_the_defect_two_runs_are_equal(tmp_path: Path) -> None:
    lake = ("--lake", str(tmp_path / "lake"))
    losses = [re.findall(r"loss (\S+)", program("demo/train.py", run, *lake)) for run in ("one", "two")]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 2
    said = program("-m", "lakeprobe", "compare", "one", "two", *lake)
    assert "0 noise, 0 different" in said
