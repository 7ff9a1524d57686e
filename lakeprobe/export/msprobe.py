"""Writes the units of a run as msprobe's dumps: dump.json or debug.json, stack.json, construct.json, tensor files.

Rows are read and entries written in batches, so that a unit of any size needs constant memory. The files have msprobe's
layout, so that its own tools and our reader recognise them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from lakeprobe.errors import LakeError, UsageError
from lakeprobe.export import json_text, side_files, tensor_files
from lakeprobe.export.entries import Leaf, Op, entry_text
from lakeprobe.export.side_files import write_members
from lakeprobe.export.unit_tables import UnitTables
from lakeprobe.lake import layout, outputs, store
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.unit import sound
from lakeprobe.readers.debug import DEBUG_FILE
from lakeprobe.readers.dump import CONSTRUCT_FILE, DUMP_FILE, STACK_FILE, TENSOR_FOLDER
from lakeprobe.system import files as system_files
from lakeprobe.system.files import absolute
from lakeprobe.tensors import TensorReference
from lakeprobe.work import Progress, run_all

_OURS = re.compile(
    rf"({DUMP_FILE}|{STACK_FILE}|{CONSTRUCT_FILE}|{DEBUG_FILE})|{TENSOR_FOLDER}/[^/]+\.(npy|pt)", re.DOTALL
)
"""Files that an export writes into the folder of a rank."""

_CATEGORIES = {"input_args": "input", "input_kwargs": "kwargs"}
"""msprobe's name of a section in the name of a tensor file, if it is not the section's own name."""


class ExportedUnit(Struct):
    """What was written for one unit: entries, tensor files, and notes on what is missing or changed.

    `absent` counts the tensors that dump.json names and whose contents the lake does not have.
    """

    key: UnitKey
    ops: int = 0
    tensor_files: int = 0
    absent: int = 0
    notes: list[str] = field(default_factory=list)


class ExportReport(Struct, frozen=True):
    """What an export wrote: the run, the folder, a report per unit, and the wall time in seconds."""

    run: str
    folder: Path
    units: tuple[ExportedUnit, ...]
    seconds: float

    @property
    def notes(self) -> list[str]:
        """What is missing or changed, each with its unit."""
        return [f"{unit.key}: {note}" for unit in self.units for note in unit.notes]


class _Task(Struct, frozen=True):
    """A unit to write, and the folder for all units. Picklable."""

    lake: Path
    key: UnitKey
    folder: Path


def export(
    lake: str | os.PathLike[str] | None,
    run: str,
    out: str | os.PathLike[str],
    *,
    steps: Sequence[int] = (),
    ranks: Sequence[int] = (),
    replace: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
) -> ExportReport:
    """Write `run` of `lake` as msprobe's dump folders: OUT/[graph|pynative/]stepN/rankR.

    It writes only the units of `steps` and `ranks`, if any are given. `out` must be new or empty; `replace` replaces an
    earlier export there. The files are written to a draft that is renamed, so `out` is complete or stays as it was.
    `jobs` is the number of processes. In a script, more than one needs the usual `if __name__ == "__main__":`.

    Raises UsageError for a run, step or rank that does not exist, for a folder with other files, and for kernel dumps,
    which msprobe's format cannot hold. Raises LakeError and TensorError if a file cannot be read or written.
    """
    started = time.monotonic()
    source = store.check(store.choose(lake))
    keys = _chosen(source, run, steps, ranks)
    target = absolute(out).resolve()
    with _unchanged(target):
        _check_target(target, source, replace)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            draft.mkdir()
            units = run_all(_export_unit, [_Task(source, key, draft) for key in keys], jobs, progress)
            system_files.put_in_place(draft, target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return ExportReport(run, target, tuple(units), time.monotonic() - started)


# ---- what to write, and where -----------------------------------------------------------------------------


def _chosen(lake: Path, run: str, steps: Sequence[int], ranks: Sequence[int]) -> list[UnitKey]:
    if run not in layout.runs(lake):
        raise layout.unknown_run(lake, run)
    units = layout.units(lake, run)
    chosen = [key for key in units if (not steps or key.step in steps) and (not ranks or key.rank in ranks)]
    if not chosen:
        known = ", ".join(str((key.step, key.rank)) for key in units[:8])
        raise UsageError(f"run {run} has no such step and rank; it has (step, rank) {known}")
    return chosen


def _check_target(target: Path, lake: Path, replaced: bool) -> None:
    """Raise UsageError unless an export may replace `target`."""
    outputs.refuse_lake(target)
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{target} is a file; name a folder")
    files = [Path(folder, name) for folder, _, names in os.walk(target) for name in names]
    if files and not replaced:
        raise UsageError(f"{target} is not empty; choose another folder, or --replace an earlier export")
    for file in files:
        inner = file.parent.name == TENSOR_FOLDER
        if not _OURS.fullmatch(f"{TENSOR_FOLDER}/{file.name}" if inner else file.name):
            raise UsageError(f"{file} is not a file of an export, so {target} is not replaced; choose another folder")
    for key in layout.units(lake) if files else ():
        read_from = Path(UnitTables(layout.unit_place(lake, key)).described["source"]).resolve()
        if read_from.is_relative_to(target) or target.is_relative_to(read_from):
            raise UsageError(f"{target} is where {key} was read from, so it is not replaced; choose another folder")


@contextmanager
def _unchanged(target: Path) -> Iterator[None]:
    """Turn an error of the file system into a LakeError. `target` is unchanged."""
    try:
        yield
    except OSError as error:
        raise LakeError.from_system(error, target, "nothing was exported") from error


# ---- a unit -----------------------------------------------------------------------------------------------


def _export_unit(task: _Task) -> ExportedUnit:
    with sound(task.key):
        return _exported(task)


def _exported(task: _Task) -> ExportedUnit:
    unit, report = UnitTables(layout.unit_place(task.lake, task.key)), ExportedUnit(task.key)
    frames, contents = unit.frames(), unit.contents()
    kernels, is_foreign = [], False
    for name, entries in _parts(unit):
        first = next(entries, None)
        kind = first[0].kind if first else None
        if kind == "kernel":
            kernels.append(name)
            continue
        head = unit.head(name)
        head.pop("settings", None)  # lakeprobe's own key of collected runs
        is_debug = kind == "debug" or head.get("level") == "debug"
        folder = _folder(task, name.removesuffix("debug").rstrip() if is_debug else name)
        is_foreign |= not head
        part = _Part(folder, contents, unit.described["framework"], not head, report)
        head = head or _head(unit.described, is_debug)
        dumped = () if head.get("task") == "structure" else chain([first] if first else [], entries)
        part.write(DEBUG_FILE if is_debug else DUMP_FILE, head, dumped)
        if not is_debug:
            side_files.write(folder, unit.layouts.get(name, {}), unit.calls(name), frames)
    _note_what_differs(unit, kernels, is_foreign, report)
    return report


def _parts(unit: UnitTables) -> Iterator[tuple[str, Iterator[tuple[Op, list[Leaf]]]]]:
    """Yield the parts of a unit, each with its entries. A part without dumped ops has no entries."""
    seen = set()
    for name, entries in groupby(unit.entries(), key=lambda entry: entry[0].part):
        seen.add(name)
        yield name, entries
    for name in unit.layouts or ([] if seen else [""]):
        if name not in seen:
            yield name, iter(())


def _folder(task: _Task, part: str) -> Path:
    """Create and return the folder of a part, in msprobe's layout.

    Parts that only other tools have become a folder above it, like graph and pynative. Raises UsageError for a part
    that leads out of the export.
    """
    if Path(part).is_absolute() or ".." in Path(part).parts:
        raise UsageError(f"{task.key} has the part {part!r}, which is not a path below a folder; it is not exported")
    folder = task.folder / part / f"step{task.key.step}" / f"rank{task.key.rank}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _head(described: Mapping[str, Any], is_debug: bool) -> dict[str, Any]:
    """Return the top-level keys for a dump of another tool."""
    level = "debug" if is_debug else described["level"] or "L1"
    task = described["task"] or "statistics"
    return {"task": task, "level": level, "framework": described["framework"], "dump_data_dir": None}


def _note_what_differs(unit: UnitTables, kernels: Sequence[str], is_foreign: bool, report: ExportedUnit) -> None:
    """Add notes on what is missing or changed. Raises UsageError if nothing could be written."""
    if kernels:
        what = f"{report.key} is a {unit.described['format']}: kernels have no form in msprobe's dumps"
        if not report.ops:
            raise UsageError(f"{what}, so it cannot be exported; compare it in the lake")
        report.notes.append(f"{what}, so the parts {', '.join(kernels)} are left out")
    if is_foreign:
        what = "files have msprobe's names, and places of arguments that were not dumped are null"
        report.notes.append(f"this is a {unit.described['format']}; {what}")
    if unit.described.get("complete") is False:
        report.notes.append("incomplete: the process that collected it ended within the step")
    if report.absent:
        why = "were missing or not readable when the dump was read"
        if unit.described["tensor_storage"] == "none":
            why = "are not in the lake (--tensors none); ingest the dump again with --tensors copy or link"
        report.notes.append(f"{report.absent} tensor files are named but not written: they {why}")


class _Part(Struct, frozen=True):
    """Writes one part of a unit into `folder`. `is_foreign` means that another tool made the dump."""

    folder: Path
    contents: Mapping[str, TensorReference]
    framework: str
    is_foreign: bool
    report: ExportedUnit

    def write(self, file_name: str, head: Mapping[str, Any], entries: Iterable[tuple[Op, list[Leaf]]]) -> None:
        """Write the dump's main file and the tensor files."""
        with (self.folder / file_name).open("w", encoding="ascii") as file:
            before = "{\n "
            for key, value in head.items():
                file.write(f"{before}{json.dumps(key)}: {json_text.text(value, 1)}")
                before = ",\n "
            file.write(f'{before}"data": ')
            write_members(file, self._members(entries), 1)
            file.write("\n}")

    def _members(self, entries: Iterable[tuple[Op, list[Leaf]]]) -> Iterator[tuple[str, str]]:
        for op, leaves in entries:
            self.report.ops += 1
            for index, leaf in enumerate(leaves):
                if leaf.data_name is not None:
                    leaves[index] = self._saved(op, leaf, leaf.data_name)
            yield op.op, entry_text(op, leaves)

    def _saved(self, op: Op, leaf: Leaf, data_name: str) -> Leaf:
        """Write the tensor of a leaf. Returns the leaf with the name of its file."""
        if leaf.content is None:
            self.report.absent += 1
            return leaf
        reference = self.contents[leaf.content]
        if self.is_foreign:
            data_name = self._msprobes_name(op, leaf, reference)
        if Path(data_name).name != data_name:
            raise LakeError(f"{self.report.key}: {op.op} has the data_name {data_name!r}, which is not a file name")
        path = self.folder / TENSOR_FOLDER / data_name
        if not path.exists():  # two leaves may name one file
            path.parent.mkdir(exist_ok=True)
            tensor_files.write_tensor(reference, path)
            self.report.tensor_files += 1
        return leaf._replace(data_name=data_name)

    def _msprobes_name(self, op: Op, leaf: Leaf, reference: TensorReference) -> str:
        """Return msprobe's name for the file, from which its tools infer the leaf and the framework."""
        is_torch = self.framework == "pytorch" and tensor_files.is_torch_dtype(reference.dtype)
        category = [_CATEGORIES.get(leaf.section, leaf.section)] if leaf.section else []
        name = ".".join([op.op, *category, *map(str, json.loads(leaf.path))])
        return name.replace("/", "_") + (".pt" if is_torch else ".npy")
