"""Records the forward and backward of modules and the gradients of their parameters, through torch's hooks."""

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from lakeprobe.collect.pytorch.boundaries import Boundaries, Boundary, through, watched
from lakeprobe.collect.pytorch.tracing import transformed
from lakeprobe.collect.watching.modules import Call, ModuleCalls, ParameterGradients, backward_of
from lakeprobe.collect.watching.places import Replacements, place_of
from lakeprobe.collect.watching.recorder import Recorder, guarded
from lakeprobe.errors import UsageError

Hook = Callable[..., Any]
_WRAPPERS = ("FullyShardedDataParallel", "OptimizedModule")
"""Wrapper classes that are not part of the user's model."""
_COMPILED = "_orig_mod"
"""The attribute under which torch.compile's wrapper holds the wrapped module."""
_MAIN_GRADIENT = "main_grad"
"""Where Megatron accumulates a parameter's gradients, in its own hook on the parameter's node, which runs before
ours."""
_BEFORE = ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs")
_AFTER = ("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
"""Where a module keeps what it calls before and after its forward."""
_ENOUGH = "_StopRecomputationError"
"""The exception with which torch ends a forward that backward reruns, once it has what it needs. It counts as a result
of None.
"""


class Modules:
    """Records every call of a submodule of the models as an op while started.

    The models themselves are not recorded.
    """

    def __init__(self, recorder: Recorder, in_place: Replacements) -> None:
        self.recorder = recorder
        self._in_place = in_place
        self._parts: dict[int, _Part] = {}
        self._handles: list[Any] = []
        self._held: list[Any] = []
        self._gradients = ParameterGradients(recorder)
        self.boundaries = Boundaries()

    def start(self, models: Any) -> None:
        """Watch the submodules of one model or a list of models. Raises UsageError for anything else."""
        for model in models if isinstance(models, (list, tuple)) else [models]:
            if not isinstance(model, torch.nn.Module):
                raise UsageError(
                    f"a model should be a torch.nn.Module, or a list of them, not a {type(model).__name__}"
                )
        self._calls = ModuleCalls(self.recorder)
        self.boundaries = Boundaries()
        for prefix, module in _parts(models):
            part = self._parts.setdefault(id(module), _Part(module))
            part.hooks.append(self._hooks(prefix))
        place = place_of("Module", torch.nn.Module, "__call__")
        if place is not None:
            self._in_place.put(place, functools.wraps(place.function)(self._around(place.function)))
        place = place_of("Module", torch.nn.Module, "__reduce_ex__")
        if place is not None:
            self._in_place.put(place, functools.wraps(place.function)(self._without_hooks(place.function)))

    def stop(self) -> None:
        """Remove the hooks on parameters, and those of a module whose call was interrupted as it ended."""
        for part in self._parts.values():
            part.remove_hooks()
        self._parts = {}
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._held = []
        self._gradients.forget_watched()

    def next_step(self) -> None:
        """Restart the counts of gradients."""
        self._gradients.next_step()

    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the call of modules.

        A module has our hooks only while it runs, so that models can be copied and pickled.
        """
        modules, recorder = self, self.recorder

        def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:  # torch.profiler takes `self` of this frame
            part = modules._parts.get(id(self))
            if part is None or recorder.idle:
                return function(self, *args, **kwargs)
            if isinstance(self, torch.jit.ScriptModule) or _shuns_hooks(self):
                return part.call_as_one(function, args, kwargs)
            try:
                part.enter()  # where the user may interrupt, too
                return function(self, *args, **kwargs)
            finally:
                part.leave()

        return call

    def _without_hooks(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the method that copies and pickles modules. One that does so while it runs keeps our hooks to itself."""
        modules = self

        def reduced(self: Any, protocol: Any) -> Any:
            made = function(self, protocol)
            part = modules._parts.get(id(self))
            if part is None or not isinstance(made, tuple) or len(made) < 3 or not isinstance(made[2], dict):
                return made
            return (*made[:2], part.without_hooks(made[2]), *made[3:])

        return reduced

    def _hooks(self, prefix: str) -> tuple[Hook, Hook]:
        """Return the functions to call before and after the forward of a submodule."""
        recorder = self.recorder

        def before(module: Any, args: Any, kwargs: Any) -> None:
            if recorder.running:
                self._before(prefix, module, args, kwargs, sys._getframe(1))

        def after(module: Any, _args: Any, _kwargs: Any, output: Any) -> Any:
            if not recorder.running:
                return None
            return self._after(module, output, sys.exc_info()[1])

        return before, after

    @guarded
    def _before(self, prefix: str, module: Any, args: Any, kwargs: Any, frame: Any) -> None:
        """Record the start of a forward."""
        self.boundaries.reached_forward()
        call = self._calls.begin(prefix, module, args, kwargs, frame)
        call.error = sys.exc_info()[1]
        if self.recorder.scope.backward and not _has_old_backward_hook(module) and not transformed():
            begins, ends = backward_of(self.recorder, call.backward_name)
            measured = functools.partial(self.recorder.gradients, call.backward_name)
            boundary = Boundary(self.boundaries, self.recorder, prefix, begins, measured, ends)
            boundary.arguments(watched(args))
            call.backward = boundary

    @guarded
    def _after(self, module: Any, output: Any, error: BaseException | None) -> Any:
        """Record the end of a forward, or an exception in it. Returns the output, watched like the arguments."""
        call = self._calls.take(module)
        if call is None:
            return None
        raised = output is None and error is not None and error is not call.error
        if raised and type(error).__name__ != _ENOUGH:
            self._calls.abandon(call)
            return None
        self._ended(call, output)
        self._calls.leave(call)
        return None if call.backward is None else through(call.backward, output)

    def _ended(self, call: Call, output: Any) -> None:
        parameters = None
        if self.recorder.settings.task != "structure":
            parameters = _parameters(call.module)
        if self._calls.end(call, output, parameters) and parameters and not transformed():
            self._watch_parameters(call.prefix, parameters)

    def _watch_parameters(self, prefix: str, parameters: dict[str, Any]) -> None:
        """Record the gradient of each parameter once it is accumulated."""
        leaves = [item for item in parameters.items() if item[1].requires_grad and item[1].is_leaf]
        for name, parameter in self._gradients.unwatched(prefix, leaves):
            hook = self._gradient_hook(prefix, name)
            if hasattr(parameter, _MAIN_GRADIENT):
                node = accumulator(parameter)
                self._held.append(node)  # the hooks live as long as the node
                self._handles.append(node.register_hook(functools.partial(_with, hook, parameter)))
            else:
                self._handles.append(parameter.register_post_accumulate_grad_hook(hook))

    def _gradient_hook(self, prefix: str, name: str) -> Callable[[Any], None]:
        def hook(parameter: Any) -> None:
            if self.recorder.running:
                self.boundaries.reached_parameter(prefix)
                self._gradients.came(prefix, name, getattr(parameter, _MAIN_GRADIENT, parameter.grad))

        return hook


def _with(hook: Callable[[Any], None], parameter: Any, *_: Any) -> None:
    hook(parameter)


class _Part:
    """A submodule and the hooks that it has while one or more threads call it.

    They go directly where `register_forward_hook` puts them. Its handles, made for each call, would cost more than the
    hooks.
    """

    def __init__(self, module: Any) -> None:
        self.hooks: list[tuple[Hook, Hook]] = []
        self._module = module
        self._calls = 0
        self._lock = threading.Lock()

    def enter(self) -> None:
        """Install the hooks when the first call begins."""
        module = self._module
        with self._lock:
            self._calls += 1
            if self._calls == 1:
                for before, after in self.hooks:  # how to call a hook first: an interrupt may come in between
                    module._forward_pre_hooks_with_kwargs[before] = True
                    module._forward_pre_hooks[before] = before
                    module._forward_hooks_with_kwargs[after] = module._forward_hooks_always_called[after] = True
                    module._forward_hooks[after] = after
                    module._forward_hooks.move_to_end(after, last=False)

    def without_hooks(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes of the module, or those that its class keeps, without our hooks."""
        ours = {hook for pair in self.hooks for hook in pair}
        kept = dict(state)
        for name in (*_BEFORE, *_AFTER):
            hooks = state.get(name)
            if hooks is not None:
                kept[name] = type(hooks)((key, hook) for key, hook in hooks.items() if key not in ours)
        return kept

    def leave(self) -> None:
        """Remove the hooks when the last call has ended."""
        with self._lock:
            self._calls = max(self._calls - 1, 0)
            if not self._calls:
                self.remove_hooks()

    def remove_hooks(self) -> None:
        """Remove the hooks, if they are there."""
        module = self._module
        for before, after in self.hooks:
            for name in _BEFORE:
                getattr(module, name).pop(before, None)
            for name in _AFTER:
                getattr(module, name).pop(after, None)

    def call_as_one(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a submodule that accepts no hooks, or must not see any."""
        for before, _ in self.hooks:
            before(self._module, args, kwargs)
        try:
            output = function(self._module, *args, **kwargs)
        except BaseException:
            for _, after in self.hooks:
                after(self._module, args, kwargs, None)
            raise
        for _, after in self.hooks:
            watched = after(self._module, args, kwargs, output)
            output = output if watched is None else watched
        return output


def _parts(models: Any) -> Iterator[tuple[str, Any]]:
    """Yield each submodule of the models with its name up to the class: `Module.layers.0.mlp.MLP`.

    The wrapper of torch.compile is not a submodule. The inside of a ScriptModule is not visible.
    """
    listed = isinstance(models, (list, tuple))
    for index, model in enumerate(models if listed else [models]):
        within = f"Module.{index}." if listed else "Module."
        scripted: list[str] = []
        for path, module in model.named_modules():
            if path.startswith(tuple(scripted)) and scripted:
                continue
            if isinstance(module, torch.jit.ScriptModule):
                scripted.append(f"{path}." if path else "")
            path = ".".join(part for part in path.split(".") if part != _COMPILED)
            if path and type(module).__name__ not in _WRAPPERS:
                yield f"{within}{path}.{getattr(module, 'original_name', type(module).__name__)}", module


def _parameters(module: Any) -> dict[str, Any]:
    """Return the module's own parameters by name. One that has several names has the first."""
    if getattr(module.named_parameters, "__func__", None) is not torch.nn.Module.named_parameters:
        return dict(module.named_parameters(recurse=False))
    names: dict[int, str] = {}
    for name, parameter in module._parameters.items():
        if parameter is not None:
            names.setdefault(id(parameter), name)
    return {name: module._parameters[name] for name in names.values()}


def accumulator(parameter: Any) -> Any:
    """Return the node that accumulates a parameter's gradient."""
    with torch.enable_grad():
        return parameter.view_as(parameter).grad_fn.next_functions[0][0]


def _shuns_hooks(module: Any) -> bool:
    """Return whether the module would compute in another way, with other last bits, if it saw hooks of ours.

    In evaluation this layer calls one fused kernel, unless a part of it has a hook.
    """
    if not isinstance(module, torch.nn.TransformerEncoderLayer) or module.training:
        return False
    return not (module._forward_pre_hooks or module._forward_hooks)


def _has_old_backward_hook(module: Any) -> bool:
    """Return whether the module has an old-style backward hook. torch then allows no full one."""
    return bool(module._backward_hooks) and module._is_full_backward_hook is False
