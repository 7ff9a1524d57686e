"""The benchmark of accuracy from training to counting, on one small model: what is planted is what is named."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.truth import count, planted
from benchmarks.truth.count import COMMANDS
from lakeprobe.session import Lake

CHECKOUT = Path(__file__).resolve().parents[2]
RUNS = ("equal", "norm_eps", "linear_kernel", "token")

NAMED_UNDER_NOISE: tuple[str, ...] = ()
"""Defects that must be named first under the noise of another chip too, and by all commands."""


NOISES = {"clean": RUNS, "npu": ("equal", *NAMED_UNDER_NOISE)}
TRAIN = "import sys; from benchmarks.truth import train; sys.exit(any([train.main(a.split()) for a in sys.argv[1:]]))"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The model `encoder`, trained and collected without noise and with that of another chip."""
    work = tmp_path_factory.mktemp("truth")
    found = {noise: work / f"encoder_{noise}" for noise in NOISES}
    asked = [f"{found[noise]} encoder statistics {noise} {' '.join(runs)}" for noise, runs in NOISES.items()]
    done = subprocess.run([sys.executable, "-c", TRAIN, *asked], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return found


def counted(folder):
    """What each command made of each run."""
    cases = count.count(folder, planted.load("encoder"), with_repeat=False)
    return {(case.run, case.command): case.outcome for case in cases}


@pytest.fixture(scope="module")
def clean(folders):
    return counted(folders["clean"])


@pytest.fixture(scope="module")
def noisy(folders):
    return counted(folders["npu"])


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("run", [run for run in RUNS if run != "equal"])
def test_without_noise_the_planted_cause_is_named_first(clean, run, command):
    assert clean[run, command] == "first"


@pytest.mark.parametrize("command", COMMANDS)
def test_without_noise_equal_runs_are_quiet(clean, command):
    assert clean["equal", command] == "quiet"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("run", NAMED_UNDER_NOISE)
def test_under_noise_the_planted_cause_is_named_first(noisy, run, command):
    assert noisy[run, command] == "first"


def test_noise_adds_no_op_and_moves_what_is_recorded_by_what_it_says(folders):
    with Lake(folders["npu"] / "lake") as lake:
        ops = dict(lake.sql("SELECT run, count(*) FROM ops GROUP BY run").fetchall())
        assert ops["equal"] == ops["golden"]
        [[largest]] = lake.sql(
            "SELECT max(abs(target.norm / golden.norm - 1)) FROM tensors AS target "
            "JOIN tensors AS golden USING (step, rank, op, slot) "
            "JOIN ops ON (ops.run, ops.step, ops.rank, ops.op) = ('golden', target.step, target.rank, target.op) "
            "WHERE (target.run, golden.run, target.step, ops.direction) = ('equal', 'golden', 0, 'forward') "
            "AND ops.parent LIKE 'Module.%' AND golden.norm BETWEEN 1e-6 AND 1e6"
        ).fetchall()
    assert 1e-8 < largest < 1e-5
