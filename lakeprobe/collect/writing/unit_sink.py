"""A sink that makes units: the training process appends to a journal, which becomes a unit.

Ops are encoded as msgpack, in batches. A batch is written at once, one with tensors by a thread, which hashes them and
writes the contents that the unit does not have yet (`lakeprobe.collect.writing.writer`). When a step has ended, its
unit is made of the journal (`lakeprobe.journals.recovery`): by a builder process beside a long run, by `close` at the
end of a short one, or before by a command that opens the lake.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn
from weakref import WeakSet

import msgspec
import numpy as np

from lakeprobe import diagnostics
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.writing.writer import Batch, Writer
from lakeprobe.errors import LakeError
from lakeprobe.journals import journal, recovery
from lakeprobe.journals.journal import Head, Journal, Op
from lakeprobe.journals.recovery import LARGEST_PORTION, LONGEST_WAIT
from lakeprobe.lake import layout, staging, store
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.values import LARGEST_VALUE
from lakeprobe.system import owner
from lakeprobe.version import __version__

OPS_PER_BATCH = 128
BYTES_PER_BATCH = 1 << 26
"""Bytes of tensors. One batch is gathered while another is written, so a killed process loses less than two."""
_MOST_UNBUILT = 64
"""Steps that may wait for `close`. More are worth a process that builds them, and so is a run that takes longer."""
_Added = tuple[str, Any, str | None, Sequence[str] | None, int | None]
"""An op as `UnitSink.add` takes it: name, body, parent, stack, and when it began."""


class UnitSink:
    """Writes each step of each rank as a unit of a run. `lakeprobe.collect.sink.Sink` describes the calls.

    Several processes may write into one lake, one rank each.
    """

    def __init__(
        self, lake: Path, run: str, settings: Settings, *, framework: str = "pytorch", replace: bool = False
    ) -> None:
        """Write to `lake`, which is created if missing, what is collected by `settings`.

        `replace` replaces existing units.

        Raises UsageError for a name that no run can have, and LakeError.
        """
        self._lake = store.create(lake)
        self._run = layout.check_name(run, "run")
        self._settings = settings
        self._keeps_contents = settings.task in ("tensor", "overflow_check") or bool(settings.tensor_list)
        self._framework = framework
        self._replace = replace
        self._key: UnitKey | None = None
        self._ended = False
        self._collected: list[UnitKey] = []
        self._writer: Writer | None = None
        self._builder: subprocess.Popen[str] | None = None
        self._unbuilt: list[Path] = []
        """The folders of journals that no builder was told of."""
        self._unbuilt_bytes = 0
        self._first_began = 0.0
        self._encoder = msgspec.msgpack.Encoder(enc_hook=self._replace_value)
        _sinks.add(self)

    def claim(self, step: int, rank: int | None) -> None:
        """Raise LakeError if the run has a unit of this rank from `step` on, unless units are replaced."""
        key = self._key_of(step, rank)
        with staging.unchanged(self._lake):
            recovery.build(self._lake, journal.folder_of(self._lake, key))
        existing = [
            unit for unit in layout.units(self._lake, key.run) if unit.rank == key.rank and unit.step >= key.step
        ]
        if existing and not self._replace:
            self._refuse(existing[0])

    def begin(self, step: int, rank: int | None) -> None:
        """Begin or continue the unit of `step` and `rank`. The default rank is $RANK, else 0.

        Raises LakeError if the lake already has the unit, or if another process collects it.
        """
        key = self._key_of(step, rank)
        self._ended = False
        if key == self._key:
            return
        self._finish()
        store.check(self._lake)  # the lake may have been removed meanwhile
        with staging.unchanged(self._lake):
            recovery.build(self._lake, journal.folder_of(self._lake, key))
            if layout.has_unit(self._lake, key) and not self._replace:
                self._refuse(key)
            self._failed = False
            self._batch = Batch()
            self._gathered: list[_Added] = []
            self._added, self._due = 0, 1  # write the first op at once, so that every step leaves a trace
            self._stacks: dict[int, tuple[int, Sequence[str]]] = {}
            self._writer = Writer(Journal(self._lake, self._head(key)))
        self._request_build(self._writer.folder)
        self._key = key

    def add(
        self, op: str, body: Any, *, parent: str | None, began: int | None = None,
        stack: Sequence[str] | None, again: bool = False,
    ) -> None:  # fmt: skip
        """Write one op. Raises LakeError if writing fails, for example on a full disk. The rest of the step is then
        left out."""
        if self._failed:
            return
        self._gathered.append((op, body, parent, stack, began))
        if self._keeps_contents:
            self._encode()  # to know how many bytes were gathered
        if again:
            self._batch.again.append(op)
        self._added += 1
        if self._added >= self._due or self._batch.tensor_bytes >= BYTES_PER_BATCH:
            self._due = self._added - self._added % OPS_PER_BATCH + OPS_PER_BATCH
            self._write_batch()

    def tried(self, row: dict[str, Any]) -> None:
        """Add a row of perturbations."""
        self._batch.perturbed.append(row)

    def note(self, text: str) -> None:
        """Add `text` to the notes of the unit."""
        text = journal.valid(text)
        if text not in self._batch.notes:
            self._batch.notes.append(text)

    def pause(self) -> None:
        """Write what was added."""
        if self._writer is not None and (self._has_ops() or self._batch.perturbed) and not self._failed:
            self._write_batch()

    def end(self) -> None:
        """Mark what was added as a complete step, or all of it that was to be collected. From here on it is safe."""
        if self._writer is not None and not self._failed:
            self._batch.ended = self._ended = True
            self._write_batch()
            self._wait()

    def finish(self) -> None:
        """Have the unit of an ended step made and put in place, because nothing more follows.

        Does nothing before `end`.
        """
        if self._ended:
            self._finish()

    def _finish(self) -> None:
        writer = self._writer
        if writer is None:
            return
        # What came after the last end, of a step that was cut off; or an interrupt came in the end.
        is_left = self._has_ops() or self._batch.notes or self._batch.ended
        try:
            if is_left and not self._failed:
                self._write_batch()
                self._wait()
        finally:
            key, self._key = self._key, None
            self._writer = None
            try:
                with staging.unchanged(self._lake):
                    writer.close()
            finally:
                if key is not None and writer.has_ops:
                    self._collected.append(key)
            self._unbuilt_bytes += journal.size_of(writer.folder)

    def close(self) -> None:
        """Finish the last unit, and wait until all units are in the lake.

        A step that has not ended is marked incomplete. Raises LakeError if collected units are gone, because somebody
        removed the lake or a part of it.
        """
        self._finish()
        if self._builder is None and self._unbuilt_bytes > LARGEST_PORTION:
            self._tell_builder()
        unbuilt, self._unbuilt, self._unbuilt_bytes = self._unbuilt, [], 0
        if unbuilt:
            with staging.unchanged(self._lake):
                recovery.build_all(self._lake, [unbuilt])
        builder, self._builder = self._builder, None
        if builder is not None and _end(builder) < 0:
            diagnostics.note(
                f"lakeprobe: the process that makes units was killed by signal {-builder.returncode}; "
                f"the next command that opens {self._lake} makes those that are left"
            )
        collected, self._collected = self._collected, []
        gone = [key for key in collected if not self._exists(key)]
        if gone:
            raise LakeError(
                f"{self._lake}: {len(gone)} of the {len(collected)} units that were collected are gone, the first "
                f"{gone[0]}; the lake, or that part of it, was removed meanwhile"
            )

    def give_up(self) -> None:
        """Write no more. What is in the journal becomes a unit, and `close` waits for it."""
        self._failed = True
        writer, self._writer, self._key = self._writer, None, None
        if writer is not None:
            writer.close()

    def _exists(self, key: UnitKey) -> bool:
        """Return whether the lake has the unit, or the journal that it will be made of."""
        return layout.has_unit(self._lake, key) or journal.folder_of(self._lake, key).exists()

    def _key_of(self, step: int, rank: int | None) -> UnitKey:
        return UnitKey(self._run, step, _rank() if rank is None else rank)

    def _refuse(self, key: UnitKey) -> NoReturn:
        raise LakeError(
            f"{self._lake} has {key} already; collect into another run, remove this one with lakeprobe rm, or "
            "replace it (replace=True in Python)"
        )

    def _head(self, key: UnitKey) -> Head:
        settings = self._settings
        return Head(
            run=key.run,
            step=key.step,
            rank=key.rank,
            framework=self._framework,
            task=settings.task,
            level=settings.level,
            source=journal.valid(
                f"{Path(sys.argv[0] or '.').absolute()} (process {os.getpid()} on {socket.gethostname()})"
            ),
            head={
                "task": settings.task,
                "level": settings.level,
                "framework": self._framework,
                "dump_data_dir": None,
                "settings": msgspec.to_builtins(settings),
            },
            replace=self._replace,
            version=__version__,
            owner=owner.me(),
        )

    def _has_ops(self) -> bool:
        return bool(self._gathered or self._batch.ops)

    def _encode(self) -> None:
        """Encode what was gathered.

        Many ops one after the other take less than one each between two parts of the training, which leave nothing in
        the processor's caches.
        """
        while self._gathered:
            encoded = self._encoded(*self._gathered[0])
            self._batch.ops += (encoded,)  # no call is between this and the next line, so no interrupt either
            del self._gathered[0]

    def _encoded(
        self, name: str, body: Any, parent: str | None, stack: Sequence[str] | None, began: int | None
    ) -> bytes:
        op = Op(name, body, parent, None if stack is None else self._stack(stack), began)
        try:
            return journal.encoded(op, self._encoder)
        except (TypeError, ValueError, RecursionError) as error:
            self.note(f"the values of {name} could not be recorded: {error}")
            op.body = {}
            return journal.encoded(op, self._encoder)

    def _stack(self, stack: Sequence[str]) -> int:
        known = self._stacks.get(id(stack))
        if known is None:
            batch = self._batch
            batch.stacks.append([journal.valid(frame) for frame in stack])  # first: an interrupt must shift no number
            number = batch.first_stack + len(batch.stacks) - 1
            known = self._stacks[id(stack)] = number, stack  # kept alive, so that its id is not reused
        return known[0]

    def _write_batch(self) -> None:
        """Hand the gathered batch to the writer, after waiting for the one before it.

        Raises LakeError if that one failed. What an interrupt keeps from the writer stays for the next time.
        """
        assert self._writer is not None, "add and end come after begin"
        self._wait()
        self._encode()
        following = Batch(self._batch.first_stack + len(self._batch.stacks))
        try:
            self._writer.write(self._batch)
        except Exception:
            self._failed = True
            raise
        finally:
            if self._batch.taken:
                self._batch = following

    def _wait(self) -> None:
        """Wait until what was handed to the writer is in the journal.

        Raises LakeError, and the step has then failed.
        """
        assert self._writer is not None
        try:
            with staging.unchanged(self._lake):
                self._writer.wait()
        except Exception:  # not KeyboardInterrupt, which says nothing about the writing
            self._failed = True
            raise

    def _replace_value(self, value: Any) -> str:
        """Return the placeholder for the tensor `value` in an op. Empty if it is too large to be kept.

        Any other value without an equivalent in JSON gives the name of its class.
        """
        if not isinstance(value, np.ndarray):
            self.note(f"a value could not be recorded, only its class: {type(value).__name__}")
            return type(value).__name__
        return "" if value.nbytes > LARGEST_VALUE else self._batch.placeholder_of(value)

    def forget(self) -> None:
        """Forget what was begun, because another process continues it."""
        self._writer = self._key = None
        self._failed = True
        self._unbuilt, self._unbuilt_bytes = [], 0
        builder, self._builder = self._builder, None
        if builder is not None and builder.stdin is not None:
            builder.stdin.close()  # otherwise the builder would not end with the collecting process
            builder.returncode = 0  # it is not a child of this process

    # ---- the builder process -------------------------------------------------------------------------------

    def _start_builder(self) -> None:
        """Start the process that makes units. If it cannot start, `close` makes them."""
        if self._builder is not None:
            return
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
            "OPENBLAS_NUM_THREADS": "1",  # numpy starts its threads when it is imported, and nothing here needs them
        }
        with suppress(OSError):
            self._builder = subprocess.Popen(  # noqa: S603 our own program
                [sys.executable, "-m", recovery.__name__, str(self._lake)],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment, start_new_session=True,
            )  # fmt: skip

    def _request_build(self, folder: Path) -> None:
        """Have a unit made as soon as the journal is free: closed, or its process gone."""
        if not self._unbuilt:
            self._first_began = time.monotonic()
        self._unbuilt.append(folder)
        is_long = time.monotonic() - self._first_began > LONGEST_WAIT
        is_much = len(self._unbuilt) > _MOST_UNBUILT or self._unbuilt_bytes > LARGEST_PORTION
        if self._builder is not None or is_long or is_much:
            self._tell_builder()

    def _tell_builder(self) -> None:
        """Tell the builder process of the journals that it does not know yet. Starts it if it does not run."""
        for _ in range(2):
            self._start_builder()
            builder = self._builder
            if builder is None or builder.stdin is None:
                return
            try:
                print(*self._unbuilt, sep="\n", file=builder.stdin, flush=True)
            except BrokenPipeError:  # the builder was killed; a new one also makes what it left
                self._builder = None
                _end(builder)
            else:
                self._unbuilt, self._unbuilt_bytes = [], 0
                return


def _end(builder: subprocess.Popen[str]) -> int:
    """Wait for the builder process to make its units and exit. Returns its exit code."""
    with suppress(BrokenPipeError):
        builder.communicate()
    return builder.wait()


def _rank() -> int:
    """Return the rank that a launcher such as torchrun gave this process, by default 0."""
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdecimal() else 0


_sinks: WeakSet[UnitSink] = WeakSet()


def _forget_in_child() -> None:
    """Drop the sinks' units and builders in a forked process, such as a data loader's worker.

    They belong to its parent.
    """
    for sink in _sinks:
        sink.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
