"""Records the forward and backward of cells and the gradients of their parameters, through hooks of MindSpore."""

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mindspore import nn

from lakeprobe.collect.entries import Op
from lakeprobe.collect.mindspore.passages import Gradients, Passage
from lakeprobe.collect.places import Place, place_of
from lakeprobe.collect.recorder import Recorder, apart
from lakeprobe.errors import UsageError

_Hook = tuple[Any, int, Callable[..., Any]]
"""A cell's hooks by number, the number of ours, and ours."""


@dataclass
class _Call:
    """A cell's forward that has begun."""

    cell: Any
    name: str
    parent: str | None
    op: Op | None
    passage: Passage | None


class _Open(threading.local):
    """The forwards that have begun in this thread, the innermost last."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []


class Cells:
    """While started, every call of a part of the models becomes an op. The models themselves do not."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._handles: list[Any] = []
        self._before_hooks: list[_Hook] = []
        self._after_hooks: list[_Hook] = []
        self._call: Place | None = None
        self._watched: set[tuple[str, int]] = set()
        self._expected: dict[str, int] = {}
        self._first: dict[str, str] = {}

    def start(self, models: Any) -> None:
        """Hooks up one model or a list of them. Raises UsageError for what is none."""
        for model in models if isinstance(models, (list, tuple)) else [models]:
            if not isinstance(model, nn.Cell):
                kind = type(model).__name__
                raise UsageError(f"a model should be a mindspore.nn.Cell, or a list of them, not a {kind}")
        self._open = _Open()
        self._call = place_of("Cell", nn.Cell, "__call__")
        if self._call is not None:
            self._call.put(self._guarded(self._call.function))
        for prefix, cell in named_parts(models):
            self._hook(prefix, cell)
        self.show()

    def stop(self) -> None:
        """Removes all hooks, those on parameters too."""
        if self._call is not None:
            self._call.restore()
            self._call = None
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._before_hooks, self._after_hooks = [], []
        self._watched = set()
        self._expected = {}

    def hide(self) -> None:
        """Takes the hooks of forward out for a while."""
        for hooks, key, _ in (*self._before_hooks, *self._after_hooks):
            hooks.pop(key, None)

    def show(self) -> None:
        """Puts them back: where arguments are as the cell gets them, and results as the cell gives them."""
        for hooks, key, hook in self._before_hooks:
            hooks[key] = hook
        for hooks, key, hook in self._after_hooks:
            hooks[key] = hook
            hooks.move_to_end(key, last=False)

    def next_step(self) -> None:
        """Counting of gradients begins anew."""
        self._first = {}

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """How cells are called: MindSpore calls no hook of a cell that is left by an exception."""

        @functools.wraps(function)
        def call(cell: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return function(cell, *args, **kwargs)
            except BaseException:
                self._left(cell)
                raise

        return call

    @apart
    def _left(self, cell: Any) -> None:
        call = self._close(cell)
        if call is not None:
            if call.op is not None:
                self.recorder.breaks_off(call.op)
            self.recorder.tree.unwind(call.name)
            self.recorder.scope.close_module(call.name)

    def _hook(self, prefix: str, cell: Any) -> None:
        recorder = self.recorder

        def before(cell: Any, args: Any, kwargs: Any) -> Any:
            if not recorder.running:
                return None
            begun = self._before(prefix, cell, args, kwargs, sys._getframe(1))
            return None if begun is None else (begun, kwargs)

        def after(cell: Any, _args: Any, _kwargs: Any, output: Any) -> Any:
            if not recorder.running:
                return None
            return self._after(prefix, cell, output)

        first = cell.register_forward_pre_hook(before, with_kwargs=True)
        last = cell.register_forward_hook(after, with_kwargs=True)
        self._handles += [first, last]
        self._before_hooks.append((cell._forward_pre_hook, first.handle_id, before))
        self._after_hooks.append((cell._forward_hook, last.handle_id, after))

    @apart
    def _before(self, prefix: str, cell: Any, args: Any, kwargs: Any, frame: Any) -> Any:
        """A forward begins. Gives the arguments, led through a node that tells of backward."""
        recorder = self.recorder
        number = recorder.count(prefix)
        name = f"{prefix}.forward.{number}"
        parent = recorder.tree.enter(name)
        recorder.scope.open_module(name)
        parent = parent if recorder.settings.extra_info else None
        op = recorder.starts(name, args, kwargs, frame, parent)
        call = _Call(cell, name, parent, op, None)
        self._open.calls.append(call)
        if not recorder.scope.backward:
            return args
        call.passage = self._passage(f"{prefix}.backward.{number}")
        return call.passage.arguments(args)

    @apart
    def _after(self, prefix: str, cell: Any, output: Any) -> Any:
        """A forward has ended. Gives the results, led through nodes like the arguments."""
        recorder = self.recorder
        call = self._close(cell)
        if call is None:
            return None
        self._ended(prefix, call, output)
        recorder.tree.leave(call.name)
        recorder.scope.close_module(call.name)
        return None if call.passage is None else call.passage.results(output)

    def _ended(self, prefix: str, call: _Call, output: Any) -> None:
        """Records the results. A range may have begun or ended since the forward began: then there is a part of it."""
        recorder = self.recorder
        wanted = recorder.scope.still_wants(call.name, wanted=call.op is not None)
        if not wanted:
            if call.op is not None:
                recorder.breaks_off(call.op)
            return
        op = call.op or Op(call.name, {}, call.parent, began=recorder.began(call.name))
        parameters = None
        if recorder.settings.task != "structure":
            named = call.cell.parameters_dict(recurse=False)
            parameters = {name.rsplit(".", 1)[-1]: parameter for name, parameter in named.items()}
            self._watch_parameters(prefix, parameters)
        recorder.ends(op, output, parameters)

    def _close(self, cell: Any) -> _Call | None:
        """The innermost open forward of the cell; those inside it that were never closed go with it."""
        calls = self._open.calls
        for index in range(len(calls) - 1, -1, -1):
            if calls[index].cell is cell:
                call = calls[index]
                del calls[index:]
                return call
        return None

    def _passage(self, name: str) -> Passage:
        recorder = self.recorder
        step = recorder.steps
        parents: list[str | None] = []

        def begins() -> None:
            if recorder.running and recorder.steps == step:
                parents.append(recorder.tree.enter(name))
                recorder.scope.open_module(name)

        def ends(incoming: Gradients, outgoing: Gradients) -> None:
            if recorder.running and recorder.steps == step:
                parent = parents.pop() if parents and recorder.settings.extra_info else None
                recorder.backward(name, incoming, outgoing, parent)
                recorder.tree.leave(name)
                recorder.scope.close_module(name)

        return Passage(name, begins, ends)

    def _watch_parameters(self, prefix: str, parameters: dict[str, Any]) -> None:
        """Has the gradient of each parameter recorded."""
        if not self.recorder.scope.backward or self.recorder.births is not None:
            return
        for name, parameter in parameters.items():
            key = (f"{prefix}.{name}", id(parameter))
            if key in self._watched or not parameter.requires_grad:
                continue
            self._watched.add(key)
            self._expected[prefix] = self._expected.get(prefix, 0) + 1
            self._handles.append(parameter.register_hook(self._gradient_hook(prefix, name)))

    def _gradient_hook(self, prefix: str, name: str) -> Callable[[Any], None]:
        def hook(gradient: Any) -> None:
            if self.recorder.running:
                self._gradient(prefix, name, gradient)

        return hook

    @apart
    def _gradient(self, prefix: str, name: str, gradient: Any) -> None:
        """A gradient is there. An entry is finished when the cell's other parameters have theirs."""
        recorder = self.recorder
        if not (recorder.scope.wants(prefix) or prefix in recorder.modules_with_backward):
            return
        # The first parameter to come tells how often the cell's gradients were added to.
        first = self._first.setdefault(prefix, name)
        key = f"{prefix}.parameters_grad"
        number = recorder.count(key) if first == name else recorder.counts.get(key, 0)
        entry = f"{key}.{number}"
        op = recorder.entries.find(entry) or Op(entry, {}, None)
        op.body[name] = [recorder.leaves.of_file(gradient, entry, f"{entry}.{name}")]
        recorder.entries.put(op)
        if len(op.body) == self._expected.get(prefix):
            recorder.entries.finish(op)


def parts(model: Any) -> Iterator[tuple[str, Any]]:
    """The cells of a model that run step by step, each once with its path: not those that jit compiles."""
    yield from _parts_under("", model, set())


def _parts_under(path: str, cell: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if id(cell) in seen or getattr(cell.construct, "__wrapped_by_jit__", False):
        return
    seen.add(id(cell))
    yield path, cell
    for name, part in cell._cells.items():
        if part is not None:
            yield from _parts_under(f"{path}.{name}" if path else name, part, seen)


def named_parts(models: Any) -> Iterator[tuple[str, Any]]:
    """Each part of the models with its name up to the class: `Cell.layers.0.mlp.MLP`."""
    listed = isinstance(models, (list, tuple))
    for index, model in enumerate(models if listed else [models]):
        within = f"Cell.{index}." if listed else "Cell."
        for path, cell in parts(model):
            if cell is not model:
                yield f"{within}{path}.{type(cell).__name__}", cell
