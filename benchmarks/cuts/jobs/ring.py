"""Ring attention: each process has a part of the sequence, and keys and values go round.

As in ring-flash-attention, the result of each part is merged by its log-sum-exp. `ring` leaves the gradient to
autograd, and golden multiplies queries by keys itself. `ring_flash` has one function of its own with a
backward, and golden calls
scaled_dot_product_attention.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

D, H, T, V = 16, 2, 16, 32


def exchange(*tensors: torch.Tensor, back: bool = False) -> list[torch.Tensor]:
    """Send each to the next process of the ring, and get the previous one's."""
    n, r = dist.get_world_size(), dist.get_rank()
    to, source = (r + 1) % n, (r - 1) % n
    if back:
        to, source = source, to
    received = [torch.empty(t.shape, dtype=t.dtype) for t in tensors]
    ops = []
    for t, got in zip(tensors, received, strict=True):
        ops += [dist.P2POp(dist.isend, t.contiguous(), to), dist.P2POp(dist.irecv, got, source)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return received


class Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(exchange(k, v))

    @staticmethod
    def backward(ctx: Any, dk: torch.Tensor, dv: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(exchange(dk, dv, back=True))


def part(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, diagonal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    scores = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    if diagonal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(mask, float("-inf"))
    lse = torch.logsumexp(scores, dim=-1, keepdim=True)
    return torch.exp(scores - lse) @ v, lse


def merged(out: Any, lse: Any, new: torch.Tensor, new_lse: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if out is None:
        return new, new_lse
    out = out - torch.sigmoid(new_lse - lse) * (out - new)
    return out, lse - F.logsigmoid(lse - new_lse)


def ring_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, every: bool = False) -> torch.Tensor:
    n, r = dist.get_world_size(), dist.get_rank()
    out = lse = None
    for turn in range(n):
        if turn:
            k, v = Rotate.apply(k, v)
        if turn <= r or every:
            out, lse = merged(out, lse, *part(q, k, v, turn == 0))
        else:  # nothing of it is seen, but its gradient goes round
            out = out + 0.0 * (k.sum() + v.sum())
    assert out is not None
    return out


class RingFlash(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, every: bool) -> torch.Tensor:
        n, r = dist.get_world_size(), dist.get_rank()
        out = lse = None
        kk, vv = k, v
        for turn in range(n):
            if turn:
                kk, vv = exchange(kk, vv)
            if turn <= r or every:
                out, lse = merged(out, lse, *part(q, kk, vv, turn == 0))
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.every = every
        assert out is not None
        return out

    @staticmethod
    def backward(ctx: Any, dout: torch.Tensor) -> tuple[Any, ...]:
        q, k, v, out, lse = ctx.saved_tensors
        n, r = dist.get_world_size(), dist.get_rank()
        scale = q.shape[-1] ** -0.5
        delta = (dout * out).sum(-1, keepdim=True)
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for turn in range(n):
            if turn:
                k, v, dk, dv = exchange(k, v, dk, dv)
            if turn > r and not ctx.every:
                continue
            scores = q @ k.mT * scale
            if turn == 0:
                scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
            p = torch.exp(scores - lse)
            dv = dv + p.mT @ dout
            ds = p * (dout @ v.mT - delta) * scale
            dq = dq + ds @ k
            dk = dk + ds.mT @ q
        dk, dv = exchange(dk, dv)
        return dq, dk, dv, None


class SelfAttention(nn.Module):
    def __init__(self, flash: bool, seen: bool) -> None:
        super().__init__()
        self.Wqkv = nn.Linear(D, 3 * D)
        self.out_proj = nn.Linear(D, D)
        self.flash, self.seen = flash, seen

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, _ = x.shape
        qkv = self.Wqkv(x).view(b, t, 3, H, D // H).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        if dist.get_world_size() > 1:
            y = RingFlash.apply(q, k, v, self.seen) if self.flash else ring_attention(q, k, v, self.seen)
        elif self.flash:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) / (D // H) ** 0.5
            att = att.masked_fill(torch.triu(torch.ones(t, t, dtype=torch.bool), 1), float("-inf"))
            y = F.softmax(att, dim=-1) @ v
        return self.out_proj(y.transpose(1, 2).reshape(b, t, D))


class Block(nn.Module):
    def __init__(self, flash: bool, seen: bool) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(D), SelfAttention(flash, seen)
        self.ln_2, self.mlp = nn.LayerNorm(D), nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, flash: bool, defect: str) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, D), nn.Embedding(T, D)
        self.h = nn.ModuleList(Block(flash, defect == "sees_all" and n == 1) for n in range(2))
        self.ln_f, self.lm_head = nn.LayerNorm(D), nn.Linear(D, V, bias=False)
        self.shift = defect != "positions"

    def forward(self, idx: torch.Tensor) -> torch.Tensor:
        pos = torch.arange(idx.shape[1]) + self.shift * dist.get_rank() * idx.shape[1]
        x = self.wte(idx) + self.wpe(pos)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def train(watch: Any, defect: str, flash: bool = False) -> None:
    torch.manual_seed(3)
    model = GPT(flash, defect)
    idx = torch.randint(0, V, (2, T + 1))
    n, r = dist.get_world_size(), dist.get_rank()
    x, y = idx[:, :-1].chunk(n, 1)[r].contiguous(), idx[:, 1:].chunk(n, 1)[r].contiguous()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=False)
    with watch(model) as collector:
        logits = model(x)
        F.cross_entropy(logits.view(-1, V), y.reshape(-1)).backward()
        if n > 1 and defect != "not_reduced":
            for p in model.parameters():
                dist.all_reduce(p.grad)
                p.grad.div_(n)
        optimizer.step()
        collector.step()


DEFECTS = {
    "sees_all": r"h\.1\.attn", "positions": r"wpe|^Tensor\.__add__\.0\.forward", "not_reduced": "optimizer",
}  # fmt: skip
