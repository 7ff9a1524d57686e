"""Holds two runs against each other and keeps the result in the lake as a comparison."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from dataclasses import replace as replaced
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe.compare import limits
from lakeprobe.compare import rule as rules
from lakeprobe.compare.plan import Asked, Pair, Side, numbers_text, pair_units, with_numbers
from lakeprobe.compare.searching import Counts
from lakeprobe.compare.unit import PairReport, PairTask, compare_units, compare_units_apart
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.journals.settle import settle
from lakeprobe.lake import comparison, layout, log, staging, store, views
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.log import Snapshot
from lakeprobe.mapping.files import Mappings
from lakeprobe.schema import COMPARISON_VERSION
from lakeprobe.system import files
from lakeprobe.version import __version__
from lakeprobe.work import Progress, default_jobs, run_all

if TYPE_CHECKING:
    from lakeprobe.ingest import IngestReport


@dataclass(frozen=True, slots=True)
class CompareReport:
    """What a comparison did: its name, one report per pair of units, the units without counterpart, and seconds.

    `lake` is where it is: another than was asked for where that one cannot be written to.
    """

    name: str
    pairs: tuple[PairReport, ...]
    unpaired: tuple[UnitKey, ...]
    ingested: tuple[IngestReport, ...]
    seconds: float
    lake: Path
    incomplete: tuple[UnitKey, ...] = ()
    """Units whose collecting process was cut off in the middle of the step."""
    remarks: tuple[str, ...] = ()
    """What is to be said of the runs: that one is the folder's of its name."""

    @property
    def searched(self) -> list[Counts]:
        """How the rows ended of each pair of units for which a mapping was searched."""
        return [pair.searched for pair in self.pairs if pair.searched is not None]

    @property
    def notes(self) -> list[str]:
        """Units that are incomplete; lines of the mapping files that do nothing: no pair of units has their name."""
        cut_off = [f"{key} is incomplete: the process that collected it was cut off" for key in self.incomplete]
        idle = [line for line in self.pairs[0].idle if all(line in pair.idle for pair in self.pairs)]
        return [*self.remarks, *cut_off] + [
            f"the {mapping} names {name}, which the {side} run does not have" for mapping, side, name in idle
        ]


def compare(
    target: str | os.PathLike[str],
    golden: str | os.PathLike[str],
    *,
    lake: str | os.PathLike[str] | None = None,
    rule: str | None = None,
    mappings: Mappings | None = None,
    search: bool = True,
    steps: Sequence[int] = (),
    ranks: Sequence[int] = (),
    name: str | None = None,
    noise: str | None = None,
    tensors: str | None = None,
    replace: bool = False,
    jobs: int = 1,
    timeout: float | None = None,
    memory: str | None = None,
    progress: Progress | None = None,
) -> CompareReport:
    """Hold the run `target` against the run `golden` by `rule`, and keep the result as the comparison `name`.

    Without a rule, the frameworks of the runs and the `mappings` (`lakeprobe.mapping.read`) decide which bundled one.
    Between frameworks, and where few ops pair by name, a mapping is searched unless `search` is False.
    Of several steps and ranks only `steps` and `ranks` take part, if any are named.
    A side is the name of a run in the lake, or a path with dumps, which are ingested first (`tensors`
    and `replace` as in `ingest`); of either, @step1 and @rank0 behind it take one step and rank. A dump that has
    changed since it was read is read again. The comparison takes the place of an earlier one of the same units, and
    with `replace` of any other of its name.
    What repeats of golden differ by too, measured as `noise` (`compare.repeats.measure`), does not stand out.
    A pair of units may take `timeout` seconds and so much `memory` ("4GB"); with either it has a process of its own.

    Raises UsageError, DumpError, RuleError and LakeError; the lake then has what it had before.
    """
    started = time.monotonic()
    loaded = rules.load(rule) if rule else None
    mappings = mappings or Mappings()
    most = limits.memory_bytes(memory) if memory else None
    if tensors is not None:
        layout.check_storage(tensors)
    path = store.choose(lake)
    if store.is_writable(path):
        settle(path)
    else:
        path = store.shadow(store.check(path))
    sides, ingested, remarks = _sides(path, (target, golden), (steps, ranks), tensors, replace, jobs, progress)
    sides = [_chosen(side, steps, ranks) for side in sides]
    pairs, unpaired = pair_units(sides[0].units, sides[1].units)
    if not pairs:
        raise UsageError(
            f"{sides[0].run} and {sides[1].run} have no step and rank in common, and not equally many of them: "
            f"{numbers_text(sides[0].units)}; {numbers_text(sides[1].units)}"
        )
    if path != store.choose(lake):
        remarks.append(
            f"{store.choose(lake)} cannot be written to; the comparison is in the lake {path}, with its runs"
        )
    name = layout.check_name(name or f"{sides[0].label}_vs_{sides[1].label}", "comparison")
    _check_free(log.read(path), name, sides, pairs, replace)
    try:
        with staging.locked(path, f"comparison={name}"), staging.staged(path, "comparison") as session, \
                staging.reading(path) as there:  # fmt: skip
            folder = session.folder / "comparison"
            folder.mkdir()
            tasks = _tasks(there, pairs, folder, loaded, mappings, jobs)
            noise_file = _noise_file(path, noise, sides[1].run)
            tasks = [replaced(task, search=search, noise=noise_file) for task in tasks]
            if timeout is None and most is None:
                reports = run_all(compare_units, tasks, jobs, progress)
            else:
                tasks = [replaced(task, seconds=timeout, memory=most) for task in tasks]
                reports = run_all(compare_units_apart, tasks, jobs, progress, apart=True)
            comparison.describe(folder, _described(sides, mappings, reports, unpaired) | {"noise": noise})
            files.sync_tree(folder)
            put = {layout.comparison_name(name): folder}
            check = partial(_check_free, name=name, sides=sides, pairs=pairs, replace=replace)
            staging.publish(session, f"compare {sides[0].run} {sides[1].run}", put, before=check)
    except OSError as error:
        raise LakeError.from_system(error, path, "no comparison was written") from error
    incomplete = tuple(key for report in reports for key in report.incomplete)
    seconds = time.monotonic() - started
    return CompareReport(name, tuple(reports), tuple(unpaired), ingested, seconds, path, incomplete, tuple(remarks))


def only_pair(lake: Path) -> tuple[str, str, str]:
    """Target and golden where the lake has two runs and none is named, and why they are.

    A run of MindSpore is the target of one that is not; else the newer run is that of the older. Raises UsageError.
    """
    runs = layout.runs(lake)
    if len(runs) != 2:
        raise UsageError(f"give TARGET and GOLDEN; the lake {lake} has {len(runs)} runs: {', '.join(runs) or 'none'}")
    from lakeprobe.lake.unit import read_dump

    folders = {run: [layout.unit_folder(lake, key) for key in layout.units(lake, run)] for run in runs}
    is_mindspore = {run: read_dump(folders[run][0])["framework"] == "mindspore" for run in runs}
    age = {run: max(folder.stat().st_mtime for folder in folders[run]) for run in runs}
    golden, target = sorted(runs, key=lambda run: (is_mindspore[run], age[run]))
    why = "MindSpore against PyTorch" if is_mindspore[target] > is_mindspore[golden] else "the newer against the older"
    return target, golden, why


def _sides(
    lake: Path,
    given: tuple[str | os.PathLike[str], str | os.PathLike[str]],
    chosen: tuple[Sequence[int], Sequence[int]],
    tensors: str | None,
    replace: bool,
    jobs: int,
    progress: Progress | None,
) -> tuple[list[Side], tuple[IngestReport, ...], list[str]]:
    """Both sides, what was read for them, and what is to be said of it."""
    target, golden = (side if isinstance(side, str) else Path(side) for side in given)
    if replace or not all(_is_run_only(lake, side) for side in (target, golden)):
        from lakeprobe.compare import paths  # reading dumps needs more than comparing: numpy and pyarrow

        return paths.ingested(lake, (target, golden), chosen, paths.Reading(tensors, replace, jobs, progress))
    store.check(lake)
    sides = []
    for asked in (Asked.of(str(side)) for side in (target, golden)):
        there = tuple(layout.units(lake, asked.name))
        sides.append(Side(asked.name, asked.chosen(there), there))
    return sides, (), []


def _is_run_only(lake: Path, side: str | Path) -> bool:
    """Whether `side` is a run of the lake, and no path as well."""
    return Asked.of(str(side)).name in layout.runs(lake) and not Path(Asked.of(str(side)).name).exists()


def _chosen(side: Side, steps: Sequence[int], ranks: Sequence[int]) -> Side:
    """The side with its units of `steps` and `ranks` only, if any are named. Raises UsageError if it has none."""
    chosen = with_numbers(side.units, steps, ranks)
    if not chosen:
        raise UsageError(
            f"{side.run} has none of the steps and ranks that are asked for; it has {numbers_text(side.units)}"
        )
    return replaced(side, units=tuple(chosen))


def _check_free(lake: Snapshot, name: str, sides: list[Side], pairs: list[Pair], replace: bool) -> None:
    """Raise UsageError if `name` is that of something else, or, unless `replace`, of a comparison of other units."""
    others = {"run": layout.runs(lake), "view": views.NAMES, "table": layout.tables(lake)}
    for what, names in others.items():
        if name.lower() in {other.lower() for other in names}:
            raise UsageError(f"{name} is the name of a {what}; give the comparison another one with --name")
    if replace or name not in layout.comparisons(lake):
        return
    try:
        stored = comparison.load(lake, name)
    except LakeError:  # a damaged one is there to be replaced
        return
    units = {(unit.step, unit.rank, unit.golden_step, unit.golden_rank) for unit in stored.units}
    asked = {(target.step, target.rank, golden.step, golden.rank) for target, golden in pairs}
    if (stored.target, stored.golden) != (sides[0].run, sides[1].run) or units != asked:
        raise UsageError(
            f"the comparison {name} is there already, of {stored.target} with {stored.golden} in {len(units)} "
            "(step, rank); give another --name, or --replace it"
        )


def _tasks(
    there: Snapshot, pairs: list[Pair], folder: Path, rule: rules.Rule | None, mappings: Mappings, jobs: int
) -> list[PairTask]:
    threads = max(1, default_jobs() // min(jobs, len(pairs)))
    first = {run: layout.units(there, run)[0].step for run in {key.run for pair in pairs for key in pair}}
    return [
        PairTask(
            there.lake, target, golden, layout.unit_folder(there, target), layout.unit_folder(there, golden),
            folder / f"step={target.step}" / f"rank={target.rank}", rule, mappings, threads,
            target.step == first[target.run] and golden.step == first[golden.run],
        )
        for target, golden in pairs
    ]  # fmt: skip


def _noise_file(lake: Path, noise: str | None, golden: str) -> Path | None:
    """The file of the noise that is asked for. Raises UsageError if there is none of `golden`."""
    if noise is None:
        return None
    from lakeprobe.compare.repeats import check

    return check(lake, noise, golden)


def _described(
    sides: list[Side], mappings: Mappings, reports: list[PairReport], unpaired: list[UnitKey]
) -> dict[str, Any]:
    rule = reports[0].rule
    return {
        "target": sides[0].run,
        "golden": sides[1].run,
        "rule": {"name": rule.name, "origin": rule.origin, "sql": rule.sql},
        "mappings": {field.name: len(getattr(mappings, field.name)) for field in fields(mappings)},
        "version": COMPARISON_VERSION,
        "lakeprobe": __version__,
        "thresholds": dict(reports[0].thresholds),
        "metrics": list(dict.fromkeys(metric for report in reports for metric in report.own_metrics)),
        "pairs": [
            {
                "step": report.target.step,
                "rank": report.target.rank,
                "golden_step": report.golden.step,
                "golden_rank": report.golden.rank,
                "kind": report.kind,
                "rows": report.rows,
                "is_rounding": report.is_rounding,
                "dumped": report.dumped,
                "is_structure": report.is_structure,
                "cut_off": len(report.incomplete),
            }
            for report in reports
        ],
        "unpaired": [asdict(key) for key in unpaired],
        "incomplete": [asdict(key) for report in reports for key in report.incomplete],
    }
