"""A model written twice (benchmarks/truth/pairs): equal runs raise no alarm, and a planted defect is named first."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lakeprobe
from benchmarks.truth.pairs.collect import PAIRS
from benchmarks.truth.pairs.evaluate import defects, named

pytest.importorskip("torch")

_ROOT = Path(__file__).resolve().parents[2]


_RUNS = {
    "llama_torch": (["a", "a_eps=eps"], ["b", "b_scale=scale"]),
    "mixer_torch": (["a", "a_gelu=gelu"], ["b", "b_silu=silu", "b_divisor=divisor"]),
    "llama_torch in bfloat16": (["a", "a_eps=eps"], ["b", "b_weight=weight"]),
    "gpt_torch in bfloat16": (["a", "a_mask=mask", "a_gelu=gelu"], ["b", "b_mask=mask"]),
    "translate_torch in bfloat16": (["a"], ["b", "b_eps=eps"]),
    "grouped_torch in bfloat16": (["a"], ["b", "b_eps=eps"]),
    "llama_torch in float16": (["a"], ["b", "b_scale=scale"]),
    "llama_torch in bfloat16, mixed": (["a", "a_eps=eps"], ["b", "b_weight=weight"]),
    "grouped_torch in bfloat16, mixed": (["a"], ["b"]),
}
"""Of each pair, and the dtype of its weights, or of some ops in mixed precision, the runs of its two sides with their
defects."""


def collected(pair: str, folder: Path) -> Path:
    """The lake with the runs of a pair."""
    model, _, dtype = pair.partition(" in ")
    how = ["--dtype", dtype.partition(",")[0] or "float32", *(["--mixed"] if "mixed" in dtype else [])]
    where = ["--lake", str(folder / "lake"), "--weights", str(folder / "weights.npz")]
    for side, runs in enumerate(_RUNS[pair]):
        command = [sys.executable, "-m", "benchmarks.truth.pairs.collect", model, str(side), *runs, *where, *how]
        subprocess.run(command, cwd=_ROOT, check=True, capture_output=True)
    return folder / "lake"


@pytest.mark.sampled
@pytest.mark.parametrize("pair", _RUNS)
def test_the_planted_op_is_named(tmp_path: Path, pair: str) -> None:
    """Both sides without a defect against each other, and each run with one against the other side without."""
    with lakeprobe.open(collected(pair, tmp_path)) as lake:
        for side, runs in enumerate(_RUNS[pair]):
            for run in runs:
                name, _, defect = run.partition("=")
                answers = named(lake, name, "ba"[side])
                assert set(answers) == {"compare", "first-diff", "blame"}
                for op in answers.values():
                    if defect:
                        assert op is not None, name
                        assert re.search(defects(PAIRS[pair.partition(" in ")[0]][side])[defect], op), name
                    else:
                        assert op is None, name
