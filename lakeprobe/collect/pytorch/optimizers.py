"""Records steps of optimizers that no op shows: one op each, whose arguments are the settings.

By default PyTorch updates all parameters on a GPU with functions that take lists of them, which are not recorded.
Without this op, another learning rate would show in the next step only, as weights that differ. What else runs in a
step, such as a closure, does not show the settings.
"""

from __future__ import annotations

import re
from sys import _getframe
from types import FrameType
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from lakeprobe.collect.watching.recorder import Recorder, guarded

_HOW = {"foreach", "fused", "capturable", "differentiable", "initial_lr"}
"""Settings of how a step is computed, and what a scheduler begins with: none changes what an optimizer computes."""
_DECOUPLED = "decoupled_weight_decay"
"""The setting that makes AdamW of Adam. AdamW itself has it in newer torch only."""
_IN_PLACE = re.compile(r"(?!__).*_|__i\w+__")
"""The names of functions that write into their first argument: `add_`, `__iadd__`."""

STEP = Optimizer.profile_hook_step(lambda: None).__code__
"""The code that runs the step of an optimizer and its hooks."""


class Optimizers:
    """Records the steps of all optimizers while started."""

    def __init__(self, recorder: Recorder) -> None:
        """Record for `recorder`."""
        self.recorder = recorder
        self._handles: list[RemovableHandle] = []

    def start(self) -> None:
        """Hook on to the steps of all optimizers, but not in the middle of one, when torch goes through its hooks."""
        if not self._handles and not _is_stepping():
            self._handles += (
                register_optimizer_step_pre_hook(self._before),
                register_optimizer_step_post_hook(self._after),
            )

    def stop(self) -> None:
        """Let optimizers step unseen. In the middle of a step the hooks stay until the next stop, and do nothing."""
        if not _is_stepping():
            for handle in self._handles:
                handle.remove()
            self._handles.clear()
            self.recorder.thread.updates = ()

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not is_compiling():  # which reads this as a part of the step
            self.recorder.thread.updates += (_Update(optimizer),)

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if is_compiling():
            return
        thread = self.recorder.thread
        places = [place for place, update in enumerate(thread.updates) if update.optimizer is optimizer]
        if places:
            update = thread.updates[places[-1]]
            thread.updates = thread.updates[: places[-1]]  # without those that an exception ended
            if not update.shown and not self.recorder.idle:
                self._record(optimizer, _getframe(1))

    @guarded
    def _record(self, optimizer: Optimizer, frame: Any) -> None:
        recorder = self.recorder
        if recorder.settings.task == "structure":
            return
        api = f"Optimizer.{type(optimizer).__name__}"
        op = recorder.starts(f"{api}.{recorder.count(api)}.forward", (), settings_of(optimizer), frame)
        if op is not None:
            op.parent = recorder.parent_of_function(op.stack)
            recorder.ends(op, ())


class _Update:
    """A step of an optimizer that has begun."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.shown = False
        """Whether a recorded function has written into a parameter: its arguments come of the settings."""
        self._parameters: set[int] = set()

    def saw(self, name: str, args: Any) -> None:
        """Learn of a function that begins."""
        if self.shown or not args or not _IN_PLACE.fullmatch(name.split(".")[-3]):
            return
        if not self._parameters:
            groups = self.optimizer.param_groups
            self._parameters = {_memory(parameter) for group in groups for parameter in group["params"]}
        written = args[0] if isinstance(args[0], list) else args[:1]
        self.shown = any(_memory(tensor) in self._parameters for tensor in written)


def _memory(tensor: Any) -> int:
    """What a parameter and its `data` have in common. Of a tensor without memory only the object itself is known."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided:
        return tensor.data_ptr() or id(tensor)
    return id(tensor)


def _is_stepping() -> bool:
    frame: FrameType | None = _getframe()
    while frame is not None and frame.f_code is not STEP:
        frame = frame.f_back
    return frame is not None


def settings_of(optimizer: Optimizer) -> dict[str, Any]:
    """The numbers by which the groups of parameters are updated, by name: a list, if groups differ in one."""
    groups = optimizer.param_groups
    unsaid = _HOW | {_DECOUPLED} if isinstance(optimizer, torch.optim.AdamW) else _HOW
    names = dict.fromkeys(name for group in groups for name in group if name not in unsaid)
    found = {name: [_number(group.get(name)) for group in groups] for name in names}
    return {
        name: numbers[0] if all(number == numbers[0] for number in numbers) else numbers
        for name, numbers in found.items()
        if None not in numbers
    }


def _number(value: Any) -> Any:
    """`value` as a number, or several; None if it is none."""
    if isinstance(value, torch.Tensor):
        return value.item() if value.numel() == 1 else None
    if isinstance(value, tuple | list):
        numbers = [_number(one) for one in value]
        return numbers if numbers and None not in numbers else None
    return value if isinstance(value, bool | int | float) else None
