"""Reads the sources of a unit into a staged folder.

Its arguments are picklable, because it is a unit of parallel work.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash
from msgspec import Struct, field

from lakeprobe.errors import DumpError, LakeError
from lakeprobe.ingest.steady import steady
from lakeprobe.lake import layout, staging
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.log import Snapshot
from lakeprobe.lake.unit import UnitWriter, read_dump
from lakeprobe.readers.formats import FORMATS
from lakeprobe.readers.source import COUNTS, Emit, Source, Summary
from lakeprobe.shown import as_text
from lakeprobe.system import files
from lakeprobe.system.files import blocks
from lakeprobe.system.own_process import give_memory_back
from lakeprobe.system.storage import copying
from lakeprobe.version import __version__

_NUMBERS = {
    "ops": ("seq", "first_row", "stack"),
    "tensors": ("seq", "row"),
    "stacks": ("stack",),
    "undumped": ("stack",),
}
"""Columns that count from 0 in each source and continue across the sources of a unit."""

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeprobe.ingest.contents import Contents


class Again(StrEnum):
    """What to do with a unit that the lake already has."""

    NEVER = "never"
    """Keep it. Another dump for the same unit is an error."""
    CHANGED = "changed"
    """Read it again if its dump has changed."""
    ALWAYS = "always"
    """Read it again."""


class UnitTask(Struct, frozen=True):
    """The sources to read into one unit. `staged` is the folder to write the unit to, which does not exist yet."""

    lake: Path
    key: UnitKey
    sources: tuple[Source, ...]
    staged: Path
    tensors: str
    again: Again


class UnitReport(Struct):
    """What became of one unit. `read` is False if the lake already has it from the same dump.

    `has_changed`: the lake had it from an older dump, and it was read again.
    """

    key: UnitKey
    formats: tuple[str, ...]
    read: bool = False
    has_changed: bool = False
    ops: int = 0
    tensor_rows: int = 0
    contents: int = 0
    content_bytes: int = 0
    dump_bytes: int = 0
    unreadable: int = 0
    notes: list[str] = field(default_factory=list)


def ingest_unit(task: UnitTask) -> UnitReport:
    """Read the sources of `task` into its staged folder. Raises DumpError and LakeError."""
    report = UnitReport(task.key, tuple(dict.fromkeys(source.format for source in task.sources)))
    described = (file for source in task.sources for file in source.files)
    with staging.unchanged(task.lake), copying(), steady(described):
        fingerprint = fingerprint_of(task.sources, task.tensors)
        known = None if task.again is Again.ALWAYS else known_fingerprint(task.lake, task.key)
        if known == (fingerprint, task.tensors):
            return report
        if known is not None and task.again is Again.NEVER:
            raise LakeError(
                f"{task.key} is in {task.lake} already, from another dump or read with other options than "
                f"{source_of(task.sources)} now; read it with --replace, or under another --run"
            )
        with staging.locked(task.lake, _label(task.key)), _no_garbage_collection():
            task.staged.mkdir(parents=True)
            _read(task, fingerprint, report)
            files.sync_tree(task.staged)
            report.read, report.has_changed = True, known is not None
            give_memory_back()
    return report


def check_free(tasks: Sequence[UnitTask], snapshot: Snapshot) -> None:
    """Raise LakeError if a unit of `tasks` came into the lake meanwhile and is not to be read again."""
    for task in tasks:
        if layout.has_unit(snapshot, task.key) and task.again is Again.NEVER:
            raise LakeError(f"{task.lake}: {task.key} was written by another process meanwhile; nothing is replaced")


def _read(task: UnitTask, fingerprint: str, report: UnitReport) -> None:
    from lakeprobe.ingest.contents import Contents  # numpy and the tensor readers take 0.1 s, which comparing saves

    with UnitWriter(task.staged) as writer, Contents(task.staged, task.tensors) as contents:
        _write(writer, contents, task, fingerprint, report)


def _write(writer: UnitWriter, contents: Contents, task: UnitTask, fingerprint: str, report: UnitReport) -> None:
    summary, summaries = Summary(), []
    for source in task.sources:
        read = FORMATS[source.format].read(source, contents.of(source.tensors), _after(summary, writer.write))
        read.notes += map(as_text, source.notes)
        summaries.append(read)
        _add(summary, read)
    writer.write_rows("contents", contents.close())
    writer.write_rows("undumped", [])  # so that the file always exists
    if summary.unreadable:
        summary.notes.append(f"{summary.unreadable} tensor rows name a file that is missing or cannot be read")
    if contents.too_large:
        summary.notes.append(f"{contents.too_large} tensors are too large to be copied and stay in the dump's folder")
    if task.tensors == "none" and summary.files:
        summary.notes.append(f"{summary.files} tensor files were left out (--tensors none)")
    report.ops, report.tensor_rows = summary.ops, summary.tensor_rows
    report.contents, report.content_bytes = len(contents), contents.bytes
    report.unreadable, report.notes = summary.unreadable, summary.notes
    report.dump_bytes = sum(file.stat().st_size for source in task.sources for file in source.files)
    row = {
        "format": "+".join(report.formats),
        "framework": summaries[0].framework,
        "task": summaries[0].task,
        "level": "+".join(dict.fromkeys(read.level for read in summaries if read.level)) or None,
        **summary.counts,
        "contents": len(contents),
        "content_bytes": contents.bytes,
        "dump_bytes": report.dump_bytes,
        "tensor_storage": task.tensors,
        "source": str(source_of(task.sources)),
        "fingerprint": fingerprint,
        "complete": True,
        "notes": summary.notes,
        "head": _head(task.sources, summaries),
        "layout": json.dumps({source.part: read.layout for source, read in zip(task.sources, summaries, strict=True)}),
        "reader_version": __version__,
    }
    writer.write_rows("dumps", [row])
    writer.close()


def source_of(sources: Sequence[Source]) -> Path:
    """Return the folder of the run that the sources of a unit were read from."""
    return sources[0].root


def _after(summary: Summary, emit: Emit) -> Emit:
    """Return an `emit` for a source that follows those counted in `summary`. Its numbers continue theirs."""
    first = {"seq": summary.ops, "row": summary.tensor_rows, "first_row": summary.tensor_rows, "stack": summary.stacks}

    def emit_on(table: str, batch: pa.RecordBatch) -> None:
        import pyarrow.compute as pc

        for column in _NUMBERS[table]:
            numbers = pc.add(batch[column], pc.cast(first[column], "int32"))
            batch = batch.set_column(batch.schema.get_field_index(column), batch.schema.field(column), numbers)
        emit(table, batch)

    return emit_on if summary.ops or summary.stacks else emit


def _add(summary: Summary, read: Summary) -> None:
    """Add the counts and notes of `read` to `summary`."""
    for count in (*COUNTS, "stacks"):
        setattr(summary, count, getattr(summary, count) + getattr(read, count))
    summary.notes += read.notes


def _head(sources: Sequence[Source], summaries: Sequence[Summary]) -> str:
    """Return the head of a unit's only source, or an object with the head of each source by its part."""
    if len(sources) == 1:
        return summaries[0].head
    heads = {source.part: json.loads(read.head) for source, read in zip(sources, summaries, strict=True)}
    return json.dumps(heads)


def fingerprint_of(sources: Sequence[Source], tensors: str) -> str:
    """Return the XXH3-128 hash of the dumps' files, and of the tensor files' names, sizes and times unless left out.

    A source without files of its own is always identified by its tensor files. Raises DumpError for names that no table
    could hold.
    """
    state = xxhash.xxh3_128()
    for source in sources:
        for path in (source.folder, *source.files):
            _check_name(path)
        state.update(f"{source.format}\0{source.part}\0".encode())
        for path in source.files:
            if source.files_hold_tensors:
                state.update(os.fsencode(_file_state(path)))
                continue
            state.update(path.name.encode())
            for block in blocks(path):
                state.update(block)
        counts = tensors != "none" or not source.files
        if counts and source.tensors is not None and source.tensors.is_dir():
            for line in sorted(_file_states(source.tensors)):
                state.update(os.fsencode(line))
    return state.hexdigest()


def _check_name(path: Path) -> None:
    if as_text(str(path)) != str(path):
        raise DumpError(f"{as_text(str(path))} has a name that is not UTF-8 text; rename it")


def _file_states(folder: Path) -> Iterator[str]:
    yield from map(_file_state, folder.iterdir())


def _file_state(file: Path) -> str:
    try:
        state = file.stat()
    except OSError:  # a dangling link
        state = file.lstat()
    return f"{file.name} {state.st_size} {state.st_mtime_ns}"


def known_fingerprint(lake: Path, key: UnitKey) -> tuple[str, str] | None:
    """Return the fingerprint and the tensor storage of the unit in the lake. None if it is not there."""
    if not layout.has_unit(lake, key):
        return None
    row = read_dump(layout.unit_place(lake, key))
    return row["fingerprint"], row["tensor_storage"]


def _label(key: UnitKey) -> str:
    return f"run={key.run},step={key.step},rank={key.rank}"


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection.

    Reading makes millions of small objects and no cycles, and collecting takes a third of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
