"""Records calls of functions that jit compiles. Each call is one op, because a graph runs inside."""

import functools
from sys import _getframe
from typing import Any

from mindspore import nn
from mindspore.common import api

from lakeprobe.collect.mindspore.calls import Calls
from lakeprobe.collect.mindspore.cells import Cells
from lakeprobe.collect.mindspore.optimizers import settings_of
from lakeprobe.collect.mindspore.primitives import Primitives
from lakeprobe.collect.watching.places import Function, Replacements, place_of
from lakeprobe.collect.watching.recorder import Recorder, guarded


class Compiled:
    """Records every call of a compiled function as an op while started.

    After the first call, the backward of compiled functions is recorded too. Level L0 does not record compiled
    functions, but they still run compiled.
    """

    def __init__(self, recorder: Recorder, calls: Calls, primitives: Primitives, cells: Cells) -> None:
        """Record for `recorder`.

        jit reads all source, so the other recorders are hidden while it compiles and runs a function.
        """
        self.recorder = recorder
        self._calls = calls
        self._hidden = (calls, primitives, cells)
        self._seen = False
        self._in_place = Replacements()

    def start(self) -> None:
        """Replace MindSpore's functions that run compiled functions and backward."""
        for owner, name, around in (
            (api._JitExecutor, "__call__", self._around_forward),
            (api._PyNativeExecutor, "grad", self._around_backward),
        ):
            place = place_of("Jit", owner, name)
            if place is not None:
                self._in_place.put(place, functools.update_wrapper(around(place.function), place.function))

    def stop(self) -> None:
        """Restore MindSpore's functions."""
        self._in_place.remove()

    def _around_forward(self, function: Function) -> Function:
        recorder = self.recorder

        def call(executor: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not recorder.running:
                return function(executor, *args, **kwargs)
            output = self._without(self._hidden, function, executor, *args, **kwargs)
            name = executor.fn.__name__
            if args and not recorder.thread.inside and recorder.settings.level != "L0":
                self._seen = True
                self._ran(_cell_name(args[0]) if name == "construct" else name, args, output, _getframe(1))
            return output

        return call

    def _around_backward(self, function: Function) -> Function:
        recorder = self.recorder

        def grad(executor: Any, run: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not recorder.running or not self._seen:
                return function(executor, run, *args, **kwargs)
            output = self._without((self._calls,), function, executor, run, *args, **kwargs)
            name = _cell_name(run) or getattr(run, "__name__", None)
            self._went_back(name, args[3:])  # the gradient operation, the weights and the positions come before them
            return output

        return grad

    def _without(self, watching: tuple[Any, ...], function: Function, *args: Any, **kwargs: Any) -> Any:
        for part in watching:
            part.hide()
        try:
            return function(*args, **kwargs)
        finally:
            for part in watching:
                part.show()

    @guarded
    def _ran(self, name: str | None, args: Any, output: Any, frame: Any) -> None:
        recorder = self.recorder
        if name is None or recorder.settings.task == "structure":
            return
        number = recorder.count(f"Jit.{name}")
        if isinstance(args[0], nn.Optimizer):
            self._op(f"Optimizer.{name}.{number}.forward", (), settings_of(args[0]), (), frame)
        self._op(f"Jit.{name}.{number}.forward", args, {}, output, frame)

    def _op(self, op_name: str, args: Any, kwargs: Any, output: Any, frame: Any) -> None:
        op = self.recorder.starts(op_name, args, kwargs, frame)
        if op is not None:
            op.parent = self.recorder.parent_of_function()
            self.recorder.ends(op, output)

    @guarded
    def _went_back(self, name: str | None, args: Any) -> None:
        """Record a backward as msprobe does, with the arguments of the forward in place of gradients."""
        recorder = self.recorder
        if name is None or recorder.settings.task == "structure":
            return
        number = recorder.counts.setdefault(f"Jit.{name}", 0)
        recorder.backward(f"Jit.{name}.{number}.backward", args, (None,), recorder.parent_of_function())


def _cell_name(value: Any) -> str | None:
    return type(value).__name__ if isinstance(value, nn.Cell) else None
