"""Parts of the sequence in zig-zag order; keys and values are gathered, their gradients scattered again."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

C, NH, S, VOC = 16, 2, 16, 30


def own(seq: torch.Tensor, dim: int) -> torch.Tensor:
    n, r = dist.get_world_size(), dist.get_rank()
    pieces = seq.chunk(2 * n, dim)
    return torch.cat((pieces[r], pieces[2 * n - 1 - r]), dim).contiguous()


class GatherKV(torch.autograd.Function):
    """Of (2, B, S/n, C): the whole sequence in its order."""

    @staticmethod
    def forward(ctx: Any, kv: torch.Tensor) -> torch.Tensor:
        n = dist.get_world_size()
        first = kv.movedim(2, 0).contiguous()
        out = first.new_empty((n * first.shape[0], *first.shape[1:]))
        dist.all_gather_into_tensor(out, first)
        halves = out.chunk(2 * n)
        order = [*range(0, 2 * n, 2), *range(2 * n - 1, 0, -2)]
        return torch.cat([halves[i] for i in order]).movedim(0, 2)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        n = dist.get_world_size()
        pieces = grad.movedim(2, 0).chunk(2 * n)
        order = [i for r in range(n) for i in (r, 2 * n - 1 - r)]
        flat = torch.cat([pieces[i] for i in order]).contiguous()
        mine = flat.new_empty((flat.shape[0] // n, *flat.shape[1:]))
        dist.reduce_scatter_tensor(mine, flat)
        return mine.movedim(0, 2)


class Attn(nn.Module):
    def __init__(self, defect: str) -> None:
        super().__init__()
        self.qkv, self.o = nn.Linear(C, 3 * C, bias=False), nn.Linear(C, C, bias=False)
        self.defect = defect

    def forward(self, x: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        B, L, _ = x.shape
        q, kv = self.qkv(x).split([C, 2 * C], dim=-1)
        kv = torch.stack(kv.chunk(2, -1))
        if dist.get_world_size() > 1:
            kv = GatherKV.apply(kv)
        q = q.view(B, L, NH, -1).transpose(1, 2)
        k, v = kv.view(2, B, S, NH, -1).transpose(2, 3)
        if self.defect == "mask" and dist.get_rank() == 1:
            where = torch.cat((where[: L // 2], where[L // 2 :] - 4))
        allowed = where[:, None] >= torch.arange(S)[None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.o(y.transpose(1, 2).reshape(B, L, C))


class Model(nn.Module):
    def __init__(self, defect: str) -> None:
        super().__init__()
        self.emb = nn.Embedding(VOC, C)
        self.pos = nn.Parameter(torch.randn(S, C) * 0.1)
        self.attns = nn.ModuleList(Attn(defect if n == 1 else "") for n in range(2))
        self.mlps = nn.ModuleList(nn.Sequential(nn.Linear(C, 32), nn.ReLU(), nn.Linear(32, C)) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(C) for _ in range(4))
        self.head = nn.Linear(C, VOC)
        self.defect = defect

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        where = own(torch.arange(S), 0)
        wrong = self.defect == "positions" and dist.get_rank() == 1
        x = self.emb(ids) + (self.pos[: len(where)] if wrong else self.pos[where])
        for n in range(2):
            x = x + self.attns[n](self.norms[2 * n](x), where)
            x = x + self.mlps[n](self.norms[2 * n + 1](x))
        return self.head(x)


def train(watch: Any, defect: str) -> None:
    torch.manual_seed(23)
    model = Model(defect)
    ids = torch.randint(0, VOC, (3, S + 1))
    x, y = own(ids[:, :-1], 1), own(ids[:, 1:], 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
    with watch(model) as collector:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") / (3 * S)
        loss.backward()
        if dist.get_world_size() > 1 and defect != "not_reduced":
            works = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
            for work in works:
                work.wait()
        optimizer.step()
        collector.step()


DEFECTS = {"mask": r"attns\.1", "positions": r"^Tensor\.__(add|getitem)__\.0\.forward", "not_reduced": "optimizer"}
