"""Writes the batches of a unit in a thread of its own, so that training goes on while tensors are hashed and written.

The training step encodes ops at once, since what it hands over may change later. But an op names its tensors by their
content hashes, which are known only when the thread has read them. Until then 32 characters that occur nowhere else
stand in their place.
"""

from __future__ import annotations

import re
import secrets
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

import msgspec

from lakeprobe.journals import journal
from lakeprobe.journals.journal import Journal
from lakeprobe.lake.values import ValuesWriter
from lakeprobe.tensors.content import array_bytes, array_hash, plain
from lakeprobe.tensors.reference import dtype_name

if TYPE_CHECKING:
    import numpy.typing as npt

_PROCESS = secrets.token_hex(8)
_STAND_IN = re.compile(rb"%b[0-9a-f]{16}" % _PROCESS.encode())


class Batch:
    """Ops that are not written yet, and what they need."""

    def __init__(self) -> None:
        self.ops: list[bytes] = []
        """As `journal.encoded` gives them."""
        self.stacks: list[list[str]] = []
        """As in `journal.Batch`, and so is `ended`."""
        self.ended = False
        self.notes: list[str] = []
        self.tensors: dict[str, npt.NDArray[Any]] = {}
        """The tensors of the ops by what stands for them there."""
        self.tensor_bytes = 0
        self._stand_ins: dict[int, str] = {}

    def stand_in(self, tensor: npt.NDArray[Any]) -> str:
        """Takes a tensor in. Returns what stands for its content hash, the same each time for the same array."""
        known = self._stand_ins.get(id(tensor))
        if known is None:
            known = self._stand_ins[id(tensor)] = f"{_PROCESS}{len(self.tensors):016x}"
            self.tensors[known] = tensor
            self.tensor_bytes += tensor.nbytes
        return known


class Writer:
    """Writes into one journal. The thread has at most one batch; who comes with the next one waits."""

    def __init__(self, journal: Journal) -> None:
        """Start the thread."""
        self.folder = journal.folder
        self._journal = journal
        self._batches: SimpleQueue[Batch | None] = SimpleQueue()
        self._outcomes: SimpleQueue[BaseException | None] = SimpleQueue()
        self._busy = False
        # A daemon, since Python joins other threads before it runs what is to run at exit, such as Collector.close.
        self._thread = Thread(target=self._run, name="lakeprobe writer", daemon=True)
        self._thread.start()

    def write(self, batch: Batch) -> None:
        """Have a batch written, which does not change any more. Waits for the one before it, and raises its error."""
        self.wait()
        self._busy = True
        self._batches.put(batch)

    def wait(self) -> None:
        """Wait until all is written. Raises what went wrong, such as OSError.

        That batch is not in the journal then, and none may follow it.
        """
        if self._busy:
            error = self._outcomes.get()
            self._busy = False
            if error is not None:
                raise error

    def close(self) -> None:
        """Wait as `wait` does, then end the thread and close the journal, whatever went wrong."""
        try:
            self.wait()
        finally:
            self._batches.put(None)
            self._thread.join()
            self._journal.close()

    # ---- in the thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        contents = _Contents(self._journal)
        while (batch := self._batches.get()) is not None:
            self._outcomes.put(self._outcome(contents, batch))
            del batch  # and with it the memory of its tensors, before the next one comes

    def _outcome(self, contents: _Contents, batch: Batch) -> BaseException | None:
        try:
            self._journal.write(contents.put_into(batch))
        except BaseException as error:  # noqa: BLE001  it is raised in the thread that waits
            return error
        return None


class _Contents:
    """The tensors of a unit: each is kept once, in a file for each batch that brings new ones."""

    def __init__(self, journal: Journal) -> None:
        self._folder = journal.unit_folder
        self._known: set[str] = set()
        self._files = 0

    def put_into(self, batch: Batch) -> journal.Batch:
        """Write the tensors of a batch. Returns it as a record of the journal, which names files that are complete."""
        if not batch.tensors:
            return _record(batch, batch.ops, [])
        hashes, new = self._hashed(batch)
        ops = [_STAND_IN.sub(lambda found: hashes.get(found[0], found[0]), op) for op in batch.ops]
        return _record(batch, ops, self._written(new))

    def _hashed(self, batch: Batch) -> tuple[dict[bytes, bytes], dict[str, npt.NDArray[Any]]]:
        """The content hashes of a batch's tensors by what stands for them, and those that the unit lacks by hash."""
        hashes, new = {}, {}
        for stand_in, tensor in batch.tensors.items():
            array = plain(tensor)
            content = array_hash(array)
            hashes[stand_in.encode()] = content.encode()
            if content not in self._known:
                self._known.add(content)
                new[content] = array
        return hashes, new

    def _written(self, arrays: dict[str, npt.NDArray[Any]]) -> list[dict[str, Any]]:
        """Write a file of values. Returns its rows of the table contents."""
        if not arrays:
            return []
        file = f"values-{self._files}.parquet"
        self._files += 1
        offsets = _write_values(ValuesWriter(self._folder / file), arrays)
        return [
            {
                "content": content,
                "dtype": dtype_name(array.dtype),
                "shape": list(array.shape),
                "strides": None,
                "file": file,
                "offset": offsets[content],
                "length": array.nbytes,
            }
            for content, array in arrays.items()
        ]


def _write_values(values: ValuesWriter, arrays: dict[str, npt.NDArray[Any]]) -> dict[str, int]:
    """Where each array begins in the file."""
    try:
        for content, array in arrays.items():
            values.add(content, array_bytes(array))
        return values.close()
    except BaseException:
        values.abandon()
        raise


def _record(batch: Batch, ops: list[bytes], contents: list[dict[str, Any]]) -> journal.Batch:
    raw = [msgspec.Raw(op) for op in ops]
    return journal.Batch(ops=raw, stacks=batch.stacks, contents=contents, ended=batch.ended, notes=batch.notes)
