"""Has PyTorch tell a recorder of functions, collectives, modules, gradients and the phases of a step."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import _disable_current_modes

from lakeprobe.collect.pytorch.calls import Calls
from lakeprobe.collect.pytorch.collectives import Collectives
from lakeprobe.collect.pytorch.leaves import Leaves
from lakeprobe.collect.pytorch.modules import Modules
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.sink import Sink
from lakeprobe.collect.watching.recorder import Recorder

_CLIPPING = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_")


class Watcher:
    """As `lakeprobe.collect.watching.capture.Watcher` says."""

    def __init__(self, settings: Settings, sink: Sink) -> None:
        self.recorder = Recorder(settings, sink, Leaves, _without_modes)
        self._calls = Calls(self.recorder)
        self._collectives = Collectives(self.recorder)
        self._modules = Modules(self.recorder)
        self._phases = _Phases(self.recorder)

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

    def stop(self) -> None:
        """Torch and the model are as they were."""
        self._phases.stop()
        self._collectives.stop()
        self._calls.stop()
        self._modules.stop()

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

    def on_gradient(self, value: Any, hook: Callable[[Any], None]) -> bool:
        """Hooks on to a tensor that requires a gradient."""
        if isinstance(value, torch.Tensor) and value.requires_grad:
            value.register_hook(hook)
        return isinstance(value, (torch.Tensor, torch.Size))


def _without_modes() -> AbstractContextManager[Any] | None:
    """What hides us from the modes of torch that are active; None where none is."""
    if not (torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack()):
        return None
    hidden = ExitStack()
    hidden.enter_context(_disable_current_modes())
    hidden.enter_context(torch._C.DisableTorchFunction())
    return hidden


class _Phases:
    """Tells the recorder when an optimizer steps or gradients are clipped: what runs then is no module's."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._handles: list[Any] = []
        self._clipping: dict[str, Any] = {}

    def start(self) -> None:
        self._handles = [
            register_optimizer_step_pre_hook(lambda *_: self._enter("optimizer")),
            register_optimizer_step_post_hook(lambda *_: self._enter(None)),
        ]
        for name in _CLIPPING:
            function = getattr(torch.nn.utils, name, None)
            if function is not None:
                self._clipping[name] = function
                setattr(torch.nn.utils, name, self._around(function))

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        for name, function in self._clipping.items():
            setattr(torch.nn.utils, name, function)
        self._handles, self._clipping = [], {}
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
