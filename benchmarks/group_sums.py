"""Sums over the processes of a group, as tensor parallelism has them: one adds up forwards, the other backwards."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


class SumForward(torch.autograd.Function):
    """Adds up what a group has; the gradient goes back as it is."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


class SumBackward(torch.autograd.Function):
    """Gives a tensor on as it is, and adds up the gradients."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        context.group = group
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        total = gradient.clone()
        dist.all_reduce(total, group=context.group)
        return total, None
