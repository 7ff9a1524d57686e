"""Records the forward and backward of modules and the gradients of their parameters, through hooks of torch."""

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.hooks import BackwardHook

from lakeprobe.collect.watching.modules import Call, ModuleCalls, ParameterGradients, backward_of
from lakeprobe.collect.watching.recorder import Recorder, apart
from lakeprobe.errors import UsageError

_WRAPPER = "FullyShardedDataParallel"
"""It stands in the path of its parts, but is no part of the user's model."""
_ENOUGH = "_StopRecomputationError"
"""Leaves a forward that torch runs again in backward, once it has what it needs. Ends it like a result of None."""

_USUAL = "Full backward hook is firing when gradients are computed with respect to module outputs"
_SILENT = ("ignore", re.compile(_USUAL), UserWarning, None, 0)
"""A filter of warnings. Torch warns of each module whose inputs need no gradient, as if the user had hooked it."""


class Modules:
    """While started, every call of a part of the models becomes an op. The models themselves do not."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._handles: list[Any] = []
        self._gradients = ParameterGradients(recorder)

    def start(self, models: Any) -> None:
        """Hooks up one model or a list of them. Raises UsageError for what is none."""
        for model in models if isinstance(models, (list, tuple)) else [models]:
            if not isinstance(model, torch.nn.Module):
                raise UsageError(
                    f"a model should be a torch.nn.Module, or a list of them, not a {type(model).__name__}"
                )
        self._calls = ModuleCalls(self.recorder)
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
        self._gradients.forget_watched()

    def next_step(self) -> None:
        """Counting of gradients begins anew."""
        self._gradients.next_step()

    def _hook(self, prefix: str, module: Any) -> None:
        recorder = self.recorder

        def before(module: Any, args: Any, kwargs: Any) -> Any:
            if not recorder.running:
                return None
            return self._before(prefix, module, args, kwargs, sys._getframe(1))

        def after(module: Any, _args: Any, _kwargs: Any, output: Any) -> Any:
            if not recorder.running:
                return None
            return self._after(module, output, sys.exc_info()[1])

        self._handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        self._handles.append(module.register_forward_hook(after, with_kwargs=True, always_call=True, prepend=True))

    @apart
    def _before(self, prefix: str, module: Any, args: Any, kwargs: Any, frame: Any) -> Any:
        """A forward begins. Gives the arguments, those with gradients led through a node that tells of backward."""
        call = self._calls.begin(prefix, module, args, kwargs, frame)
        call.error = sys.exc_info()[1]
        if self.recorder.scope.backward and not _has_old_backward_hook(module):
            call.backward = self._backward_hook(module, call.backward_name)
            args = _through(call.backward.setup_input_hook, args)
        return args, kwargs

    @apart
    def _after(self, module: Any, output: Any, error: BaseException | None) -> Any:
        """A forward has ended or was left by an exception. Gives the output, led through a node like the arguments."""
        call = self._calls.take(module)
        if call is None:
            return None
        raised = output is None and error is not None and error is not call.error
        if raised and type(error).__name__ != _ENOUGH:
            self._calls.abandon(call)
            return None
        self._ended(call, output)
        self._calls.leave(call)
        return None if call.backward is None else _through(call.backward.setup_output_hook, output)

    def _ended(self, call: Call, output: Any) -> None:
        parameters = None
        if self.recorder.settings.task != "structure":
            parameters = dict(call.module.named_parameters(recurse=False))
        if self._calls.end(call, output, parameters) and parameters:
            self._watch_parameters(call.prefix, parameters)

    def _backward_hook(self, module: Any, name: str) -> BackwardHook:
        begins, ends = backward_of(self.recorder, name)

        def before(_module: Any, _incoming: Any) -> None:
            begins()

        def after(_module: Any, outgoing: Any, incoming: Any) -> None:
            ends(incoming, outgoing)

        return BackwardHook(module, [after], [before])

    def _watch_parameters(self, prefix: str, parameters: dict[str, Any]) -> None:
        """Has the gradient of each parameter recorded once it is added up."""
        leaves = [item for item in parameters.items() if item[1].requires_grad and item[1].is_leaf]
        for name, parameter in self._gradients.unwatched(prefix, leaves):
            hook = self._gradient_hook(prefix, name)
            self._handles.append(parameter.register_post_accumulate_grad_hook(hook))

    def _gradient_hook(self, prefix: str, name: str) -> Callable[[Any], None]:
        def hook(parameter: Any) -> None:
            if self.recorder.running:
                self._gradients.came(prefix, name, getattr(parameter, "main_grad", parameter.grad))

        return hook


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
