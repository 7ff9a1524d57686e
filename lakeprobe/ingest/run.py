"""Reads all dumps under a path into a run of the lake: every unit, or none if one cannot be read."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakeprobe.errors import UsageError
from lakeprobe.ingest.unit import UnitReport, UnitTask, check_storage, ingest_unit, put_in_place
from lakeprobe.lake import layout, staging, store
from lakeprobe.lake.layout import UnitKey
from lakeprobe.readers.locate import TENSOR_FOLDER, Located, locate
from lakeprobe.work import Progress, run_all

_SECONDS_TO_START = 0.7
_JSON_PER_SECOND = 25e6
_TENSORS_PER_SECOND = {"copy": 1e9, "link": 10e9}
"""Bytes read in a second, measured on two cores (benchmarks/README.md); they only decide when to share the work."""


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest did: the run, a report per unit, and the wall time in seconds."""

    run: str
    units: tuple[UnitReport, ...]
    seconds: float

    @property
    def read(self) -> tuple[UnitReport, ...]:
        """The units that were read; the others are in the lake already, from the same dump."""
        return tuple(unit for unit in self.units if unit.read)

    @property
    def notes(self) -> list[str]:
        """What was left out or assumed, each with the unit that it is about."""
        return [f"{unit.key}: {note}" for unit in self.units for note in unit.notes]


def ingest(
    path: str | os.PathLike[str],
    *,
    lake: str | os.PathLike[str] | None = None,
    run: str | None = None,
    tensors: str = "copy",
    replace: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
) -> IngestReport:
    """Read the dumps under `path` into the run `run` of `lake`; the run is named after the folder by default.

    `tensors` says where tensor contents go: `copy` into the lake, `link` to the dump's files, or `none`. A dump
    that is in the lake already is left alone; `replace` reads it again. `jobs` is the number of processes; from a
    script, more than one needs the usual `if __name__ == "__main__":`.

    Raises DumpError, LakeError and UsageError; the lake is then as it was before.
    """
    check_storage(tensors)
    started = time.monotonic()
    located = locate(Path(path))
    name = layout.check_name(run or run_name(located), "run")
    units = read_dumps(store.create(store.choose(lake)), {name: located}, tensors, replace, jobs, progress)
    return IngestReport(name, tuple(units), time.monotonic() - started)


def run_name(located: Located) -> str:
    """The name of a run that is not given one: its folder's."""
    if not located.root.name:
        raise UsageError(f"{located.root} has no name to call the run by; give one with --run")
    return located.root.name


def read_dumps(
    lake: Path,
    dumps: Mapping[str, Located],
    tensors: str,
    replace: bool,
    jobs: int,
    progress: Progress | None = None,
) -> list[UnitReport]:
    """Read the located dumps of each run, then put all units in place. If one fails, none is put in place."""
    with staging.staged(lake, "ingest") as folder:
        tasks = [
            UnitTask(
                lake, UnitKey(run, dump.step, dump.rank), dump.folder, folder / str(number), tensors, replace, dump.note
            )
            for number, (run, dump) in enumerate((run, dump) for run in dumps for dump in dumps[run].dumps)
        ]
        reports = run_all(ingest_unit, tasks, _worthwhile(jobs, tasks), progress)
        put_in_place(lake, [task for task, report in zip(tasks, reports, strict=True) if report.read])
    return reports


def _worthwhile(jobs: int, tasks: Sequence[UnitTask]) -> int:
    """`jobs`, or 1 where all is read before another process would have started."""
    return jobs if sum(_seconds(task) for task in tasks) > _SECONDS_TO_START else 1


def _seconds(task: UnitTask) -> float:
    """About how long it takes to read the dump of `task`."""
    tensors = task.folder / TENSOR_FOLDER if task.tensors != "none" else None
    return _size(task.folder) / _JSON_PER_SECOND + (
        _size(tensors) / _TENSORS_PER_SECOND[task.tensors] if tensors else 0
    )


def _size(folder: Path) -> int:
    """Bytes of the files in `folder`; 0 if there is none."""
    try:
        with os.scandir(folder) as files:
            return sum(file.stat().st_size for file in files if file.is_file())
    except OSError:
        return 0
