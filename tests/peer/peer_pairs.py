"""The pairs of real dumps that msprobe 26.2.0 compared, with its results and the planted truth."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from real_dumps import DUMPS

from lakeprobe.session import ComparisonResult, Lake

csv.field_size_limit(1 << 30)

Compared = Callable[[Path, Path], tuple[Lake, ComparisonResult]]
"""The fixture `compared`: gives the lake and the comparison of a target and a golden path."""
MAPPED = {"-fm", "-am", "-cm", "-dm", "-lm", "-da", "-i", "--rank"}


RECOMPUTED = [f"A_pt_lm/{level}/peer_out_recompute_step0" for level in ("L1_stat", "mix_stat")]
"""Pairs of which only one side recomputes activations: msprobe pairs calls whose numbers are shifted by that."""


@dataclass(frozen=True)
class PeerPair:
    """A target and a golden path, and the folder with what msprobe made of them."""

    folder: Path
    target: Path
    golden: Path

    @property
    def id(self) -> str:
        return str(self.folder.relative_to(DUMPS))

    @property
    def steps(self) -> tuple[Path, Path]:
        """The folders of the step on both sides, so that all tests of a pair name it in the same way."""
        target, golden = (path.parents[1] if path.name == "dump.json" else path for path in (self.target, self.golden))
        return target, golden

    @property
    def tables(self) -> dict[int, Path]:
        """msprobe's CSV by rank."""
        return {rank_in(path): path for path in self.folder.glob("compare_result*.csv*")}


def rank_in(path: Path) -> int:
    match = re.search(r"rank(\d+)", path.name)
    return int(match[1]) if match else 0


def compared_by_msprobe() -> list[PeerPair]:
    """Every pair of dump.json (or folders of ranks) of one framework that msprobe compared without a mapping."""
    pairs = []
    for command_file in sorted(DUMPS.rglob("cmd.txt")):
        words = shlex.split(command_file.read_text().splitlines()[0].removeprefix("command: "))
        if words[1:2] != ["compare"] or "-tp" not in words or MAPPED & set(words) or "cross" in str(command_file):
            continue
        target, golden = (
            DUMPS / words[words.index(option) + 1].removeprefix("/data/dumps/") for option in ("-tp", "-gp")
        )
        if target.name != "debug.json" and target.exists():
            pairs.append(PeerPair(command_file.parent, target, golden))
    return pairs


def with_table() -> list[PeerPair]:
    return [pair for pair in compared_by_msprobe() if pair.tables]


def with_truth() -> list[tuple[PeerPair, Path]]:
    """Pairs with the file that says, exactly, which op differs first."""
    found = {}
    for pair in compared_by_msprobe():
        name = pair.folder.name.removeprefix("peer_out_")
        for parent in (pair.folder.parent, pair.folder.parent.parent):
            for candidate in (f"truth_{name}.json", "truth_ln_eps_step0.json" if name == "26.2.0" else ""):
                path = parent / candidate
                if candidate and path.is_file():
                    found.setdefault((pair.target, pair.golden), (pair, path))
    return list(found.values())


EARLY_GRADIENT = "Module.tok_emb.Embedding.parameters_grad"
"""What msprobe 8.1.1 writes ahead of the forward pass; the truth files go by place."""
BEHIND_EARLY_GRADIENTS = {
    "L0_stat": "Module.layers.1.ln2.LayerNorm.forward.0",
    "mix_stat": "Functional.layer_norm.3.forward",
}
"""The planted op of these dumps (INDEX.md), by their folder."""


def first_differences(truth: Path) -> dict[int, dict[str, Any]]:
    """The truth by rank. Gradients that stand ahead of the forward pass are made behind it, and are not first."""
    told = json.loads(truth.read_text())
    if told.get("first_diff") == EARLY_GRADIENT:
        return {0: told | {"first_diff": BEHIND_EARLY_GRADIENTS[truth.parent.name]}}
    if "first_diff" in told:
        return {0: told}
    return {int(name.removeprefix("rank")): value for name, value in told.items()}


def read_table(path: Path) -> list[dict[str, str]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
