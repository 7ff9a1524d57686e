"""Measures a PyTorch training through hooks of its parameters, modules and optimizer. Nothing of it changes a bit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.optim.optimizer as hooking
from torch import distributed, nn

from lakeprobe.collect.pytorch.modules import accumulator
from lakeprobe.errors import UsageError
from lakeprobe.monitoring.meter import Guard, Meter
from lakeprobe.monitoring.pytorch import scaling, tensors
from lakeprobe.monitoring.pytorch.communication import Communication
from lakeprobe.monitoring.pytorch.modules import Modules
from lakeprobe.monitoring.settings import ANY, Settings, fits
from lakeprobe.monitoring.writing import Row

_MAIN_GRADIENT = "main_grad"
"""Where Megatron accumulates a parameter's gradient, in a hook on the parameter's node, which runs before ours."""


class Hooks:
    """The hooks of a training that is monitored."""

    def __init__(
        self, model: nn.Module | Sequence[nn.Module], optimizer: Any, settings: Settings, guard: Guard,
        ended: Callable[[], None], step: int = 0,
    ) -> None:  # fmt: skip
        """Hook into `model` and `optimizer`. `guard` wraps every hook; `ended` is called after each optimizer step."""
        models = [model] if isinstance(model, nn.Module) else list(model)
        self.meter = Meter(tensors, settings, step)
        self._optimizer = optimizer
        self._parameters = {
            name: parameter
            for name, parameter in named(models, "named_parameters")
            if parameter.requires_grad and fits(name, settings.parameters)
        }
        self._removals: list[Callable[[], None]] = []
        self._nodes: list[Any] = []
        self._updates = 0
        if self.meter.wants("gradient_unreduced"):
            self._watch_gradients(guard)
        modules = dict(named(models, "named_modules"))
        self.has_targets = bool(self._parameters) or any(fits(name, settings.modules) for name in modules)
        self._modules = Modules(self.meter, guard, modules)
        self._removals.append(self._modules.remove)
        if self.meter.wants("sent") or self.meter.wants("received"):
            self._removals.append(Communication(self.meter, guard).remove)
        if optimizer is not None:
            self._watch_optimizer(optimizer, guard, ended)

    def remove(self) -> None:
        """Take all hooks away. The training is as it was."""
        for remove in self._removals:
            remove()
        self._removals.clear()
        self._nodes.clear()

    def log(self, name: str, value: float | torch.Tensor) -> None:
        """Measure a number of the script, such as the loss. Each time in a step after the first has a micro step."""
        number = self.meter.count(name, "logged") or None
        self.meter.numbers(name, "logged", {"value": value}, number)

    def before_update(self, optimizer: Any = None) -> None:
        """Measure what the optimizer is going to use: gradients that are reduced, moments, parameters as they were.

        With `optimizer`, if it is one of several, only what it updates. When it updates again in the same step, that is
        the next micro step.
        """
        self._updates += 1
        meter = self.meter
        if not meter.on:
            return
        again = meter.count(str(id(optimizer)), "updates") or None
        scale = self._note_fused(optimizer)
        moments = dict(self._moments()) if meter.wants("moment1") or meter.wants("agreement") else {}
        parameters = self._updated_by(optimizer)
        for name, parameter in parameters.items():
            gradient, moment = _gradient(parameter), moments.get(name)
            if gradient is not None:
                meter.measure(name, "gradient", gradient, again, scale)
                if moment is not None and meter.wants("agreement") and moment.numel():
                    meter.numbers(name, "agreement", {"value": tensors.agreement(gradient, moment)}, again)
            if moment is not None:
                meter.measure(name, "moment1", moment, again)
            meter.measure(name, "parameter", parameter, again)
        if meter.wants("moment2"):
            for name, moment in self._moments("exp_avg_sq"):
                if name in parameters:
                    meter.measure(name, "moment2", moment, again)

    def _updated_by(self, optimizer: Any) -> Mapping[str, torch.Tensor]:
        """Return the parameters that `optimizer` updates, by name: all of them unless it is one of several."""
        if optimizer is None or not isinstance(self._optimizer, (list, tuple)):
            return self._parameters
        own = {id(parameter) for group in _groups(optimizer) for parameter in group["params"]}
        return {name: parameter for name, parameter in self._parameters.items() if id(parameter) in own}

    def _note_fused(self, optimizer: Any) -> float | torch.Tensor:
        """Return by how much gradients are still scaled, and keep whether the optimizer is going to skip them."""
        scale, skips = scaling.fused(optimizer)
        if skips is not None:
            self._note_scaler(scale, skips)
        return 1.0 if scale is None else scale

    def _note_scaler(self, scale: float | torch.Tensor | None, skips: float | torch.Tensor) -> None:
        """Keep what a GradScaler does in this step: once for all optimizers."""
        if not self.meter.on or self.meter.count(scaling.SCALER, "scaler"):
            return
        found = {"skipped": skips} if scale is None else {"scale": scale, "skipped": skips}
        self.meter.numbers(scaling.SCALER, "scaler", found, None)

    def after_update(self) -> None:
        """Measure what the optimizer made: parameters, and the direction of its update. Then the learning rate."""
        if not self.meter.on:
            return
        if self.meter.wants("parameter_updated"):
            for name, parameter in self._parameters.items():
                self.meter.measure(name, "parameter_updated", parameter)
        for number, group in enumerate(_groups(self._optimizer)):
            self.log(f"learning_rate.{number}", float(group["lr"]))
        if self.meter.wants("update"):
            for name, state, group in self._states():
                if "exp_avg_sq" in state and "step" in state:
                    self.meter.measure(name, "update", _direction(state, group))

    def take(self) -> list[Row]:
        """Return what was measured since the last call; the step is over."""
        self._modules.check()
        return self.meter.take()

    def _watch_optimizer(self, optimizer: Any, guard: Guard, ended: Callable[[], None]) -> None:
        def after() -> None:
            self.after_update()
            ended()

        before_update, after_update = guard(self.before_update), guard(after)
        if optimizer is ANY:
            self._keep(hooking.register_optimizer_step_pre_hook(_ahead(before_update)))
            self._keep(hooking.register_optimizer_step_post_hook(lambda *_: after_update()))
        elif isinstance(optimizer, (list, tuple, torch.optim.Optimizer)):  # of several the last one ends the step
            several = _several(optimizer)
            for each in several:
                if not hasattr(each, "register_step_pre_hook"):
                    kind = type(each).__name__
                    raise UsageError(
                        f"monitor: a list of optimizers has an item of type {kind}, which is not an optimizer"
                    )
            for each in several:
                self._keep(each.register_step_pre_hook(_ahead(before_update)))
            self._keep(several[-1].register_step_post_hook(lambda *_: after_update()))
        else:
            self._watch_own_class(optimizer, before_update, after_update)

        self._removals.append(scaling.watch(self.meter, guard, lambda: self._updates, self._skipping(after)))

    def _skipping(self, after: Callable[[], None]) -> Callable[[Any, float], None]:
        """Return what measures a step that a GradScaler skips: nothing is updated, but the step ends."""

        def skipped(optimizer: Any, scale: float) -> None:
            several = _several(self._optimizer)
            if self._optimizer is not ANY and all(optimizer is not each for each in several):
                return
            self._note_scaler(scale, 1.0)
            self.before_update(optimizer)
            if self._optimizer is ANY or optimizer is several[-1]:
                after()

        return skipped

    def _watch_own_class(self, optimizer: Any, before: Callable[..., None], after: Callable[..., None]) -> None:
        """Watch an optimizer of a trainer's own class, such as Megatron's."""
        inner = optimizer.step

        def step(*arguments: Any, **options: Any) -> Any:
            before()
            result = inner(*arguments, **options)
            after()
            return result

        optimizer.step = step
        self._removals.append(lambda: optimizer.__dict__.pop("step", None))

    def _watch_gradients(self, guard: Guard) -> None:
        """Measure gradients when they are accumulated on this rank, ahead of what reduces them."""
        local = {name: parameter for name, parameter in self._parameters.items() if not hasattr(parameter, "to_local")}
        for name, parameter in local.items():
            hook = guard(self._gradient_hook(name, parameter))
            if hasattr(parameter, _MAIN_GRADIENT):
                node = accumulator(parameter)
                self._nodes.append(node)  # the hooks live as long as the node
                self._keep(node.register_hook(hook))
            else:
                self._keep(parameter.register_post_accumulate_grad_hook(hook))
        if len(local) < len(self._parameters):
            self._watch_fully_sharded(guard)

    def _watch_fully_sharded(self, guard: Guard) -> None:
        """Measure the gradients of FSDP2's parameters on this rank, in whole, as they go into the reduction."""
        from torch.distributed.fsdp._fully_shard import _fsdp_param_group as module

        reduce = module.foreach_reduce

        def measure(parameters: Sequence[Any], gradients: Sequence[torch.Tensor]) -> None:
            for parameter, gradient in zip(parameters, gradients, strict=True):
                name = parameter._param_fqn
                if name in self._parameters:
                    self.meter.measure(name, "gradient_unreduced", gradient, self.meter.count(name, "unreduced"))

        measured = guard(measure)

        def reducing(parameters: Any, gradients: Any, *arguments: Any, **options: Any) -> Any:
            measured(parameters, gradients)
            return reduce(parameters, gradients, *arguments, **options)

        module.foreach_reduce = reducing
        self._removals.append(lambda: setattr(module, "foreach_reduce", reduce))

    def _gradient_hook(self, name: str, parameter: torch.Tensor) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            gradient = _gradient(parameter)
            if self.meter.on and gradient is not None:
                self.meter.measure(name, "gradient_unreduced", gradient, self.meter.count(name, "unreduced"))

        return hook

    def _moments(self, moment: str = "exp_avg") -> Iterator[tuple[str, torch.Tensor]]:
        """Yield a moment of each parameter that has one."""
        for name, state, _ in self._states():
            if state.get(moment) is not None:
                yield name, state[moment]

    def _states(self) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
        """Yield the state of each parameter in the optimizer, with its group of options."""
        names = {id(parameter): name for name, parameter in self._parameters.items()}
        for optimizer in _optimizers(self._optimizer):
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    name = names.get(id(parameter))
                    if name is not None and parameter in optimizer.state:
                        yield name, optimizer.state[parameter], group

    def _keep(self, handle: Any) -> None:
        self._removals.append(handle.remove)


def rank() -> int:
    """Return the rank of this process, 0 if the job is not distributed."""
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0


def named(models: Sequence[nn.Module], method: str) -> Iterator[tuple[str, Any]]:
    """Yield the parameters or modules of all models; with several models the model's number comes first."""
    for number, model in enumerate(models):
        prefix = f"{number}:" if len(models) > 1 else ""
        for name, member in getattr(model, method)():
            yield prefix + name, member


def _several(optimizer: Any) -> Sequence[Any]:
    """Return the optimizers that the script gave, of which each updates by itself."""
    return optimizer if isinstance(optimizer, (list, tuple)) else [optimizer]


def _optimizers(optimizer: Any) -> list[Any]:
    """Return the optimizers with states inside one, which may be a chain or a wrapper of others."""
    if optimizer is None or optimizer is ANY:
        return []
    if isinstance(optimizer, (list, tuple)):
        return [inner for each in optimizer for inner in _optimizers(each)]
    chained = getattr(optimizer, "chained_optimizers", None)
    if chained is not None:
        return [inner for each in chained for inner in _optimizers(each)]
    inner = getattr(optimizer, "optimizer", None)
    return [optimizer if inner is None else inner]


def _ahead(before_update: Callable[..., None]) -> Callable[..., Any]:
    """Return a hook ahead of an optimizer's step. Where a closure makes the gradients, they are there after its call.

    LBFGS calls it many times; the first time is at the parameters as they were.
    """

    def hook(optimizer: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        closure = keywords.get("closure", arguments[1] if len(arguments) > 1 else None)
        if not callable(closure):
            before_update(optimizer)
            return None
        calls = itertools.count()

        def measured() -> Any:
            loss = closure()
            if next(calls) == 0:
                before_update(optimizer)
            return loss

        if "closure" in keywords:
            return arguments, {**keywords, "closure": measured}
        return (optimizer, measured, *arguments[2:]), keywords

    return hook


def _groups(optimizer: Any) -> list[Mapping[str, Any]]:
    return [group for each in _optimizers(optimizer) for group in each.param_groups]


def _gradient(parameter: torch.Tensor) -> torch.Tensor | None:
    """Return the gradient that the optimizer uses."""
    gradient: torch.Tensor | None = getattr(parameter, _MAIN_GRADIENT, None)
    return parameter.grad if gradient is None else gradient


def _direction(state: Mapping[str, Any], group: Mapping[str, Any]) -> torch.Tensor:
    """Return the direction of Adam's update: m̂ / (√v̂ + ε), with both moments corrected for their bias.

    Formula: Kingma and Ba, Adam, arXiv 1412.6980, algorithm 1.
    """
    beta1, beta2 = group["betas"]
    step = float(state["step"])
    with torch.no_grad():
        first = state["exp_avg"] / (1 - beta1**step)
        second = state["exp_avg_sq"] / (1 - beta2**step)
        direction: torch.Tensor = first / (second.sqrt() + group["eps"])
        return direction
