"""Records a module's forward, backward and gradients in the same way for every framework.

The framework's own part (`pytorch/modules.py`, `mindspore/cells.py`) reports when they happen.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from lakeprobe.collect.watching.entries import Op
from lakeprobe.collect.watching.recorder import Recorder, guarded
from lakeprobe.collect.watching.stacks import Around


class Call(Struct):
    """A module's forward that has begun."""

    module: Any
    prefix: str
    """The module's name up to the class: `Module.layers.0.mlp.MLP`."""
    number: int
    name: str
    """The name of the op."""
    parent: str | None
    op: Op | None
    backward: Any = None
    """What the framework's part stores for the backward of this call."""
    error: BaseException | None = None
    """The exception that was being handled when the call began."""
    around: Around | None = None
    """The module around it."""

    @property
    def backward_name(self) -> str:
        """The name of the op of its backward."""
        return f"{self.prefix}.backward.{self.number}"


class ModuleCalls(threading.local):
    """The open forwards of this thread, the innermost last."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._open: list[Call] = []
        recorder.thread.around = None

    def begin(self, prefix: str, module: Any, args: Any, kwargs: Any, frame: Any) -> Call:
        """Record the start of a forward."""
        recorder = self.recorder
        number = recorder.count(prefix)
        name = f"{prefix}.forward.{number}"
        parent = recorder.tree.enter(name)
        recorder.scope.open_module(name)
        parent = parent if recorder.settings.extra_info else None
        around = recorder.thread.around
        op = recorder.starts(name, args, kwargs, frame, parent)
        call = Call(module, prefix, number, name, parent, op, around=around)
        self._open.append(call)
        return call

    def take(self, module: Any) -> Call | None:
        """Remove and return the innermost open forward of the module, and remove unclosed forwards inside it."""
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index].module is module:
                call = self._open[index]
                del self._open[index:]
                self.recorder.thread.around = call.around
                return call
        return None

    def end(self, call: Call, output: Any, parameters: dict[str, Any] | None) -> bool:
        """Record the end of a forward, and return whether it is recorded.

        A range may have begun or ended during the call. Then only its inputs or only its results are recorded.
        """
        recorder = self.recorder
        wanted = recorder.scope.still_wants(call.name, wanted=call.op is not None)
        if wanted:
            op = call.op or Op(call.name, {}, call.parent, began=recorder.began(call.name))
            recorder.ends(op, output, parameters)
        elif call.op is not None:
            recorder.breaks_off(call.op)
        return wanted

    def leave(self, call: Call) -> None:
        """Leave the module in the tree and in the scope."""
        self.recorder.tree.leave(call.name)
        self.recorder.scope.close_module(call.name)

    def abandon(self, call: Call) -> None:
        """Record that an exception left a forward."""
        if call.op is not None:
            self.recorder.breaks_off(call.op)
        self.recorder.tree.unwind(call.name)
        self.recorder.scope.close_module(call.name)


def backward_of(recorder: Recorder, name: str) -> tuple[Callable[[], None], Callable[..., None]]:
    """Return two functions: one to call when a module's backward begins, one to call when it has ended.

    The second takes the gradients of the module's results and of its arguments, and what `Recorder.gradients` gave for
    the latter when they came, if it was asked.
    """
    step = recorder.steps
    parents: list[str | None] = []

    def begins() -> None:
        if recorder.running and recorder.steps == step:
            parents.append(recorder.tree.enter(name))
            recorder.scope.open_module(name)

    def ends(incoming: Any, outgoing: Any, measured: Any = None) -> None:
        if recorder.running and recorder.steps == step:
            parent = parents.pop() if parents and recorder.settings.extra_info else None
            recorder.backward(name, incoming, outgoing, parent, measured)
            recorder.tree.leave(name)
            recorder.scope.close_module(name)

    return begins, ends


class ParameterGradients:
    """Records the gradients of modules' parameters: one op for each module and each accumulation."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._watched: set[tuple[str, int]] = set()
        self._expected: dict[str, int] = {}
        self._first: dict[str, str] = {}

    def unwatched(self, prefix: str, parameters: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Return those of a module's `parameters` that need a hook.

        Empty if gradients of parameters are not recorded.
        """
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
        """Forget which parameters have hooks."""
        self._watched = set()
        self._expected = {}

    def next_step(self) -> None:
        """Restart the counts."""
        self._first = {}

    @guarded
    def came(self, prefix: str, name: str, gradient: Any) -> None:
        """Record a gradient. The op is finished when the module's other parameters have their gradients."""
        recorder = self.recorder
        if not (recorder.scope.wants(prefix) or prefix in recorder.modules_with_backward):
            return
        # The first parameter with a gradient counts how often the module's gradients were accumulated. So does another
        # one whose gradient comes alone, such as by backward(inputs=…), after all had theirs or a second time.
        first = self._first.setdefault(prefix, name)
        key = f"{prefix}.parameters_grad"
        op = recorder.entries.find(f"{key}.{recorder.counts.get(key)}")
        if first == name or op is None or name in op.body:
            op = Op(f"{key}.{recorder.count(key)}", {}, None)
        op.body[name] = [recorder.leaves.of_file(gradient, op.name, f"{op.name}.{name}")]
        recorder.entries.put(op)
        if len(op.body) == self._expected.get(prefix):
            recorder.entries.finish(op)
