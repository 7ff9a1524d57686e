"""Sides of a comparison that are given as paths: their dumps come into the lake first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any

from lakeprobe.compare.plan import Side
from lakeprobe.errors import UsageError
from lakeprobe.ingest.run import IngestReport, opened, read_dumps, run_name
from lakeprobe.ingest.unit import source_of
from lakeprobe.lake import layout, store
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.unit import read_dump
from lakeprobe.readers.locate import Located, locate_run
from lakeprobe.work import Progress


def ingested(
    lake: Path,
    given: tuple[Any, Any],
    known: list[str],
    chosen: tuple[Sequence[int], Sequence[int]],
    tensors: str,
    replace: bool,
    jobs: int,
    progress: Progress | None,
) -> tuple[list[Side], tuple[IngestReport, ...]]:
    """Both sides as units of the lake, whose runs are `known`; of paths, only the `chosen` steps and ranks are read.

    Raises UsageError, DumpError and LakeError.
    """
    with ExitStack() as archives:
        located = {
            number: locate_run(archives.enter_context(opened(_path(side, known, lake), tensors)), *chosen)
            for number, side in enumerate(given) if str(side) not in known
        }  # fmt: skip
        names: dict[int, str] = {}
        for number, dumps in located.items():
            taken = {names[other]: located[other] for other in names}
            names[number] = _free_name(lake, dumps, known, taken)
        store.create(lake)
        started = time.monotonic()
        dumps_of = {names[number]: dumps for number, dumps in located.items()}
        # several pairs of units are compared by copies of this process, which is not copied once it has DuckDB
        is_one_pair = all(len(dumps.sources) == 1 for dumps in located.values())
        meanwhile = _import_duckdb if is_one_pair else None
        units = read_dumps(lake, dumps_of, tensors, replace, jobs, progress, meanwhile)
    seconds = time.monotonic() - started
    ingested = tuple(
        IngestReport((run,), tuple(unit for unit in units if unit.key.run == run), seconds)
        for run in dict.fromkeys(names.values())
    )
    sides = []
    for number, side in enumerate(given):
        if number in located:
            run = names[number]
            keys = tuple(dict.fromkeys(UnitKey(run, source.step, source.rank) for source in located[number].sources))
        else:
            run = str(side)
            keys = tuple(layout.units(lake, run))
        sides.append(Side(run, keys))
    return sides, ingested


def _import_duckdb() -> None:
    """What comparing begins with; it takes 0.1 s."""
    import duckdb  # noqa: F401


def _path(side: Any, known: list[str], lake: Path) -> Path:
    path = Path(side).expanduser()
    if not path.exists():
        runs = ", ".join(known) or "none"
        raise UsageError(f"{side} is neither a run in {lake} (there: {runs}) nor a path")
    return path


def _free_name(lake: Path, dumps: Located, known: list[str], taken: dict[str, Located]) -> str:
    """A run name for located dumps: the folder's, with its parents' before it where that is another dump's already."""
    parts = [*(part for part in dumps.root.parts[:-1] if part != dumps.root.anchor), run_name(dumps)]
    for length in range(1, len(parts) + 1):
        name = ".".join(parts[-length:])
        if name in taken:
            if taken[name].root == dumps.root:
                return name
        elif name not in known or _is_of(lake, name, dumps):
            return layout.check_name(name, "run")
    raise UsageError(
        f"the run {parts[-1]} is in {lake} already, from elsewhere; ingest {dumps.root} under another --run"
    )


def _is_of(lake: Path, run: str, dumps: Located) -> bool:
    """Whether every unit that the run has of these steps and ranks was read from these dumps."""
    for (step, rank), sources in groupby(dumps.sources, lambda source: (source.step, source.rank)):
        folder = layout.unit_folder(lake, UnitKey(run, step, rank))
        if folder.exists() and read_dump(folder)["source"] != str(source_of(tuple(sources))):
            return False
    return True
