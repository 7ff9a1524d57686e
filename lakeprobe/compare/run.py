"""Holds two runs against each other and keeps the result in the lake as a comparison."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from dataclasses import replace as replaced
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe.collect.writing.settle import settle
from lakeprobe.compare import limits
from lakeprobe.compare import rule as rules
from lakeprobe.compare.plan import Pair, Side, pair_units
from lakeprobe.compare.unit import PairReport, PairTask, compare_units, compare_units_apart
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.lake import comparison, layout, staging, store
from lakeprobe.lake.layout import UnitKey
from lakeprobe.mapping.files import Mappings
from lakeprobe.version import __version__
from lakeprobe.work import Progress, default_jobs, run_all

if TYPE_CHECKING:
    from lakeprobe.ingest import IngestReport


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
    layout.check_storage(tensors)
    path = store.choose(lake)
    settle(path)
    given, known = (target, golden), layout.runs(path)
    ingested: tuple[IngestReport, ...] = ()
    if all(str(side) in known for side in given):
        store.check(path)
        sides = [Side(str(side), tuple(layout.units(path, str(side)))) for side in given]
    else:
        from lakeprobe.compare import paths  # reading dumps needs more than comparing: numpy and pyarrow

        sides, ingested = paths.ingested(path, given, known, (steps, ranks), tensors, replace, jobs, progress)
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
    incomplete = tuple(key for report in reports for key in report.incomplete)
    seconds = time.monotonic() - started
    return CompareReport(name, tuple(reports), tuple(unpaired), ingested, seconds, incomplete)


def _chosen(units: Sequence[UnitKey], steps: Sequence[int], ranks: Sequence[int]) -> list[UnitKey]:
    return [unit for unit in units if (not steps or unit.step in steps) and (not ranks or unit.rank in ranks)]


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
