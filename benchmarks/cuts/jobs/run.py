"""Train the jobs of this folder, whole and cut, merge and compare them, and say what was found.

    python -m benchmarks.cuts.jobs.run FOLDER METHOD [CASE ...]

METHOD is `statistics` or `tensor`. A case is a cut of CUTS, or CUT+DEFECT; all of them if none is given. The runs land
in FOLDER/lake. Prints a line per case.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # optimizers import it; here it is imported before processes are forked
import torch.distributed as dist

import lakeprobe
import lakeprobe.collect.pytorch.watcher
from benchmarks.cuts import asking
from benchmarks.truth import runs


@dataclass(frozen=True)
class Cut:
    """A job (a module of this folder), how many processes it has, and what else its `train` is given."""

    job: str
    ranks: int
    given: dict[str, Any] = field(default_factory=dict)


CUTS = {
    "ring": Cut("ring", 2), "ring4": Cut("ring", 4), "ring_flash": Cut("ring_flash", 2),
    "ring_flash4": Cut("ring_flash", 4),
    "experts": Cut("experts", 2), "experts4": Cut("experts", 4), "mesh2d": Cut("mesh2d", 4),
    "zigzag": Cut("zigzag", 2), "zigzag4": Cut("zigzag", 4), "interleaved": Cut("interleaved", 2),
    "vocabulary": Cut("vocabulary", 2), "vocabulary4": Cut("vocabulary", 4),
    "sequence": Cut("sequence", 2), "sequence4": Cut("sequence", 4),
    "accumulate": Cut("accumulate", 1), "accumulate2": Cut("accumulate", 2, {"times": 2}),
    "accumulate_ddp": Cut("accumulate", 2, {"times": 2, "ddp": True}),
    "tied": Cut("tied", 2), "tied3": Cut("tied", 3), "capacity": Cut("capacity", 2), "capacity4": Cut("capacity", 4),
    "ulysses": Cut("ulysses", 2), "ulysses4": Cut("ulysses", 4), "hybrid": Cut("hybrid", 4),
}  # fmt: skip
"""The cuts. The whole run of a job is `whole_JOB`."""

WITHOUT = {
    "accumulate": ("not_reduced", "sum_for_mean", "never_synced"), "accumulate2": ("never_synced",),
    "accumulate_ddp": ("not_reduced", "sum_for_mean"), "ulysses4": ("other_values",),
}  # fmt: skip
"""Defects of a job that do nothing in a cut."""

WHOLE = {"accumulate": {"times": 1}}
"""What the whole run's `train` is given."""


def golden_of(case: str) -> str:
    """The whole run of a case."""
    return f"whole_{CUTS[case.partition('+')[0]].job}"


def cases() -> list[str]:
    """The whole runs, the clean cuts, and each defect in its job's cuts."""
    wholes = dict.fromkeys(golden_of(case) for case in CUTS)
    defects = [f"{case}+{name}" for case, cut in CUTS.items() for name in _job(cut.job).DEFECTS
               if name not in WITHOUT.get(case, ())]  # fmt: skip
    return [*wholes, *CUTS, *defects]


def _job(name: str) -> Any:
    return import_module(f"benchmarks.cuts.jobs.{name}")


def _cut(case: str) -> Cut:
    if case.startswith("whole_"):
        job = case.removeprefix("whole_")
        return Cut(job, 1, WHOLE.get(job, {}))
    return CUTS[case.partition("+")[0]]


def make(folder: Path, method: str, wanted: Sequence[str]) -> bool:
    """Train each case in as many processes as its cut has; whether all went well."""
    folder.mkdir(parents=True, exist_ok=True)
    made = True
    for size in sorted({_cut(case).ranks for case in wanted}):
        own = [case for case in wanted if _cut(case).ranks == size]
        meeting = folder / f"jobs{size}.meeting"
        meeting.unlink(missing_ok=True)
        work = partial(_work, folder, method, own, size, meeting)
        processes = [runs.fork(folder / f"jobs{size}.{rank}.log", partial(work, rank)) for rank in range(size)]
        made = max([os.waitpid(process, 0)[1] for process in processes]) == 0 and made
    return made


def _work(folder: Path, method: str, wanted: Sequence[str], size: int, meeting: Path, rank: int) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", FutureWarning)  # collectives under their older names
    dist.init_process_group("gloo", store=dist.FileStore(str(meeting), size), rank=rank, world_size=size)
    for case in wanted:
        cut = _cut(case)
        watch = partial(lakeprobe.collect, run=case, lake=folder / "lake", level="mix", task=method, replace=True)
        _job(cut.job).train(watch, case.partition("+")[2], **cut.given)
    dist.barrier()
    dist.destroy_process_group()


def main(arguments: Sequence[str]) -> int:
    """Make the runs, and say what was found; 1 if a run failed."""
    folder, method, *wanted = arguments
    asked = [case for case in wanted or cases() if not case.startswith("whole_")]
    absent = asking.missing(Path(folder), [*map(golden_of, asked), *asked])
    if absent and not make(Path(folder), method, absent):
        return 1
    asking.ask(Path(folder), asked, golden_of, lambda case: _job(CUTS[case.partition("+")[0]].job).DEFECTS)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
