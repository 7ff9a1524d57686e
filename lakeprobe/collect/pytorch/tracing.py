"""Detects when torch runs a model only to trace it. Such calls are not ops, and our functions must not be traced."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any

import torch
from torch import overrides
from torch._guards import _TLS
from torch.autograd import forward_ad
from torch.utils import _device

from lakeprobe.collect.watching.places import Function, Replacements, place_of

_functorch = torch._C._functorch
_proxy = torch._C._TorchDispatchModeKey.PROXY
_READERS = (
    (torch.jit._script, "_script_impl"),
    (torch.jit._trace, "_trace_impl"),
    (torch.jit._trace, "trace_module"),
    (torch.export, "export"),
    (torch.fx.Tracer, "trace"),
)
"""Functions that read a model's source or calls. They would also read our replacements of torch's functions."""
_PRIVATE_READERS = (
    ("torch.fx.experimental.proxy_tensor", "_MakefxTracer._trace_inner"),
    ("torch._higher_order_ops.partitioner", "HopGraphMinCutPartitioner.create_partitioned_graph"),
    *(
        (f"torch._higher_order_ops.{module}", "materialize_as_graph")
        for module in ("utils", "cond", "map", "scan", "associative_scan", "while_loop")
    ),
)
"""More of them, by module. The backward of operators that take functions traces the gradients of these."""
_TABLES = (
    (_device, "_device_constructors"),
    (overrides, "get_ignored_functions"),
    (overrides, "get_default_nowrap_functions"),
    (overrides, "get_testing_overrides"),
    (overrides, "_get_overridable_functions"),
    (overrides, "_get_tensor_methods"),
)
"""Functions that list torch's functions when they are first called, and give the same list from then on."""
_default_handler = torch.Tensor.__torch_function__.__func__


def traced() -> bool:
    """Return whether the running code is traced, so that its tensors have no numbers to record.

    Covers jit.trace, torch.compile and export, make_fx and functionalize, and the capture of a CUDA graph, during which
    no tensor can be read.
    """
    return (
        torch._C._get_tracing_state() is not None
        or (_functorch.peek_interpreter_stack() is not None and _is_functionalized())
        or torch.compiler.is_compiling()
        or _TLS.__dict__.get("tracing_context") is not None  # TracingContext.try_get takes as long as all of this
        or torch._C._get_dispatch_mode(_proxy) is not None
        or (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
    )


def _is_functionalized() -> bool:
    return any(level.key() == _functorch.TransformType.Functionalize for level in _functorch.get_interpreter_stack())


def transformed() -> bool:
    """Return whether a transform of torch.func (grad, vmap, jvp, …) or forward AD runs.

    Then tensors wrap others, which `unwrapped` finds under `untransformed`, and there is room for no Function of ours.
    """
    return _functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0


@contextmanager
def untransformed() -> Iterator[None]:
    """Hide what runs from the transforms of torch.func and from forward AD."""
    with torch._C._DisableFuncTorch(), forward_ad._set_fwd_grad_enabled(False):
        yield


def unwrapped(tensor: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Return what a tensor of a transform stands for, and whether that is a whole batch, of which it is one element."""
    batched = False
    while _functorch.is_functorch_wrapped_tensor(tensor):
        batched = batched or _functorch.is_batchedtensor(tensor)
        tensor = _functorch.get_unwrapped(tensor)
    return tensor, batched


def hide_from_readers(in_place: Replacements) -> None:
    """Make every function that reads a model see torch without the replacements of `in_place`."""
    private = [(sys.modules.get(module), name) for module, name in _PRIVATE_READERS]
    for owner, name in (*_READERS, *private):
        place = place_of("Torch", owner, name)
        if place is not None:
            in_place.put(place, _hidden(in_place, place.function))


def fill_tables() -> None:
    """Make torch list its functions while they are its own, so that no list keeps ours.

    `with torch.device(…)` looks the function up in such a list to know whether it makes a tensor.
    """
    for owner, name in _TABLES:
        fill = getattr(owner, name, None)
        if fill is not None:
            fill()


def handled(args: Any, kwargs: Any) -> bool:
    """Return whether a `__torch_function__` of the program's gets to see the function that is called.

    Those of torch.device and of plain subclasses of Tensor do not look at which function it is, or only in a table.
    """
    values = (*args, *kwargs.values()) if kwargs else args
    if not overrides.has_torch_function(values):
        return False
    if torch._C._len_torch_function_stack():
        modes = overrides._get_current_function_mode_stack()
        if any(type(mode) is not _device.DeviceContext for mode in modes):
            return True
    return any(_has_handler(type(value)) for value in values)


def _has_handler(kind: type) -> bool:
    handler = getattr(kind, "__torch_function__", None)
    if handler is None or handler is torch._C._disabled_torch_function_impl:
        return False
    return getattr(handler, "__func__", handler) is not _default_handler


def call_hidden(in_place: Replacements, function: Function, args: Any, kwargs: Any) -> Any:
    """Call the function without our replacements, and return its result."""
    in_place.hide()
    try:
        return function(*args, **kwargs)
    finally:
        in_place.show()


def _hidden(in_place: Replacements, function: Function) -> Function:
    def call(*args: Any, **kwargs: Any) -> Any:
        return call_hidden(in_place, function, args, kwargs)

    return update_wrapper(call, function)
