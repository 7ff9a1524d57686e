"""The second act of `make demo`: a planted defect is named, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakeprobe.cli import app

CHECKOUT = Path(__file__).parents[2]

pytest.importorskip("torch")


def trained(run: str, *words: str) -> str:
    program = [sys.executable, "demo/train.py", run, *words]
    done = subprocess.run(program, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def asked(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("demo") / "lake")


@pytest.fixture(scope="module")
def golden(lake: str) -> str:
    """What the training of the run `golden` says."""
    return trained("golden", "--lake", lake)


def test_the_defect_is_the_first_difference_and_the_cause(lake: str, golden: str) -> None:
    assert golden != trained("target", "--defect", "--lake", lake)
    said = asked("compare", "target", "golden", "--lake", lake)
    first = (
        said.partition("The first op that differs in step 0 rank 0: ")[2].partition("\nOther steps")[0].split("\n  ")
    )
    assert first[0] == "Functional.layer_norm.5.forward"
    assert first[2].split() == ["input.4:", "0.001", "against", "1e-05"]
    assert "in Module.blocks.2.norm2.LayerNorm.forward.0" in first
    assert "demo/train.py" in first[-1]
    blamed = asked("blame", "target_vs_golden", "--lake", lake)
    assert "Functional.layer_norm.5.forward on rank 0: its argument input.4 is 0.001 against 1e-05" in blamed


def test_without_the_defect_two_runs_are_equal(lake: str, golden: str) -> None:
    losses = [re.findall(r"loss (\S+)", text) for text in (golden, trained("again", "--lake", lake))]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 2
    assert "0 noise, 0 different" in asked("compare", "again", "golden", "--lake", lake)
