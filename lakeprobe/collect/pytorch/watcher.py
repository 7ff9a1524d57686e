"""Has PyTorch tell a recorder of functions, collectives, modules, gradients and the phases of a step."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import _disable_current_modes

from lakeprobe.collect.pytorch.calls import Calls
from lakeprobe.collect.pytorch.collectives import Collectives
from lakeprobe.collect.pytorch.compiled import Compiled
from lakeprobe.collect.pytorch.leaves import Leaves
from lakeprobe.collect.pytorch.modules import Modules
from lakeprobe.collect.pytorch.perturbing import perturb
from lakeprobe.collect.pytorch.tracing import hide_from_readers, traced
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.sink import Sink
from lakeprobe.collect.watching.places import Replacements, place_of
from lakeprobe.collect.watching.recorder import Recorder

_CLIPPING = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_")


class Watcher:
    """As `lakeprobe.collect.watching.capture.Watcher` says."""

    def __init__(self, settings: Settings, sink: Sink) -> None:
        self.recorder = Recorder(settings, sink, Leaves, _unseen, traced)
        self._in_place = Replacements()
        self._calls = Calls(self.recorder, self._in_place)
        self._collectives = Collectives(self.recorder, self._in_place)
        self._modules = Modules(self.recorder, self._in_place)
        self._phases = _Phases(self.recorder, self._in_place)
        self._compiled = Compiled(self.recorder, self._calls, self._in_place)

    def start(self, model: Any) -> None:
        """Has modules (L0), functions (L1), or both and the phases (mix) recorded."""
        level = self.recorder.settings.level
        if level in ("L0", "mix"):
            self._modules.start(model)
        if level in ("L1", "mix"):
            self._calls.start()
            self._collectives.start()
        if level == "mix":
            self._phases.start()
        hide_from_readers(self._in_place)
        self._compiled.start()

    def stop(self) -> None:
        """Torch and the model are as they were."""
        with ExitStack() as each:  # runs all of them, even if one fails
            for part in (self._modules, self._collectives, self._phases, self._compiled):
                each.callback(part.stop)
            each.callback(self._in_place.remove)

    def next_step(self) -> None:
        """Counting of gradients begins anew."""
        self._modules.next_step()

    def rank(self) -> int | None:
        """Of torch.distributed."""
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            rank: int = distributed.get_rank()
            return rank
        return None

    def perturb(self, model: Any, size: float, seed: int) -> None:
        """Moves all floating-point parameters."""
        with _unseen():
            perturb(model, size, seed)

    def on_gradient(self, value: Any, hook: Callable[[Any], None]) -> bool:
        """Hooks on to a tensor that requires a gradient."""
        if isinstance(value, torch.Tensor) and value.requires_grad:
            value.register_hook(hook)
        return isinstance(value, (torch.Tensor, torch.Size))


def _unseen() -> AbstractContextManager[Any]:
    """What hides us from subclasses of Tensor, and from the modes of torch that are active."""
    if not (torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack()):
        subclasses: AbstractContextManager[Any] = torch._C.DisableTorchFunctionSubclass()
        return subclasses
    hidden = ExitStack()
    hidden.enter_context(_disable_current_modes())
    hidden.enter_context(torch._C.DisableTorchFunction())
    return hidden


class _Phases:
    """Tells the recorder when an optimizer steps or gradients are clipped: what runs then is no module's."""

    def __init__(self, recorder: Recorder, in_place: Replacements) -> None:
        self._recorder = recorder
        self._in_place = in_place
        self._handles: list[Any] = []

    def start(self) -> None:
        self._handles = [
            register_optimizer_step_pre_hook(lambda *_: self._enter("optimizer")),
            register_optimizer_step_post_hook(lambda *_: self._enter(None)),
        ]
        for name in _CLIPPING:
            place = place_of("Torch", torch.nn.utils, name)
            if place is not None:
                self._in_place.put(place, self._around(place.function))

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._recorder.phase = None

    def _enter(self, phase: str | None) -> None:
        self._recorder.phase = phase

    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not self._recorder.running:
                return function(*args, **kwargs)
            self._enter("clip_grad")
            try:
                return function(*args, **kwargs)
            finally:
                self._enter(None)

        return call
