"""A model written twice (benchmarks/truth/pairs): equal runs raise no alarm, and a planted defect is named first."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import lakeprobe
from benchmarks.truth.pairs.collect import PAIRS
from benchmarks.truth.pairs.evaluate import defects, named

pytest.importorskip("torch")

_ROOT = Path(__file__).resolve().parents[2]


_LOW, _HALF, _MIXED = " in bfloat16", " in float16", " in bfloat16, mixed"
_RUNS = {
    "llama_torch": (["a", "a_eps=eps"], ["b", "b_scale=scale"]),
    "mixer_torch": (["a", "a_gelu=gelu"], ["b", "b_silu=silu", "b_divisor=divisor"]),
    f"llama_torch{_LOW}": (["a", "a_eps=eps"], ["b", "b_weight=weight"]),
    f"gpt_torch{_LOW}": (["a", "a_mask=mask", "a_gelu=gelu"], ["b", "b_mask=mask"]),
    f"translate_torch{_LOW}": (["a"], ["b", "b_eps=eps"]),
    f"grouped_torch{_LOW}": (["a"], ["b", "b_eps=eps"]),
    f"llama_torch{_HALF}": (["a"], ["b", "b_scale=scale"]),
    f"llama_torch{_MIXED}": (["a", "a_eps=eps"], ["b", "b_weight=weight"]),
    f"grouped_torch{_MIXED}": (["a"], ["b"]),
}
"""Of each pair, and the dtype of its weights, or of some ops in mixed precision, the runs of its two sides with their
defects."""


@pytest.fixture(scope="module")
def lake_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the lake with the runs of a pair, which are collected once they are asked for."""

    @cache
    def lake_of(pair: str) -> Path:
        folder = tmp_path_factory.mktemp(re.sub(r"\W+", "_", pair))
        model, _, dtype = pair.partition(" in ")
        how = ["--dtype", dtype.partition(",")[0] or "float32", *(["--mixed"] if "mixed" in dtype else [])]
        where = ["--lake", str(folder / "lake"), "--weights", str(folder / "weights.npz")]
        for side, runs in enumerate(_RUNS[pair]):
            command = [sys.executable, "-m", "benchmarks.truth.pairs.collect", model, str(side), *runs, *where, *how]
            subprocess.run(command, cwd=_ROOT, check=True, capture_output=True)
        return folder / "lake"

    return lake_of


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("pair", "target", "golden"),
    [
        ("llama_torch", "a", "b"),
        ("llama_torch", "b", "a"),
        ("llama_torch", "a_eps", "b"),
        ("llama_torch", "b_scale", "a"),
        ("mixer_torch", "a", "b"),
        ("mixer_torch", "b", "a"),
        ("mixer_torch", "a_gelu", "b"),
        ("mixer_torch", "b_silu", "a"),
        ("mixer_torch", "b_divisor", "a"),
        (f"llama_torch{_LOW}", "a", "b"),
        (f"llama_torch{_LOW}", "b", "a"),
        (f"llama_torch{_LOW}", "a_eps", "b"),
        (f"llama_torch{_LOW}", "b_weight", "a"),
        (f"gpt_torch{_LOW}", "a", "b"),
        (f"gpt_torch{_LOW}", "a_mask", "b"),
        (f"gpt_torch{_LOW}", "a_gelu", "b"),
        (f"gpt_torch{_LOW}", "b_mask", "a"),
        (f"translate_torch{_LOW}", "a", "b"),
        (f"translate_torch{_LOW}", "b", "a"),
        (f"translate_torch{_LOW}", "b_eps", "a"),
        (f"grouped_torch{_LOW}", "a", "b"),
        (f"grouped_torch{_LOW}", "b", "a"),
        (f"grouped_torch{_LOW}", "b_eps", "a"),
        (f"llama_torch{_HALF}", "a", "b"),
        (f"llama_torch{_HALF}", "b", "a"),
        (f"llama_torch{_HALF}", "b_scale", "a"),
        (f"llama_torch{_MIXED}", "a", "b"),
        (f"llama_torch{_MIXED}", "b", "a"),
        (f"llama_torch{_MIXED}", "a_eps", "b"),
        (f"llama_torch{_MIXED}", "b_weight", "a"),
        (f"grouped_torch{_MIXED}", "a", "b"),
        (f"grouped_torch{_MIXED}", "b", "a"),
    ],
)
def test_the_planted_op_is_named(lake_of: Callable[[str], Path], pair: str, target: str, golden: str) -> None:
    with lakeprobe.open(lake_of(pair)) as opened:
        answers = named(opened, target, golden)
    assert set(answers) == {"compare", "first-diff", "blame"}
    side, _, defect = target.partition("_")
    for named_first in answers.values():
        if not defect:
            assert named_first is None
        else:
            assert named_first is not None
            module = PAIRS[pair.partition(" in ")[0]]["ab".index(side)]
            assert re.search(defects(module)[defect], named_first)
