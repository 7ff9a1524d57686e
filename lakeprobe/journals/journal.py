"""The journal of a unit that is being collected: what the training process writes, and all that a kill leaves behind.

LAKE/.collecting/run=R,step=S,rank=K/journal          records, one after the other
LAKE/.collecting/run=R,step=S,rank=K/unit/values-*    the tensors that the records name
LAKE/.collecting/run=R,step=S,rank=K/set_aside        why no unit can be made of it, where that is so

A record is its length (8 bytes, little-endian) and that many bytes of msgpack: first a Head, then Batches. It is handed
to the system in one write, so a process that is killed loses the batch that it had not written yet and no other. Who
collects holds a lock on the file (flock). A journal that nobody holds is finished, or its process is gone: in either
case anybody may make a unit of it (`lakeprobe.journals.recovery`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from lakeprobe.errors import DumpError, LakeError
from lakeprobe.lake import layout
from lakeprobe.lake.layout import UnitKey
from lakeprobe.system import files

_REASON = "set_aside"
"""The file beside a journal that says why no unit can be made of it."""
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
    """The program that ran, and where."""
    head: dict[str, Any]
    """The top-level keys of a dump.json of these ops, but data."""
    replace: bool
    """Whether a unit that is in the lake already is to be replaced."""
    version: str
    """Of lakeprobe."""

    @property
    def key(self) -> UnitKey:
        """The unit that is collected."""
        return UnitKey(self.run, self.step, self.rank)


class Op(msgspec.Struct, array_like=True):
    """One op as a sink takes it. `stack` is a place in all Batch.stacks so far; a tensor in `body` is its content hash.

    A body that msgpack cannot hold (an integer of more than 64 bits) is JSON text.
    """

    op: str
    body: Any
    parent: str | None
    stack: int | None
    began: int | None = None


class Batch(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Ops, the call stacks that came up first with them, and rows of the table contents for their tensors."""

    ops: list[msgspec.Raw] = []
    stacks: list[list[str]] = []
    contents: list[dict[str, Any]] = []
    ended: bool = False
    """Whether the step, or the part of it that was to be collected, was over after these ops."""
    notes: list[str] = []
    """What could not be recorded of them."""


def folder_of(lake: Path, key: UnitKey) -> Path:
    """Where the unit `key` is collected."""
    return layout.collecting_folder(lake) / f"run={key.run},step={key.step},rank={key.rank}"


def folders(lake: Path) -> list[Path]:
    """Where units are being collected, or were when their process ended."""
    return sorted(layout.collecting_folder(lake).glob("*/"))


def set_aside(folder: Path) -> str | None:
    """Why no unit can be made of the journal in `folder`; None where that was not found yet."""
    try:
        return (folder / _REASON).read_text(encoding="utf-8").strip()
    except OSError:
        return None


def put_aside(folder: Path, reason: str) -> None:
    """Say beside the journal in `folder` why no unit can be made of it. Where that cannot be written, nothing is."""
    with suppress(OSError):
        (folder / _REASON).write_text(reason + "\n", encoding="utf-8")


def encoded(op: Op, encoder: msgspec.msgpack.Encoder) -> bytes:
    """`op` as msgpack. `encoder` says what becomes of tensors."""
    try:
        return encoder.encode(op)
    except (OverflowError, UnicodeEncodeError):  # an integer of more than 64 bits; half of a surrogate pair in a text
        text = json.dumps(op.body, ensure_ascii=False, default=encoder.enc_hook).encode(errors="replace")
        return encoder.encode(Op(op.op, text.decode(), op.parent, op.stack, op.began))


class Journal:
    """The journal of one unit, open for writing and locked."""

    def __init__(self, lake: Path, head: Head) -> None:
        """Begin a journal. Raises LakeError if another process collects this unit, and OSError."""
        self.folder = folder_of(lake, head.key)
        self.unit_folder = self.folder / "unit"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file = (self.folder / "journal").open("ab", buffering=0)
        if not files.lock(self._file) or self._file.tell():
            self._file.close()
            raise LakeError(f"{lake}: another process collects {head.key}; give each process its own rank, or run")
        self.unit_folder.mkdir()
        self.write(head)

    def write(self, record: Head | Batch) -> None:
        """Append `record`. Raises OSError; the journal is then as it was before."""
        if not files.is_still(self.folder / "journal", self._file):
            raise LakeError(f"{self.folder} was removed while it was collected")
        payload = _encoder.encode(record)
        data = memoryview(_LENGTH.pack(len(payload)) + payload)
        end = self._file.tell()
        try:
            while data:  # the system may take a part only, of a large record
                data = data[self._file.write(data) or 0 :]
        except OSError:
            self._file.truncate(end)
            self._file.seek(end)
            raise

    def close(self) -> None:
        """Let go of the journal: from here on it may be made a unit."""
        files.unlock(self._file)  # closing alone does not, if a child process has the file too
        self._file.close()


@contextmanager
def taken(folder: Path, wait: bool) -> Iterator[Path | None]:
    """The journal in `folder`, held; None if it is gone, or if another process holds it and we do not `wait`."""
    path = folder / "journal"
    try:
        file = path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    with file:
        held = files.lock(file, wait=wait)
        yield path if held and files.is_still(path, file) else None


def head(path: Path) -> Head | None:
    """The head of the journal at `path`. None if its process ended before it wrote one: then there is nothing in it.

    Raises DumpError if another release wrote it, whose journals are others.
    """
    first = next(_records(path), None)
    try:
        return None if first is None else msgspec.msgpack.decode(first, type=Head)
    except msgspec.DecodeError:
        raise DumpError(f"{path} was written by another release of lakeprobe; use that one, or remove it") from None


def batches(path: Path) -> Iterator[Batch]:
    """The batches of the journal at `path`, as far as they are whole."""
    for record in islice(_records(path), 1, None):
        yield msgspec.msgpack.decode(record, type=Batch)


def _records(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while len(start := file.read(_LENGTH.size)) == _LENGTH.size:
            (length,) = _LENGTH.unpack(start)
            payload = file.read(length)
            if len(payload) < length:
                return
            yield payload
