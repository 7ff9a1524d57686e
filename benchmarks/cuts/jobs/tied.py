"""A pipeline with uneven stages whose head is the embedding: the first and the last stage have a copy each."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

N_EMBD, N_HEAD, BLOCK, N_LAYER, VOCAB, MICROS = 16, 2, 8, 4, 40, 4
STAGES = {1: [4], 2: [1, 3], 3: [1, 2, 1]}


class Attn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(N_EMBD, 3 * N_EMBD), nn.Linear(N_EMBD, N_EMBD)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.size()
        q, k, v = (p.view(b, t, N_HEAD, -1).transpose(1, 2) for p in self.c_attn(x).split(N_EMBD, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(N_EMBD), Attn(), nn.LayerNorm(N_EMBD)
        self.mlp = nn.Sequential(nn.Linear(N_EMBD, 4 * N_EMBD), nn.GELU(), nn.Linear(4 * N_EMBD, N_EMBD))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Stage(nn.Module):
    def __init__(self, layers: int, first: bool, last: bool) -> None:
        super().__init__()
        self.first, self.last = first, last
        if first or last:
            self.wte = nn.Embedding(VOCAB, N_EMBD)
        if first:
            self.wpe = nn.Embedding(BLOCK, N_EMBD)
        self.h = nn.ModuleList(Block() for _ in range(layers))
        if last:
            self.ln_f = nn.LayerNorm(N_EMBD)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.first:
            x = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight) if self.last else x


def load(stage: Stage, offset: int) -> None:
    """Draw each parameter by its name in the whole model."""
    with torch.no_grad():
        for name, p in stage.named_parameters():
            if name.startswith("h."):
                _, number, rest = name.split(".", 2)
                name = f"h.{int(number) + offset}.{rest}"
            seed = sum(ord(c) * (n + 1) for n, c in enumerate(name))
            drawn = torch.randn(p.shape, generator=torch.Generator().manual_seed(seed)) * 0.2
            p.copy_(drawn + ("ln_" in name and name.endswith("weight")))


def pipeline(stage: Stage, ids: torch.Tensor, defect: str) -> None:  # noqa: C901 a schedule as others write it
    """One forward and one backward in turn."""
    n, r = dist.get_world_size(), dist.get_rank()
    micros = ids.chunk(MICROS)
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    sends: list[tuple[Any, torch.Tensor]] = []
    last: list[torch.Tensor] = []

    def forward(nth: int) -> None:
        x, y = micros[nth][:, :-1], micros[nth][:, 1:]
        if r:
            x = torch.empty(len(x), BLOCK, N_EMBD)
            dist.recv(x, r - 1)
            x.requires_grad_()
        out = stage(x)
        if r == n - 1:
            out = F.cross_entropy(out.view(-1, VOCAB), y.reshape(-1)) / MICROS
        else:
            sent = out.detach()
            sends.append((dist.isend(sent, r + 1), sent))
        kept.append((x, out))

    def backward() -> None:
        x, out = kept.pop(0)
        gradient = None
        if r < n - 1:
            gradient = torch.empty_like(out)
            dist.recv(gradient, r + 1)
            last.append(gradient)
            if defect == "stale" and r == 0 and len(last) == 3:  # used before the third has come
                gradient = last[1]
        out.backward(gradient)
        if r:
            sends.append((dist.isend(x.grad, r - 1), x.grad))

    warm = min(n - r - 1, MICROS)
    for nth in range(warm):
        forward(nth)
    for nth in range(warm, MICROS):
        forward(nth)
        backward()
    for _ in range(warm):
        backward()
    for work, _ in sends:
        work.wait()


def train(watch: Any, defect: str) -> None:
    n, r = dist.get_world_size(), dist.get_rank()
    sizes = STAGES[n]
    stage = Stage(sizes[r], r == 0, r == n - 1)
    load(stage, sum(sizes[:r]) - (defect == "offset" and r == n - 1))
    ids = torch.randint(0, VOCAB, (8, BLOCK + 1), generator=torch.Generator().manual_seed(6))
    ends = dist.new_group([0, n - 1]) if n > 1 else None
    optimizer = torch.optim.AdamW(stage.parameters(), lr=1e-3, foreach=False)
    with watch(stage) as collector:
        if n == 1:
            logits = stage(ids[:, :-1])
            F.cross_entropy(logits.view(-1, VOCAB), ids[:, 1:].reshape(-1)).backward()
        else:
            pipeline(stage, ids, defect)
            if r in (0, n - 1) and defect != "not_tied":
                dist.all_reduce(stage.wte.weight.grad, group=ends)
        optimizer.step()
        collector.step()


DEFECTS = {
    "not_tied": r"wte\..*parameters_grad", "offset": r"h\.[13]\b", "stale": r"h\.0\b.*backward",
}  # fmt: skip
