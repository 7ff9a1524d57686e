"""Programs of many kinds, watched: they train to the same bits, all is recorded, and nothing stays behind.

The table in docs/collect.md is of all programs (`programs/table.py` makes it); a part of them runs here.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "programs"))

from kinds import PROGRAMS  # noqa: E402
from trial import tried  # noqa: E402

PAGE = (HERE.parents[1] / "docs" / "collect.md").read_text(encoding="utf-8")
HERE_TOO = [
    "GPT, attention written out", "a tensor with three consumers", "MultiheadAttention",
    "CNN with BatchNorm", "LSTM", "frozen part",
    "a part called twice", "writing in place", "complex numbers and FFT", "sparse matrix", "AdamW", "LBFGS",
    "checkpoint, reentrant", "checkpoint, not reentrant", "weight norm", "pruning", "shared memory",
    "autocast and GradScaler", "GAN, two models", "double backward", "a custom autograd function",
    "hooks of the user's", "an exception that is caught", "threads", "EMA, a copy of the model in each step",
    "mixture of experts", "jit.trace", "a ScriptModule in the model", "func.vmap", "torch.compile, eager",
    "nested tensor", "a subclass of Tensor", "backward twice, retain_graph",
    "as accelerate: mixed precision, accumulation", "as DeepSpeed: an engine, flat parameters",
    "as Megatron: chunks, main_grad, a pipeline's backward",
    "map", "a module that copies and saves itself",
    "two hundred modules in each other", "a pickle of the model and of functions", "is_grads_batched",
    "a network that solves an equation by its derivatives", "a deep equilibrium, a hook that solves its backward",
    "low-rank adapters, put in within a step", "ops of torch.library, one that writes in place",
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("name", HERE_TOO)
def test_it_trains_to_the_same_bits_and_nothing_stays(name: str, level: str) -> None:
    outcome = tried(name, level)
    assert outcome[:3] == (True, True, True), outcome


def test_the_page_has_every_program_and_what_it_says_is_what_is_expected() -> None:
    section = PAGE.split("### Programs")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", section, re.MULTILINE)[1:]
    rows = [row for row in rows if not row[0].startswith("---")]
    assert [row[0] for row in rows] == list(PROGRAMS)
    assert len(rows) >= 60
    assert {row[0] for row in rows if row[2] != "yes"} == set()
