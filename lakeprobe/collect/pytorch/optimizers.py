"""Records steps of optimizers of which no op is recorded: one op each, whose arguments are the settings.

By default PyTorch updates all parameters on a GPU with functions that take lists of them, which are not recorded.
Without this op, another learning rate would show in the next step only, as weights that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import _getframe
from types import FrameType
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from lakeprobe.collect.watching.recorder import Recorder, guarded

_HOW = {"foreach", "fused", "capturable", "differentiable", "initial_lr", "decoupled_weight_decay"}
"""Settings of how a step is computed, what a scheduler begins with, and what newer torch writes of AdamW alone: none
changes what an optimizer of the class computes."""

STEP = Optimizer.profile_hook_step(lambda: None).__code__
"""The code that runs the step of an optimizer and its hooks."""


class Optimizers:
    """Records the steps of all optimizers while started."""

    def __init__(self, recorder: Recorder) -> None:
        """Record for `recorder`."""
        self.recorder = recorder
        self._handles: list[RemovableHandle] = []
        self._calls_before = 0

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

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not is_compiling():  # which reads this as a part of the step
            self._calls_before = self._calls()

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not is_compiling() and not self.recorder.idle and self._calls() == self._calls_before:
            self._record(optimizer, _getframe(1))

    def _calls(self) -> int:
        """How many functions were called in this training step."""
        counts = [*self.recorder.counts.values()]  # of which the first call has 0
        return sum(counts) + len(counts)

    @guarded
    def _record(self, optimizer: Optimizer, frame: Any) -> None:
        recorder = self.recorder
        if recorder.settings.task == "structure":
            return
        api = f"Optimizer.{type(optimizer).__name__}"
        op = recorder.starts(f"{api}.{recorder.count(api)}.forward", (), settings_of(optimizer.param_groups), frame)
        if op is not None:
            op.parent = recorder.parent_of_function(op.stack)
            recorder.ends(op, ())


def _is_stepping() -> bool:
    frame: FrameType | None = _getframe()
    while frame is not None and frame.f_code is not STEP:
        frame = frame.f_back
    return frame is not None


def settings_of(groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The numbers by which the groups of parameters are updated, by name: a list, if groups differ in one."""
    names = dict.fromkeys(name for group in groups for name in group if name not in _HOW)
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
