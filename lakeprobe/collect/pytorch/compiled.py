"""Handles code that torch.compile compiled. Our hooks must neither enter its graphs nor break them.

Such code runs eagerly while a step is collected, so that its ops can be seen. With `compiled="boundary"` compiled
modules run as compiled, and each call is one op. When collecting stops, everything runs as compiled again, from the
same graphs.
"""

import sys
from collections.abc import Callable
from functools import update_wrapper
from sys import _getframe
from typing import Any

import torch

from lakeprobe import diagnostics
from lakeprobe.collect.pytorch.calls import Calls
from lakeprobe.collect.watching.places import Function, Replacements, place_of
from lakeprobe.collect.watching.recorder import Recorder

_DYNAMO = "torch._dynamo"
_HIGHER_ORDER = "torch._higher_order_ops.utils"
"""The module through which cond, map, while_loop, scan and associative_scan compile the functions that they get."""
_LOOPS = ("while_loop", "scan", "associative_scan")
"""The modules of those that give the same results when the functions run eagerly (torch 2.13)."""
_EAGER = (
    "lakeprobe: torch.compile is used; what is compiled runs eagerly while it is collected, as slow and with the same "
    "numbers as without compiling, and as compiled afterwards; compiled='boundary' records compiled modules as one op"
)


class Compiled:
    """Runs compiled code eagerly while started, or records compiled modules as ops."""

    def __init__(self, recorder: Recorder, calls: Calls, in_place: Replacements) -> None:
        self.recorder = recorder
        self._calls = calls
        self._in_place = in_place
        self._boundary = recorder.settings.compiled == "boundary"
        self._stance: Any = None
        self._noted_eager = False

    def start(self) -> None:
        """Start last, because these replacements wrap those of the other recorders."""
        if not hasattr(torch.compiler, "set_stance"):  # before torch 2.6
            return
        if _DYNAMO in sys.modules:  # otherwise nothing is compiled yet, and importing it takes seconds
            self._run_eagerly()
        else:
            self._put(torch, "compile", self._first_compile)
        self._put(torch, "cond", self._around_higher_order)  # older torch has no way in common
        self._put(sys.modules.get(_HIGHER_ORDER), "_hop_compile_and_call", self._around_higher_order)
        if self._boundary:
            self._put(torch.nn.Module, "__call__", self._around_modules)

    def stop(self) -> None:
        """Let compiled code run as compiled again."""
        stance, self._stance = self._stance, None
        if stance is not None:
            stance.__exit__(None, None, None)

    def _put(self, owner: Any, name: str, around: Callable[[Function], Function]) -> None:
        place = place_of("Torch", owner, name)
        if place is not None:
            self._in_place.put(place, update_wrapper(around(place.function), place.function))

    def _run_eagerly(self) -> None:
        if self._stance is None:
            self._stance = torch.compiler.set_stance("force_eager")
        if not self._noted_eager and not self._boundary and torch._dynamo.utils.counters["stats"]["unique_graphs"]:
            self._note_eager()

    def _note_eager(self) -> None:
        self._noted_eager = True
        diagnostics.note(_EAGER)

    def _first_compile(self, function: Function) -> Function:
        def compile(*args: Any, **kwargs: Any) -> Any:
            made = function(*args, **kwargs)
            if self.recorder.running:
                self._run_eagerly()
            return made

        return compile

    def _around_higher_order(self, function: Function) -> Function:
        """Run loops eagerly, so that what is in them is recorded. Let the others compile what they are given.

        Run eagerly, cond fails and map returns a tuple (torch 2.13).
        """

        def call(*args: Any, **kwargs: Any) -> Any:
            if not self.recorder.running or getattr(args[0], "__module__", "").rpartition(".")[2] in _LOOPS:
                return function(*args, **kwargs)
            return self._as_compiled(function, *args, **kwargs)

        return call

    def _around_modules(self, function: Function) -> Function:
        compiled, recorder = self, self.recorder

        def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:  # torch.profiler takes `self` of this frame
            if not recorder.running or not _is_compiled(self):
                return function(self, *args, **kwargs)
            if recorder.idle:
                return compiled._as_compiled(function, self, *args, **kwargs)
            return compiled._op(function, self, args, kwargs, _getframe(1))

        return call

    def _op(self, function: Function, module: Any, args: Any, kwargs: Any, frame: Any) -> Any:
        recorder = self.recorder
        name = f"Jit.{type(getattr(module, '_orig_mod', module)).__name__}"
        number = recorder.count(name)
        op = recorder.starts(f"{name}.{number}.forward", args, kwargs, frame)
        output = recorder.run(op, self._as_compiled, (function, module, *args), kwargs)
        self._calls.called(name, number, op, args, kwargs, output)
        return output

    def _as_compiled(self, function: Function, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function without our replacements, as torch was when it was compiled, and return its result."""
        stance = self._stance
        self._in_place.hide()
        if stance is not None:
            stance.__exit__(None, None, None)
        try:
            return function(*args, **kwargs)
        finally:
            if stance is not None:
                stance.__enter__()
            self._in_place.show()


def _is_compiled(module: Any) -> bool:
    return type(module).__name__ == "OptimizedModule" or module._compiled_call_impl is not None
