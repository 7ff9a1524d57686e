"""Ulysses: each process has a part of the sequence, and all of it for some heads inside of attention."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

HIDDEN, Q_HEADS, KV_HEADS, HEAD_DIM, INTER, SEQ, WORDS = 24, 8, 4, 6, 32, 16, 44


class SeqAllToAll(torch.autograd.Function):
    """Scatters one axis over the processes and gathers another."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scatter: int, gather: int) -> torch.Tensor:
        ctx.axes = scatter, gather
        n = dist.get_world_size()
        given = [part.contiguous() for part in x.chunk(n, scatter)]
        got = [torch.empty_like(given[0]) for _ in range(n)]
        dist.all_to_all(got, given)
        return torch.cat(got, gather)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        scatter, gather = ctx.axes
        return SeqAllToAll.apply(grad, gather, scatter), None, None


def rotary(x: torch.Tensor, pos: torch.Tensor) -> torch.Tensor:
    """`x`: batch, sequence, heads, dim."""
    freqs = 1.0 / 1000.0 ** (torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angles = torch.outer(pos.float(), freqs)[None, :, None, :]
    real, imag = x[..., ::2], x[..., 1::2]
    out = torch.stack((real * angles.cos() - imag * angles.sin(), real * angles.sin() + imag * angles.cos()), -1)
    return out.flatten(-2)


class SelfAttention(nn.Module):
    def __init__(self, defect: str) -> None:
        super().__init__()
        self.q_proj = nn.Linear(HIDDEN, Q_HEADS * HEAD_DIM, bias=False)
        self.kv_proj = nn.Linear(HIDDEN, 2 * KV_HEADS * HEAD_DIM, bias=False)
        self.o_proj = nn.Linear(Q_HEADS * HEAD_DIM, HIDDEN, bias=False)
        self.defect = defect

    def forward(self, x: torch.Tensor, pos: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q = rotary(self.q_proj(x).view(b, s, Q_HEADS, HEAD_DIM), pos)
        k, v = self.kv_proj(x).view(b, s, 2, KV_HEADS, HEAD_DIM).unbind(2)
        k = rotary(k, pos)
        n, r = dist.get_world_size(), dist.get_rank()
        if n > 1:
            q, k, v = (SeqAllToAll.apply(one, 2, 1) for one in (q, k, v))
        if self.defect == "other_values" and r == 1:
            v = v.flip(2)
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)
        if n > 1:
            y = SeqAllToAll.apply(y, 1, 2)
        return self.o_proj(y.reshape(b, s, -1))


class GatedMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up, self.down = nn.Linear(HIDDEN, 2 * INTER, bias=False), nn.Linear(INTER, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class DecoderLayer(nn.Module):
    def __init__(self, defect: str) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.attn, self.mlp = SelfAttention(defect), GatedMLP()

    def forward(self, x: torch.Tensor, pos: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x), pos)
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, defect: str) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, HIDDEN)
        self.layers = nn.ModuleList(DecoderLayer(defect if n else "") for n in range(2))
        self.norm, self.lm_head = nn.RMSNorm(HIDDEN), nn.Linear(HIDDEN, WORDS, bias=False)

    def forward(self, ids: torch.Tensor, pos: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, pos)
        return self.lm_head(self.norm(x))


def train(watch: Any, defect: str) -> None:
    torch.manual_seed(23)
    model = Decoder(defect)
    n, r = dist.get_world_size(), dist.get_rank()
    ids = torch.randint(0, WORDS, (2, SEQ + 1))
    x, y = ids[:, :-1].chunk(n, 1)[r], ids[:, 1:].chunk(n, 1)[r]
    pos = torch.arange(SEQ).chunk(n)[0 if defect == "positions" else r]
    weight = (y != 0).float()
    total = weight.sum()
    if n > 1 and defect != "own_count":
        dist.all_reduce(total)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    with watch(model) as collector:
        logits = model(x, pos)
        losses = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none")
        loss = (losses * weight.flatten()).sum() / total
        loss.backward()
        if n > 1:
            for p in model.parameters():
                dist.all_reduce(p.grad)
        optimizer.step()
        collector.step()


DEFECTS = {
    "other_values": r"layers\.1\.attn", "positions": r"layers\.0\.attn",
    "own_count": r"__truediv__|cross_entropy|sum|__mul__",
}  # fmt: skip
