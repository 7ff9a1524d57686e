"""A PyTorch training of a few steps, as data: the network, its batches and the settings of the loop.

A defect changes it before it begins; `run` trains. Only what a port changes is a setting here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from benchmarks.truth.noise import FaultyKernel

Batch = dict[str, Any]

SEED = 4321
"""What the random numbers of the training (dropout) start from."""


@dataclass
class Training:
    """A network, what it is trained on, and how."""

    network: nn.Module
    batches: list[Batch]
    optimizer: type[torch.optim.Optimizer] = torch.optim.AdamW
    settings: dict[str, Any] = field(default_factory=lambda: {"lr": 1e-3, "foreach": False})
    clip: float | None = 1.0
    accumulate: int = 1
    divides: bool = True
    """Whether the loss is divided by `accumulate`."""
    zeroes: bool = True
    """Whether gradients are set to zero after a step."""
    autocast: torch.dtype | None = None
    schedule: Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler] | None = None
    """Makes what changes the pace after each step."""
    after_backward: Callable[[nn.Module], None] | None = None
    """What is done with the gradients before they are clipped."""
    kernels: list[FaultyKernel] = field(default_factory=list)

    def module(self, path: str) -> nn.Module:
        """The part of the network at `path`."""
        return self.network.get_submodule(path)


def run(training: Training, steps: int, after_step: Callable[[], None]) -> list[float]:
    """Train for some steps and give their losses; `after_step` is called after each."""
    network = training.network.train()
    optimizer = training.optimizer(network.parameters(), **training.settings)
    schedule = training.schedule(optimizer) if training.schedule is not None else None
    torch.manual_seed(SEED)
    losses = []
    with ExitStack() as kernels:
        for kernel in training.kernels:
            kernels.enter_context(kernel)
        for step in range(steps):
            for kernel in training.kernels:
                kernel.step()
            losses.append(_step(training, optimizer, step))
            if schedule is not None:
                schedule.step()
            after_step()
    return losses


def _step(training: Training, optimizer: torch.optim.Optimizer, step: int) -> float:
    for nth in range(training.accumulate):
        batch = training.batches[(step + nth) % len(training.batches)]
        loss = loss_of(training, batch)
        if training.accumulate > 1 and training.divides:
            loss = loss / training.accumulate
        loss.backward()
    if training.after_backward is not None:
        training.after_backward(training.network)
    if training.clip is not None:
        nn.utils.clip_grad_norm_(training.network.parameters(), training.clip)
    optimizer.step()
    if training.zeroes:
        optimizer.zero_grad()
    return float(loss.detach())


def loss_of(training: Training, batch: Batch) -> torch.Tensor:
    """The loss of a batch."""
    cast = torch.autocast("cpu", training.autocast) if training.autocast else nullcontext()
    with cast:
        output = training.network(**batch)
    return output if isinstance(output, torch.Tensor) else output.loss


class WithLoss(nn.Module):
    """A network that has no loss of its own, with one over the last dimension of what it gives."""

    def __init__(self, network: nn.Module, criterion: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.criterion = criterion

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The mean loss of a batch."""
        logits = self.network(inputs)
        return self.criterion(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
