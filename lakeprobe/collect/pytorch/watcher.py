"""Reports PyTorch's functions, collectives, modules and gradients to a recorder."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import update_wrapper
from types import CodeType
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from lakeprobe.collect.pytorch.calls import Calls
from lakeprobe.collect.pytorch.collectives import Collectives
from lakeprobe.collect.pytorch.compiled import Compiled
from lakeprobe.collect.pytorch.leaves import Leaves
from lakeprobe.collect.pytorch.modules import Modules
from lakeprobe.collect.pytorch.optimizers import STEP, Optimizers
from lakeprobe.collect.pytorch.perturbing import perturb
from lakeprobe.collect.pytorch.tracing import fill_tables, hide_from_readers, traced, transformed, untransformed
from lakeprobe.collect.pytorch.trials import Trials
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.sink import Sink
from lakeprobe.collect.watching.places import Replacements, place_of
from lakeprobe.collect.watching.recorder import Recorder

_CLIPPING = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_")


class Watcher:
    """Implements `lakeprobe.collect.watching.capture.Watcher`."""

    def __init__(self, settings: Settings, sink: Sink) -> None:
        self.recorder = Recorder(settings, sink, Leaves, _unseen, traced, _phases())
        self._in_place = Replacements()
        self._modules = Modules(self.recorder, self._in_place)
        self._trials = Trials(self.recorder) if settings.task == "perturb" else None
        self._calls = Calls(self.recorder, self._in_place, self._modules, self._trials)
        self._collectives = Collectives(self.recorder, self._in_place)
        self._compiled = Compiled(self.recorder, self._calls, self._in_place)
        self._optimizers = Optimizers(self.recorder)

    def start(self, model: Any) -> None:
        """Record modules (L0), functions (L1), or both (mix)."""
        level = self.recorder.settings.level
        fill_tables()
        if level in ("L0", "mix"):
            self._modules.start(model)
        if level in ("L1", "mix"):
            self._calls.start()
            if self._trials is None:
                self._collectives.start()
                self._optimizers.start()
        hide_from_readers(self._in_place)
        self._forget_before_swaps()
        self._compiled.start()

    def _forget_before_swaps(self) -> None:
        """Forget what is known of tensors before the program swaps two: torch swaps none that has a weak reference."""
        place = place_of("Torch", torch.utils, "swap_tensors")
        if place is None:  # before torch 2.3
            return
        function = place.function

        def swap_tensors(*args: Any) -> None:
            self.recorder.leaves.forget_all()
            function(*args)

        self._in_place.put(place, update_wrapper(swap_tensors, function))

    def stop(self) -> None:
        """Restore torch and the model."""
        with ExitStack() as each:  # runs all of them, even if one raises
            for part in (self._modules, self._calls, self._collectives, self._compiled, self._optimizers):
                each.callback(part.stop)
            each.callback(self._in_place.remove)

    def next_step(self) -> None:
        """Restart the counts of gradients."""
        self._modules.next_step()
        if self._trials is not None:
            self._trials.next_step()

    def rank(self) -> int | None:
        """Return the rank that torch.distributed reports. None if the job is not distributed."""
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            rank: int = distributed.get_rank()
            return rank
        return None

    def perturb(self, model: Any, size: float, seed: int) -> None:
        """Move all floating-point parameters."""
        with _unseen():
            perturb(model, size, seed)

    def on_gradient(self, value: Any, hook: Callable[[Any], None]) -> bool:
        """Register `hook` on a tensor that requires a gradient. Returns whether `value` is a tensor or a torch.Size."""
        if isinstance(value, torch.Tensor) and value.requires_grad:
            value.register_hook(hook)
        return isinstance(value, (torch.Tensor, torch.Size))


def _unseen() -> AbstractContextManager[Any]:
    """Return a context that hides our operations from subclasses of Tensor, and from active modes and transforms."""
    is_transformed = transformed()
    if not (is_transformed or torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack()):
        subclasses: AbstractContextManager[Any] = torch._C.DisableTorchFunctionSubclass()
        return subclasses
    hidden = ExitStack()
    if is_transformed:
        hidden.enter_context(untransformed())
    hidden.enter_context(_disable_current_modes())
    hidden.enter_context(torch._C.DisableTorchFunction())
    return hidden


def _phases() -> dict[CodeType, str]:
    """Return the code that runs the steps of optimizers and clips gradients, with the name of each phase."""
    clipping = (getattr(torch.nn.utils, name, None) for name in _CLIPPING)
    phases = {inspect.unwrap(function).__code__: "clip_grad" for function in clipping if function is not None}
    return phases | {STEP: "optimizer"}
