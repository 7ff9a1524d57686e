"""Measures what goes into modules and comes out of them, its gradients, and what only modules of a kind have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from lakeprobe.collect.pytorch.boundaries import Boundaries, Boundary, through, watched
from lakeprobe.collect.watching.recorder import Thread
from lakeprobe.errors import LakeprobeError
from lakeprobe.monitoring import slots
from lakeprobe.monitoring.meter import Guard, Meter
from lakeprobe.monitoring.pytorch import features
from lakeprobe.monitoring.settings import fits

if TYPE_CHECKING:
    from lakeprobe.collect.watching.recorder import Recorder

Slots = dict[int, str]
"""The place of each tensor in the arguments or results of a module, by the tensor's id."""


class Modules:
    """The hooks of modules."""

    def __init__(self, meter: Meter, guard: Guard, modules: Mapping[str, nn.Module]) -> None:
        """Hook into those of `modules` that the settings name."""
        self._meter = meter
        self._handles: list[Any] = []
        self._passing = _Passing(meter)
        self._boundaries = Boundaries()
        settings = meter.settings
        forward = meter.wants("input") or meter.wants("output")
        backward = meter.wants("input_gradient") or meter.wants("output_gradient")
        for name, module in modules.items():
            if (forward or backward) and fits(name, settings.modules):
                self._watch(name, module, guard, backward=backward)
            for kind, patterns in (settings.features or {}).items():
                if fits(name, patterns):
                    hook = guard(self._feature_hook(kind, name))
                    self._handles.append(module.register_forward_hook(hook))

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def check(self) -> None:
        """Raise LakeprobeError if gradients at the boundary of a module could not be measured."""
        if self._passing.failures:
            raise LakeprobeError(self._passing.failures[0])

    def _watch(self, name: str, module: nn.Module, guard: Guard, *, backward: bool) -> None:
        open_calls: list[_ModuleBoundary | None] = []

        def before(_: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
            if not self._meter.on or not module.training:
                open_calls.append(None)
                return
            self._forward(name, "input", slots.named(slots.of_call(arguments, keywords), _is_tensor))
            open_calls.append(self._boundary(name, arguments) if backward else None)

        def after(_: nn.Module, _arguments: Any, _keywords: Any, output: Any) -> Any:
            boundary = open_calls.pop() if open_calls else None
            if output is None or not self._meter.on or not module.training:
                return None
            self._forward(name, "output", slots.named(output, _is_tensor))
            if boundary is None:
                return None
            boundary.result_slots = _slots(output)
            return through(boundary, output)

        self._handles.append(module.register_forward_pre_hook(guard(before), with_kwargs=True))
        self._handles.append(module.register_forward_hook(guard(after), with_kwargs=True, always_call=True))

    def _forward(self, name: str, point: str, tensors: Iterator[tuple[str, torch.Tensor]]) -> None:
        """Measure what a forward takes or gives, unless backward reruns it."""
        if not self._meter.wants(point) or torch._C._current_graph_task_id() != -1:
            return
        number = self._meter.count(name, point)
        for slot, tensor in tensors:
            self._meter.measure(name + slot, point, tensor, number)

    def _boundary(self, name: str, arguments: tuple[Any, ...]) -> _ModuleBoundary:
        """Watch the gradients of one call of a module."""
        tensors = watched(arguments)
        places = _slots(arguments)
        argument_slots = [places.get(id(tensor), f"[{number}]") for number, tensor in enumerate(tensors)]

        def measure(point: str, places: list[str], gradients: tuple[Any, ...]) -> None:
            number = self._meter.count(name, point)
            for slot, gradient in zip(places, gradients, strict=False):
                if gradient is not None:
                    self._meter.measure(name + slot, point, gradient, number)

        def came(of_arguments: tuple[Any, ...]) -> bool:
            measure("input_gradient", argument_slots, of_arguments)
            return True

        def ends(of_results: tuple[Any, ...], of_arguments: tuple[Any, ...], measured: bool | None) -> None:
            measure("output_gradient", list(boundary.result_slots.values()), of_results)
            if not measured:
                measure("input_gradient", argument_slots, of_arguments)

        passing = cast("Recorder", self._passing)
        boundary = _ModuleBoundary(self._boundaries, passing, f"{name}.", lambda: None, came, ends)
        boundary.arguments(tensors)
        return boundary

    def _feature_hook(self, kind: str, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
            if not self._meter.on or not module.training or torch._C._current_graph_task_id() != -1:
                return
            with torch.no_grad():
                found = features.of(kind, module, arguments, output, self._meter.settings.layout)
            if found:
                number = None if kind in features.OF_WEIGHTS else self._meter.count(name, kind)
                if number is None and self._meter.count(name, kind):
                    return  # a weight is the same in every forward of a step
                self._meter.numbers(name, kind, found, number)

        return hook


class _ModuleBoundary(Boundary):
    """A boundary that knows the places of the tensors of a module's results."""

    result_slots: Slots = {}  # noqa: RUF012  replaced, never changed


class _Passing:
    """What `Boundary` needs of a recorder: whether gradients are wanted, and where failures go."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.failures: list[str] = []
        self.thread = Thread()

    @property
    def running(self) -> bool:
        return self._meter.on

    @property
    def steps(self) -> int:
        return self._meter.step

    def hidden(self) -> AbstractContextManager[Any] | None:
        hidden: AbstractContextManager[Any] = torch.no_grad()
        return hidden


def _slots(value: Any) -> Slots:
    """Return the places of the tensors that backward may pass."""
    found: Slots = {}
    for slot, tensor in slots.named(value, lambda each: isinstance(each, torch.Tensor) and each.requires_grad):
        found.setdefault(id(tensor), slot)
    return found


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
