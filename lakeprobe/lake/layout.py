"""Where everything lies in a lake, and what is in it by the names that people use: runs, units, comparisons.

LAKE/lake.yaml                                              format version
LAKE/log/N.json                                             what was published (`lakeprobe.lake.log`)
LAKE/run=R/step=S/rank=K/P/{dumps,ops,tensors,stacks,undumped,contents,values-0}.parquet     a unit
LAKE/run=R/note.txt                                         a note on the run; comparisons likewise
LAKE/comparisons/comparison=C/P/comparison.yaml
LAKE/comparisons/comparison=C/P/step=S/rank=K/{results,stacks,suspects}.parquet
LAKE/noise/noise=N/P/noise.parquet                          what repeats of a golden run differ from it by
LAKE/tables/table=T/P/table.parquet                         a result table of another tool
LAKE/.staging/                                              what is being written, readers, and locks
LAKE/.collecting/run=R,step=S,rank=K/                       what a process collects, or left when it ended

P names the publication with which a thing came, so what replaces it lies elsewhere. Older releases had no P.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import log
from lakeprobe.lake.log import Snapshot

_NAME = re.compile(r"[\w.+ -]*[\w+]", re.UNICODE)
_LONGEST_NAME = 200
_UNIT = re.compile(r"run=(?P<run>[^/]+)/step=(?P<step>\d+)/rank=(?P<rank>\d+)")
NOISE_FILE, TABLE_FILE, NOTE_FILE = "noise.parquet", "table.parquet", "note.txt"
STORAGES = ("copy", "link", "none")
"""Where tensor contents go: into the lake, nowhere (they stay in the dump's files), or they are left out."""

PREFLIGHT, WEIGHTS = BEGINNINGS = (".preflight", ".weights")
"""Ends of the names of runs: R.preflight is what the run R began with, R.weights the checkpoint that it began with."""


@dataclass(frozen=True, slots=True, order=True)
class UnitKey:
    """Names a unit: one (run, step, rank)."""

    run: str
    step: int
    rank: int

    def __str__(self) -> str:
        """For messages."""
        return f"run {self.run} step {self.step} rank {self.rank}"


def unit_name(key: UnitKey) -> str:
    """What the log calls the unit `key`."""
    return f"run={key.run}/step={key.step}/rank={key.rank}"


def comparison_name(name: str) -> str:
    """What the log calls the comparison `name`."""
    return f"comparisons/comparison={name}"


def noise_name(name: str) -> str:
    """What the log calls the noise `name`."""
    return f"noise/noise={name}"


def table_name(name: str) -> str:
    """What the log calls the table `name`."""
    return f"tables/table={name}"


def unit_folder(lake: Path | Snapshot, key: UnitKey) -> Path:
    """The folder of the unit `key`. Raises LakeError if there is none."""
    folder = snapshot_of(lake).folder(unit_name(key))
    if folder is None:
        raise LakeError(f"{snapshot_of(lake).lake} has no {key} any more")
    return folder


def has_unit(lake: Path | Snapshot, key: UnitKey) -> bool:
    """Whether the unit `key` is in the lake."""
    return unit_name(key) in snapshot_of(lake).places


def comparison_folder(lake: Path | Snapshot, name: str) -> Path | None:
    """The folder of the comparison `name`; None if there is none."""
    return snapshot_of(lake).folder(comparison_name(name))


def noise_file(lake: Path | Snapshot, name: str) -> Path | None:
    """The file of the noise `name`, what repeats of a golden run differ from it by; None if there is none."""
    folder = snapshot_of(lake).folder(noise_name(name))
    return folder and folder / NOISE_FILE


def note_file(lake: Path, name: str) -> Path:
    """Where the note lies on what the log calls `name`; of a run it is called run=R."""
    return lake / name / NOTE_FILE


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


def snapshot_of(lake: Path | Snapshot) -> Snapshot:
    """What is in a lake now; of a snapshot, what was in it then."""
    return lake if isinstance(lake, Snapshot) else log.read(lake)


def units(lake: Path | Snapshot, run: str | None = None) -> list[UnitKey]:
    """The units in the lake, or in one run, sorted."""
    keys = (_UNIT.fullmatch(name) for name in snapshot_of(lake).places)
    return sorted(
        UnitKey(found["run"], int(found["step"]), int(found["rank"]))
        for found in keys if found and run in (None, found["run"])
    )  # fmt: skip


def runs(lake: Path | Snapshot) -> list[str]:
    """The names of the runs that have a unit."""
    return sorted(
        {name.partition("/")[0].removeprefix("run=") for name in snapshot_of(lake).places if name[:4] == "run="}
    )


def comparisons(lake: Path | Snapshot) -> list[str]:
    """The names of the comparisons."""
    return _names(lake, comparison_name(""))


def noises(lake: Path | Snapshot) -> list[str]:
    """The names under which repeats were measured."""
    return _names(lake, noise_name(""))


def tables(lake: Path | Snapshot) -> list[str]:
    """The names of the result tables of other tools."""
    return _names(lake, table_name(""))


def _names(lake: Path | Snapshot, kind: str) -> list[str]:
    return sorted(name.removeprefix(kind) for name in snapshot_of(lake).places if name.startswith(kind))


def check_name(name: str, what: str) -> str:
    """`name`, if it can name a run or comparison (letters, digits, blanks and . _ + -). Raises UsageError."""
    if not _NAME.fullmatch(name) or name.startswith(".") or len(name) > _LONGEST_NAME:
        raise UsageError(
            f"{name!r} cannot name a {what}: use letters, digits, blanks and . _ + - only, not a dot at either end"
        )
    return name
