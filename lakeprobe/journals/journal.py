"""The journal of a unit that is being collected: what the training process writes, and what survives if it is killed.

LAKE/.collecting/run=R,step=S,rank=K/journal          records, one after the other
LAKE/.collecting/run=R,step=S,rank=K/unit/values-*    the tensors that the records refer to
LAKE/.collecting/run=R,step=S,rank=K/set_aside        the reason why no unit can be made, if there is one

A record is its length (8 bytes, little-endian) and that many bytes of msgpack: first a Head, then Batches. Each record
is handed to the system in one write, so a killed process loses only the batch that it had not written yet. The
collecting process locks the file (flock). If nobody holds a journal, it is finished or its process is gone, and any
process may make a unit of it (`lakeprobe.journals.recovery`).
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from lakeprobe.bounds import MIB
from lakeprobe.errors import DumpError, LakeError
from lakeprobe.lake import layout
from lakeprobe.lake.layout import UnitKey
from lakeprobe.system import files
from lakeprobe.system.files import open_regular

_REASON = "set_aside"
"""The file next to a journal that says why no unit can be made of it."""
FOLDER = re.compile(r"run=(?P<run>.+),step=(?P<step>\d+),rank=(?P<rank>\d+)")
"""The name of the folder of a journal (`folder_of`)."""
_LENGTH = struct.Struct("<Q")
_encoder = msgspec.msgpack.Encoder()


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a unit before its first op."""

    run: str
    step: int
    rank: int
    framework: str
    task: str
    level: str
    source: str
    """The program that ran, and where it ran."""
    head: dict[str, Any]
    """The top-level keys of a dump.json of these ops, except data."""
    replace: bool
    """Whether to replace a unit that the lake already has."""
    version: str
    """The version of lakeprobe."""
    owner: str = ""
    """The collecting process (`lakeprobe.system.owner`)."""

    @property
    def key(self) -> UnitKey:
        """The unit that is collected."""
        return UnitKey(self.run, self.step, self.rank)


class Op(msgspec.Struct, array_like=True):
    """One op as a sink takes it.

    `stack` is an index into the concatenated Batch.stacks so far. A tensor in `body` is its content hash. A body that
    msgpack cannot hold (an integer of more than 64 bits) is JSON text.
    """

    op: str
    body: Any
    parent: str | None
    stack: int | None
    began: int | None = None


class Batch(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Ops, the call stacks that first appear with them, and rows of the table contents for their tensors."""

    ops: list[msgspec.Raw] = []
    again: list[str] = []
    """The names of those ops that came before, in this batch or an earlier one."""
    stacks: list[list[str]] = []
    contents: list[dict[str, Any]] = []
    ended: bool = False
    """Whether the step, or the part of it to be collected, ended after these ops."""
    notes: list[str] = []
    """Remarks on what could not be recorded."""
    perturbed: list[dict[str, Any]] = []
    """Rows of the table perturbations. Columns that follow from the step and the op are left out."""


def folder_of(lake: Path, key: UnitKey) -> Path:
    """Return the folder in which the unit `key` is collected."""
    return layout.collecting_folder(lake) / f"run={key.run},step={key.step},rank={key.rank}"


def size_of(folder: Path) -> int:
    """Return the bytes of the journal in `folder`. 0 if it is gone, because another process has built it."""
    try:
        return (folder / "journal").stat().st_size
    except OSError:
        return 0


def folders(lake: Path) -> list[Path]:
    """Return the folders in which units are being collected, or were until their process ended."""
    return sorted(path for path in layout.collecting_folder(lake).glob("*/") if not path.is_symlink())


def set_aside(folder: Path) -> str | None:
    """Return why no unit can be made of the journal in `folder`. None if no reason has been found."""
    try:
        return files.read_bounded(folder / _REASON, MIB).decode(errors="replace").strip()
    except (OSError, ValueError):
        return None


def put_aside(folder: Path, reason: str) -> None:
    """Write next to the journal in `folder` why no unit can be made of it. Does nothing if that cannot be written."""
    with suppress(OSError):
        (folder / _REASON).unlink(missing_ok=True)  # it may be a link
        (folder / _REASON).write_text(reason + "\n", encoding="utf-8")


def encoded(op: Op, encoder: msgspec.msgpack.Encoder) -> bytes:
    """Return `op` as msgpack. `encoder` converts tensors."""
    try:
        return encoder.encode(op)
    except (OverflowError, UnicodeEncodeError):  # an integer of more than 64 bits, or half of a surrogate pair
        body = valid(json.dumps(op.body, ensure_ascii=False, default=encoder.enc_hook))
        parent = None if op.parent is None else valid(op.parent)
        return encoder.encode(Op(valid(op.op), body, parent, op.stack, op.began))


def valid(text: str) -> str:
    """Return `text` with a question mark for each half of a surrogate pair.

    Names of files that are not UTF-8 have such halves, and modules may have any name.
    """
    return text.encode(errors="replace").decode()


class Journal:
    """The journal of one unit, open for writing and locked."""

    def __init__(self, lake: Path, head: Head) -> None:
        """Begin a journal. Raises OSError, and LakeError if another process collects this unit."""
        self.folder = folder_of(lake, head.key)
        self.unit_folder = self.folder / "unit"
        files.refuse_links(lake, [str((self.folder / "journal").relative_to(lake))])
        self.folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        self._file = os.fdopen(files.open_own(self.folder / "journal", flags), "ab", buffering=0)
        if not files.lock(self._file) or self._file.tell():
            self._file.close()
            raise LakeError(f"{lake}: another process collects {head.key}; give each process its own rank, or run")
        self.unit_folder.mkdir()
        self.write(head)

    def write(self, record: Head | Batch) -> None:
        """Append `record`. Raises OSError; whatever it raises, the journal is then as before."""
        if not files.is_still(self.folder / "journal", self._file):
            raise LakeError(f"{self.folder} was removed while it was collected")
        payload = _encoder.encode(record)
        data = memoryview(_LENGTH.pack(len(payload)) + payload)
        end = self._file.tell()
        try:
            while data:  # the system may write only part of a large record
                data = data[self._file.write(data) or 0 :]
        except BaseException:  # KeyboardInterrupt, too
            self._file.truncate(end)
            self._file.seek(end)
            raise

    def close(self) -> None:
        """Release the journal. From here on it may become a unit."""
        files.unlock(self._file)  # closing is not enough if a child process has the file open
        self._file.close()


@contextmanager
def taken(folder: Path, wait: bool) -> Iterator[Path | None]:
    """Yield the path of the journal in `folder` and hold its lock.

    Yields None if the journal is gone, or if another process holds it and `wait` is false.
    """
    path = folder / "journal"
    try:
        file = open_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    with file:
        held = files.lock(file, wait=wait)
        yield path if held and files.is_still(path, file) else None


def head(path: Path) -> Head | None:
    """Return the head of the journal at `path`. None if its process ended before it wrote one.

    Raises DumpError if another release with another journal format wrote it.
    """
    first = next(_records(path), None)
    try:
        return None if first is None else msgspec.msgpack.decode(first, type=Head)
    except (msgspec.DecodeError, RecursionError):
        raise DumpError(f"{path} was written by another release of lakeprobe; use that one, or remove it") from None


def batches(path: Path) -> Iterator[Batch]:
    """Yield the complete batches of the journal at `path`. Raises DumpError for one that cannot be read."""
    for record in encoded_batches(path):
        try:
            yield msgspec.msgpack.decode(record, type=Batch)
        except (msgspec.DecodeError, RecursionError) as error:
            raise DumpError(f"{path} holds what no lakeprobe writes: {error}") from None


def encoded_batches(path: Path) -> Iterator[bytes]:
    """Yield the complete batches of the journal at `path` as msgpack."""
    return islice(_records(path), 1, None)


def _records(path: Path) -> Iterator[bytes]:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        while len(start := file.read(_LENGTH.size)) == _LENGTH.size:
            (length,) = _LENGTH.unpack(start)
            if length > size - file.tell():
                return
            payload = file.read(length)
            yield payload
