"""Records the calls of functions that jit compiles: each is one op, since what runs inside is a graph."""

import functools
from sys import _getframe
from typing import Any

from mindspore import nn
from mindspore.common import api

from lakeprobe.collect.mindspore.calls import Calls
from lakeprobe.collect.mindspore.cells import Cells
from lakeprobe.collect.mindspore.primitives import Primitives
from lakeprobe.collect.watching.places import Function, Place, place_of
from lakeprobe.collect.watching.recorder import Recorder, guarded


class Compiled:
    """While started, every call of a compiled function becomes an op, and the backward of functions after the first.

    At level L0 they are not recorded, but compiled nevertheless.
    """

    def __init__(self, recorder: Recorder, calls: Calls, primitives: Primitives, cells: Cells) -> None:
        """Record for `recorder`. The others are hidden while a function is compiled and runs: jit reads all source."""
        self.recorder = recorder
        self._calls = calls
        self._hidden = (calls, primitives, cells)
        self._seen = False
        self._places: list[Place] = []

    def start(self) -> None:
        """Puts functions of ours in the place of MindSpore's that run compiled functions and backward."""
        for owner, name, around in (
            (api._JitExecutor, "__call__", self._around_forward),
            (api._PyNativeExecutor, "grad", self._around_backward),
        ):
            place = place_of("Jit", owner, name)
            if place is not None:
                place.put(functools.update_wrapper(around(place.function), place.function))
                self._places.append(place)

    def stop(self) -> None:
        """Takes them out."""
        for place in self._places:
            place.restore()
        self._places = []

    def _around_forward(self, function: Function) -> Function:
        recorder = self.recorder

        def call(executor: Any, *args: Any, **kwargs: Any) -> Any:
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

        def grad(executor: Any, run: Any, *args: Any, **kwargs: Any) -> Any:
            if not recorder.running or not self._seen:
                return function(executor, run, *args, **kwargs)
            output = self._without((self._calls,), function, executor, run, *args, **kwargs)
            name = _cell_name(run) or getattr(run, "__name__", None)
            self._went_back(name, args[3:])  # after the gradient operation, the weights and the positions
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
        op = recorder.starts(f"Jit.{name}.{number}.forward", args, {}, frame)
        if op is not None:
            op.parent = recorder.parent_of_function()
            recorder.ends(op, output)

    @guarded
    def _went_back(self, name: str | None, args: Any) -> None:
        """As msprobe has it: the arguments of the forward in the place of gradients."""
        recorder = self.recorder
        if name is None or recorder.settings.task == "structure":
            return
        number = recorder.counts.setdefault(f"Jit.{name}", 0)
        recorder.backward(f"Jit.{name}.{number}.backward", args, (None,), recorder.parent_of_function())


def _cell_name(value: Any) -> str | None:
    return type(value).__name__ if isinstance(value, nn.Cell) else None
