"""The ops of a step in the order of dump.json, handed to the sink as soon as nothing before them can still change.

An API stands where it began, a module where it ended, the gradients of a module's parameters where the last one came.
"""

import threading
from collections import OrderedDict
from typing import Any

from lakeprobe.collect.sink import Sink
from lakeprobe.collect.watching.stacks import Stack


class Op:
    """An op that is being recorded, or has been."""

    __slots__ = ("began", "body", "finished", "moves", "name", "parent", "stack")

    def __init__(
        self, name: str, body: Any, parent: str | None, stack: Stack | None = None, began: int | None = None
    ) -> None:
        self.name = name
        self.body = body
        self.parent = parent
        self.stack = stack
        self.began = began
        self.finished = False
        self.moves = False
        """Whether it gets the last place when it is finished, so that no op after it need wait for that."""


class Entries:
    """Ops that the sink does not have yet. It gathers them in batches."""

    def __init__(self, sink: Sink) -> None:
        self.given = 0
        """How many ops the sink has been given."""
        self._sink = sink
        self._waiting: OrderedDict[str, Op] = OrderedDict()
        self._lock = threading.RLock()
        self._error: Exception | None = None

    def put(self, op: Op) -> None:
        """Gives the op the last place, wherever it had one before."""
        with self._lock:
            if self._error is not None:
                return
            self._waiting[op.name] = op
            self._waiting.move_to_end(op.name)

    def find(self, name: str) -> Op | None:
        """An op that the sink does not have yet."""
        return self._waiting.get(name)

    def finish(self, op: Op) -> None:
        """The op will not change any more.

        An error of the sink (a full disk) must wait until the training step is over; what comes until then is lost.
        """
        op.finished = True
        with self._lock:
            try:
                self._hand_over(all_of_them=False)
            except Exception as error:  # noqa: BLE001  training goes on; `hand_over` raises it
                self._error = error
                self._waiting.clear()

    def hand_over(self) -> None:
        """Everything goes to the sink, finished or not, since nothing more is coming. Raises what the sink raised."""
        with self._lock:
            error, self._error = self._error, None
            if error is not None:
                raise error
            self._hand_over(all_of_them=True)

    def _hand_over(self, *, all_of_them: bool) -> None:
        ready = []
        for op in self._waiting.values():
            if op.finished or all_of_them:
                ready.append(op)
            elif not op.moves:
                break
        for op in ready:
            del self._waiting[op.name]
            self.given += 1
            self._sink.add(op.name, op.body, parent=op.parent, began=op.began, stack=op.stack)
