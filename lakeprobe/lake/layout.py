"""Where everything lies in a lake. Paths only: nothing here reads or writes a table.

LAKE/lake.yaml                                              format version
LAKE/run=R/step=S/rank=K/{dumps,ops,tensors,stacks,undumped,contents,values-0}.parquet     a unit
LAKE/comparisons/comparison=C/comparison.yaml
LAKE/comparisons/comparison=C/step=S/rank=K/{results,stacks,suspects}.parquet
LAKE/noise/noise=N/noise.parquet                            what repeats of a golden run differ from it by
LAKE/tables/T.parquet                                       a result table of another tool
LAKE/.staging/                                              what is being written, and locks
LAKE/.collecting/run=R,step=S,rank=K/                       what a process collects, or left when it ended
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lakeprobe.errors import UsageError

_NAME = re.compile(r"[\w.+ -]*[\w+]", re.UNICODE)
_LONGEST_NAME = 200
STORAGES = ("copy", "link", "none")
"""Where tensor contents go: into the lake, nowhere (they stay in the dump's files), or they are left out."""


@dataclass(frozen=True, slots=True, order=True)
class UnitKey:
    """Names a unit: one (run, step, rank)."""

    run: str
    step: int
    rank: int

    def __str__(self) -> str:
        """For messages."""
        return f"run {self.run} step {self.step} rank {self.rank}"


def unit_folder(lake: Path, key: UnitKey) -> Path:
    """The folder of the unit `key`."""
    return lake / f"run={key.run}" / f"step={key.step}" / f"rank={key.rank}"


def run_folder(lake: Path, run: str) -> Path:
    """The folder of all units of `run`."""
    return lake / f"run={run}"


def comparison_folder(lake: Path, name: str) -> Path:
    """The folder of the comparison `name`."""
    return lake / "comparisons" / f"comparison={name}"


def noise_file(lake: Path, name: str) -> Path:
    """The file of the noise `name`: what repeats of a golden run differ from it by."""
    return lake / "noise" / f"noise={name}" / "noise.parquet"


def staging_folder(lake: Path) -> Path:
    """Where units and comparisons are written before they are put in place."""
    return lake / ".staging"


def collecting_folder(lake: Path) -> Path:
    """Where units are collected before they are put in place."""
    return lake / ".collecting"


def check_storage(tensors: str) -> None:
    """Raise UsageError if `tensors` is none of STORAGES."""
    if tensors not in STORAGES:
        raise UsageError(f"--tensors {tensors} does not exist; use one of {', '.join(STORAGES)}")


def units(lake: Path, run: str | None = None) -> list[UnitKey]:
    """The units in the lake, or in one run, sorted."""
    found = []
    for folder in lake.glob(f"run={run or '*'}/step=*/rank=*"):
        rank, step, name = (part.partition("=")[2] for part in (folder.name, folder.parts[-2], folder.parts[-3]))
        if rank.isdecimal() and step.isdecimal():
            found.append(UnitKey(name, int(step), int(rank)))
    return sorted(found)


def runs(lake: Path) -> list[str]:
    """The names of the runs that have a unit."""
    return sorted({key.run for key in units(lake)})


def comparisons(lake: Path) -> list[str]:
    """The names of the comparisons."""
    return sorted(folder.name.partition("=")[2] for folder in lake.glob("comparisons/comparison=*"))


def noises(lake: Path) -> list[str]:
    """The names under which repeats were measured."""
    return sorted(folder.name.partition("=")[2] for folder in lake.glob("noise/noise=*"))


def check_name(name: str, what: str) -> str:
    """`name`, if it can name a run or comparison (letters, digits, blanks and . _ + -). Raises UsageError."""
    if not _NAME.fullmatch(name) or name.startswith(".") or len(name) > _LONGEST_NAME:
        raise UsageError(
            f"{name!r} cannot name a {what}: use letters, digits, blanks and . _ + - only, not a dot at either end"
        )
    return name
