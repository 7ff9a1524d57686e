"""Sequence parallel norms between tensor parallel products, with functional collectives; LEN first, as in Megatron."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed import _functional_collectives as fc

E, NH, LEN, BS, WORDS = 16, 4, 8, 2, 28


def gathered(x: torch.Tensor) -> torch.Tensor:
    if dist.get_world_size() == 1:
        return x
    return fc.all_gather_tensor_autograd(x.contiguous(), gather_dim=0, group=dist.group.WORLD)


def scattered(x: torch.Tensor) -> torch.Tensor:
    if dist.get_world_size() == 1:
        return x
    return fc.reduce_scatter_tensor_autograd(x.contiguous(), "sum", scatter_dim=0, group=dist.group.WORLD)


class GatherOutput(torch.autograd.Function):
    """Puts the parts together; as each process goes on with the whole, it takes its part of the gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        out = fc.all_gather_tensor(x.contiguous(), gather_dim=0, group=dist.group.WORLD)
        return out.wait() if hasattr(out, "wait") else out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad.chunk(dist.get_world_size())[dist.get_rank()].contiguous()


class CoreAttention(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        s, b, h, d = q.shape
        q, k, v = (t.permute(1, 2, 0, 3).reshape(b * h, s, d) for t in (q, k, v))
        scores = torch.baddbmm(torch.zeros(b * h, s, s), q, k.transpose(1, 2), beta=0.0, alpha=d**-0.5)
        scores = scores + torch.full((s, s), -1e4).triu(1)
        return torch.bmm(scores.softmax(-1), v).view(b, h, s, d).permute(2, 0, 1, 3).reshape(s, b, h * d)


class ParallelAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        n = dist.get_world_size()
        self.heads = NH // n
        self.query_key_value, self.dense = nn.Linear(E, 3 * E // n), nn.Linear(E // n, E, bias=False)
        self.dense_bias = nn.Parameter(torch.zeros(E))
        self.core_attention = CoreAttention()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = self.query_key_value(gathered(x))
        s, b, _ = mixed.shape
        q, k, v = mixed.view(s, b, self.heads, -1).chunk(3, dim=-1)  # by head, as in Megatron
        return scattered(self.dense(self.core_attention(q, k, v))) + self.dense_bias


class ParallelMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        n = dist.get_world_size()
        self.dense_h_to_4h, self.dense_4h_to_h = nn.Linear(E, 4 * E // n), nn.Linear(4 * E // n, E, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scattered(self.dense_4h_to_h(F.gelu(self.dense_h_to_4h(gathered(x)), approximate="tanh")))


class ParallelLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = nn.LayerNorm(E), nn.LayerNorm(E)
        self.self_attention, self.mlp = ParallelAttention(), ParallelMLP()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attention(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(WORDS, E), nn.Embedding(LEN, E)
        self.layers = nn.ModuleList(ParallelLayer() for _ in range(2))
        self.final_layernorm, self.output_layer = nn.LayerNorm(E), nn.Linear(E, WORDS, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.word_embeddings(ids) + self.position_embeddings(torch.arange(LEN))
        x = x.transpose(0, 1).contiguous()
        if dist.get_world_size() > 1:
            x = x.chunk(dist.get_world_size())[dist.get_rank()].contiguous()
        for layer in self.layers:
            x = layer(x)
        x = self.final_layernorm(x)
        return self.output_layer(x if dist.get_world_size() == 1 else GatherOutput.apply(x))


def _part(name: str, whole: torch.Tensor) -> torch.Tensor:
    n, r = dist.get_world_size(), dist.get_rank()
    if "query_key_value" in name or "h_to_4h" in name:
        return whole.chunk(n)[r]
    return whole.chunk(n, 1)[r] if "4h_to_h" in name or "dense.weight" in name else whole


def train(watch: Any, defect: str) -> None:
    torch.manual_seed(37)
    model = GPT()
    scale = {"query_key_value": 3 * E, "dense_h_to_4h": 4 * E}
    n = dist.get_world_size()
    with torch.no_grad():
        for name, p in model.named_parameters():
            shape = list(p.shape)
            for key, rows in scale.items():
                shape[0] = rows if key in name else shape[0]
            if "4h_to_h.weight" in name or "dense.weight" in name:
                shape[1] *= n
            generator = torch.Generator().manual_seed(sum(ord(c) * (n + 1) for n, c in enumerate(name)))
            drawn = torch.randn(shape, generator=generator) * 0.3 + ("norm.weight" in name)
            part = _part(name, drawn)
            if defect == "wrong_order" and "layers.1.self_attention.query" in name:
                part = drawn.view(3 * n, -1, *shape[1:])[dist.get_rank() :: n].reshape(part.shape)
            p.copy_(part)
    ids = torch.randint(0, WORDS, (BS, LEN + 1), generator=torch.Generator().manual_seed(8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    with watch(model) as collector:
        logits = model(ids[:, :-1].contiguous())
        target = ids[:, 1:].t().contiguous()
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        loss.backward()
        for name, p in model.named_parameters():
            if n > 1 and ("norm" in name or "dense_bias" in name or "embeddings" in name):
                if "norm" in name and defect == "norms_not_reduced":
                    continue
                dist.all_reduce(p.grad, async_op=True).wait()
        optimizer.step()
        collector.step()


DEFECTS = {"wrong_order": r"layers\.1\.self_attention", "norms_not_reduced": "optimizer"}
