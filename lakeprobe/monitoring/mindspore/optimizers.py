"""What MindSpore's optimizers keep: moments, corrections for their bias, and learning rates, under many names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from lakeprobe.monitoring.mindspore.tensors import number

_MOMENTS = (("moment1", "moment2"), ("moments1", "moments2"), ("exp_avg", "exp_avg_sq"))
"""Adam's two moments: of nn.Adam; of nn.AdamWeightDecay and nn.Lamb; of mindspore.experimental and mint."""


class Moments(NamedTuple):
    """The two moments of one parameter."""

    parameter: Any
    first: Any
    second: Any


def is_optimizer(value: Any) -> bool:
    """Whether `value` is called with gradients to update its parameters."""
    return callable(value) and hasattr(value, "parameters") and hasattr(value, "register_forward_pre_hook")


def moments(optimizer: Any) -> Iterator[Moments]:
    """Yield the moments of each parameter. None for an optimizer that does not keep Adam's."""
    for first, second in _MOMENTS:
        if hasattr(optimizer, first) and hasattr(optimizer, second):
            members = (optimizer.parameters, getattr(optimizer, first), getattr(optimizer, second))
            yield from map(Moments, *members)


def directions(optimizer: Any) -> Iterator[tuple[Moments, float, tuple[float, float]]]:
    """Yield the moments of each parameter behind an update, with ε and the corrections of both.

    None for an optimizer that does not say how it corrects them.
    """
    kept = list(moments(optimizer))
    if hasattr(optimizer, "beta1_power"):  # nn.Adam: the betas to the power of the step
        corrections = (1 - number(optimizer.beta1_power), 1 - number(optimizer.beta2_power))
        yield from ((each, number(optimizer.eps), corrections) for each in kept)
    elif hasattr(optimizer, "moments1"):  # nn.AdamWeightDecay does not correct
        yield from ((each, number(optimizer.eps), (1.0, 1.0)) for each in kept)
    elif type(optimizer).__module__.startswith("mindspore.experimental") and hasattr(optimizer, "state_step"):
        step = number(optimizer.state_step)
        for group, begin, end in zip(
            optimizer.param_groups, optimizer.group_start_id, optimizer.group_start_id[1:], strict=False
        ):
            beta1, beta2 = group["betas"]
            corrections = (1 - beta1**step, 1 - beta2**step)
            yield from ((each, group["eps"], corrections) for each in kept[begin:end])


def learning_rates(optimizer: Any) -> list[float]:
    """Return the rate of the update that comes, for each group of parameters."""
    groups = getattr(optimizer, "param_groups", None)
    if groups is not None:
        return [number(group["lr"]) for group in groups]
    if not hasattr(optimizer, "get_lr"):
        return []
    rates = optimizer.get_lr()
    if not isinstance(rates, tuple):
        return [number(rates)]
    of_groups = {id(kept): rate for kept, rate in zip(optimizer.learning_rate, rates, strict=True)}
    return [number(rate) for rate in of_groups.values()]
