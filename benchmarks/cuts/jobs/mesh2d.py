"""FSDP2 over two by tensor parallelism over two, by DTensor, with sequence parallelism and a parallel loss."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

dim, heads, ff, words, length = 16, 4, 24, 48, 8


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bs, seqlen, _ = x.shape
        xq, xk, xv = (w(x).view(bs, seqlen, -1, dim // heads).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        out = F.scaled_dot_product_attention(xq, xk, xv, is_causal=True)
        return self.wo(out.transpose(1, 2).contiguous().view(bs, seqlen, -1))


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w3 = nn.Linear(dim, ff, bias=False), nn.Linear(dim, ff, bias=False)
        self.w2 = nn.Linear(ff, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class TransformerBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(), FeedForward()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(dim), nn.RMSNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x + self.attention(self.attention_norm(x))
        return h + self.feed_forward(self.ffn_norm(h))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(words, dim)
        self.layers = nn.ModuleDict({str(n): TransformerBlock() for n in range(2)})
        self.norm, self.output = nn.RMSNorm(dim), nn.Linear(dim, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        h = self.tok_embeddings(tokens)
        for layer in self.layers.values():
            h = layer(h)
        return self.output(self.norm(h))


PLAN = {
    "attention_norm": SequenceParallel(),
    "attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
    "attention.wq": ColwiseParallel(), "attention.wk": ColwiseParallel(), "attention.wv": ColwiseParallel(),
    "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
    "ffn_norm": SequenceParallel(),
    "feed_forward": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
    "feed_forward.w1": ColwiseParallel(), "feed_forward.w3": ColwiseParallel(),
    "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
}  # fmt: skip


def train(watch: Any, defect: str) -> None:
    torch.manual_seed(17)
    model = Transformer()
    n = dist.get_world_size()
    batch = torch.randint(0, words, (4, length + 1))
    mesh = None
    if n > 1:
        mesh = init_device_mesh("cpu", (n // 2, 2), mesh_dim_names=("dp", "tp"))
        parallelize_module(model, mesh["tp"], {
            "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
        })  # fmt: skip
        for layer in model.layers.values():
            parallelize_module(layer, mesh["tp"], PLAN)
            fully_shard(layer, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])
        batch = batch.chunk(n // 2)[mesh["dp"].get_local_rank()]
        if defect == "other_heads" and mesh["tp"].get_local_rank() == 1:
            weight = model.layers["1"].attention.wv.weight
            weight.to_local().data.copy_(weight.to_local().roll(1, 0))
        if defect == "norm_eps" and mesh["dp"].get_local_rank() == 1:
            model.layers["1"].ffn_norm.eps = 0.1
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    with watch(model) as collector:
        pred = model(batch[:, :-1])
        if mesh is not None:
            with loss_parallel():
                loss = F.cross_entropy(pred.flatten(0, 1), batch[:, 1:].flatten(0, 1))
                loss.backward()
        else:
            F.cross_entropy(pred.flatten(0, 1), batch[:, 1:].flatten(0, 1)).backward()
        optimizer.step()
        collector.step()


DEFECTS = {"other_heads": r"layers\.1\.attention", "norm_eps": r"layers\.1\.ffn_norm"}
