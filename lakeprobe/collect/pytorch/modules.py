"""Records the forward and backward of modules and the gradients of their parameters, through hooks of torch."""

import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.hooks import BackwardHook

from lakeprobe.collect.entries import Op
from lakeprobe.collect.recorder import Recorder, apart
from lakeprobe.errors import UsageError

_WRAPPER = "FullyShardedDataParallel"
"""It stands in the path of its parts, but is no part of the user's model."""
_ENOUGH = "_StopRecomputationError"
"""Leaves a forward that torch runs again in backward, once it has what it needs. Ends it like a result of None."""

_USUAL = "Full backward hook is firing when gradients are computed with respect to module outputs"
_SILENT = ("ignore", re.compile(_USUAL), UserWarning, None, 0)
"""A filter of warnings. Torch warns of each module whose inputs need no gradient, as if the user had hooked it."""


@dataclass
class _Call:
    """A module's forward that has begun."""

    module: Any
    name: str
    parent: str | None
    op: Op | None
    backward: Any
    error: BaseException | None
    """The exception that was being handled when it began."""


class _Open(threading.local):
    """The forwards that have begun in this thread, the innermost last."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []


class Modules:
    """While started, every call of a part of the models becomes an op. The models themselves do not."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._handles: list[Any] = []
        self._watched: set[tuple[str, int]] = set()
        self._expected: dict[str, int] = {}
        self._first: dict[str, str] = {}

    def start(self, models: Any) -> None:
        """Hooks up one model or a list of them. Raises UsageError for what is none."""
        for model in models if isinstance(models, (list, tuple)) else [models]:
            if not isinstance(model, torch.nn.Module):
                raise UsageError(
                    f"a model should be a torch.nn.Module, or a list of them, not a {type(model).__name__}"
                )
        self._open = _Open()
        # Not by warnings.filterwarnings, after which every warning is shown again that was to be shown once.
        warnings.filters.insert(0, _SILENT)  # type: ignore[attr-defined]
        for prefix, module in _parts(models):
            self._hook(prefix, module)

    def stop(self) -> None:
        """Removes all hooks, those on parameters too."""
        if _SILENT in warnings.filters:
            warnings.filters.remove(_SILENT)  # type: ignore[attr-defined]
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._watched = set()
        self._expected = {}

    def next_step(self) -> None:
        """Counting of gradients begins anew."""
        self._first = {}

    def _hook(self, prefix: str, module: Any) -> None:
        recorder = self.recorder

        def before(module: Any, args: Any, kwargs: Any) -> Any:
            if not recorder.running:
                return None
            return self._before(prefix, module, args, kwargs, sys._getframe(1))

        def after(module: Any, _args: Any, _kwargs: Any, output: Any) -> Any:
            if not recorder.running:
                return None
            return self._after(prefix, module, output, sys.exc_info()[1])

        self._handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        self._handles.append(module.register_forward_hook(after, with_kwargs=True, always_call=True, prepend=True))

    @apart
    def _before(self, prefix: str, module: Any, args: Any, kwargs: Any, frame: Any) -> Any:
        """A forward begins. Gives the arguments, those with gradients led through a node that tells of backward."""
        recorder = self.recorder
        number = recorder.count(prefix)
        name = f"{prefix}.forward.{number}"
        parent = recorder.tree.enter(name)
        recorder.scope.open_module(name)
        parent = parent if recorder.settings.extra_info else None
        op = recorder.starts(name, args, kwargs, frame, parent)
        call = _Call(module, name, parent, op, None, sys.exc_info()[1])
        self._open.calls.append(call)
        if recorder.scope.backward and not _has_old_backward_hook(module):
            call.backward = self._backward_hook(module, f"{prefix}.backward.{number}")
            args = _through(call.backward.setup_input_hook, args)
        return args, kwargs

    @apart
    def _after(self, prefix: str, module: Any, output: Any, error: BaseException | None) -> Any:
        """A forward has ended or was left by an exception. Gives the output, led through a node like the arguments."""
        recorder = self.recorder
        call = self._close(module)
        if call is None:
            return None
        raised = output is None and error is not None and error is not call.error
        if raised and type(error).__name__ != _ENOUGH:
            if call.op is not None:
                recorder.breaks_off(call.op)
            recorder.tree.unwind(call.name)
            recorder.scope.close_module(call.name)
            return None
        self._ended(prefix, call, output)
        recorder.tree.leave(call.name)
        recorder.scope.close_module(call.name)
        if call.backward is None:
            return None
        return _through(call.backward.setup_output_hook, output)

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
            parameters = dict(call.module.named_parameters(recurse=False))
            self._watch_parameters(prefix, parameters)
        recorder.ends(op, output, parameters)

    def _close(self, module: Any) -> _Call | None:
        """The innermost open forward of the module; those inside it that were never closed go with it."""
        calls = self._open.calls
        for index in range(len(calls) - 1, -1, -1):
            if calls[index].module is module:
                call = calls[index]
                del calls[index:]
                return call
        return None

    def _backward_hook(self, module: Any, name: str) -> BackwardHook:
        recorder = self.recorder
        step = recorder.steps
        parents: list[str | None] = []

        def before(_module: Any, _incoming: Any) -> None:
            if recorder.running and recorder.steps == step:
                parents.append(recorder.tree.enter(name))
                recorder.scope.open_module(name)

        def after(_module: Any, outgoing: Any, incoming: Any) -> None:
            if recorder.running and recorder.steps == step:
                parent = parents.pop() if parents and recorder.settings.extra_info else None
                recorder.backward(name, incoming, outgoing, parent)
                recorder.tree.leave(name)
                recorder.scope.close_module(name)

        return BackwardHook(module, [after], [before])

    def _watch_parameters(self, prefix: str, parameters: dict[str, Any]) -> None:
        """Has the gradient of each parameter recorded once it is added up."""
        if not self.recorder.scope.backward or self.recorder.births is not None:
            return
        for name, parameter in parameters.items():
            key = (f"{prefix}.{name}", id(parameter))
            if key in self._watched or not (parameter.requires_grad and parameter.is_leaf):
                continue
            self._watched.add(key)
            self._expected[prefix] = self._expected.get(prefix, 0) + 1
            hook = self._gradient_hook(prefix, name)
            self._handles.append(parameter.register_post_accumulate_grad_hook(hook))

    def _gradient_hook(self, prefix: str, name: str) -> Callable[[Any], None]:
        def hook(parameter: Any) -> None:
            if self.recorder.running:
                self._gradient(prefix, name, parameter)

        return hook

    @apart
    def _gradient(self, prefix: str, name: str, parameter: Any) -> None:
        """A gradient is there. An entry is finished when the module's other parameters have theirs."""
        recorder = self.recorder
        if not (recorder.scope.wants(prefix) or prefix in recorder.modules_with_backward):
            return
        # The first parameter to come tells how often the module's gradients were added to.
        first = self._first.setdefault(prefix, name)
        key = f"{prefix}.parameters_grad"
        number = recorder.count(key) if first == name else recorder.counts.get(key, 0)
        entry = f"{key}.{number}"
        op = recorder.entries.find(entry) or Op(entry, {}, None)
        gradient = getattr(parameter, "main_grad", parameter.grad)
        op.body[name] = [recorder.leaves.of_file(gradient, entry, f"{entry}.{name}")]
        recorder.entries.put(op)
        if len(op.body) == self._expected.get(prefix):
            recorder.entries.finish(op)


def _parts(models: Any) -> Iterator[tuple[str, Any]]:
    """Each part of the models with its name up to the class: `Module.layers.0.mlp.MLP`."""
    listed = isinstance(models, (list, tuple))
    for index, model in enumerate(models if listed else [models]):
        within = f"Module.{index}." if listed else "Module."
        for path, module in model.named_modules():
            if module is not model and type(module).__name__ != _WRAPPER:
                yield f"{within}{path}.{type(module).__name__}", module


def _has_old_backward_hook(module: Any) -> bool:
    """Whether a hook of the old kind is there, beside which torch allows no other."""
    return bool(module._backward_hooks) and module._is_full_backward_hook is False


def _through(hook: Callable[[Any], Any], value: Any) -> Any:
    """The value with its tensors that have gradients led through the hook, wherever they are in it.

    Lists and dicts are changed in place, since the module may hold on to them; leaves of the graph in them stay.
    """
    if not torch.is_grad_enabled():
        return value
    tensors: list[torch.Tensor] = []
    _gather(value, tensors, top=True)
    hooked = iter(hook(tuple(tensors)))
    return _replace(value, hooked, top=True)


def _gather(value: Any, tensors: list[torch.Tensor], *, top: bool) -> None:
    if isinstance(value, torch.Tensor):
        if _goes_through(value, top=top):
            tensors.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _gather(item, tensors, top=top and isinstance(value, tuple))
    elif isinstance(value, dict):
        for item in value.values():
            _gather(item, tensors, top=False)


def _replace(value: Any, hooked: Iterator[torch.Tensor], *, top: bool) -> Any:
    if isinstance(value, torch.Tensor):
        return _allow_writing(next(hooked)) if _goes_through(value, top=top) else value
    if isinstance(value, list):
        value[:] = [_replace(item, hooked, top=False) for item in value]
    elif isinstance(value, dict):
        for key, item in value.items():
            value[key] = _replace(item, hooked, top=False)
    elif isinstance(value, tuple):
        items = [_replace(item, hooked, top=top) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _goes_through(tensor: torch.Tensor, *, top: bool) -> bool:
    return tensor.requires_grad and (top or tensor.grad_fn is not None)


def _allow_writing(tensor: torch.Tensor) -> torch.Tensor:
    """Lets the training code write into what is now a view made by a custom function, as it could before."""
    unrestricted = torch._C._autograd.CreationMeta(0)
    if tensor._base is not None and torch._C._autograd._get_creation_meta(tensor) != unrestricted:
        torch._C._autograd._set_creation_meta(tensor, unrestricted)
    return tensor
