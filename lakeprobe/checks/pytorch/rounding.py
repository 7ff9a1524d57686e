"""Moves everything that the reference computes by a rounding, so that it shows how far rounding alone can lead.

Inside the block the result of every kernel that torch calls, in the backward too, is multiplied by 1 + u·n, with u the
unit roundoff of the dtype under test and n standard normal. So what cancels, and what a backward computes from a
rounded result, counts as rounding (stochastic arithmetic, as in Verrou and CADNA, by kernel). Nothing here takes from
the framework's random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Rounding(TorchDispatchMode):  # type: ignore[misc]
    """A mode in which results have an error of `unit`, relative to each element."""

    def __init__(self, unit: float, seed: int) -> None:
        """Draw the errors with `seed`."""
        super().__init__()
        self._unit = unit
        self._random = torch.Generator().manual_seed(seed)

    def moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """`tensor` with an error in each element. NaN, inf and zeros stay."""
        noise = torch.randn(tensor.shape, generator=self._random, dtype=torch.float64).to(tensor.dtype)
        return tensor * (1 + self._unit * noise)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        results = result if isinstance(result, (tuple, list)) else (result,)
        for tensor, returned in zip(results, function._schema.returns, strict=False):
            # a view shares the elements of what it is of, which have their error already
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and returned.alias_info is None:
                tensor.copy_(self.moved(tensor))
        return result
