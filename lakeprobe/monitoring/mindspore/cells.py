"""Measures what goes into cells and comes out of them, and its gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindspore import Tensor
from mindspore.common.api import _pynative_executor

from lakeprobe.collect.mindspore.cells import register_forward_hook
from lakeprobe.collect.mindspore.passages import Gradients, Passage
from lakeprobe.monitoring import slots
from lakeprobe.monitoring.meter import Guard, Meter


class Cells:
    """The hooks of cells. Only a forward that is going to be differentiated is measured."""

    def __init__(self, meter: Meter, guard: Guard, cells: Mapping[str, Any]) -> None:
        """Hook into `cells`, if the settings want what they take or give."""
        self._meter = meter
        self._handles: list[Any] = []
        self._open: list[_Call] = []
        self._backward = meter.wants("input_gradient") or meter.wants("output_gradient")
        if self._backward or meter.wants("input") or meter.wants("output"):
            for name, cell in cells.items():
                self._watch(name, cell, guard)

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def step_ended(self) -> None:
        """Forget calls that have not returned: MindSpore calls no hook of a cell that raises."""
        self._open.clear()

    def _watch(self, name: str, cell: Any, guard: Guard) -> None:
        def before(_: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            if not self._is_measured():
                return None
            self._forward(name, "input", slots.of_call(arguments, keywords))
            call = _Call(self._meter, guard, name, cell, arguments)
            self._open.append(call)
            return (call.passage.arguments(arguments), keywords) if self._backward else None

        def after(_: Any, _arguments: Any, _keywords: Any, output: Any) -> Any:
            call = self._returned(cell) if self._is_measured() else None
            if call is None:
                return None
            self._forward(name, "output", output)
            return call.results(output) if self._backward else None

        self._handles.append(cell.register_forward_pre_hook(guard(before), with_kwargs=True))
        self._handles.append(register_forward_hook(cell, guard(after)))

    def _is_measured(self) -> bool:
        return self._meter.on and bool(_pynative_executor.requires_grad())

    def _returned(self, cell: Any) -> _Call | None:
        """Take the innermost open call of a cell, and forget those in it."""
        for place in range(len(self._open) - 1, -1, -1):
            if self._open[place].cell is cell:
                call = self._open[place]
                del self._open[place:]
                return call
        return None

    def _forward(self, name: str, point: str, value: Any) -> None:
        if self._meter.wants(point):
            number = self._meter.count(name, point)
            for slot, tensor in slots.named(value, _is_tensor):
                self._meter.measure(name + slot, point, tensor, number)


class _Call:
    """One call of a cell, and the gradients that backward passes at its boundary."""

    def __init__(self, meter: Meter, guard: Guard, name: str, cell: Any, arguments: tuple[Any, ...]) -> None:
        self.cell = cell
        self._meter, self._name = meter, name
        self._arguments = _places(arguments)
        self._results: list[str] = []
        self.passage = Passage(name, lambda: None, guard(self._ends))

    def results(self, output: Any) -> Any:
        """Return the results, which tell when backward passes them."""
        self._results = _places(output)
        return self.passage.results(output)

    def _ends(self, of_results: Gradients, of_arguments: Gradients) -> None:
        for point, places, gradients in (
            ("output_gradient", self._results, of_results),
            ("input_gradient", self._arguments, of_arguments),
        ):
            number = self._meter.count(self._name, point)
            for slot, gradient in zip(places, gradients, strict=False):
                if _is_tensor(gradient):
                    self._meter.measure(self._name + slot, point, gradient, number)


def _places(value: Any) -> list[str]:
    """Return the place of each tensor that is itself a member of a value: the node of a boundary passes only these."""
    members = value if isinstance(value, (tuple, list)) else (value,)
    return [f"[{number}]" if len(members) > 1 else "" for number, item in enumerate(members) if _is_tensor(item)]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)
