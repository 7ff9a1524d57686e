"""Holds two runs against each other and keeps the result in the lake as a comparison."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from dataclasses import replace as replaced
from itertools import groupby
from pathlib import Path
from typing import Any

from lakeprobe.collect import recovery
from lakeprobe.compare import limits
from lakeprobe.compare import rule as rules
from lakeprobe.compare.plan import Pair, pair_units
from lakeprobe.compare.unit import PairReport, PairTask, compare_units, compare_units_apart
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.ingest.run import IngestReport, opened, read_dumps, run_name
from lakeprobe.ingest.unit import check_storage, source_of
from lakeprobe.lake import comparison, layout, staging, store
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.unit import read_dump
from lakeprobe.mapping.files import Mappings
from lakeprobe.readers.locate import Located, locate_run
from lakeprobe.version import __version__
from lakeprobe.work import Progress, default_jobs, run_all


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: a run, and those of its units that take part."""

    run: str
    units: tuple[UnitKey, ...]


@dataclass(frozen=True, slots=True)
class CompareReport:
    """What a comparison did: its name, one report per pair of units, the units without counterpart, and seconds."""

    name: str
    pairs: tuple[PairReport, ...]
    unpaired: tuple[UnitKey, ...]
    ingested: tuple[IngestReport, ...]
    seconds: float
    incomplete: tuple[UnitKey, ...] = ()
    """Units whose collecting process was cut off in the middle of the step."""

    @property
    def notes(self) -> list[str]:
        """Units that are incomplete; lines of the mapping files that do nothing: no pair of units has their name."""
        cut_off = [f"{key} is incomplete: the process that collected it was cut off" for key in self.incomplete]
        idle = [line for line in self.pairs[0].idle if all(line in pair.idle for pair in self.pairs)]
        return cut_off + [
            f"the {mapping} names {name}, which the {side} run does not have" for mapping, side, name in idle
        ]


def compare(
    target: str | os.PathLike[str],
    golden: str | os.PathLike[str],
    *,
    lake: str | os.PathLike[str] | None = None,
    rule: str | None = None,
    mappings: Mappings | None = None,
    steps: Sequence[int] = (),
    ranks: Sequence[int] = (),
    name: str | None = None,
    tensors: str = "copy",
    replace: bool = False,
    jobs: int = 1,
    timeout: float | None = None,
    memory: str | None = None,
    progress: Progress | None = None,
) -> CompareReport:
    """Hold the run `target` against the run `golden` by `rule`, and keep the result as the comparison `name`.

    Without a rule, the frameworks of the runs and the `mappings` (`lakeprobe.mapping.read`) decide which bundled one.
    Of several steps and ranks only `steps` and `ranks` take part, if any are named.
    A side is the name of a run in the lake, or a path with dumps, which are ingested first (`tensors`
    and `replace` as in `ingest`). A comparison of that name is replaced.
    A pair of units may take `timeout` seconds and so much `memory` ("4GB"); with either it has a process of its own.

    Raises UsageError, DumpError, RuleError and LakeError; the lake then has what it had before.
    """
    started = time.monotonic()
    loaded = rules.load(rule) if rule else None
    mappings = mappings or Mappings()
    most = limits.memory_bytes(memory) if memory else None
    check_storage(tensors)
    path = store.choose(lake)
    recovery.settle(path)
    sides, ingested = _sides(path, (target, golden), (steps, ranks), tensors, replace, jobs, progress)
    pairs, unpaired = pair_units(*(_chosen(side.units, steps, ranks) for side in sides))
    if not pairs:
        raise UsageError(
            f"{sides[0].run} and {sides[1].run} have no step and rank in common, and not equally many of them"
        )
    name = layout.check_name(name or f"{sides[0].run}_vs_{sides[1].run}", "comparison")
    try:
        with staging.locked(path, f"comparison={name}"), staging.staged(path, "comparison") as folder:
            tasks = _tasks(path, pairs, folder, loaded, mappings, jobs)
            if timeout is None and most is None:
                reports = run_all(compare_units, tasks, jobs, progress)
            else:
                tasks = [replaced(task, seconds=timeout, memory=most) for task in tasks]
                reports = run_all(compare_units_apart, tasks, jobs, progress, apart=True)
            comparison.describe(folder, _described(name, sides, mappings, reports, unpaired))
            staging.put_in_place(folder, layout.comparison_folder(path, name))
    except OSError as error:
        raise LakeError.from_system(error, path, "no comparison was written") from error
    incomplete = tuple(key for pair in pairs for key in pair if not _is_complete(path, key))
    seconds = time.monotonic() - started
    return CompareReport(name, tuple(reports), tuple(unpaired), ingested, seconds, incomplete)


def _is_complete(lake: Path, key: UnitKey) -> bool:
    return read_dump(layout.unit_folder(lake, key)).get("complete") is not False  # absent from older units


def _chosen(units: Sequence[UnitKey], steps: Sequence[int], ranks: Sequence[int]) -> list[UnitKey]:
    return [unit for unit in units if (not steps or unit.step in steps) and (not ranks or unit.rank in ranks)]


def _sides(
    lake: Path,
    given: tuple[Any, Any],
    chosen: tuple[Sequence[int], Sequence[int]],
    tensors: str,
    replace: bool,
    jobs: int,
    progress: Progress | None,
) -> tuple[list[Side], tuple[IngestReport, ...]]:
    """Both sides as units of the lake; of what is given as a path, the `chosen` steps and ranks are ingested first."""
    known = layout.runs(lake)
    with ExitStack() as archives:
        located = {
            number: locate_run(archives.enter_context(opened(_path(side, known, lake), tensors)), *chosen)
            for number, side in enumerate(given) if str(side) not in known
        }  # fmt: skip
        names: dict[int, str] = {}
        for number, dumps in located.items():
            taken = {names[other]: located[other] for other in names}
            names[number] = _free_name(lake, dumps, known, taken)
        if not located:
            store.check(lake)
            return [Side(str(side), tuple(layout.units(lake, str(side)))) for side in given], ()
        store.create(lake)
        started = time.monotonic()
        dumps_of = {names[number]: dumps for number, dumps in located.items()}
        units = read_dumps(lake, dumps_of, tensors, replace, jobs, progress)
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


def _tasks(
    lake: Path, pairs: list[Pair], folder: Path, rule: rules.Rule | None, mappings: Mappings, jobs: int
) -> list[PairTask]:
    threads = max(1, default_jobs() // min(jobs, len(pairs)))
    return [
        PairTask(lake, target, golden, folder / f"step={target.step}" / f"rank={target.rank}", rule, mappings, threads)
        for target, golden in pairs
    ]


def _described(
    name: str, sides: list[Side], mappings: Mappings, reports: list[PairReport], unpaired: list[UnitKey]
) -> dict[str, Any]:
    rule = reports[0].rule
    return {
        "comparison": name,
        "target": sides[0].run,
        "golden": sides[1].run,
        "rule": {"name": rule.name, "origin": rule.origin, "sql": rule.sql},
        "mappings": {field.name: len(getattr(mappings, field.name)) for field in fields(mappings)},
        "lakeprobe": __version__,
        "pairs": [
            {
                "step": report.target.step,
                "rank": report.target.rank,
                "golden_step": report.golden.step,
                "golden_rank": report.golden.rank,
                "kind": report.kind,
                "rows": report.rows,
            }
            for report in reports
        ],
        "unpaired": [{"run": key.run, "step": key.step, "rank": key.rank} for key in unpaired],
    }
