"""Writes the batches of a unit: those with tensors in a thread, so that training goes on while they are hashed.

Without tensors a batch is one small write into the system's memory, which takes less than handing it to a thread.

The training step encodes ops, because what it hands over may change later. But an op refers to its tensors by
content hash, which is known only after the thread has read them. Until then a unique placeholder of 32 characters takes
the place of each hash.
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

_PREFIX = secrets.token_hex(8)
_PLACEHOLDER = re.compile(rb"%b[0-9a-f]{16}" % _PREFIX.encode())


class Batch:
    """Ops that are not written yet, with their stacks, notes and tensors."""

    def __init__(self, first_stack: int = 0) -> None:
        self.first_stack = first_stack
        """The number of the first of its stacks."""
        self.taken = False
        """Whether it was written, or handed to the thread, so that it must not be written again."""
        self.ops: list[bytes] = []
        """Encoded by `journal.encoded`."""
        self.again: list[str] = []
        """As in `journal.Batch`, like `stacks` and `ended`."""
        self.stacks: list[list[str]] = []
        self.ended = False
        self.notes: list[str] = []
        self.perturbed: list[dict[str, Any]] = []
        self.tensors: dict[str, npt.NDArray[Any]] = {}
        """The tensors of the ops by placeholder."""
        self.tensor_bytes = 0
        self._placeholders: dict[int, str] = {}

    def placeholder_of(self, tensor: npt.NDArray[Any]) -> str:
        """Add a tensor, and return the placeholder of its content hash. The same array always gets the same one."""
        known = self._placeholders.get(id(tensor))
        if known is None:
            known = f"{_PREFIX}{len(self.tensors):016x}"
            self.tensors[known] = tensor  # first: an interrupt must not leave a placeholder without its tensor
            self._placeholders[id(tensor)] = known
            self.tensor_bytes += tensor.nbytes
        return known


class Writer:
    """Writes into one journal. The thread has at most one batch, and the next `write` waits for it."""

    def __init__(self, journal: Journal) -> None:
        """Write into `journal`, and close it at the end."""
        self.folder = journal.folder
        self.has_ops = False
        """Whether ops are in the journal."""
        self._journal = journal
        self._contents = _Contents(journal)
        self._batches: SimpleQueue[Batch | None] = SimpleQueue()
        self._ends: SimpleQueue[None] = SimpleQueue()
        """Wakes who waits for the thread. What counts are the numbers of batches that it got and that it is done with:
        an interrupt may drop what was taken from a queue."""
        self._given = self._done = 0
        self._error: BaseException | None = None
        self._thread: Thread | None = None

    def write(self, batch: Batch) -> None:
        """Write a batch, or hand it to the thread. Once it is `taken` it must not change any more.

        Waits for the previous one, and raises its error. An interrupt leaves the batch either taken or as it was.
        """
        self.wait()
        if not batch.tensors:
            try:
                self._put(batch)
            except Exception as error:  # noqa: BLE001  `wait` raises it, as one of the thread
                self._error = error
            batch.taken = True
            return
        if self._thread is None:
            # A daemon thread, because Python joins other threads before exit handlers such as Collector.close run.
            self._thread = Thread(target=self._run, name="lakeprobe writer", daemon=True)
        if self._thread.ident is None:  # an interrupt may have come before it began
            self._thread.start()
        batch.taken = True
        self._given += 1
        self._batches.put(batch)

    def wait(self) -> None:
        """Wait until everything is written. Raises the error of a failed write, such as OSError.

        A failed batch is not in the journal, and no other may follow it.
        """
        while self._done < self._given:
            self._ends.get()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Wait like `wait`, then end the thread and close the journal, even after an error."""
        try:
            self.wait()
        finally:
            if self._thread is not None:
                self._batches.put(None)
                self._thread.join()
            self._journal.close()

    def _put(self, batch: Batch) -> None:
        self._journal.write(self._contents.put_into(batch))
        self.has_ops = self.has_ops or batch.ops != []

    # ---- in the thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            try:
                self._put(batch)
            except BaseException as error:  # noqa: BLE001  it is raised in the thread that waits
                self._error = error
            del batch  # frees the memory of its tensors before the next batch comes
            self._done += 1
            self._ends.put(None)


class _Contents:
    """The tensors of a unit. Each is stored once. Each batch with new tensors gets a file for them."""

    def __init__(self, journal: Journal) -> None:
        self._folder = journal.unit_folder
        self._known: set[str] = set()
        self._files = 0

    def put_into(self, batch: Batch) -> journal.Batch:
        """Write the tensors of a batch, and return the batch as a journal record.

        The record names only complete files.
        """
        if not batch.tensors:
            return _record(batch, batch.ops, [])
        hashes, new = self._hashed(batch)
        ops = [_PLACEHOLDER.sub(lambda found: hashes.get(found[0], found[0]), op) for op in batch.ops]
        return _record(batch, ops, self._written(new))

    def _hashed(self, batch: Batch) -> tuple[dict[bytes, bytes], dict[str, npt.NDArray[Any]]]:
        """Return two dicts: content hashes by placeholder, and the tensors that the unit does not have yet, by hash."""
        hashes, new = {}, {}
        for placeholder, tensor in batch.tensors.items():
            array = plain(tensor)
            content = array_hash(array)
            hashes[placeholder.encode()] = content.encode()
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
        values = ValuesWriter(self._folder / file)
        try:
            rows = [_value(values, file, content, array) for content, array in arrays.items()]
            values.close()
        except BaseException:
            values.abandon()
            raise
        return rows


def _value(values: ValuesWriter, file: str, content: str, array: npt.NDArray[Any]) -> dict[str, Any]:
    """Write a tensor. Returns its row of the table contents."""
    offset = values.add(array.nbytes, [array_bytes(array).data], lambda: content)
    return {
        "content": content,
        "dtype": dtype_name(array.dtype),
        "shape": list(array.shape),
        "strides": None,
        "file": file,
        "offset": offset,
        "length": array.nbytes,
    }


def _record(batch: Batch, ops: list[bytes], contents: list[dict[str, Any]]) -> journal.Batch:
    raw = [msgspec.Raw(op) for op in ops]
    return journal.Batch(
        ops=raw,
        again=batch.again,
        stacks=batch.stacks,
        contents=contents,
        ended=batch.ended,
        notes=batch.notes,
        perturbed=batch.perturbed,
    )
