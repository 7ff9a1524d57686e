"""Detects when torch runs a model only to trace it. Such calls are not ops, and our functions must not be traced."""

from functools import update_wrapper
from typing import Any

import torch
from torch._guards import TracingContext
from torch.autograd import forward_ad

from lakeprobe.collect.watching.places import Function, Replacements, place_of

_proxy = torch._C._TorchDispatchModeKey.PROXY
_READERS = (
    (torch.jit._script, "_script_impl"),
    (torch.jit._trace, "_trace_impl"),
    (torch.jit._trace, "trace_module"),
    (torch.export, "export"),
    (torch.fx.Tracer, "trace"),
)
"""Functions that read a model's source or calls. They would also read our replacements of torch's functions."""


def traced() -> bool:
    """Return whether the running code is traced or transformed, so that its tensors have no numbers to record.

    Covers jit.trace, torch.func, forward AD, torch.compile and export, make_fx, and the capture of a CUDA graph, during
    which no tensor can be read.
    """
    return (
        torch._C._get_tracing_state() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
        or torch.compiler.is_compiling()
        or TracingContext.try_get() is not None
        or torch._C._get_dispatch_mode(_proxy) is not None
        or (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
    )


def hide_from_readers(in_place: Replacements) -> None:
    """Make every function that reads a model see torch without the replacements of `in_place`."""
    for owner, name in _READERS:
        place = place_of("Torch", owner, name)
        if place is not None:
            in_place.put(place, _hidden(in_place, place.function))


def _hidden(in_place: Replacements, function: Function) -> Function:
    def call(*args: Any, **kwargs: Any) -> Any:
        in_place.hide()
        try:
            return function(*args, **kwargs)
        finally:
            in_place.show()

    return update_wrapper(call, function)
