"""Measures a PyTorch training through hooks of its parameters, modules and optimizer. Nothing of it changes a bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from lakeprobe.monitoring import measures
from lakeprobe.monitoring.settings import Settings
from lakeprobe.monitoring.writing import Key, Row

Guard = Callable[[Callable[..., None]], Callable[..., None]]


class Hooks:
    """The hooks of a training that is monitored, and what they measured in the step that runs."""

    def __init__(
        self, model: nn.Module | Sequence[nn.Module], optimizer: torch.optim.Optimizer | None, settings: Settings,
        guard: Guard, ended: Callable[[], None],
    ) -> None:  # fmt: skip
        """Hook into `model` and `optimizer`. `guard` wraps every hook; `ended` is called after each optimizer step."""
        models = [model] if isinstance(model, nn.Module) else list(model)
        self.step = 0
        self._settings = settings
        self._optimizer = optimizer
        self._parameters = {
            name: parameter for name, parameter in _named(models, "named_parameters") if settings.wants_name(name)
        }
        self._rows: list[Row] = []
        self._waiting: list[tuple[int | None, Key, torch.Tensor]] = []
        self._passes: dict[tuple[str, str], int] = {}
        self._handles: list[Any] = []
        if "gradient_unreduced" in settings.points:
            for name, parameter in self._parameters.items():
                if parameter.requires_grad:
                    hook = self._gradient_hook(name, "gradient_unreduced")
                    self._handles.append(parameter.register_hook(guard(hook)))
        if {"activation", "activation_gradient"} & set(settings.points):
            for name, module in _named(models, "named_modules"):
                if name and settings.wants_name(name):
                    self._handles.append(module.register_forward_hook(guard(self._module_hook(name, guard))))
        if optimizer is not None:
            self._handles.append(optimizer.register_step_pre_hook(guard(lambda *_: self.before_update())))

            def after(*_: Any) -> None:
                self.after_update()
                ended()

            self._handles.append(optimizer.register_step_post_hook(guard(after)))

    def remove(self) -> None:
        """Take all hooks away. The training is as it was."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def log(self, name: str, value: float | torch.Tensor) -> None:
        """Measure a number of the script, such as the loss."""
        key = Key(name, "logged", "value")
        if isinstance(value, torch.Tensor):
            self._waiting.append((None, key, value.detach().double().reshape(())))
        else:
            self._rows.append(Row(self.step, None, key, float(value), None))

    def before_update(self) -> None:
        """Measure what the optimizer is going to use: gradients that are reduced, and parameters as they were."""
        for name, parameter in self._parameters.items():
            gradient = _gradient(parameter)
            if gradient is not None:
                self._measure(name, "gradient", gradient)
            self._measure(name, "parameter", parameter)

    def after_update(self) -> None:
        """Measure what the optimizer made: parameters, its moments, and the direction of its update."""
        for name, parameter in self._parameters.items():
            self._measure(name, "parameter_updated", parameter)
        if self._optimizer is not None and self._wants():
            for number, group in enumerate(self._optimizer.param_groups):
                self.log(f"learning_rate.{number}", float(group["lr"]))
            if {"moment1", "moment2", "update"} & set(self._settings.points):
                self._measure_moments(self._optimizer)

    def take(self) -> list[Row]:
        """Return what was measured since the last call; the step is over."""
        rows, self._rows = self._rows, []
        waiting, self._waiting = self._waiting, []
        self._passes.clear()
        by_device: dict[torch.device, list[tuple[int | None, Key, torch.Tensor]]] = {}
        for item in waiting:
            by_device.setdefault(item[2].device, []).append(item)
        for items in by_device.values():
            values = torch.stack([value for _, _, value in items]).tolist()
            rows += (
                Row(self.step, micro_step, key, value, None)
                for (micro_step, key, _), value in zip(items, values, strict=True)
            )
        self.step += 1
        return rows

    def _wants(self) -> bool:
        return self._settings.wants_step(self.step)

    def _measure(self, name: str, point: str, tensor: torch.Tensor, micro_step: int | None = None) -> None:
        if point not in self._settings.points or not self._wants():
            return
        with torch.no_grad():
            plain = _plain(tensor)
            for metric, number in measures.numbers(plain, self._settings.metrics, self._settings.eps).items():
                self._waiting.append((micro_step, Key(name, point, metric), number))
            for metric, text in measures.texts(plain, self._settings.metrics).items():
                self._rows.append(Row(self.step, micro_step, Key(name, point, metric), None, text))

    def _pass(self, name: str, point: str) -> int:
        """Return how often this point was reached in the step before."""
        number = self._passes.get((name, point), 0)
        self._passes[name, point] = number + 1
        return number

    def _gradient_hook(self, name: str, point: str) -> Callable[[torch.Tensor], None]:
        def hook(gradient: torch.Tensor) -> None:
            if self._wants():
                self._measure(name, point, gradient, self._pass(name, point))

        return hook

    def _module_hook(self, name: str, guard: Guard) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            if not self._wants():
                return
            number = self._pass(name, "activation")
            for slot, tensor in _tensors(output):
                self._measure(f"{name}{slot}", "activation", tensor, number)
                if "activation_gradient" in self._settings.points and tensor.requires_grad:
                    tensor.register_hook(guard(self._gradient_hook(f"{name}{slot}", "activation_gradient")))

        return hook

    def _measure_moments(self, optimizer: torch.optim.Optimizer) -> None:
        names = {id(parameter): name for name, parameter in self._parameters.items()}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                name, state = names.get(id(parameter)), optimizer.state.get(parameter, {})
                if name is None or "exp_avg" not in state:
                    continue
                self._measure(name, "moment1", state["exp_avg"])
                if "exp_avg_sq" in state:
                    self._measure(name, "moment2", state["exp_avg_sq"])
                    if "update" in self._settings.points:
                        self._measure(name, "update", _direction(state, group))


def _named(models: list[nn.Module], method: str) -> Iterator[tuple[str, Any]]:
    """Yield the parameters or modules of all models; with several models the model's number comes first."""
    for number, model in enumerate(models):
        prefix = f"{number}." if len(models) > 1 else ""
        for name, member in getattr(model, method)():
            yield prefix + name, member


def _gradient(parameter: torch.Tensor) -> torch.Tensor | None:
    """Return the gradient that the optimizer uses: Megatron keeps it in main_grad."""
    gradient = getattr(parameter, "main_grad", None)
    return parameter.grad if gradient is None else gradient


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor without its graph; of a distributed tensor the part of this rank."""
    local = getattr(tensor, "to_local", None)
    tensor = tensor.detach() if local is None else local().detach()
    return tensor.to_dense() if tensor.layout is not torch.strided else tensor


def _tensors(value: Any, slot: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in the output of a module, each with its place: nothing for a tensor alone, .0 in a tuple."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() or value.is_complex():
            yield slot, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(item, f"{slot}.{key}")
    elif isinstance(value, (tuple, list)):
        for number, item in enumerate(value):
            yield from _tensors(item, f"{slot}.{number}")


def _direction(state: Mapping[str, Any], group: Mapping[str, Any]) -> torch.Tensor:
    """Return the direction of Adam's update: m̂ / (√v̂ + ε), with both moments corrected for their bias.

    Formula: Kingma and Ba, Adam, arXiv 1412.6980, algorithm 1.
    """
    beta1, beta2 = group["betas"]
    step = float(state["step"])
    with torch.no_grad():
        first = state["exp_avg"] / (1 - beta1**step)
        second = state["exp_avg_sq"] / (1 - beta2**step)
        return first / (second.sqrt() + group["eps"])
