"""A sink that makes units of the lake: the training process appends to a journal, a process beside it does the rest.

What it costs the step: each op is encoded as msgpack when it is added, and a batch of ops is handed to the system in
one write. Tensors are hashed, and contents that the unit does not have yet are written. The unit appears in the lake
when its step is over and the other process has made it (`lakeprobe.collect.recovery`); `close` waits for that.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import xxhash

from lakeprobe.collect import journal, recovery
from lakeprobe.collect.journal import Batch, Head, Journal, Op
from lakeprobe.collect.settings import Settings
from lakeprobe.errors import LakeError
from lakeprobe.lake import layout, staging, store
from lakeprobe.lake.layout import UnitKey
from lakeprobe.lake.values import LARGEST_VALUE, ValuesWriter
from lakeprobe.tensors import reference
from lakeprobe.version import __version__

if TYPE_CHECKING:
    import numpy.typing as npt

_dtype_name = lru_cache(reference.dtype_name)
OPS_PER_BATCH = 256
"""A killed process loses fewer ops than this."""
BYTES_PER_BATCH = 1 << 30
"""And fewer bytes of tensors, or the last tensor."""


class UnitSink:
    """Writes each step of each rank as a unit of a run; see `lakeprobe.collect.sink.Sink` for how it is called.

    Several processes may write into one lake, a rank each.
    """

    def __init__(
        self, lake: Path, run: str, settings: Settings, *, framework: str = "pytorch", replace: bool = False
    ) -> None:
        """Write to `lake`, made if there is none, what is collected by `settings`. `replace` units that are there.

        Raises UsageError for a name that no run can have, and LakeError.
        """
        self._lake = store.create(lake)
        self._run = layout.check_name(run, "run")
        self._settings = settings
        self._framework = framework
        self._replace = replace
        self._key: UnitKey | None = None
        self._ended = False
        self._journal: Journal | None = None
        self._builder: subprocess.Popen[str] | None = None
        self._encoder = msgspec.msgpack.Encoder(enc_hook=self._take_in)

    def begin(self, step: int, rank: int | None) -> None:
        """Begin the unit of `step` and `rank`, or go on with it. Without a rank it is $RANK, else 0.

        Raises LakeError if the unit is in the lake already, or another process collects it.
        """
        key = UnitKey(self._run, step, _rank() if rank is None else rank)
        self._ended = False
        if key == self._key:
            return
        self._finish()
        with staging.unchanged(self._lake):
            recovery.build(self._lake, journal.folder_of(self._lake, key))
            if not self._replace:
                self._check_free(key)
            self._journal = Journal(self._lake, self._head(key))
        self._start_builder()
        self._key = key
        self._failed = False
        self._batch = Batch()
        self._stacks: dict[int, tuple[int, Sequence[str]]] = {}
        self._contents: set[str] = set()
        self._values: ValuesWriter | None = None
        self._values_rows: list[dict[str, Any]] = []
        self._values_bytes = 0
        self._values_files = 0

    def add(
        self, op: str, body: Any, *, parent: str | None, micro_step: int | None, stack: Sequence[str] | None
    ) -> None:
        """Write one op. Raises LakeError when that fails, say on a full disk; the rest of the step is then left out."""
        if self._failed:
            return
        number = None if stack is None else self._stack(stack)
        self._batch.ops.append(msgspec.Raw(journal.encoded(Op(op, body, parent, micro_step, number), self._encoder)))
        if len(self._batch.ops) >= OPS_PER_BATCH or self._values_bytes >= BYTES_PER_BATCH:
            self._write_batch()

    def end(self) -> None:
        """What was added is a whole step, or all of it that was to be collected; it is safe from here on."""
        if self._journal is not None and not self._failed:
            self._batch.ended = self._ended = True
            self._write_batch()

    def finish(self) -> None:
        """Nothing more follows of the step that has ended, if one has: have its unit made and put in place."""
        if self._ended:
            self._finish()

    def _finish(self) -> None:
        if self._journal is None:
            return
        if self._batch.ops and not self._failed:  # after the last end: the step was cut off
            self._write_batch()
        if self._values is not None:  # of a batch that could not be written
            self._values.abandon()
        unit, self._journal, self._key = self._journal, None, None
        unit.close()
        self._have_built(unit.folder)

    def close(self) -> None:
        """Finish the last unit, and wait until all are in the lake. A step that has not ended is marked incomplete."""
        self._finish()
        builder, self._builder = self._builder, None
        if builder is not None:
            builder.communicate()

    def _check_free(self, key: UnitKey) -> None:
        """Raise LakeError if the run has this unit already or, before the first step, one of a later step."""
        there = [key] if layout.unit_folder(self._lake, key).exists() else []
        if self._builder is None and not there:
            units = layout.units(self._lake, key.run)
            there = [unit for unit in units if unit.rank == key.rank and unit.step > key.step]
        if there:
            raise LakeError(f"{self._lake} has {there[0]} already; collect into another run, or with replace=True")

    def _head(self, key: UnitKey) -> Head:
        settings = self._settings
        return Head(
            run=key.run,
            step=key.step,
            rank=key.rank,
            framework=self._framework,
            task=settings.task,
            level=settings.level,
            source=f"{Path(sys.argv[0] or '.').absolute()} (process {os.getpid()} on {socket.gethostname()})",
            head={
                "task": settings.task,
                "level": settings.level,
                "framework": self._framework,
                "dump_data_dir": None,
                "settings": msgspec.to_builtins(settings),
            },
            replace=self._replace,
            version=__version__,
        )

    def _stack(self, stack: Sequence[str]) -> int:
        known = self._stacks.get(id(stack))
        if known is None:
            known = self._stacks[id(stack)] = len(self._stacks), stack  # kept, so that no other gets its id
            self._batch.stacks.append(list(stack))
        return known[0]

    def _write_batch(self) -> None:
        assert self._journal is not None, "add and end come after begin"
        self._failed = True
        with staging.unchanged(self._lake):
            batch, self._batch = self._batch, Batch()
            batch.contents = self._finished_values()
            self._journal.write(batch)
        self._failed = False

    # ---- tensors ------------------------------------------------------------------------------------------

    def _take_in(self, value: Any) -> str:
        """What stands for the tensor `value` in the journal: its content hash; empty if it is too large to be kept."""
        if not isinstance(value, np.ndarray):
            raise TypeError(f"a {type(value).__name__} cannot be written to the lake")
        if value.dtype.byteorder == ">":
            value = value.astype(value.dtype.newbyteorder("<"))
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8) if value.size else np.empty(0, np.uint8)
        if data.nbytes > LARGEST_VALUE:
            return ""
        content = content_hash(value, data)
        if content not in self._contents:
            self._contents.add(content)
            self._keep(content, value, data.copy() if np.may_share_memory(data, value) else data)
        return content

    def _keep(self, content: str, tensor: npt.NDArray[Any], data: npt.NDArray[np.uint8]) -> None:
        assert self._journal is not None
        if self._values is None:
            self._values = ValuesWriter(self._journal.unit_folder / self._values_file())
        self._values.add(content, data)
        self._values_bytes += data.nbytes
        self._values_rows.append({
            "content": content,
            "dtype": _dtype_name(tensor.dtype),
            "shape": list(tensor.shape),
            "strides": None,
            "file": self._values_file(),
            "length": data.nbytes,
        })  # fmt: skip

    def _values_file(self) -> str:
        return f"values-{self._values_files}.parquet"

    def _finished_values(self) -> list[dict[str, Any]]:
        """End the file of the batch's tensors. Returns their rows of the table contents."""
        if self._values is None:
            return []
        offsets = self._values.close()
        rows = [row | {"offset": offsets[row["content"]]} for row in self._values_rows]
        self._values, self._values_rows, self._values_bytes = None, [], 0
        self._values_files += 1
        return rows

    # ---- the process beside -------------------------------------------------------------------------------

    def _start_builder(self) -> None:
        """Start the process that makes units; without it, the next command that opens the lake makes them."""
        if self._builder is not None:
            return
        program = "import sys; from lakeprobe.collect.recovery import main; sys.exit(main())"
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        with suppress(OSError):
            self._builder = subprocess.Popen(  # noqa: S603 our own program
                [sys.executable, "-c", program, str(self._lake)],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment, start_new_session=True,
            )  # fmt: skip

    def _have_built(self, folder: Path) -> None:
        if self._builder is not None and self._builder.stdin is not None:
            with suppress(BrokenPipeError):  # it was killed: the next command that opens the lake makes the unit
                print(folder, file=self._builder.stdin, flush=True)


def _rank() -> int:
    """The rank that a launcher such as torchrun gave this process; 0 where none did."""
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdecimal() else 0


def content_hash(tensor: npt.NDArray[Any], data: npt.NDArray[np.uint8]) -> str:
    """The content hash of `tensor`, whose bytes in C order are `data`; see `lakeprobe.tensors.content`."""
    digest = xxhash.xxh3_128(f"{_dtype_name(tensor.dtype)}\0{','.join(map(str, tensor.shape))}\0".encode())
    digest.update(data.data)
    return digest.hexdigest()
