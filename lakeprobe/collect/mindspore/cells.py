"""Records the forward and backward of cells and the gradients of their parameters, through MindSpore's hooks."""

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from mindspore import nn

from lakeprobe.collect.mindspore.passages import Passage
from lakeprobe.collect.watching.modules import Call, ModuleCalls, ParameterGradients, backward_of
from lakeprobe.collect.watching.places import Replacements, place_of
from lakeprobe.collect.watching.recorder import Recorder, guarded
from lakeprobe.errors import UsageError

_Hook = tuple[Any, int, Callable[..., Any]]
"""A cell's hooks by number, the number of our hook, and our hook."""
_HOOKS = tuple(f"_lazy_forward_{hook}" for hook in ("pre_hook", "pre_hook_with_kwargs", "hook", "hook_with_kwargs"))
"""Where a cell keeps its hooks, by numbers that no two hooks share."""


class Cells:
    """Records every call of a submodule of the models as an op while started.

    The models themselves are not recorded.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._handles: list[Any] = []
        self._before_hooks: list[_Hook] = []
        self._after_hooks: list[_Hook] = []
        self._in_place = Replacements()
        self._gradients = ParameterGradients(recorder)

    def start(self, models: Any) -> None:
        """Hook up one model or a list of models. Raises UsageError for anything else."""
        for model in models if isinstance(models, (list, tuple)) else [models]:
            if not isinstance(model, nn.Cell):
                kind = type(model).__name__
                raise UsageError(f"a model should be a mindspore.nn.Cell, or a list of them, not a {kind}")
        self._calls = ModuleCalls(self.recorder)
        for name, around in (("__call__", self._guarded), ("__getstate__", self._without_hooks)):
            place = place_of("Cell", nn.Cell, name)
            if place is not None:
                self._in_place.put(place, around(place.function))
        for prefix, cell in named_parts(models):
            self._hook(prefix, cell)
        self.show()

    def stop(self) -> None:
        """Remove all hooks, including those on parameters."""
        self._in_place.remove()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._before_hooks, self._after_hooks = [], []
        self._gradients.forget_watched()

    def hide(self) -> None:
        """Remove the forward hooks temporarily."""
        for hooks, key, _ in (*self._before_hooks, *self._after_hooks):
            hooks.pop(key, None)

    def show(self) -> None:
        """Restore the forward hooks.

        Ours see the arguments just as the cell gets them, and the results just as it returns them.
        """
        for hooks, key, hook in self._before_hooks:
            hooks[key] = hook
        for hooks, key, hook in self._after_hooks:
            hooks[key] = hook
            hooks.move_to_end(key, last=False)

    def next_step(self) -> None:
        """Restart the counts of gradients."""
        self._gradients.next_step()

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the call of a cell. MindSpore calls no hook of a cell that raises an exception."""

        cells = self

        @functools.wraps(function)
        def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            try:
                return function(self, *args, **kwargs)
            except BaseException:
                cells._left(self)
                raise

        return call

    def _without_hooks(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the method that gives what is copied and pickled of a cell. A copy is not watched."""

        cells = self

        @functools.wraps(function)
        def state(self: Any) -> Any:
            base, attributes = function(self)
            ours = {key for _, key, _ in (*cells._before_hooks, *cells._after_hooks)}
            kept = dict(attributes)
            for name in _HOOKS:
                hooks = kept.get(name)
                if hooks:
                    kept[name] = type(hooks)(item for item in hooks.items() if item[0] not in ours)
            return base, kept

        return state

    @guarded
    def _left(self, cell: Any) -> None:
        call = self._calls.take(cell)
        if call is not None:
            self._calls.abandon(call)

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
            return self._after(cell, output)

        first = cell.register_forward_pre_hook(before, with_kwargs=True)
        last = register_forward_hook(cell, after)
        self._handles += [first, last]
        self._before_hooks.append((cell._forward_pre_hook, first.handle_id, before))
        self._after_hooks.append((cell._forward_hook, last.handle_id, after))

    @guarded
    def _before(self, prefix: str, cell: Any, args: Any, kwargs: Any, frame: Any) -> Any:
        """Record the start of a forward. Returns the arguments, passed through a node that reports backward."""
        call = self._calls.begin(prefix, cell, args, kwargs, frame)
        if not self.recorder.scope.backward:
            return args
        call.backward = Passage(call.backward_name, *backward_of(self.recorder, call.backward_name))
        return call.backward.arguments(args)

    @guarded
    def _after(self, cell: Any, output: Any) -> Any:
        """Record the end of a forward. Returns the results, passed through nodes like the arguments."""
        call = self._calls.take(cell)
        if call is None:
            return None
        self._ended(call, output)
        self._calls.leave(call)
        return None if call.backward is None else call.backward.results(output)

    def _ended(self, call: Call, output: Any) -> None:
        parameters = None
        if self.recorder.settings.task != "structure":
            named = call.module.parameters_dict(recurse=False)
            parameters = {name.rsplit(".", 1)[-1]: parameter for name, parameter in named.items()}
        if self._calls.end(call, output, parameters) and parameters:
            self._watch_parameters(call.prefix, parameters)

    def _watch_parameters(self, prefix: str, parameters: dict[str, Any]) -> None:
        """Record the gradient of each parameter."""
        trained = [item for item in parameters.items() if item[1].requires_grad]
        for name, parameter in self._gradients.unwatched(prefix, trained):
            self._handles.append(parameter.register_hook(self._gradient_hook(prefix, name)))

    def _gradient_hook(self, prefix: str, name: str) -> Callable[[Any], None]:
        def hook(gradient: Any) -> None:
            if self.recorder.running:
                self._gradients.came(prefix, name, gradient)

        return hook


def register_forward_hook(cell: Any, hook: Callable[..., Any]) -> Any:
    """Register a hook on the results of a cell, also on one with a backward of its own, where MindSpore registers none.

    It does call such a hook, behind what `bprop` covers.
    """
    if not cell.has_bprop:
        return cell.register_forward_hook(hook, with_kwargs=True)
    object.__setattr__(cell, "has_bprop", False)
    try:
        return cell.register_forward_hook(hook, with_kwargs=True)
    finally:
        object.__setattr__(cell, "has_bprop", True)


def parts(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield each cell of a model that runs step by step once, with its path. Leaves out cells that jit compiles."""
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
    """Yield each submodule of the models with its name up to the class: `Cell.layers.0.mlp.MLP`."""
    listed = isinstance(models, (list, tuple))
    for index, model in enumerate(models if listed else [models]):
        within = f"Cell.{index}." if listed else "Cell."
        for path, cell in parts(model):
            if cell is not model:
                yield f"{within}{path}.{type(cell).__name__}", cell
