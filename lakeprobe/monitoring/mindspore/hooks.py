"""Measures a MindSpore training through hooks of its parameters, cells and optimizer, in PyNative mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import mindspore
from mindspore import Tensor
from mindspore.common.api import _no_grad
from mindspore.communication import GlobalComm, get_rank

from lakeprobe.errors import UsageError
from lakeprobe.monitoring.meter import Guard, Meter
from lakeprobe.monitoring.mindspore import optimizers, tensors
from lakeprobe.monitoring.mindspore.cells import Cells
from lakeprobe.monitoring.settings import ANY, Settings, fits
from lakeprobe.monitoring.writing import Row

_ONLY_PYTORCH = ("sent", "received")


class Hooks:
    """The hooks of a training that is monitored."""

    def __init__(
        self, model: Any, optimizer: Any, settings: Settings, guard: Guard, ended: Callable[[], None], step: int = 0
    ) -> None:  # fmt: skip
        """Hook into `model` and `optimizer`. `guard` wraps every hook; `ended` is called after each optimizer step.

        An optimizer in place of the model is watched itself. Raises UsageError for what MindSpore does not support.
        """
        _check(settings)
        models = list(model) if isinstance(model, (list, tuple)) else [model]
        self._optimizers = _several(models[0] if optimizer is ANY else optimizer)
        self.meter = Meter(tensors, settings, step)
        self._parameters = {
            name: parameter
            for name, parameter in _named_parameters(models)
            if parameter.requires_grad and fits(name, settings.parameters)
        }
        self._names = {id(parameter): name for name, parameter in self._parameters.items()}
        self._handles: list[Any] = []
        if self.meter.wants("gradient_unreduced"):
            for name, parameter in self._parameters.items():
                self._handles.append(parameter.register_hook(guard(self._gradient_hook(name))))
        cells = {name: cell for name, cell in _named_cells(models) if fits(name, settings.modules)}
        self.has_targets = bool(self._parameters or cells)
        self._cells = Cells(self.meter, guard, cells)
        for each in self._optimizers:
            self._watch(each, guard, ended)

    def remove(self) -> None:
        """Take all hooks away. The training is as it was."""
        self._cells.remove()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def log(self, name: str, value: Any) -> None:
        """Measure a number of the script, such as the loss. Each time in a step after the first has a micro step."""
        self.meter.numbers(name, "logged", {"value": value}, self.meter.count(name, "logged") or None)

    def before_update(self, optimizer: Any = None, gradients: Sequence[Any] = ()) -> None:
        """Measure what an optimizer is going to use: gradients, moments, and parameters as they were.

        `gradients` are those of the optimizer's parameters, or, without one, of the models' trainable parameters, in
        their order. A second update in the same step is the next micro step.
        """
        meter = self.meter
        if not meter.on:
            return
        again = meter.count(str(id(optimizer)), "updates") or None
        of = self._parameters.values() if optimizer is None else optimizer.parameters
        moments = (
            {} if optimizer is None else {self._name(kept.parameter): kept for kept in optimizers.moments(optimizer)}
        )
        for parameter, gradient in zip(of, gradients, strict=False):
            name = self._name(parameter)
            if name is None:
                continue
            if isinstance(gradient, Tensor):
                meter.measure(name, "gradient", gradient, again)
            kept = moments.get(name)
            if kept is not None:
                meter.measure(name, "moment1", kept.first, again)
                meter.measure(name, "moment2", kept.second, again)
                if meter.wants("agreement") and isinstance(gradient, Tensor) and gradient.size:
                    meter.numbers(name, "agreement", {"value": tensors.agreement(gradient, kept.first)}, again)
            meter.measure(name, "parameter", parameter, again)

    def after_update(self, optimizer: Any) -> None:
        """Measure what the optimizer made: parameters, and the direction of its update."""
        meter = self.meter
        if not meter.on:
            return
        if meter.wants("parameter_updated"):
            for parameter in optimizer.parameters:
                name = self._name(parameter)
                if name is not None:
                    meter.measure(name, "parameter_updated", parameter)
        if meter.wants("update"):
            for kept, eps, corrections in optimizers.directions(optimizer):
                name = self._name(kept.parameter)
                if name is not None:
                    meter.measure(name, "update", tensors.direction(kept.first, kept.second, eps, corrections))

    def take(self) -> list[Row]:
        """Return what was measured since the last call; the step is over."""
        self._cells.step_ended()
        return self.meter.take()

    def _watch(self, optimizer: Any, guard: Guard, ended: Callable[[], None]) -> None:
        if not optimizers.is_optimizer(optimizer):
            raise UsageError(
                f"monitor: {type(optimizer).__name__} is not an optimizer of MindSpore; give one, such as nn.Adam, "
                "or None and call before_step(gradients) and step()"
            )

        def before(_: Any, arguments: tuple[Any, ...]) -> None:
            with _no_grad():
                self.before_update(optimizer, arguments[0] if arguments else ())
                self._log_rates(optimizer)

        def after(_: Any, _arguments: Any, _output: Any) -> None:
            with _no_grad():
                self.after_update(optimizer)
            if optimizer is self._optimizers[-1]:
                ended()

        self._handles.append(optimizer.register_forward_pre_hook(guard(before)))
        self._handles.append(optimizer.register_forward_hook(guard(after)))

    def _log_rates(self, optimizer: Any) -> None:
        """Measure the learning rates, which a schedule changes with the update."""
        if self.meter.on:
            for rate in optimizers.learning_rates(optimizer):
                self.log(f"learning_rate.{self.meter.count('learning_rate', 'groups')}", rate)

    def _gradient_hook(self, name: str) -> Callable[[Any], None]:
        def hook(gradient: Any) -> None:
            if self.meter.on:
                self.meter.measure(name, "gradient_unreduced", gradient, self.meter.count(name, "unreduced"))

        return hook

    def _name(self, parameter: Any) -> str | None:
        return self._names.get(id(parameter))


def rank() -> int:
    """Return the rank of this process, 0 if the job is not distributed."""
    return int(get_rank()) if GlobalComm.INITED else 0


def _check(settings: Settings) -> None:
    if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
        raise UsageError(
            "MindSpore is in graph mode, and only the dynamic graph is monitored: set_context(mode=PYNATIVE_MODE)"
        )
    for point in _ONLY_PYTORCH:
        if point in settings.points:
            raise UsageError(f"monitor: the point {point} is measured in PyTorch only")
    if settings.features:
        raise UsageError("monitor: features are measured in PyTorch only")


def _several(optimizer: Any) -> Sequence[Any]:
    """Return the optimizers, of which each updates by itself, and the last ends the step."""
    if optimizer is None:
        return []
    return optimizer if isinstance(optimizer, (list, tuple)) else [optimizer]


def _named_parameters(models: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parameters of all models, or those that an optimizer in their place updates."""
    for prefix, model in _numbered(models):
        if optimizers.is_optimizer(model):
            named: Mapping[str, Any] = {parameter.name: parameter for parameter in model.parameters}
        else:
            named = dict(model.parameters_and_names())
        yield from ((prefix + name, parameter) for name, parameter in named.items())


def _named_cells(models: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for prefix, model in _numbered(models):
        if not optimizers.is_optimizer(model):
            yield from ((prefix + name, cell) for name, cell in model.cells_and_names())


def _numbered(models: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the models, each with what its names begin with: with several models its number."""
    for number, model in enumerate(models):
        yield f"{number}:" if len(models) > 1 else "", model
