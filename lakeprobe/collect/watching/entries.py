"""Holds the ops of a step in the order of dump.json, and hands them to the sink once nothing before them can change.

An API is placed where it began, a module where it ended, and the gradients of a module's parameters where the last one
arrived.
"""

import threading
from collections import OrderedDict
from typing import Any

from lakeprobe.collect.sink import Sink
from lakeprobe.collect.watching.stacks import Stack


class Op:
    """An op that is being recorded or has been recorded."""

    __slots__ = ("again", "began", "body", "finished", "given", "moves", "name", "parent", "stack", "step")

    def __init__(
        self,
        name: str,
        body: Any,
        parent: str | None,
        stack: Stack | None = None,
        began: int | None = None,
        step: int | None = None,
    ) -> None:
        self.name = name
        self.body = body
        self.parent = parent
        self.stack = stack
        self.began = began
        self.step = step
        """The step that has given it its name. By default the one in which it is put."""
        self.again = False
        """Whether it replaces the op of its name, which the sink has."""
        self.finished = False
        self.given = False
        """Whether the sink has it."""
        self.moves = False
        """Whether the op moves to the last place when it finishes, so that later ops need not wait for it."""


class Entries:
    """The ops that the sink does not have yet. They go to the sink in batches.

    Other threads go on while a step ends. What they bring when it has ended belongs to no other step: it is left out.
    """

    def __init__(self, sink: Sink) -> None:
        self.given = 0
        """The number of ops handed to the sink."""
        self.late: dict[str, None] = {}
        """The ops that came, or ended, after their step."""
        self._step: int | None = None
        """The step that runs, or None between steps."""
        self._sink = sink
        self._waiting: OrderedDict[str, Op] = OrderedDict()
        self._lock = threading.RLock()
        self._error: Exception | None = None

    def open(self, step: int) -> None:
        """Take ops of a step until `hand_over`."""
        with self._lock:
            self._step = step

    def takes(self, op: Op) -> bool:
        """Return whether it is not too late for an op."""
        with self._lock:
            if op.step is None:
                op.step = self._step
            if self._step is not None and op.step == self._step and not op.given:
                return True
            self.late[op.name] = None
            return False

    def put(self, op: Op) -> bool:
        """Put the op in the last place, wherever it was before. Returns False if it is too late for that."""
        with self._lock:
            if not self.takes(op):
                return False
            if self._error is None:
                self._waiting[op.name] = op
                self._waiting.move_to_end(op.name)
            return True

    def fill(self, op: Op, section: str, leaves: Any) -> None:
        """Add leaves to the body of an op, unless the sink has it, which may be reading it."""
        with self._lock:
            if not op.given:
                op.body[section] = leaves

    def find(self, name: str) -> Op | None:
        """Return an op that the sink does not have yet, or None."""
        return self._waiting.get(name)

    def tried(self, row: dict[str, Any]) -> None:
        """Hand a row of the table perturbations to the sink."""
        with self._lock:
            if self._error is None and self._step is not None:
                self._sink.tried(row)

    def finish(self, op: Op) -> None:
        """Mark the op as final.

        An error of the sink, such as a full disk, is raised only after the training step. What comes until then is
        lost.
        """
        op.finished = True
        with self._lock:
            if self._step is None:
                return
            try:
                self._hand_over(all_of_them=False)
            except Exception as error:  # noqa: BLE001  training goes on, and `hand_over` raises it
                self._error = error
                self._waiting.clear()

    def hand_over(self) -> None:
        """Hand everything to the sink, finished or not, and take nothing more. Raises what the sink raised."""
        with self._lock:
            self._step = None
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
            op.given = True
            self.given += 1
            self._sink.add(op.name, op.body, parent=op.parent, began=op.began, stack=op.stack, again=op.again)
