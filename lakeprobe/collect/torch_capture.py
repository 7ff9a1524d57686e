"""Watches training steps in PyTorch and hands what happened to a sink, under msprobe's names and in its order."""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from lakeprobe import diagnostics
from lakeprobe.collect.settings import Settings
from lakeprobe.collect.sink import Sink
from lakeprobe.collect.torch_calls import Calls
from lakeprobe.collect.torch_collectives import Collectives
from lakeprobe.collect.torch_entries import Op
from lakeprobe.collect.torch_modules import Modules
from lakeprobe.collect.torch_recorder import Recorder, apart
from lakeprobe.errors import UsageError

_CLIPPING = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_")


def capture(model: Any, settings: Settings, sink: Sink) -> "Capture":
    """A capture of a model, a list of models, or of none (level L1), not started yet."""
    return Capture(model, settings, sink)


class Capture:
    """Steps are numbered from 0. Between `start` and `stop` all is recorded that the settings ask for."""

    _running: "Capture | None" = None

    def __init__(self, model: Any, settings: Settings, sink: Sink) -> None:
        self.current_step = 0
        """The number of the running step. May be set before the first start, to number on from an earlier run."""
        self._model = model
        self._settings = settings
        self._sink = sink
        self.recorder = Recorder(settings, sink)
        self._calls = Calls(self.recorder)
        self._collectives = Collectives(self.recorder)
        self._modules = Modules(self.recorder)
        self._phases = _Phases(self.recorder)
        self._rank: int | None = None
        self._begun = False
        self._closed = False
        self._said = 0

    def start(self, model: Any = None, rank: int | None = None) -> None:
        """Starts recording, or goes on. Nothing happens where the step or rank is not asked for, or it is running.

        `model` takes the place of the one given before; `rank` that of torch.distributed's.
        """
        if model is not None:
            self._model = model
        self._rank = _rank() if rank is None else rank
        if self.recorder.running or not self._wanted() or self._settings.level == "debug":
            return
        if Capture._running is not None:
            raise UsageError("another capture is running in this process: stop it first")
        modules = self._settings.level in ("L0", "mix")
        if modules and self._model is None:
            raise UsageError(f"level {self._settings.level} records modules: give start() the model")
        self._begin()
        Capture._running = self
        self.recorder.running = True
        if modules:
            self._modules.start(self._model)
        if self._settings.level in ("L1", "mix"):
            self._calls.start()
            self._collectives.start()
        if self._settings.level == "mix":
            self._phases.start()

    def stop(self) -> None:
        """Stops recording: torch and the model are as they were, and the sink has all ops so far."""
        if not self.recorder.running:
            return
        self.recorder.running = False
        Capture._running = None
        self._phases.stop()
        self._collectives.stop()
        self._calls.stop()
        self._modules.stop()
        self.recorder.leaves.tensors.forget_all()
        self._hand_over()

    def step(self) -> None:
        """The step is over, recorded or not; the next one begins. Recording goes on if it was running."""
        running = self.recorder.running
        self.stop()
        if self._begun:
            self._hand_over()
            self._begun = False
            self._sink.end()
        self.recorder.next_step()
        self._modules.next_step()
        self.current_step += 1
        if running:
            self.start(rank=self._rank)

    def close(self) -> None:
        """Stops, ends the step and closes the sink. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self.stop()
        if self._begun:
            self._hand_over()
            self._begun = False
            self._sink.end()
        self._sink.close()

    def save(self, name: str, value: Any, backward: bool = True) -> None:
        """Records a value by name: a tensor, a number, a text, or lists and dicts of them, and later its gradients.

        Works at every level, started or not. The op is `NAME.N.debug`, that of the gradients `NAME_grad.N.debug`, with
        N from 0 for each name in a step.
        """
        if not self.recorder.running:
            self._rank = _rank()
        if not self._wanted():
            return
        self._begin()
        self._save(name, value, backward)

    @apart
    def _save(self, name: str, value: Any, backward: bool) -> None:
        recorder = self.recorder
        number = recorder.count(f"{name}.debug")
        op = Op(f"{name}.{number}.debug", None, None)
        op.body = recorder.leaves.of_file(value, op.name, op.name)
        recorder.entries.put(op)
        recorder.entries.finish(op)
        if backward:
            self._save_gradients(f"{name}_grad.{number}.debug", value)

    def _save_gradients(self, name: str, value: Any) -> None:
        """An op in the value's form, with null where there is no gradient, or none yet."""
        recorder = self.recorder
        op = Op(name, None, None)
        step = recorder.steps

        def place(tensor: torch.Tensor, file: str, put: Callable[[Any], None]) -> None:
            @apart
            def gradient(self: Capture, grad: torch.Tensor) -> None:
                if self.recorder.steps == step:
                    put(self.recorder.leaves.of_file(grad, name, file))

            def hook(grad: torch.Tensor) -> None:
                gradient(self, grad)

            tensor.register_hook(hook)

        def whole(leaf: Any) -> None:
            op.body = leaf

        op.body = _gradients(value, name, place, whole)
        recorder.entries.put(op)

    def _wanted(self) -> bool:
        settings = self._settings
        if settings.step and self.current_step not in settings.step:
            return False
        return not settings.rank or (self._rank or 0) in settings.rank

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._sink.begin(self.current_step, self._rank)

    def _hand_over(self) -> None:
        self.recorder.entries.hand_over()
        new = self.recorder.failures[self._said :]
        if new:
            diagnostics.note(f"lakeprobe: {len(new)} things could not be recorded, the first: {new[0]}")
            self._said += len(new)


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


def _gradients(value: Any, file: str, place: Callable[..., None], put: Callable[[Any], None]) -> Any:
    """The form of a value with null for its leaves; `place` is told of each tensor that will have a gradient."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            place(value, file, put)
        return None
    if isinstance(value, dict):
        form: dict[str, Any] = {}
        for key, item in value.items():
            form[str(key)] = _gradients(item, f"{file}.{key}", place, _putter(form, str(key)))
        return form
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        items: list[Any] = [None] * len(value)
        for index, item in enumerate(value):
            items[index] = _gradients(item, f"{file}.{index}", place, _putter(items, index))
        return items
    return None


def _putter(container: Any, key: Any) -> Callable[[Any], None]:
    def put(leaf: Any) -> None:
        container[key] = leaf

    return put


def _forget_in_child() -> None:
    """A forked process (a worker that loads data) is not watched: the sink is its parent's."""
    running = Capture._running
    if running is not None:
        running.recorder.running = False
        Capture._running = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def _rank() -> int | None:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        rank: int = distributed.get_rank()
        return rank
    return None
