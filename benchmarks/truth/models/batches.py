"""Batches of random numbers for the small models: inputs and labels, drawn once and the same for every run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.truth.models.strangers import VOCABULARY, Build
from benchmarks.truth.training import Training

CLASSES = 5

Draw = Callable[[torch.Generator], torch.Tensor]
"""Makes the inputs or the labels of a batch."""


def training(make: Callable[[], nn.Module], inputs: Draw, labels: Draw, seed: int, **settings: Any) -> Build:
    """A training of the network that `make` makes, on two batches; `settings` are those of Training."""
    generator = torch.Generator().manual_seed(seed)
    batches = [{"inputs": inputs(generator), "labels": labels(generator)} for _ in range(2)]
    return lambda: Training(make(), [dict(batch) for batch in batches], **settings)


def classes(*shape: int) -> Draw:
    """Numbers of classes."""
    return lambda generator: torch.randint(0, CLASSES, shape, generator=generator)


def tokens(*shape: int) -> Draw:
    """Numbers of words; 0 and 1 have a meaning of their own."""
    return lambda generator: torch.randint(2, VOCABULARY, shape, generator=generator)


def numbers(*shape: int) -> Draw:
    """Numbers around 0."""
    return lambda generator: torch.randn(*shape, generator=generator)


def shares(*shape: int) -> Draw:
    """Numbers between 0 and 1."""
    return lambda generator: torch.rand(*shape, generator=generator)


def flags(*shape: int) -> Draw:
    """Zeros and ones."""
    return lambda generator: torch.randint(0, 2, shape, generator=generator).float()


def counts(*shape: int) -> Draw:
    """How often something happened."""
    return lambda generator: torch.randint(0, 4, shape, generator=generator).float()
