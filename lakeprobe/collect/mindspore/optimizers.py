"""The settings of an optimizer: it runs as one compiled op, which takes them from the cell that it belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Tensor, nn

_OWN = ("learning_rate", "beta1", "beta2", "eps", "momentum", "weight_decay")
"""The settings that an optimizer keeps as attributes where it does not remember its arguments: never the rate."""

_HOW = {"use_locking", "use_lazy", "use_offload"}
"""Settings of how a step is computed, which do not change what is computed."""


def settings_of(optimizer: nn.Optimizer) -> dict[str, Any]:
    """The numbers that `optimizer` was made with, by name, and what it keeps of those that it does not remember.

    Settings that follow a schedule have no number of their own, and are left out.
    """
    made_with = getattr(optimizer, "init_args", {})
    now = {name: getattr(optimizer, name, None) for name in _OWN}
    found = {name: _number(value) for name, value in {**now, **made_with}.items()}
    return {name: number for name, number in found.items() if number is not None and name not in _HOW}


def _number(value: Any) -> Any:
    """`value` as a number, or several; None if it is none."""
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Tensor):
        numbers = [_shortest(number) for number in value.asnumpy().reshape(-1)]
        return numbers[0] if len(numbers) == 1 else numbers
    if isinstance(value, tuple | list):
        numbers = [_number(one) for one in value]
        return None if None in numbers else numbers
    return None


def _shortest(number: np.generic) -> float:
    """What was written for `number`: 0.001 for the float32 next to it."""
    return float(str(number))
