"""A model written twice (benchmarks/truth/pairs): equal runs raise no alarm, and a planted defect is named first."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lakeprobe
from benchmarks.truth.pairs.evaluate import defects, named

pytest.importorskip("torch")

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Llama with separate projections and norms in steps (a), and fused (b); of each also a run with a defect."""
    folder = tmp_path_factory.mktemp("pair")
    for side, runs in (("0", ["a", "a_eps=eps"]), ("1", ["b", "b_scale=scale"])):
        where = ["--lake", str(folder / "lake"), "--weights", str(folder / "weights.npz")]
        command = [sys.executable, "-m", "benchmarks.truth.pairs.collect", "llama_torch", side, *runs, *where]
        subprocess.run(command, cwd=_ROOT, check=True, capture_output=True)
    return folder / "lake"


@pytest.mark.parametrize(
    ("target", "golden", "module", "defect"),
    [
        ("a", "b", None, None),
        ("b", "a", None, None),
        ("a_eps", "b", "llama_torch", "eps"),
        ("b_scale", "a", "llama_fused_torch", "scale"),
    ],
    ids=["equal", "equal the other way", "epsilon", "scale"],
)
def test_the_planted_op_is_named(lake: Path, target: str, golden: str, module: str | None, defect: str | None) -> None:
    with lakeprobe.open(lake, create=True) as opened:
        answers = named(opened, target, golden)
    assert set(answers) == {"compare", "first-diff", "blame"}
    for named_first in answers.values():
        if module is None or defect is None:
            assert named_first is None
        else:
            assert named_first is not None
            assert re.search(defects(module)[defect], named_first)
