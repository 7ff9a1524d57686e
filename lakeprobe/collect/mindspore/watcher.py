"""Reports MindSpore's functions, primitives, compiled functions, cells and gradients to a recorder."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import mindspore
from mindspore.communication import GlobalComm, get_rank

from lakeprobe.collect.mindspore.calls import Calls
from lakeprobe.collect.mindspore.cells import Cells
from lakeprobe.collect.mindspore.compiled import Compiled
from lakeprobe.collect.mindspore.leaves import Leaves
from lakeprobe.collect.mindspore.passages import can_have_gradient
from lakeprobe.collect.mindspore.perturbing import perturb
from lakeprobe.collect.mindspore.primitives import Primitives
from lakeprobe.collect.mindspore.trials import Trials
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.sink import Sink
from lakeprobe.collect.watching.recorder import Recorder
from lakeprobe.errors import UsageError

_OLDEST = (2, 7)


class Watcher:
    """Implements `lakeprobe.collect.watching.capture.Watcher`."""

    def __init__(self, settings: Settings, sink: Sink) -> None:
        """Raise UsageError for settings that MindSpore does not support, and for a MindSpore that is too old."""
        version = tuple(map(int, mindspore.__version__.split(".")[:2]))
        if version < _OLDEST:
            raise UsageError(f"collecting needs MindSpore 2.7 or newer, not {mindspore.__version__}")
        if settings.risk_level == "CORE":
            raise UsageError("risk_level CORE is known for PyTorch only: in MindSpore all APIs are recorded")
        self.recorder = Recorder(settings, sink, Leaves, _nothing_to_hide, _never)
        self._cells = Cells(self.recorder)
        self._trials = Trials(self.recorder) if settings.task == "perturb" else None
        self._calls = Calls(self.recorder, self._trials)
        self._primitives = Primitives(self.recorder)
        self._compiled = Compiled(self.recorder, self._calls, self._primitives, self._cells)

    def start(self, model: Any) -> None:
        """Record cells (L0), functions and primitives (L1), or all of them (mix). Raises UsageError."""
        if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
            raise UsageError(
                "MindSpore is in graph mode, and only the dynamic graph is collected: set_context(mode=PYNATIVE_MODE), "
                "or have the device dump the graph (level L2) and read that with: lakeprobe ingest FOLDER"
            )
        level = self.recorder.settings.level
        if level in ("L0", "mix"):
            self._cells.start(model)
        if level in ("L1", "mix"):
            if model is not None and self._trials is None:
                self._primitives.start(model)
            self._calls.start()
        self._compiled.start()

    def stop(self) -> None:
        """Restore MindSpore and the model."""
        with ExitStack() as each:  # runs all of them, even if one raises
            for part in (self._cells, self._primitives, self._compiled, self._calls):
                each.callback(part.stop)
            if self._trials is not None:
                each.callback(self._trials.flush)

    def next_step(self) -> None:
        """Restart the counts of gradients."""
        self._cells.next_step()
        if self._trials is not None:
            self._trials.next_step()

    def rank(self) -> int | None:
        """Return the rank that mindspore.communication reports. None before it is initialized."""
        return int(get_rank()) if GlobalComm.INITED else None

    def perturb(self, model: Any, size: float, seed: int) -> None:
        """Move all floating-point parameters."""
        perturb(model, size, seed)

    def on_gradient(self, value: Any, hook: Callable[[Any], None]) -> bool:
        """Register `hook` on a tensor that can have a gradient. Returns whether `value` is a tensor."""
        if can_have_gradient(value):
            value.register_hook(hook)
        return isinstance(value, mindspore.Tensor)


def _never() -> bool:
    """Nothing is compiled behind this recorder's back: `compiled.py` handles calls of functions that jit compiles."""
    return False


def _nothing_to_hide() -> None:
    """Recording runs no operators that MindSpore could mistake for the training's, except under `_no_grad`."""
