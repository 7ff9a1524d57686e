"""Defines the layout of a lake on disk, and lists its content by the names that people use: runs, units, comparisons.

LAKE/lake.yaml                                              format version
LAKE/log/N.json                                             what was published (`lakeprobe.lake.log`)
LAKE/run=R/step=S/rank=K/P/{dumps,ops,tensors,stacks,undumped,contents,values-0}.parquet     a unit
LAKE/run=R/step=S/P/{dumps,ops,tensors,stacks,undumped,contents}.parquet, held.json          a compacted step: its units
LAKE/run=R/step=S/P/rank=K/values-0.parquet                 the copied contents of a unit of a compacted step
LAKE/run=R/rank=K/P/{dumps,ops,tensors,stacks,undumped,contents}.parquet, held.json          a compacted rank: its units
LAKE/run=R/note.txt                                         a note on the run; comparisons likewise
LAKE/comparisons/comparison=C/P/comparison.yaml
LAKE/comparisons/comparison=C/P/step=S/rank=K/{results,stacks,suspects}.parquet
LAKE/comparisons/comparison=C/P/step=S/rank=K/batch-{results,stacks,suspects}.parquet        of this pair and others
LAKE/series/run=R/rank=K/part=N/P/series.parquet            what lakeprobe.monitor measured
LAKE/noise/noise=N/P/noise.parquet                          how far repeats of a golden run differ from it
LAKE/verifications/verification=V/P/verifications.parquet   what ops of a run gave when they were run again
LAKE/perturbations/perturbation=V/P/perturbations.parquet   what changes of inputs did to the ops of a run
LAKE/perturbations/perturbation=R,step=S,rank=K/P/perturbations.parquet        the same, while the run R was collected
LAKE/tables/table=T/P/table.parquet                         a result table of another tool
LAKE/.staging/                                              what is being written, notes of readers, and locks
LAKE/.collecting/run=R,step=S,rank=K/                       what a process collects, or left behind when it ended

P names the publication that brought a thing, so a replacement goes into another folder. Older releases had no P.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from lakeprobe.errors import LakeError, UsageError, unknown
from lakeprobe.lake import log
from lakeprobe.lake.log import Snapshot
from lakeprobe.system import files

_NAME = re.compile(log.OWN_NAME)
_LONGEST_NAME = 200
_SERIES = re.compile(r"series/run=(?P<run>[^/]+)/rank=(?P<rank>\d+)/part=(?P<part>\d+)")
_UNIT = re.compile(r"run=(?P<run>[^/]+)(/step=(?P<step>\d+))?(/rank=(?P<rank>\d+))?")
NOISE_FILE, TABLE_FILE, SERIES_FILE, NOTE_FILE = "noise.parquet", "table.parquet", "series.parquet", "note.txt"
VERIFICATION_FILE, PERTURBATION_FILE = "verifications.parquet", "perturbations.parquet"
STORAGES = ("copy", "link", "none")
"""Where tensor contents go. copy: into the lake. link: they stay in the dump's files. none: they are left out."""

PREFLIGHT, WEIGHTS = BEGINNINGS = (".preflight", ".weights")
"""Ends of the names of runs: R.preflight is what the run R began with, R.weights the checkpoint that it began with."""


class UnitKey(Struct, frozen=True, order=True):
    """Names a unit: one (run, step, rank)."""

    run: str
    step: int
    rank: int

    def __str__(self) -> str:
        """Return the key for messages."""
        return f"run {self.run} step {self.step} rank {self.rank}"


def unit_name(key: UnitKey) -> str:
    """Return the name of the unit `key` in the log."""
    return f"run={key.run}/step={key.step}/rank={key.rank}"


def series_name(run: str, rank: int, part: int) -> str:
    """What the log calls a part of the series of one rank of a monitored run."""
    return f"series/run={run}/rank={rank}/part={part}"


def series_label(run: str, rank: int) -> str:
    """Return the label under which a process notes that it monitors one rank of `run`."""
    return f"series-run={run},rank={rank}"


def comparison_name(name: str) -> str:
    """Return the name of the comparison `name` in the log."""
    return f"comparisons/comparison={name}"


def noise_name(name: str) -> str:
    """Return the name of the noise `name` in the log."""
    return f"noise/noise={name}"


def verification_name(name: str) -> str:
    """What the log calls the verification `name`."""
    return f"verifications/verification={name}"


def perturbation_name(name: str) -> str:
    """What the log calls the perturbation `name`."""
    return f"perturbations/perturbation={name}"


def live_perturbation_name(key: UnitKey) -> str:
    """Return the name in the log of what changes of inputs did while the unit `key` was collected."""
    return f"{perturbation_name(key.run)},step={key.step},rank={key.rank}"


def table_name(name: str) -> str:
    """Return the name of the table `name` in the log."""
    return f"tables/table={name}"


class UnitPlace(Struct, frozen=True):
    """Where a unit is: the folder of its tables, and its key if they hold many units."""

    folder: Path
    held: UnitKey | None = None

    @property
    def condition(self) -> dict[str, int] | None:
        """The columns of the tables by which the unit's rows are found. None if all are."""
        return None if self.held is None else {"step": self.held.step, "rank": self.held.rank}

    @property
    def values(self) -> Path:
        """The folder of the files with the unit's copied contents."""
        return self.folder if self.held is None else self.folder / values_of(self.held.rank)


def values_of(rank: int) -> str:
    """Return the folder of the copied contents of `rank` in the folder of a compacted step."""
    return f"rank={rank}"


def step_name(run: str, step: int) -> str:
    """What the log calls a compacted step of `run`."""
    return f"run={run}/step={step}"


def rank_name(run: str, rank: int) -> str:
    """What the log calls a compacted rank of `run`."""
    return f"run={run}/rank={rank}"


def unit_place(lake: Path | Snapshot, key: UnitKey) -> UnitPlace:
    """Return where the unit `key` is. Raises LakeError if it is not in the lake, or has a pipe in place of a file."""
    snapshot = snapshot_of(lake)
    name = unit_name(key)
    thing = name if name in snapshot.places else log.holder(snapshot.places, name)
    if thing is None:
        raise LakeError(f"{snapshot.lake} has no {key} any more")
    folder = snapshot.lake / snapshot.places[thing].path
    files.refuse_special(f"{folder}/{file}" for file in snapshot.places[thing].files)
    return UnitPlace(folder, None if thing == name else key)


def unit_folder(lake: Path | Snapshot, key: UnitKey) -> Path:
    """Return the folder of the tables of the unit `key`. Raises LakeError if the unit is not in the lake."""
    return unit_place(lake, key).folder


def has_unit(lake: Path | Snapshot, key: UnitKey) -> bool:
    """Return whether the unit `key` is in the lake."""
    places, name = snapshot_of(lake).places, unit_name(key)
    return name in places or log.holder(places, name) is not None


def comparison_folder(lake: Path | Snapshot, name: str) -> Path | None:
    """Return the folder of the comparison `name`. None if there is none."""
    return snapshot_of(lake).folder(comparison_name(name))


def noise_file(lake: Path | Snapshot, name: str) -> Path | None:
    """Return the file of the noise `name`: how far repeats of a golden run differ from it. None if there is none."""
    folder = snapshot_of(lake).folder(noise_name(name))
    return folder and folder / NOISE_FILE


def verification_file(lake: Path | Snapshot, name: str) -> Path | None:
    """The file of the verification `name`; None if there is none."""
    folder = snapshot_of(lake).folder(verification_name(name))
    return folder and folder / VERIFICATION_FILE


def note_file(lake: Path, name: str) -> Path:
    """Return the path of the note on what the log calls `name`. A run is called run=R."""
    return lake / name / NOTE_FILE


def staging_folder(lake: Path) -> Path:
    """Return the folder in which units and comparisons are written before they are put in place."""
    return lake / ".staging"


def collecting_folder(lake: Path) -> Path:
    """Return the folder in which units are collected before they are put in place."""
    return lake / ".collecting"


def check_storage(tensors: str) -> None:
    """Raise UsageError if `tensors` is not one of STORAGES."""
    if tensors not in STORAGES:
        raise UsageError(f"--tensors {tensors} does not exist; use one of {', '.join(STORAGES)}")


def snapshot_of(lake: Path | Snapshot) -> Snapshot:
    """Return what is in a lake now. A snapshot is returned as it is."""
    return lake if isinstance(lake, Snapshot) else log.read(lake)


def units(lake: Path | Snapshot, run: str | None = None) -> list[UnitKey]:
    """Return the units in the lake, or in one run, sorted."""
    places = snapshot_of(lake).places
    return sorted(key for name in places for key in units_of(name, places[name].held) if run in (None, key.run))


def units_of(name: str, held: Iterable[int]) -> Iterator[UnitKey]:
    """Yield the unit that the log calls `name`, or those that the compacted step or rank `name` has `held`."""
    if found := _UNIT.fullmatch(name):
        steps = held if found["step"] is None else (int(found["step"]),)
        ranks = held if found["rank"] is None else (int(found["rank"]),)
        yield from (UnitKey(found["run"], step, rank) for step in steps for rank in ranks)


def unit_things(lake: Path | Snapshot, run: str) -> list[str]:
    """Return what the log calls the units of `run`: each by itself, or compacted."""
    names = (name for name in snapshot_of(lake).places if name.startswith(f"run={run}/"))
    return sorted(names)


def runs(lake: Path | Snapshot) -> list[str]:
    """Return the names of the runs that have a unit."""
    return sorted(
        {name.partition("/")[0].removeprefix("run=") for name in snapshot_of(lake).places if name[:4] == "run="}
    )


def monitored(lake: Path | Snapshot) -> list[str]:
    """Return the names of the runs that have series."""
    return sorted({found["run"] for found in map(_SERIES.fullmatch, snapshot_of(lake).places) if found})


def unknown_run(lake: Path | Snapshot, name: str, hint: str = "", kind: str = "run") -> UsageError:
    """Return the error for a run that `lake` does not have, or has only series of.

    `kind`: "run", "comparison", or both in the order in which to list them ("run or comparison").
    """
    snapshot = snapshot_of(lake)
    if name in monitored(snapshot):
        return UsageError(
            f"{snapshot.lake} has no ops of the run {name}, which was only monitored; "
            f"see its series: lakeprobe watch {name}, or lakeprobe drift with another monitored run"
        )
    names_of = {"run": runs, "comparison": comparisons}
    known = [known for one in kind.split(" or ") for known in names_of[one](snapshot)]
    return unknown(snapshot.lake, kind, name, known, hint)


def series_parts(lake: Path | Snapshot, run: str) -> dict[int, list[int]]:
    """Return the parts of each rank's series of `run`, both sorted. Part 0 is a series that has ended."""
    parts: dict[int, list[int]] = {}
    for found in filter(None, map(_SERIES.fullmatch, snapshot_of(lake).places)):
        if found["run"] == run:
            parts.setdefault(int(found["rank"]), []).append(int(found["part"]))
    return {rank: sorted(parts[rank]) for rank in sorted(parts)}


def comparisons(lake: Path | Snapshot) -> list[str]:
    """Return the names of the comparisons."""
    return _names(lake, comparison_name(""))


def noises(lake: Path | Snapshot) -> list[str]:
    """Return the names of the noises."""
    return _names(lake, noise_name(""))


def verifications(lake: Path | Snapshot) -> list[str]:
    """Return the names of the verifications: ops of a run that were run again."""
    return _names(lake, verification_name(""))


def perturbations(lake: Path | Snapshot) -> list[str]:
    """Return the names of the perturbations: ops whose inputs were changed after, not while, a run was collected."""
    return [name for name in _names(lake, perturbation_name("")) if "," not in name]


def tables(lake: Path | Snapshot) -> list[str]:
    """Return the names of the result tables of other tools."""
    return _names(lake, table_name(""))


def _names(lake: Path | Snapshot, kind: str) -> list[str]:
    return sorted(name.removeprefix(kind) for name in snapshot_of(lake).places if name.startswith(kind))


def check_name(name: str, what: str, advice: str = "") -> str:
    """Return `name` if it can name a new run or comparison (letters, digits, blanks and . _ + -). Raises UsageError.

    One that begins with - would be an option wherever it is typed; lakes of older releases may have such names.
    `advice` is for a user who did not choose the name.
    """
    then = advice and f"; {advice}"
    if len(name) > _LONGEST_NAME:
        raise UsageError(
            f"{name[:40]}… cannot name a {what}: it has {len(name)} characters, "
            f"and a name has {_LONGEST_NAME} at most{then}"
        )
    if not _NAME.fullmatch(name) or name.startswith("-"):
        raise UsageError(f"{name!r} cannot name a {what}: use {NAME_RULE}{then}")
    return name


NAME_RULE = "letters, digits, blanks and . _ + - only, not a dot or - at either end"
"""What a name may be, in words."""


def name_after(text: str) -> str:
    """Return a name for what is called `text` elsewhere, such as a folder: with _ for what a name may not have."""
    plain = re.sub(r"[^\w.+ -]", "_", text)[:_LONGEST_NAME]
    return re.sub(r"^[.-]|[^\w+]$", "_", plain)
