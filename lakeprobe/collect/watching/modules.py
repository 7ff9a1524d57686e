"""What happens to a module that is called, the same in every framework: its forward, its backward, its gradients.

A framework's own part (`pytorch/modules.py`, `mindspore/cells.py`) says when these things happen.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lakeprobe.collect.watching.entries import Op
from lakeprobe.collect.watching.recorder import Recorder, guarded


@dataclass
class Call:
    """A module's forward that has begun."""

    module: Any
    prefix: str
    """The module's name up to the class: `Module.layers.0.mlp.MLP`."""
    number: int
    name: str
    """As the op is named."""
    parent: str | None
    op: Op | None
    backward: Any = None
    """What the framework's part keeps of the call for its backward."""
    error: BaseException | None = None
    """The exception that was being handled when it began."""

    @property
    def backward_name(self) -> str:
        """The op of its backward."""
        return f"{self.prefix}.backward.{self.number}"


class ModuleCalls(threading.local):
    """The forwards that have begun in this thread, the innermost last."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._open: list[Call] = []

    def begin(self, prefix: str, module: Any, args: Any, kwargs: Any, frame: Any) -> Call:
        """A forward begins."""
        recorder = self.recorder
        number = recorder.count(prefix)
        name = f"{prefix}.forward.{number}"
        parent = recorder.tree.enter(name)
        recorder.scope.open_module(name)
        parent = parent if recorder.settings.extra_info else None
        call = Call(module, prefix, number, name, parent, recorder.starts(name, args, kwargs, frame, parent))
        self._open.append(call)
        return call

    def take(self, module: Any) -> Call | None:
        """The innermost open forward of the module; those inside it that were never closed go with it."""
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index].module is module:
                call = self._open[index]
                del self._open[index:]
                return call
        return None

    def end(self, call: Call, output: Any, parameters: dict[str, Any] | None) -> bool:
        """A forward has ended; whether it is recorded. A range may have begun or ended meanwhile: then in part."""
        recorder = self.recorder
        wanted = recorder.scope.still_wants(call.name, wanted=call.op is not None)
        if wanted:
            op = call.op or Op(call.name, {}, call.parent, began=recorder.began(call.name))
            recorder.ends(op, output, parameters)
        elif call.op is not None:
            recorder.breaks_off(call.op)
        return wanted

    def leave(self, call: Call) -> None:
        """What comes next is outside of the module."""
        self.recorder.tree.leave(call.name)
        self.recorder.scope.close_module(call.name)

    def abandon(self, call: Call) -> None:
        """A forward was left by an exception."""
        if call.op is not None:
            self.recorder.breaks_off(call.op)
        self.recorder.tree.unwind(call.name)
        self.recorder.scope.close_module(call.name)


def backward_of(recorder: Recorder, name: str) -> tuple[Callable[[], None], Callable[[Any, Any], None]]:
    """What to call when the backward of a module begins, and with both gradients when it has ended.

    The gradients are those of its results and of its arguments.
    """
    step = recorder.steps
    parents: list[str | None] = []

    def begins() -> None:
        if recorder.running and recorder.steps == step:
            parents.append(recorder.tree.enter(name))
            recorder.scope.open_module(name)

    def ends(incoming: Any, outgoing: Any) -> None:
        if recorder.running and recorder.steps == step:
            parent = parents.pop() if parents and recorder.settings.extra_info else None
            recorder.backward(name, incoming, outgoing, parent)
            recorder.tree.leave(name)
            recorder.scope.close_module(name)

    return begins, ends


class ParameterGradients:
    """The gradients of modules' parameters: an op for each module and each time they are added to."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._watched: set[tuple[str, int]] = set()
        self._expected: dict[str, int] = {}
        self._first: dict[str, str] = {}

    def unwatched(self, prefix: str, parameters: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Those of a module's `parameters` that are to be hooked from now on; none where none is recorded."""
        if not self.recorder.scope.backward or self.recorder.births is not None:
            return []
        new = []
        for name, parameter in parameters:
            key = (f"{prefix}.{name}", id(parameter))
            if key not in self._watched:
                self._watched.add(key)
                self._expected[prefix] = self._expected.get(prefix, 0) + 1
                new.append((name, parameter))
        return new

    def forget_watched(self) -> None:
        """No parameter is hooked any more."""
        self._watched = set()
        self._expected = {}

    def next_step(self) -> None:
        """Counting begins anew."""
        self._first = {}

    @guarded
    def came(self, prefix: str, name: str, gradient: Any) -> None:
        """A gradient has come. The op is finished when the module's other parameters have theirs."""
        recorder = self.recorder
        if not (recorder.scope.wants(prefix) or prefix in recorder.modules_with_backward):
            return
        # The first parameter to come counts how often the module's gradients were added to.
        first = self._first.setdefault(prefix, name)
        key = f"{prefix}.parameters_grad"
        number = recorder.count(key) if first == name else recorder.counts.get(key, 0)
        entry = f"{key}.{number}"
        op = recorder.entries.find(entry) or Op(entry, {}, None)
        op.body[name] = [recorder.leaves.of_file(gradient, entry, f"{entry}.{name}")]
        recorder.entries.put(op)
        if len(op.body) == self._expected.get(prefix):
            recorder.entries.finish(op)
