"""The benchmark of accuracy from training to counting, on one small model: what is planted is what is named."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.truth import count, planted, runs
from benchmarks.truth.count import COMMANDS
from lakeprobe.session import Lake

CHECKOUT = Path(__file__).resolve().parents[2]
TRAINED = {
    ("encoder", "clean"): ("equal", "norm_eps", "linear_kernel", "token"),
    ("encoder", "npu"): ("equal",),
    ("amp", "npu"): ("equal", "betas", "mask"),
}
"""The runs by model and noise. `amp` trains under autocast, where bfloat16 hides most of what another chip rounds."""
PLANTED = [(*case, run) for case, names in TRAINED.items() for run in names if run != "equal"]
TRAIN = "import sys; from benchmarks.truth import train; sys.exit(any([train.main(a.split()) for a in sys.argv[1:]]))"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The models, trained and collected without noise and with that of another chip."""
    work = tmp_path_factory.mktemp("truth")
    found = {case: runs.folder_of(work, "statistics", *case) for case in TRAINED}
    asked = [f"{work} statistics {' '.join(case)} --runs {','.join(names)}" for case, names in TRAINED.items()]
    done = subprocess.run([sys.executable, "-c", TRAIN, *asked], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return found


@pytest.fixture(scope="module")
def outcomes(folders):
    """What each command made of each run."""
    return {
        (model, noise, case.run, case.command): case.outcome
        for (model, noise), folder in folders.items()
        for case in count.count(folder, planted.load(model), with_repeat=False)
    }


@pytest.mark.sampled
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("model", "noise", "run"), PLANTED)
def test_the_planted_cause_is_named_first(outcomes, model, noise, run, command):
    assert outcomes[model, noise, run, command] == "first"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("model", "noise"), [case for case, names in TRAINED.items() if "equal" in names])
def test_equal_runs_are_quiet(outcomes, model, noise, command):
    assert outcomes[model, noise, "equal", command] == "quiet"


def test_noise_adds_no_op_and_moves_what_is_recorded_by_what_it_says(folders):
    with Lake(folders["encoder", "npu"] / "lake") as lake:
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
