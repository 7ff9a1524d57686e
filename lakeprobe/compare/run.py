"""Compares two runs and stores the result in the lake as a comparison."""

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
from lakeprobe.compare.unit import PairReport, PairTask, compare_units, compare_units_isolated
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.journals.settle import settle
from lakeprobe.lake import comparison, layout, log, staging, store, views
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.log import Snapshot
from lakeprobe.mapping.files import Mappings
from lakeprobe.schema import COMPARISON_VERSION
from lakeprobe.system import files
from lakeprobe.system.files import expanded
from lakeprobe.version import __version__
from lakeprobe.work import Progress, default_jobs, run_all

if TYPE_CHECKING:
    from lakeprobe.ingest import IngestReport


@dataclass(frozen=True, slots=True)
class CompareReport:
    """What a comparison did: its name, one report per pair of units, the units without counterpart, and seconds.

    `lake` is where the result is. It differs from the lake asked for if that one is read-only.
    """

    name: str
    pairs: tuple[PairReport, ...]
    unpaired: tuple[UnitKey, ...]
    ingested: tuple[IngestReport, ...]
    seconds: float
    lake: Path
    incomplete: tuple[UnitKey, ...] = ()
    """Units whose collecting process ended in the middle of the step."""
    remarks: tuple[str, ...] = ()
    """Remarks about the runs, for example that a run is the same dump as the folder of its name."""

    @property
    def searched(self) -> list[Counts]:
        """How the rows ended, for each pair of units for which a mapping was searched."""
        return [pair.searched for pair in self.pairs if pair.searched is not None]

    @property
    def notes(self) -> list[str]:
        """Remarks, incomplete units, and lines of the mapping files that name nothing in any pair of units."""
        cut_off = [
            f"{key} is incomplete: the process that collected it ended in the middle of the step"
            for key in self.incomplete
        ]
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
    """Compare the run `target` with the run `golden` by `rule`, and store the result as the comparison `name`.

    A side is the name of a run in the lake, or a path with dumps, which are ingested first (`tensors` and `replace` as
    in `ingest`). @step1 and @rank0 after either selects one step and rank. A dump that has changed since it was read is
    read again. If `steps` and `ranks` are given, only those take part.

    Without a rule, the frameworks of the runs and the `mappings` (`lakeprobe.mapping.files.read`) choose a bundled one.
    Between frameworks, and where few ops pair by name, a mapping is searched unless `search` is False. Differences that
    repeats of golden show too, measured as `noise` (`compare.repeats.measure`), do not stand out.

    The comparison replaces an earlier one of the same units, and with `replace` any other of its name. `timeout`
    (seconds) and `memory` ("4GB") limit each pair of units, which then runs in a process of its own.

    Raises UsageError, DumpError, RuleError and LakeError; the lake then stays as it was.
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
            f"{sides[0].run} and {sides[1].run} share no step and rank, and have different numbers of them: "
            f"{numbers_text(sides[0].units)}; {numbers_text(sides[1].units)}"
        )
    if path != store.choose(lake):
        remarks.append(f"{store.choose(lake)} is read-only; the comparison is in the lake {path}, with its runs")
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
                reports = run_all(compare_units_isolated, tasks, jobs, progress, isolated=True)
            comparison.describe(folder, _described(sides, mappings, reports, unpaired) | {"noise": noise})
            files.sync_tree(folder)
            put = {layout.comparison_name(name): folder}
            check = partial(_check_free, name=name, sides=sides, pairs=pairs, replace=replace)
            staging.publish(session, f"compare {sides[0].run} {sides[1].run}", put, before=check)
    except OSError as error:
        raise LakeError.from_system(error, path, "no comparison was written") from error
    if path == store.choose(lake):
        _compare_beginnings(path, sides)
    incomplete = tuple(key for report in reports for key in report.incomplete)
    seconds = time.monotonic() - started
    return CompareReport(name, tuple(reports), tuple(unpaired), ingested, seconds, path, incomplete, tuple(remarks))


def _compare_beginnings(lake: Path, sides: list[Side]) -> None:
    """Compare what the runs began with, where the lake has that of both (`layout.BEGINNINGS`)."""
    present = set(layout.runs(lake))
    for end in layout.BEGINNINGS:
        target, golden = (f"{side.run}{end}" for side in sides)
        if target in present and golden in present:
            compare(target, golden, lake=lake, name=f"{target}_vs_{golden}", replace=False)


def only_pair(lake: Path) -> tuple[str, str, str]:
    """Return target and golden of a lake with two runs, and the reason, for a user who names neither.

    A run of MindSpore is the target of one of PyTorch; otherwise the newer run is the target. Raises UsageError.
    """
    runs = [run for run in layout.runs(lake) if not run.endswith(layout.BEGINNINGS)]
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
    """Return both sides, the reports of what was read, and remarks for the user."""
    target, golden = (side if isinstance(side, str) else Path(side) for side in given)
    if replace or not all(_is_run_only(lake, side) for side in (target, golden)):
        from lakeprobe.compare import paths  # reading dumps needs more than comparing: numpy and pyarrow

        return paths.ingested(lake, (target, golden), chosen, paths.Reading(tensors, replace, jobs, progress))
    store.check(lake)
    sides = []
    for asked in (Asked.of(str(side)) for side in (target, golden)):
        present = tuple(layout.units(lake, asked.name))
        sides.append(Side(asked.name, asked.chosen(present), present))
    return sides, (), []


def _is_run_only(lake: Path, side: str | Path) -> bool:
    """Return whether `side` is a run of the lake and not also a path."""
    return Asked.of(str(side)).name in layout.runs(lake) and not expanded(Asked.of(str(side)).name).exists()


def _chosen(side: Side, steps: Sequence[int], ranks: Sequence[int]) -> Side:
    """Return the side with its units of `steps` and `ranks`, if any are given. Raises UsageError if none is left."""
    chosen = with_numbers(side.units, steps, ranks)
    if not chosen:
        raise UsageError(f"{side.run} does not have the steps and ranks asked for; it has {numbers_text(side.units)}")
    return replaced(side, units=tuple(chosen))


def _check_free(lake: Snapshot, name: str, sides: list[Side], pairs: list[Pair], replace: bool) -> None:
    """Raise UsageError if `name` is taken: by something else or, unless `replace`, by a comparison of other units."""
    others = {"run": layout.runs(lake), "view": views.NAMES, "table": layout.tables(lake)}
    for what, names in others.items():
        if name.lower() in {other.lower() for other in names}:
            raise UsageError(f"{name} is the name of a {what}; give the comparison another name with --name")
    if replace or name not in layout.comparisons(lake):
        return
    try:
        stored = comparison.load(lake, name)
    except LakeError:  # replacing a damaged comparison repairs it
        return
    units = {(unit.step, unit.rank, unit.golden_step, unit.golden_rank) for unit in stored.units}
    asked = {(target.step, target.rank, golden.step, golden.rank) for target, golden in pairs}
    if (stored.target, stored.golden) != (sides[0].run, sides[1].run) or units != asked:
        raise UsageError(
            f"the comparison {name} exists already, of {stored.target} with {stored.golden} in {len(units)} "
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
    """Return the file of the noise asked for. Raises UsageError if `golden` has none."""
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
