"""Makes units of journals. A journal whose process was killed gives a unit of the ops that it holds.

The collecting process only appends to a journal. The expensive work (rows, Parquet) happens here: in a separate process
while a training goes on, `python -m lakeprobe.journals.recovery LAKE`, or in the collecting process when a short one
ends (`build_all`). If they are killed, the next command that opens the lake does the work. Nothing here imports a
framework.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

import msgspec
import xxhash

from lakeprobe import diagnostics
from lakeprobe.bounds import MIB
from lakeprobe.errors import DumpError, LakeError, LakeprobeError
from lakeprobe.journals import journal
from lakeprobe.journals.journal import Head
from lakeprobe.journals.ops import FinalOps, Op, Skeletons, add
from lakeprobe.journals.repeats import Repeats, UnitTables
from lakeprobe.lake import compaction, layout, log, staging
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.log import Snapshot
from lakeprobe.lake.unit import UnitWriter, as_rows, read_dump
from lakeprobe.readers import names
from lakeprobe.readers.dump import COLLECTED, CONSTRUCT_FILE, MISSING, STACK_FILE
from lakeprobe.readers.source import Emit, Source
from lakeprobe.readers.tables import Tables
from lakeprobe.system import files, own_process, owner
from lakeprobe.system.files import blocks
from lakeprobe.work import run_all

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "lakeprobe"
"""The value of dumps.format for a collected unit."""

PERTURB = "perturb"
"""The task at which each call is run again with changed inputs."""
_MALFORMED = (DumpError, TypeError, ValueError, LookupError, AttributeError, RecursionError)
"""Errors that a malformed op can raise."""
LONGEST_WAIT = 30.0
"""Seconds after which the steps that have begun by then are built, if they have ended."""
_MOST_WAITING = 256
"""The number of ended steps that are built whatever the time."""
LARGEST_PORTION = 32 * MIB
"""Bytes of journals that are built at once. Their rows take a few times as much memory."""
_NOT_KEPT = "the tensor was not kept when it was collected"


@dataclass(frozen=True, slots=True)
class Recovered:
    """A unit made of a journal. `complete` is False if its process was cut off in the middle of the step."""

    key: UnitKey
    complete: bool
    ops: int
    is_going_on: bool = field(default=False, compare=False)
    """Whether the process that collected it still runs."""


def recover(lake: Path, *, again: bool = False) -> tuple[list[Recovered], list[LakeprobeError]]:
    """Make units of all journals of `lake` that no process holds. Returns the units, and the errors of the others.

    Journals that were set aside, because no unit can be made of them, are retried only with `again`.
    """
    folders = [folder for folder in journal.folders(lake) if again or journal.set_aside(folder) is None]
    made: list[Recovered] = []
    for portion in _portions(_by_rank(folders)):
        with suppress(LakeprobeError):  # building them one by one tells of it
            made += build_together(lake, portion) if len(portion) > 1 else []
    ended = run_all(_ended, [(lake, folder) for folder in folders if folder.exists()], 1)
    made += [it for it in ended if isinstance(it, Recovered)]
    return made, [it for it in ended if isinstance(it, LakeprobeError)]


def _by_rank(folders: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield the folders of the journals of each rank of a run, by step."""
    ranks: dict[tuple[str, str], list[tuple[int, Path]]] = {}
    for folder in folders:
        if found := journal.FOLDER.fullmatch(folder.name):
            ranks.setdefault((found["run"], found["rank"]), []).append((int(found["step"]), folder))
    for steps in ranks.values():
        yield [folder for _, folder in sorted(steps)]


def _ended(place: tuple[Path, Path]) -> Recovered | LakeprobeError | None:
    """Return the unit that was made of the journal at (lake, folder), or the error: one must not keep others away."""
    try:
        return build_or_set_aside(*place)
    except LakeprobeError as error:
        return error


def build_or_set_aside(lake: Path, folder: Path, *, wait: bool = False) -> Recovered | None:
    """Call `build`. If no unit can ever be made of the journal, leave it in place and write the reason next to it.

    Raises DumpError and LakeError, whatever is wrong with the journal.
    """
    try:
        return build(lake, folder, wait=wait)
    except LakeprobeError as error:
        if not isinstance(error.__cause__, OSError):  # not if the disk is full, because it may have room later
            journal.put_aside(folder, str(error))
        raise
    except Exception as error:  # the journal is malformed; it must not block other runs
        reason = f"{folder / 'journal'}: no unit can be made of it ({type(error).__name__}: {error})"
        journal.put_aside(folder, reason)
        raise DumpError(reason) from error


def build(lake: Path, folder: Path, *, wait: bool = False) -> Recovered | None:
    """Make a unit of the journal in `folder`, put it in place, and remove the folder.

    Returns None if the journal has no op, or if another process is making the unit. With `wait`, waits for that
    process. Raises DumpError and LakeError, and keeps the journal.
    """
    with staging.unchanged(lake), journal.taken(folder, wait) as path:
        if path is None:
            return None
        head = journal.head(path)
        has_ops = any(batch.ops for batch in journal.batches(path))
        unit = _build(lake, path, head) if head and has_ops else None
        shutil.rmtree(folder)
        return unit


def _build(lake: Path, path: Path, head: Head) -> Recovered | None:
    fingerprint = _hash(path)
    known = _fingerprint_of(lake, head.key)
    if known == fingerprint:  # the process that made it was killed before it removed the journal
        return None
    if known is not None and not head.replace:
        raise LakeError(f"{head.key} came into {lake} while it was collected; what was collected is in {path.parent}")
    with staging.staged(lake, "recover") as session:
        folder = session.folder / "unit"
        folder.mkdir()
        row = _write_tables(folder, path, head) | {"fingerprint": fingerprint}
        with UnitWriter(folder) as writer:
            writer.write_rows("dumps", [row])
            writer.close()
        put = {layout.unit_name(head.key): folder}
        if head.task == PERTURB:
            put[layout.live_perturbation_name(head.key)] = _write_perturbations(
                session.folder / "perturbed", path, head
            )
        for written in put.values():
            files.sync_tree(written)
        staging.publish(session, f"collect {head.key}", put, before=partial(_check, head))
    return _recovered(path, head, row)


def _recovered(path: Path, head: Head, row: dict[str, Any]) -> Recovered:
    is_going_on = bool(head.owner) and owner.is_alive(head.owner, path)
    return Recovered(head.key, row["complete"], row["ops"], is_going_on)


def build_together(
    lake: Path, folders: Sequence[Path], *, wait: bool = False, known: Repeats | None = None
) -> list[Recovered]:
    """Make units of journals of one rank in one publication, and remove their folders.

    Many are written as a compacted rank, unless the lake has one already. Journals that need a closer look, such as
    those with contents, stay for `build`, and those that a process holds, unless it `wait`s for them. `known` has a
    step that they may repeat, and gets another. Raises DumpError and LakeError.
    """
    earlier = Repeats() if known is None else known
    with staging.unchanged(lake), ExitStack() as held:
        paths = [held.enter_context(journal.taken(folder, wait)) for folder in folders]
        journals = [(path, head) for path in paths if path is not None and (head := _plain_head(path))]
        heads = [head for _, head in journals]
        ranks = {layout.rank_name(head.run, head.rank) for head in heads}
        if len(ranks) != 1 or not _are_new(log.read(lake), heads):
            return []
        try:
            read = _read_alike(journals, earlier) or [(path, head, *_tables_of(path, head)) for path, head in journals]
        except _MALFORMED:
            return []
        units = {head.key: tables for _, head, row, tables in read if row["ops"]}
        if not units:
            return []
        with staging.staged(lake, "recover") as session:
            (rank,) = ranks
            is_rank = len(units) >= compaction.MANY_UNITS and rank not in log.read(lake).places
            put = _write_rank(session.folder, rank, units) if is_rank else _write_units(session.folder, units)
            for written in put.values():
                files.sync_tree(written)

            def check(snapshot: Snapshot) -> None:
                if not _are_new(snapshot, heads) or (is_rank and rank in snapshot.places):
                    raise LakeError(f"{rank} came into {lake} while it was collected")

            what = f"{len(units)} steps of {rank}" if len(units) > 1 else str(*units)
            staging.publish(session, f"collect {what}", put, before=check)
        made = [_recovered(path, head, row) for path, head, row, _ in read if head.key in units]
        for path, *_ in read:
            shutil.rmtree(path.parent)
        return made


def _write_rank(folder: Path, rank: str, units: Mapping[UnitKey, UnitTables]) -> dict[str, Path]:
    """Write units as a compacted rank below `folder`. Returns its folder by its name."""
    compaction.write_rank(folder / "rank", units)
    return {rank: folder / "rank"}


def _write_units(folder: Path, units: Mapping[UnitKey, UnitTables]) -> dict[str, Path]:
    """Write units below `folder`. Returns the folder of each by its name."""
    put = {}
    for key, tables in units.items():
        own = put[layout.unit_name(key)] = folder / str(key.step)
        own.mkdir()
        with UnitWriter(own) as writer:
            for table, batches in tables.items():
                for batch in batches:
                    writer.write(table, batch)
            writer.close()
    return put


def _plain_head(path: Path) -> Head | None:
    """Return the head of a journal whose unit has tables only. None if it has more, or no head."""
    has_values = any((path.parent / "unit").iterdir())
    head = None if has_values else journal.head(path)
    return None if head is None or head.task == PERTURB else head


def _are_new(snapshot: Snapshot, heads: Sequence[Head]) -> bool:
    """Return whether the heads are of different units, none of which is in the lake."""
    keys = {head.key for head in heads}
    return len(keys) == len(heads) and not any(layout.has_unit(snapshot, key) for key in keys)


def _read_alike(
    journals: Sequence[tuple[Path, Head]], known: Repeats
) -> list[tuple[Path, Head, dict[str, Any], UnitTables]]:
    """Return the paths, heads, rows of dumps and tables of journals, read by skeletons.

    Returns nothing if the units must not share the numbers of places. Raises DumpError and what else is malformed.
    """
    skeletons = Skeletons()
    read = [(path, head, *_tables_like(path, head, skeletons, known)) for path, head in journals]
    leaves = skeletons.leaves
    if leaves is None or leaves.can_be_shared:
        return read
    known.forget()
    return []


def _tables_like(path: Path, head: Head, skeletons: Skeletons, known: Repeats) -> tuple[dict[str, Any], UnitTables]:
    """Return what `_tables_of` does, without reading ops if the step repeats an earlier one."""
    step = known.read(path, head)
    found = known.of(step)
    if found is None:
        row, tables = _tables_of(path, head, skeletons)
        known.learn(step, row, tables, skeletons.varied)
        return row, tables
    row = found[0] | {"dump_bytes": path.stat().st_size}
    return row, found[1] | {"dumps": [_dumps(path, row)]}


def _tables_of(path: Path, head: Head, skeletons: Skeletons | None = None) -> tuple[dict[str, Any], UnitTables]:
    """Return the row of dumps of a journal's unit, and the rows of all of its tables."""
    left_out: dict[int, str] = {}
    while True:
        tables: UnitTables = {}
        try:
            row = _write_without(left_out, path.parent, path, head, partial(_append, tables), skeletons)
        except _RefusedError as refused:
            left_out[refused.place] = refused.reason
            continue
        return row, tables | {"dumps": [_dumps(path, row)]}


def _dumps(path: Path, row: dict[str, Any]) -> pa.RecordBatch:
    """Return the table dumps of the unit of a journal."""
    return as_rows("dumps", [row | {"fingerprint": _hash(path)}])


def _append(tables: UnitTables, name: str, batch: pa.RecordBatch) -> None:
    tables.setdefault(name, []).append(batch)


def _write_perturbations(folder: Path, path: Path, head: Head) -> Path:
    """Write what changes of inputs did to the ops of a journal into the new `folder`, and return it."""
    folder.mkdir()
    seqs: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    for batch in journal.batches(path):
        for encoded in batch.ops:
            seqs.setdefault(_call_of(msgspec.msgpack.decode(encoded, type=Op).op), len(seqs))
        rows += batch.perturbed
    rows.sort(key=lambda row: seqs.get(_call_of(row["op"]), -1))  # keeps the order of the rows of a call
    shared = {"run": head.run, "step": head.step, "rank": head.rank, "device": "training"}
    with UnitWriter(folder) as writer:
        writer.write_rows(
            "perturbations",
            [
                row | shared | {"place": place, "seq": seqs.get(call), "ran": f"{call}.forward", "api": _api_of(call)}
                for place, row in enumerate(rows)
                for call in [_call_of(row["op"])]
            ],
        )
        writer.close()
    return folder


def _call_of(op: str) -> str:
    return op.rpartition(".")[0]


def _api_of(call: str) -> str | None:
    return names.parse(f"{call}.forward").api


def _check(head: Head, snapshot: Snapshot) -> None:
    if layout.has_unit(snapshot, head.key) and not head.replace:
        raise LakeError(f"{head.key} came into {snapshot.lake} while it was collected")


class _RefusedError(Exception):
    """An op that cannot become rows, by its index in the journal."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(place, reason)
        self.place, self.reason = place, reason


def _write_tables(folder: Path, path: Path, head: Head) -> dict[str, Any]:
    """Write all tables of a unit except dumps, and return the row of dumps.

    Ops that cannot become rows are left out.
    """
    left_out: dict[int, str] = {}
    while True:
        try:
            with UnitWriter(folder) as writer:
                row = _write_without(left_out, folder, path, head, writer.write)
                writer.close()
        except _RefusedError as refused:  # start over, because some of its rows are in the batch already
            left_out[refused.place] = refused.reason
        else:
            return row


def _write_without(
    left_out: Mapping[int, str], folder: Path, path: Path, head: Head, emit: Emit, skeletons: Skeletons | None = None
) -> dict[str, Any]:
    """Hand the rows of all tables of a unit except dumps to `emit`, and return the row of dumps.

    Its values are linked into `folder`. `skeletons` are those of other units of the run.
    """
    contents: list[dict[str, Any]] = []
    of_name: dict[str, str] = {}
    stacks: list[int] = []
    notes: list[str] = []
    place = 0
    ended = False

    def content_of(name: object) -> tuple[str | None, str | None]:
        content = of_name.pop(str(name), "") or None
        return content, None if content else _NOT_KEPT

    source = Source(FORMAT, folder, folder, head.step, head.rank)
    tables = Tables(source, path, content_of, emit, like=None if skeletons is None else skeletons.leaves)
    final = FinalOps(path)
    for batch in journal.batches(path):
        contents += batch.contents
        stacks += [tables.stack(frames) for frames in batch.stacks]
        ops = final.of(batch)
        is_taken = skeletons is not None and not left_out and ops and skeletons.take(tables, ops, stacks)
        for number, op in enumerate(() if is_taken else ops, place):
            if number not in left_out:
                try:
                    add(tables, op, stacks, of_name)
                except _MALFORMED as error:
                    raise _RefusedError(number, str(error)) from error
        place += len(ops)
        ended = batch.ended
        notes += batch.notes
    summary = tables.close()
    emit("contents", as_rows("contents", contents))
    _link_values(path.parent / "unit", folder, contents)
    if not ended:
        notes.insert(0, f"incomplete: collecting was cut off in the middle of the step, after {place} ops")
    notes += _perturbed(head)
    notes += [f"an op was left out: {reason}" for reason in left_out.values()]
    if summary.unreadable:
        notes.append(f"{summary.unreadable} tensors were not kept (each is larger than 1 GiB)")
    return {
        "format": FORMAT,
        "framework": head.framework,
        "task": head.task,
        "level": head.level,
        **summary.counts,
        "contents": len(contents),
        "content_bytes": sum(row["length"] for row in contents),
        "dump_bytes": path.stat().st_size,
        "tensor_storage": "copy",
        "source": head.source,
        "notes": notes,
        "head": json.dumps(head.head),
        "layout": json.dumps({"": dict.fromkeys((STACK_FILE, CONSTRUCT_FILE), _side_files(head))}),
        "reader_version": head.version,
        "complete": ended,
    }


def _perturbed(head: Head) -> list[str]:
    settings = head.head.get("settings", {})
    if not settings.get("perturb"):
        return []
    size, seed = settings["perturb"], settings["perturb_seed"]
    return [f"perturbed: each floating-point parameter was moved by {size:g} of it before the run (seed {seed})"]


def _side_files(head: Head) -> str:
    return COLLECTED if head.head.get("settings", {}).get("extra_info", True) else MISSING


def _link_values(journaled: Path, folder: Path, contents: list[dict[str, Any]]) -> None:
    """Put a journal's values into the unit's folder too. The journal keeps them until the unit is in the lake.

    Values of an unwritten batch are left behind, because their file is incomplete.
    """
    complete = {row["file"] for row in contents}
    for file in sorted(journaled.glob("values-*.parquet")):
        if file.name in complete and not (folder / file.name).exists():
            files.link_or_copy(file, folder / file.name)


def _hash(path: Path) -> str:
    """Return the XXH3-128 hash of the journal."""
    state = xxhash.xxh3_128()
    for block in blocks(path):
        state.update(block)
    return state.hexdigest()


def _fingerprint_of(lake: Path, key: UnitKey) -> str | None:
    """Return the fingerprint of the unit `key`. None if the lake does not have it."""
    return str(read_dump(layout.unit_place(lake, key))["fingerprint"]) if layout.has_unit(lake, key) else None


def main() -> int:
    """Build the journals whose folders stdin names, one per line, and at the end also all journals that nobody holds.

    The first units are made when their steps have ended, later ones within half a minute and many at a time, because
    most of what a small unit costs is its files. A command that opens the lake does not wait for that (`settle`).

    stdin ends when the collecting process ends, for whatever reason.
    """
    lake = Path(sys.argv[1])
    own_process.prepare()
    os.nice(10)  # the training has priority
    gc.disable()  # there are many objects and no cycles
    code = build_all(lake, _due(_lines()))
    for failed in recover(lake)[1]:
        code = diagnostics.fail(failed)
    return code


def build_all(lake: Path, due: Iterable[Sequence[Path]]) -> int:
    """Make units of the journals in folders as they come, those that come at a time together. Returns an exit code.

    Waits for journals that a process holds. Many small units of a run are put together at the end
    (`lakeprobe.lake.compaction`). Errors go to stderr, one line each, and no unit keeps others away.
    """
    code = 0
    built: Counter[tuple[str, int]] = Counter()
    known = Repeats()
    for folders in _portions(due):
        with suppress(LakeprobeError):  # building them one by one tells of it
            made = build_together(lake, folders, wait=True, known=known)
            built.update((unit.key.run, unit.key.rank) for unit in made)
        for folder in folders:
            try:
                if unit := build_or_set_aside(lake, folder, wait=True):
                    built[unit.key.run, unit.key.rank] += 1
            except LakeprobeError as error:
                code = diagnostics.fail(error)
    for (run, rank), units in built.items():
        if units >= compaction.MANY_UNITS:
            with suppress(LakeprobeError, OSError):  # it only makes reading faster, and the lake is as it was
                compaction.gather(lake, run, rank)
    return code


def _portions(due: Iterable[Sequence[Path]]) -> Iterator[list[Path]]:
    """Yield the same folders in the same order, as many together as fit into memory."""
    for folders in due:
        portion: list[Path] = []
        size = 0
        for folder in folders:
            length = journal.size_of(folder)
            if portion and size + length > LARGEST_PORTION:
                yield portion
                portion, size = [], 0
            portion.append(folder)
            size += length
        yield portion


def _lines() -> SimpleQueue[str]:
    """Return a queue of the lines of stdin as they come. An empty text is the end."""
    lines: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line.rstrip("\n"))
        lines.put("")

    Thread(target=read, daemon=True).start()
    return lines


def _due(lines: SimpleQueue[str]) -> Iterator[list[Path]]:
    """Yield the folders that should be built now, until an empty line says that no more come."""
    if not (line := lines.get()):
        return
    yield [Path(line)]
    waiting: list[Path] = []
    due = 0.0
    while True:
        try:
            line = lines.get(timeout=max(0.0, due - time.monotonic()) if waiting else None)
        except Empty:
            *ended, latest = waiting  # a process begins a step when the one before has ended
            yield ended or [latest]
            waiting, due = [latest] if ended else [], time.monotonic() + LONGEST_WAIT
            continue
        if not line:
            break
        due = due if waiting else time.monotonic() + LONGEST_WAIT
        waiting.append(Path(line))
        if len(waiting) > _MOST_WAITING:
            yield waiting[:-1]
            waiting, due = waiting[-1:], time.monotonic() + LONGEST_WAIT
    if waiting:
        yield waiting


if __name__ == "__main__":
    sys.exit(main())
