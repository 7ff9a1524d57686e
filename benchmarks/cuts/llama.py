"""A small model of the Llama kind: RMSNorm, SwiGLU, rotary positions, and fewer heads of keys than of queries.

It knows nothing of cuts: `placed.py` cuts it with DTensor, `strangers.py` by hand.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, KEY_HEADS, HIDDEN, LENGTH, BATCH = 40, 24, 4, 2, 32, 8, 4
HEAD = WIDTH // HEADS


def turned(x: torch.Tensor, first: int = 0) -> torch.Tensor:
    """Queries or keys of shape (batch, heads, length, HEAD), turned by their position, which begins at `first`."""
    places = torch.arange(x.shape[-2]) + first
    angles = places[:, None] * 100.0 ** (-torch.arange(0, HEAD, 2) / HEAD)
    cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


class Attention(nn.Module):
    """Causal attention; each head of keys serves several of queries."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.k_proj = nn.Linear(WIDTH, KEY_HEADS * HEAD, bias=False)
        self.v_proj = nn.Linear(WIDTH, KEY_HEADS * HEAD, bias=False)
        self.o_proj = nn.Linear(HEADS * HEAD, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length = x.shape[:2]
        query, key, value = (
            made.view(batch, length, -1, HEAD).transpose(1, 2)
            for made in (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        )
        query, key = turned(query), turned(key)
        each = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(each, 1), value.repeat_interleave(each, 1)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up_proj = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down_proj = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and MLP, each around a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.self_attn, self.mlp = Attention(), MLP()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """The model."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm = nn.RMSNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def drawn(layers: int = 2) -> Llama:
    """The model with weights drawn from one seed."""
    torch.manual_seed(3)
    model = Llama(layers)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.2 + ("norm" in name))
    return model


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and labels of the whole job."""
    generator = torch.Generator().manual_seed(5)
    taken = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), generator=generator)
    return taken[:, :-1].contiguous(), taken[:, 1:].contiguous()
