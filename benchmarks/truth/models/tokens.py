"""Random tokens for the language models."""

from __future__ import annotations

import torch


def random_tokens(seed: int, shape: tuple[int, ...], vocabulary: int, batches: int = 2) -> list[torch.Tensor]:
    """Batches of tokens from 3 on: the first ones mean something (padding, begin, end)."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, vocabulary, shape, generator=generator) for _ in range(batches)]


def replace_token(batch: dict[str, torch.Tensor], key: str, vocabulary: int) -> None:
    """Another token at one place."""
    tokens = batch[key] = batch[key].clone()
    tokens[0, 5] = 3 + (tokens[0, 5] - 2) % (vocabulary - 3)
