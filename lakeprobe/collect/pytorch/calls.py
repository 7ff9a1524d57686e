"""Records calls of torch functions, and the backward of each through a hook on its graph node."""

import functools
import sys
from collections.abc import Callable
from sys import _getframe
from typing import Any

import torch

from lakeprobe.collect.pytorch import apis
from lakeprobe.collect.pytorch.functions import places
from lakeprobe.collect.pytorch.modules import Modules
from lakeprobe.collect.pytorch.tracing import call_hidden, handled
from lakeprobe.collect.pytorch.trials import Trials
from lakeprobe.collect.watching.entries import Op
from lakeprobe.collect.watching.kept import keep
from lakeprobe.collect.watching.pickling import let_pickle
from lakeprobe.collect.watching.places import Function, Place, Replacements
from lakeprobe.collect.watching.recorder import Recorder, guarded
from lakeprobe.collect.watching.stacks import Stack

_DROPOUT = frozenset(
    f"{prefix}.{name}"
    for prefix, names in (
        ("Functional", "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout"),
        ("Torch", "dropout dropout_ alpha_dropout alpha_dropout_ feature_alpha_dropout feature_alpha_dropout_"),
        ("Torch", "feature_dropout feature_dropout_"),
        ("NPU", "_npu_dropout"),
    )
    for name in names.split()
)


class Calls:
    """Records every call of a listed function as an op while started."""

    def __init__(
        self, recorder: Recorder, in_place: Replacements, modules: Modules, trials: Trials | None = None
    ) -> None:
        """Record for `recorder`, and tell `modules` how far backward has come. With `trials`, each call is tried."""
        self.recorder = recorder
        self._in_place = in_place
        self._modules = modules
        self._trials = trials
        self._known: dict[tuple[str, int], Function] = {}
        self._ours: list[tuple[Place, Function]] = []
        """The places of torch's functions, and what records there."""
        self._kept: list[tuple[Place, Function]] = []
        """Those of them that the program kept when they were removed."""

    def start(self) -> None:
        """Install the recording functions."""
        if not self._ours or not all(place.unchanged for place, _ in self._ours):
            self._ours = [(place, self._replacement(place)) for place in places()]
        self._in_place.put_all(self._ours)
        for place, function in self._kept:
            if place.holds(function):
                function.__module__, function.__qualname__ = place.path  # pickle looks for a function there
        let_pickle(self._in_place, [place for place, _ in self._ours])

    def stop(self) -> None:
        """Let the program pickle recording functions that it has kept."""
        references = [sys.getrefcount(function) for _, function in self._ours]
        least = min(references, default=0)  # no program keeps all of them
        self._kept = [ours for ours, number in zip(self._ours, references, strict=True) if number > least]
        for place, function in self._kept:
            keep(function, place.path)

    def _replacement(self, place: Place) -> Function:
        key = (place.name, id(place.function))
        known = self._known.get(key)
        if known is None:
            recording = self._recording if self._trials is None else self._trials.recording
            make = recording if self._wants(place.name) else self._silent
            known = self._known[key] = functools.update_wrapper(make(place.name, place.function), place.function)
            known.__module__, known.__qualname__ = place.path
        return known

    def _wants(self, name: str) -> bool:
        recorder = self.recorder
        return recorder.scope.overrules_risk or apis.is_recorded(name, recorder.settings.risk_level)

    def _silent(self, _name: str, function: Function) -> Function:
        """Return a function that does not record, and suppresses recording of what it calls inside."""
        recorder = self.recorder

        def call(*args: Any, **kwargs: Any) -> Any:
            if recorder.idle:
                return function(*args, **kwargs)
            return self._run(None, function, args, kwargs)

        return call

    def _recording(self, name: str, function: Function) -> Function:
        recorder = self.recorder

        def call(*args: Any, **kwargs: Any) -> Any:
            if recorder.idle:
                return function(*args, **kwargs)
            self._modules.boundaries.reached_forward()
            number = recorder.count(name)
            op = recorder.starts(f"{name}.{number}.forward", args, kwargs, _getframe(1))
            output = self._run(op, function, args, kwargs)
            self.called(name, number, op, args, kwargs, output)
            return output

        return call

    def _run(self, op: Op | None, function: Function, args: Any, kwargs: Any) -> Any:
        """Run the function. A handler of the program's, which may look at which function it is, sees torch's own."""
        if handled(args, kwargs):
            return self.recorder.run(op, call_hidden, (self._in_place, function, args, kwargs), {})
        return self.recorder.run(op, function, args, kwargs)

    @guarded
    def called(self, name: str, number: int, op: Op | None, args: Any, kwargs: Any, output: Any) -> None:
        """Record the results of a finished call, and hook up its backward."""
        recorder = self.recorder
        if recorder.scope.backward:
            self._watch_backward(name, number, args, kwargs, output, op)
        if op is not None:
            op.parent = recorder.parent_of_function(op.stack)
            recorder.ends(op, output)

    def _watch_backward(self, name: str, number: int, args: Any, kwargs: Any, output: Any, op: Op | None) -> None:
        """Record the gradients that pass the node that made the first tensor of the output."""
        if not torch.is_grad_enabled():
            return
        tensor = _first_tensor(output)
        if tensor is None or not tensor.requires_grad or tensor.grad_fn is None:
            return
        if name in _DROPOUT and (args[1] if len(args) > 1 else kwargs.get("p", 0.5)) == 0:
            # At p=0 nothing is dropped, and the node belongs to another op.
            return
        node = tensor.grad_fn
        name = f"{name}.{number}.backward"
        node.register_hook(self._backward_hook(name, node._sequence_nr(), None if op is None else op.stack))

    def _backward_hook(self, name: str, number: int, stack: Stack | None) -> Callable[[Any, Any], None]:
        recorder = self.recorder
        step = recorder.steps

        def hook(outgoing: Any, incoming: Any) -> None:
            if recorder.running and recorder.steps == step:
                self._modules.boundaries.reached(number)
                recorder.backward(name, incoming, outgoing, recorder.parent_of_function(stack))

        return hook


def _first_tensor(value: Any) -> torch.Tensor | None:
    """Return the first tensor, searched along the first members of nested containers."""
    while not isinstance(value, torch.Tensor):
        if isinstance(value, dict):
            value = next((item for item in value.values() if isinstance(item, torch.Tensor)), None)
        elif isinstance(value, (list, tuple)) and value:
            value = value[0]
        else:
            return None
    return value
