"""Compares two runs and stores the result in the lake as a comparison."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict
from msgspec.structs import replace as replaced

from lakeprobe.compare import limits
from lakeprobe.compare import rule as rules
from lakeprobe.compare.batch import batches, compare_batch
from lakeprobe.compare.earlier import look_back
from lakeprobe.compare.plan import Asked, Pair, Side, by_position, numbers_text, pair_units, with_numbers
from lakeprobe.compare.searching import Counts
from lakeprobe.compare.unit import PairReport, PairTask, compare_units, compare_units_isolated
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.journals.settle import settle
from lakeprobe.lake import comparison, layout, log, shards, staging, store, views
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.log import Snapshot
from lakeprobe.lake.shards import Pending, Shard
from lakeprobe.mapping.files import Mappings
from lakeprobe.schema import COMPARISON_VERSION
from lakeprobe.system import files
from lakeprobe.system.files import expanded
from lakeprobe.version import __version__
from lakeprobe.work import Progress, default_jobs, run_all

_BYTES_TO_COMPARE, _BYTES_PER_BYTE = 400 << 20, 32
"""Memory that a pair of units takes: bytes in any case, and bytes for each byte of their tables of tensors."""

if TYPE_CHECKING:
    from lakeprobe.ingest import IngestReport


class CompareReport(Struct, frozen=True):
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
    pending: Pending | None = None
    """If this was a shard: how far all shards are. When they have finished, the comparison is in the lake."""
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
        idle = [
            line for line in (self.pairs[0].idle if self.pairs else ()) if all(line in pair.idle for pair in self.pairs)
        ]
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
    shard: str | None = None,
    progress: Progress | None = None,
) -> CompareReport:
    """Compare the run `target` with the run `golden` by `rule`, and store the result as the comparison `name`.

    A side is the name of a run in the lake, or a path with dumps, which are ingested first (`tensors` and `replace` as
    in `ingest`). @step1 and @rank0 after either selects one step and rank. A dump that has changed since it was read is
    read again. If `steps` and `ranks` are given, only those take part.

    Without a rule, the frameworks of the runs and the `mappings` (`lakeprobe.mapping.files.read`) choose a bundled one.
    Between two frameworks or implementations a mapping is searched unless `search` is False. Differences that
    repeats of golden show too, measured as `noise` (`compare.repeats.measure`), do not stand out.

    The comparison replaces an earlier one of the same units, and with `replace` any other of its name. `timeout`
    (seconds) and `memory` ("4GB") limit each pair of units, which then runs in a process of its own.

    With `shard`, such as "3/8", this process compares its share of the pairs of units of two runs in the lake. They are
    in the lake once all shards have finished: the last one publishes them (`publish_comparison`).

    Raises UsageError, DumpError, RuleError and LakeError; the lake then stays as it was.
    """
    part = Shard.of(shard) if shard else None
    started = time.monotonic()
    loaded = rules.load(rule) if rule else None
    mappings = mappings or Mappings()
    limits.check_seconds("timeout", timeout)
    most = limits.memory_bytes(memory) if memory else None
    if tensors is not None:
        layout.check_storage(tensors)
    path = store.choose(lake)
    if part:
        _check_shareable(path, target, golden)
    if store.is_writable(path):
        settle(path)
    else:
        path = store.shadow(store.check(path))
    sides, ingested, remarks = _sides(
        path, (target, golden), (steps, ranks), tensors, replace and not part, jobs, progress
    )
    for what, asked in (("step", steps), ("rank", ranks)):
        _check_asked(what, asked, sides)
    sides = [_chosen(side, steps, ranks) for side in sides]
    pairs, unpaired = pair_units(sides[0].units, sides[1].units)
    if not pairs:
        raise UsageError(
            f"{sides[0].run} and {sides[1].run} share no step and rank, and have different numbers of them: "
            f"{numbers_text(sides[0].units)}; {numbers_text(sides[1].units)}"
        )
    remarks += _paired_by_position(pairs, (target, golden))
    if path != store.choose(lake):
        remarks.append(f"{store.choose(lake)} is read-only; the comparison is in the lake {path}, with its runs")
    name = _checked_name(name, sides)
    remarks += _alike(path, name)
    runs = (sides[0].run, sides[1].run)
    _check_free(log.read(path), name, runs, pairs, replace)
    wanted = _Wanted(name, runs, pairs, unpaired, loaded, mappings, search, noise, replace, timeout, most)
    try:
        reports, pending = _make(path, wanted, part, jobs, progress)
    except OSError as error:
        raise LakeError.from_system(error, path, "no comparison was written") from error
    if pending and pending.is_whole:
        publish_comparison(path, name)
    elif path == store.choose(lake) and not part:
        _compare_beginnings(path, runs)
    incomplete = tuple(key for report in reports for key in report.incomplete)
    seconds = time.monotonic() - started
    return CompareReport(
        name, tuple(reports), tuple(unpaired), ingested, seconds, path, incomplete, pending, tuple(remarks)
    )


class _Wanted(Struct, frozen=True):
    """A comparison to make: its name, the runs, their pairs of units and the units without one, and how to compare."""

    name: str
    runs: tuple[str, str]
    pairs: list[Pair]
    unpaired: list[UnitKey]
    rule: rules.Rule | None
    mappings: Mappings
    search: bool
    noise: str | None
    replace: bool
    seconds: float | None
    memory: int | None


def _make(
    lake: Path, wanted: _Wanted, shard: Shard | None, jobs: int, progress: Progress | None
) -> tuple[list[PairReport], Pending | None]:
    """Compare all pairs and publish the comparison, or compare the pairs of a shard and keep them.

    Returns a report per pair, and how far the shards are. Raises OSError.
    """
    label = f"comparison={wanted.name}{f',{shard.index} of {shard.count}' if shard else ''}"
    with (
        staging.locked(lake, label),
        staging.staged(lake, "comparison") as session,
        staging.reading(lake) as snapshot,
    ):
        if shard:
            shards.begin(session, "comparison", wanted.name, shard)
        folder = session.folder / "comparison"
        folder.mkdir()
        tasks = _tasks(snapshot, shard.share(wanted.pairs) if shard else wanted.pairs, folder, wanted, jobs)
        signs = staging.renewing(session, progress)
        if wanted.seconds is None and wanted.memory is None:
            reports = _compare_all(tasks, jobs, signs)
        else:
            reports = run_all(compare_units_isolated, tasks, jobs, signs, isolated=True, memory=_memory)
        described = _described(wanted, reports)
        if shard:
            parts = {f"{layout.comparison_name(wanted.name)}/{task.staged.relative_to(folder)}": task.staged
                     for task in tasks if task.staged.exists()}  # fmt: skip
            kept = described | {"replace": wanted.replace}
            return reports, shards.keep(session, "comparison", wanted.name, shard, _plan(wanted, snapshot), parts, kept)
        comparison.describe(folder, _assembled([described]))
        files.sync_tree(folder)
        put = {layout.comparison_name(wanted.name): folder}
        check = partial(_check_free, name=wanted.name, runs=wanted.runs, pairs=wanted.pairs, replace=wanted.replace)
        staging.publish(session, f"compare {wanted.runs[0]} {wanted.runs[1]}", put, before=check)
    return reports, None


def _compare_all(tasks: list[PairTask], jobs: int, progress: Progress) -> list[PairReport]:
    """Compare all pairs, small ones many at once."""
    dealt = batches(tasks, jobs)
    if len(dealt) == len(tasks):
        return run_all(compare_units, tasks, jobs, progress, memory=_memory)

    def in_pairs(done: int, total: int) -> None:
        progress(done * len(tasks) // max(1, total), len(tasks))

    reports = run_all(compare_batch, dealt, jobs, in_pairs, memory=lambda batch: sum(map(_memory, batch)))
    return [report for batch in reports for report in batch]


def _memory(task: PairTask) -> int:
    """Return the bytes of memory to ask a cluster for: the limit, or an estimate from the sizes of both tables."""
    if task.memory is not None:
        return task.memory
    places = (task.target_place, task.golden_place)
    tables = sum((place.folder / "tensors.parquet").stat().st_size for place in places)
    return _BYTES_TO_COMPARE + _BYTES_PER_BYTE * tables


def _plan(wanted: _Wanted, snapshot: Snapshot) -> str:
    """Return a hash of what the shards of a comparison must have been asked alike, in lakes at the same state."""
    units = [(key, layout.unit_place(snapshot, key).folder.name) for pair in wanted.pairs for key in pair]
    return shards.plan_of(units, wanted.rule, wanted.mappings, wanted.search, wanted.noise, wanted.replace)


def _check_shareable(lake: Path, target: str | os.PathLike[str], golden: str | os.PathLike[str]) -> None:
    """Raise UsageError unless both sides are runs of a lake that can be written to, as shards need."""
    if not store.is_writable(lake):
        raise UsageError(f"{lake} is read-only, and shards meet in the lake; compare without --shard")
    for side in (target, golden):
        if not (isinstance(side, str) and _is_run_only(store.check(lake), side)):
            raise UsageError(f"shards compare runs of the lake, and {side} is a path; read it first: lakeprobe ingest")


def publish_comparison(lake: Path, name: str) -> int:
    """Put everything that the shards of the comparison `name` have compared in the lake. Returns the number of pairs.

    Raises LakeError unless all shards have finished, and UsageError if there are none.
    """
    with staging.unchanged(lake), staging.staged(lake, "comparison") as session:
        made = shards.whole(lake, name)
        with shards.understanding(made):
            parts = [dict(one.described) for one in made.finished]
            described = _assembled(parts)
            runs = (described["target"], described["golden"])
            pairs = [
                (UnitKey(runs[0], it["step"], it["rank"]), UnitKey(runs[1], it["golden_step"], it["golden_rank"]))
                for it in described["pairs"]
            ]
            check = partial(_check_free, name=name, runs=runs, pairs=pairs, replace=parts[0]["replace"])
        thing = layout.comparison_name(name)

        def complete(top: Path) -> None:
            comparison.describe(top / thing, described)
            files.sync(top / thing / comparison.DESCRIPTION_FILE, top / thing)

        shards.publish(session, made, [thing], check, complete)
    _compare_beginnings(lake, runs)
    return len(pairs)


def _compare_beginnings(lake: Path, runs: tuple[str, str]) -> None:
    """Compare what the runs began with, where the lake has that of both (`layout.BEGINNINGS`)."""
    present = set(layout.runs(lake))
    for end in layout.BEGINNINGS:
        target, golden = (f"{run}{end}" for run in runs)
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

    places = {run: [layout.unit_place(lake, key) for key in layout.units(lake, run)] for run in runs}
    is_mindspore = {run: read_dump(places[run][0])["framework"] == "mindspore" for run in runs}
    age = {run: max(place.folder.stat().st_mtime for place in places[run]) for run in runs}
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


def _checked_name(name: str | None, sides: Sequence[Side]) -> str:
    """Return the name of the comparison: `name`, or one after its sides if that is None. Raises UsageError."""
    if name is not None:
        return layout.check_name(name, "comparison")
    return layout.check_name(f"{sides[0].label}_vs_{sides[1].label}", "comparison", "give it another with --name")


def _alike(lake: Path, name: str) -> list[str]:
    """Return a remark if the lake has a comparison whose name differs from `name` by case only: SQL ignores case."""
    alike = [other for other in layout.comparisons(lake) if other != name and other.lower() == name.lower()]
    return [
        f"{name} and {other} differ by case only, so neither is a table in SQL; give one another name, or ask results"
        for other in alike[:1]
    ]


def _paired_by_position(pairs: list[Pair], given: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return remarks on steps and ranks that were paired by position; none if the user named a part of both sides."""
    return [] if all(Asked.of(str(side)).is_part for side in given) else list(by_position(pairs))


def _is_run_only(lake: Path, side: str | Path) -> bool:
    """Return whether `side` is a run of the lake and not also a path."""
    return Asked.of(str(side)).name in layout.runs(lake) and not expanded(Asked.of(str(side)).name).exists()


def _chosen(side: Side, steps: Sequence[int], ranks: Sequence[int]) -> Side:
    """Return the side with its units of `steps` and `ranks`, if any are given. Raises UsageError if none is left."""
    chosen = with_numbers(side.units, steps, ranks)
    if not chosen:
        raise UsageError(f"{side.run} does not have the steps and ranks asked for; it has {numbers_text(side.units)}")
    return replaced(side, units=tuple(chosen))


def _check_asked(what: str, asked: Sequence[int], sides: Sequence[Side]) -> None:
    """Raise UsageError for a step or rank asked for that neither side has: no answer would say so."""
    units = [key for side in sides for key in side.units]
    absent = sorted(set(asked) - {getattr(key, what) for key in units})
    if absent and len(absent) < len(set(asked)):  # if none is there, each side says what it has
        raise UsageError(f"neither side has {what} {absent[0]}; the steps and ranks of both: {numbers_text(units)}")


def _check_free(lake: Snapshot, name: str, runs: tuple[str, str], pairs: list[Pair], replace: bool) -> None:
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
    # what a run began with comes rank by rank, and all of it is compared again each time (_compare_beginnings)
    is_beginning = runs[0].endswith(layout.BEGINNINGS)
    if (stored.target, stored.golden) != runs or (units != asked and not is_beginning):
        raise UsageError(
            f"the comparison {name} exists already, of {stored.target} with {stored.golden} in {len(units)} "
            "(step, rank); give another --name, or --replace it"
        )


def _tasks(snapshot: Snapshot, pairs: list[Pair], folder: Path, wanted: _Wanted, jobs: int) -> list[PairTask]:
    noise = _noise_file(snapshot.lake, wanted.noise, wanted.runs[1])
    threads = max(1, default_jobs() // max(1, min(jobs, len(pairs))))
    first = {run: layout.units(snapshot, run)[0].step for run in {key.run for pair in pairs for key in pair}}
    earlier = look_back(snapshot, pairs)
    return [
        PairTask(
            snapshot.lake, target, golden, layout.unit_place(snapshot, target), layout.unit_place(snapshot, golden),
            folder / f"step={target.step}" / f"rank={target.rank}", wanted.rule, wanted.mappings, threads,
            target.step == first[target.run] and golden.step == first[golden.run],
            (target, golden) in earlier.equal, (target, golden) in earlier.other_updates,
            wanted.search, noise, wanted.seconds, wanted.memory,
        )
        for target, golden in pairs
    ]  # fmt: skip


def _noise_file(lake: Path, noise: str | None, golden: str) -> Path | None:
    """Return the file of the noise asked for. Raises UsageError if `golden` has none."""
    if noise is None:
        return None
    from lakeprobe.compare.repeats import check

    return check(lake, noise, golden)


def _described(wanted: _Wanted, reports: list[PairReport]) -> dict[str, Any]:
    """Return what comparison.yaml says of these reports, which may be a shard's: `_assembled` makes a whole of it."""
    return {
        "runs": wanted.runs,
        "mappings": {kind: len(files) for kind, files in asdict(wanted.mappings).items()},
        "rules": [asdict(report.rule) for report in reports[:1]],
        "thresholds": [dict(report.thresholds) for report in reports[:1]],
        "pairs": [_described_pair(report) for report in reports],
        "metrics": [list(report.own_metrics) for report in reports],
        "incomplete": [[asdict(key) for key in report.incomplete] for report in reports],
        "unpaired": [asdict(key) for key in wanted.unpaired],
        "noise": wanted.noise,
    }


def _described_pair(report: PairReport) -> dict[str, Any]:
    batch = {"batch": {"step": report.batch.step, "rank": report.batch.rank}} if report.batch else {}
    return {
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
        **batch,
    }


def _assembled(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the content of comparison.yaml, from the descriptions of all shards in their order."""
    first = parts[0]
    rule = first["rules"][0]
    return {
        "target": first["runs"][0],
        "golden": first["runs"][1],
        "rule": {"name": rule["name"], "origin": rule["origin"], "sql": rule["sql"]},
        "mappings": first["mappings"],
        "version": COMPARISON_VERSION,
        "lakeprobe": __version__,
        "thresholds": first["thresholds"][0],
        "metrics": list(dict.fromkeys(metric for own in _dealt(parts, "metrics") for metric in own)),
        "pairs": _dealt(parts, "pairs"),
        "unpaired": first["unpaired"],
        "incomplete": [key for keys in _dealt(parts, "incomplete") for key in keys],
        "noise": first["noise"],
    }


def _dealt(parts: list[dict[str, Any]], what: str) -> list[Any]:
    """Return the items of all shards in the order in which they were dealt out: one to each in turn."""
    rounds = zip_longest(*(part[what] for part in parts))
    return [item for given in rounds for item in given if item is not None]
