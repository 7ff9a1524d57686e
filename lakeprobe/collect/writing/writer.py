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

    def __init__(self) -> None:
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
            known = self._placeholders[id(tensor)] = f"{_PREFIX}{len(self.tensors):016x}"
            self.tensors[known] = tensor
            self.tensor_bytes += tensor.nbytes
        return known


class Writer:
    """Writes into one journal. The thread has at most one batch, and the next `write` waits for it."""

    def __init__(self, journal: Journal) -> None:
        """Write into `journal`, and close it at the end."""
        self.folder = journal.folder
        self._journal = journal
        self._contents = _Contents(journal)
        self._batches: SimpleQueue[Batch | None] = SimpleQueue()
        self._outcomes: SimpleQueue[BaseException | None] = SimpleQueue()
        self._busy = False
        self._error: BaseException | None = None
        self._thread: Thread | None = None

    def write(self, batch: Batch) -> None:
        """Write a batch, or hand it to the thread, so it must not change any more.

        Waits for the previous one, and raises its error.
        """
        self.wait()
        if not batch.tensors:
            try:
                self._journal.write(self._contents.put_into(batch))
            except Exception as error:  # noqa: BLE001  `wait` raises it, as one of the thread
                self._error = error
            return
        if self._thread is None:
            # A daemon thread, because Python joins other threads before exit handlers such as Collector.close run.
            self._thread = Thread(target=self._run, name="lakeprobe writer", daemon=True)
            self._thread.start()
        self._busy = True
        self._batches.put(batch)

    def wait(self) -> None:
        """Wait until everything is written. Raises the error of a failed write, such as OSError.

        A failed batch is not in the journal, and no other may follow it.
        """
        if self._busy:
            self._error = self._outcomes.get()
            self._busy = False
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

    # ---- in the thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            self._outcomes.put(self._outcome(batch))
            del batch  # frees the memory of its tensors before the next batch comes

    def _outcome(self, batch: Batch) -> BaseException | None:
        try:
            self._journal.write(self._contents.put_into(batch))
        except BaseException as error:  # noqa: BLE001  it is raised in the thread that waits
            return error
        return None


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
