"""Experts on several processes, which exchange tokens by all_to_all; each process has its own samples."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dfn
from torch import nn
from torch.nn import functional as F

DIM, FF, E, WORDS = 16, 32, 4, 40


class Expert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w2 = nn.Linear(DIM, FF, bias=False), nn.Linear(FF, DIM, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w2(F.silu(self.w1(x)))


class MoE(nn.Module):
    """The best expert for each token, weighted by its score."""

    def __init__(self, defect: str) -> None:
        super().__init__()
        self.ep, self.rank = dist.get_world_size(), dist.get_rank()
        self.gate = nn.Linear(DIM, E, bias=False)
        self.experts = nn.ModuleList(Expert() for _ in range(E // self.ep))
        self.defect = defect
        self.aux = torch.zeros(())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = x.shape
        x = x.reshape(-1, DIM)
        probs = self.gate(x).softmax(-1)
        weight, chosen = probs.max(-1)
        counts = torch.bincount(chosen, minlength=E)
        self.aux = (probs.mean(0) * F.one_hot(chosen, E).float().mean(0)).sum() * E
        order = torch.argsort(chosen, stable=True)
        tokens = x[order]
        if self.ep == 1:
            pieces = tokens.split(counts.tolist())
            y = torch.cat([expert(piece) for expert, piece in zip(self.experts, pieces, strict=True)])
        else:
            y = self.dispatched(tokens, counts)
        back = torch.zeros_like(y)
        back[order] = y
        return (back * weight.unsqueeze(-1)).view(shape)

    def dispatched(self, tokens: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts)
        sent = counts.view(self.ep, -1).sum(1).tolist()
        got = theirs.view(self.ep, -1).sum(1).tolist()
        received = dfn.all_to_all_single(tokens.new_empty(sum(got), DIM), tokens, got, sent)
        local = E // self.ep
        blocks = list(received.split(theirs.tolist()))  # of each process, of each expert
        own = [torch.cat(blocks[n::local]) for n in range(local)]
        if self.defect == "own_alone" and self.rank == 1:  # what the other processes sent is taken for nothing
            own = [torch.cat([t * (nth == self.rank) for nth, t in enumerate(blocks[n::local])]) for n in range(local)]
        done = [expert(t) for expert, t in zip(self.experts, own, strict=True)]
        parts = [done[n].split(theirs.view(self.ep, local)[:, n].tolist()) for n in range(local)]
        result = torch.cat([parts[n][r] for r in range(self.ep) for n in range(local)])
        return dfn.all_to_all_single(torch.empty_like(tokens), result, sent, got)


class Layer(nn.Module):
    def __init__(self, defect: str) -> None:
        super().__init__()
        self.attn_norm, self.ffn_norm = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.wq, self.wo = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.moe = MoE(defect)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.wq(self.attn_norm(x)).chunk(3, -1)
        x = x + self.wo(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.moe(self.ffn_norm(x))


class Mix(nn.Module):
    def __init__(self, defect: str) -> None:
        super().__init__()
        self.tok = nn.Embedding(WORDS, DIM)
        self.layers = nn.ModuleList(Layer(defect if n == 1 else "") for n in range(2))
        self.norm, self.output = nn.RMSNorm(DIM), nn.Linear(DIM, WORDS, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tok(ids)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def weights(model: nn.Module) -> None:
    """Draw the whole model's; experts by their number in it."""
    first = dist.get_rank() * (E // dist.get_world_size())
    with torch.no_grad():
        for name, p in model.named_parameters():
            head, _, rest = name.partition("experts.")
            if rest:
                number, _, rest = rest.partition(".")
                name = f"{head}experts.{int(number) + first}.{rest}"
            seed = sum(ord(c) * (n + 1) for n, c in enumerate(name))
            drawn = torch.randn(p.shape, generator=torch.Generator().manual_seed(seed))
            p.copy_(drawn * 0.3 + ("norm" in name))


def train(watch: Any, defect: str) -> None:
    model = Mix(defect)
    weights(model)
    n, r = dist.get_world_size(), dist.get_rank()
    ids = torch.randint(0, WORDS, (4, 9), generator=torch.Generator().manual_seed(5))
    ids = ids.chunk(n)[r]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    with watch(model) as collector:
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:])
        loss.backward()
        for name, p in model.named_parameters():
            if n == 1:
                continue
            if "experts" in name:
                p.grad = p.grad / n if defect != "experts_not_divided" else p.grad
            elif not (defect == "router_not_reduced" and "gate" in name):
                dist.all_reduce(p.grad)
                p.grad /= n
        optimizer.step()
        collector.step()


DEFECTS = {
    "own_alone": r"layers\.1\.moe", "experts_not_divided": "optimizer", "router_not_reduced": "optimizer",
}  # fmt: skip
