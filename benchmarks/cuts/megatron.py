"""Dumps that msprobe takes of the transformer under Megatron-LM's names, merged by it and by lakeprobe.

    python -m benchmarks.cuts.megatron dump FOLDER      # in an environment with msprobe
    python -m benchmarks.cuts.megatron merge FOLDER     # there, too: msprobe graph_visualize
    python -m benchmarks.cuts.megatron compare FOLDER   # in ours: holds the merged statistics against each other

`compare` prints for each cut how many tensors have the same max, min, mean and norm (1e-6; a mean relative to the
largest element), how many have those of the first rank in msprobe's file, which it did not merge, and all others.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.cuts import model, train
from benchmarks.cuts.model import CUTS, Place

NAMES = ("tp2", "pp2", "tp2_pp2")
"""The cuts whose ranks graph_visualize merges."""

STATISTICS = ("Max", "Min", "Mean", "Norm")
SLOTS = {"input_args": "input", "input_kwargs": "input"}
WORDS = {"True": 1.0, "False": 0.0}
TOLERANCE = 1e-6
SAME, FIRST, OTHER = "the same", "of the first rank alone there", "other"


class ColumnParallelLinear(model.ColumnLinear):
    """The product under the name, and by the function, that msprobe looks for."""

    def product(self, x: torch.Tensor) -> torch.Tensor:
        made = torch.matmul(x, self.weight.t())
        return made if self.bias is None else made + self.bias


class RowParallelLinear(model.RowLinear):
    """The product under the name, and by the function, that msprobe looks for."""

    def product(self, x: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x, self.weight.t())


def dump(folder: Path) -> bool:
    """Take msprobe's dumps of the whole model and of each cut, into a folder each; whether all went well."""
    model.ColumnLinear, model.RowLinear = ColumnParallelLinear, RowParallelLinear  # type: ignore[misc]
    made = []
    for case in ("single", *NAMES):  # msprobe has one debugger for each process
        config = folder / f"{case}.json"
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"task": "statistics", "level": "mix", "dump_path": str(folder / case), "step": [0]}
        config.write_text(json.dumps(settings))
        made.append(train.make(folder / "work", "", (case,), train=partial(_dumped, config)))
    return all(made)


def _dumped(config: Path, case: str, place: Place) -> None:
    from msprobe.pytorch import PrecisionDebugger

    place.cut = replace(place.cut, micro=1)
    chunks = train.parts(place)
    optimizer = torch.optim.AdamW(train.watched(chunks).parameters(), lr=1e-3, foreach=False)
    debugger = PrecisionDebugger(config_path=str(config))
    debugger.start(model=train.watched(chunks))
    train.train_step(place, chunks, optimizer, 0)
    debugger.stop()
    debugger.step()


def merge(folder: Path) -> bool:
    """Let msprobe merge the ranks of each cut, into FOLDER/CUT_merged; whether all went well."""
    ended = []
    for case in NAMES:
        cut = CUTS[case]
        sizes = {"rank_size": cut.ranks, "tp": cut.tp, "pp": cut.pp}
        command = [str(Path(sys.executable).with_name("msprobe")), "graph_visualize", "--file_type", "json"]
        command += [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
        command += ["-tp", str(folder / case / "step0"), "-o", str(folder / f"{case}_merged")]
        ended.append(subprocess.run(command, check=False).returncode)
    return not any(ended)


def compare(folder: Path) -> bool:
    """Hold what lakeprobe merges of the same dumps against it; whether all common rows are the same."""
    import lakeprobe

    alike = True
    with lakeprobe.open(folder / "lake", create=True) as lake:
        for case in ("single", *NAMES):
            lake.ingest(folder / case, run=case, replace=True)
        for case in NAMES:
            lake.merge_layout(case, f"{case}_whole", like="single", replace=True)
            theirs = dict(_theirs(folder / f"{case}_merged" / "step0" / "rank0" / "dump.json"))
            found: dict[str, Counter[str]] = defaultdict(Counter)
            for (op, slot), merged, first in _ours(lake, case):
                there = theirs.pop((op, slot), None)
                if there is not None:
                    found[_verdict(merged, first, there)][_kind(op, slot)] += 1
            found["only msprobe has it"] = Counter(_kind(*name) for name in theirs)
            for verdict, counts in found.items():
                print(f"{case}: {counts.total()} {verdict}: {dict(counts)}")
            alike = alike and OTHER not in found
    return alike


def _verdict(merged: Row, first: Row, there: Row) -> str:
    """How msprobe's statistics of a row are beside ours, and beside those of the first rank that has it."""
    return SAME if _is_same(merged, there) else FIRST if _is_same(first, there) else OTHER


def _kind(op: str, slot: str) -> str:
    """What a row is, in a word or two."""
    if op.startswith("Distributed."):
        return "collectives"
    directions = [word for word in op.split(".") if word in ("forward", "backward", "parameters_grad")]
    return " ".join([*directions, *([] if "parameters_grad" in op else [slot.partition(".")[0]])])


Name = tuple[str, str]
Row = tuple[float | None, ...]


def _theirs(dump: Path) -> Iterator[tuple[Name, Row]]:
    """The statistics of each tensor of msprobe's merged dump; it writes those of bools as words."""
    for op, sections in json.loads(dump.read_text())["data"].items():
        for section, values in sections.items():
            for slot, value in _leaves(SLOTS.get(section, section), values):
                if value.get("type") == "torch.Tensor":
                    slot = slot.removesuffix(".0") if "parameters_grad" in op else slot
                    yield (op, slot), tuple(WORDS.get(value[name], value[name]) for name in STATISTICS)


def _leaves(slot: str, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The leaves of a section, each with its slot."""
    if isinstance(value, dict) and "type" in value:
        yield slot, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(f"{slot}.{key}", item)


def _ours(lake: Any, case: str) -> Iterator[tuple[Name, Row, Row]]:
    """The merged rows under msprobe's names, which are those of the first rank that has them, and that rank's own."""
    numbers = ", ".join(f"{side}.{name}" for side in ("whole", "own") for name in ("max", "min", "mean", "norm"))
    found = lake.sql(
        f"SELECT own.op, own.slot, own.rank, {numbers} FROM layouts "
        "JOIN tensors AS whole ON whole.run = layouts.run AND whole.row = layouts.row "
        "JOIN tensors AS own ON own.run = $case AND own.rank = shard_ranks[1] AND own.row = shard_rows[1] "
        "WHERE layouts.run = $case || '_whole' AND whole.kind = 'tensor' ORDER BY layouts.row",
        {"case": case},
    ).fetchall()
    for op, slot, rank, *statistics in found:
        name = _their_name(op, rank // CUTS[case].tp, CUTS[case].tp)
        yield (name, slot), tuple(statistics[:4]), tuple(statistics[4:])


def _their_name(op: str, stage: int, tp: int) -> str:
    """What msprobe calls an op of a stage: layers of the second are moved by 2 forwards and by 3 backwards."""
    if stage == 0:
        return op
    if op.startswith("Module."):
        return re.sub(r"layers\.(\d+)", lambda found: f"layers.{int(found[1]) + (2 if 'forward' in op else 3)}", op)
    return re.sub(r"\.(\d+\.\w+)$", rf"_rank{stage * tp}.\1", op)


def _is_same(ours: Row, theirs: Row) -> bool:
    """Whether statistics agree to 1e-6; a mean is a sum that cancels, so it is held against the largest element."""
    largest = max((abs(one) for one in theirs[:2] if one is not None), default=0.0)
    scales = (None, None, largest, None)
    return all(
        one is other
        if one is None or other is None
        else abs(one - other) <= TOLERANCE * (abs(other) if size is None else size)
        for one, other, size in zip(ours, theirs, scales, strict=True)
    )


def main(arguments: list[str]) -> int:
    """Do what the first argument says; 0 if all went well."""
    what, folder = arguments
    return 0 if {"dump": dump, "merge": merge, "compare": compare}[what](Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
