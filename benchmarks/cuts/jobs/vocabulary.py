"""A cross entropy over parts of the words, as in Megatron-LM: maximum, sum and the label's score are reduced."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

WIDE, V, L, B = 12, 40, 6, 4


class VocabParallelCE(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, target: torch.Tensor, defect: str) -> torch.Tensor:
        peak = logits.max(dim=-1)[0]
        dist.all_reduce(peak, op=dist.ReduceOp.MAX)
        logits = logits - peak.unsqueeze(-1)
        size = logits.shape[-1]
        start = dist.get_rank() * size
        outside = (target < start) | (target >= start + size)
        local = target.clone() - start
        local[outside] = 0
        flat = logits.view(-1, size)
        picked = flat[torch.arange(flat.shape[0]), local.view(-1)].clone().view_as(target)
        picked[outside] = 0.0
        if defect != "label_not_summed":
            dist.all_reduce(picked)
        exp = torch.exp(logits)
        total = exp.sum(dim=-1)
        if defect != "not_summed":
            dist.all_reduce(total)
        loss = torch.log(total) - picked
        ctx.save_for_backward(exp.div_(total.unsqueeze(-1)), outside, local.view(-1))
        return loss

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        softmax, outside, local = ctx.saved_tensors
        flat = softmax.view(-1, softmax.shape[-1])
        flat[torch.arange(flat.shape[0]), local] -= 1.0 - outside.view(-1).float()
        return softmax.mul_(grad.unsqueeze(-1)), None, None


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad


class LM(nn.Module):
    def __init__(self, defect: str) -> None:
        super().__init__()
        n = dist.get_world_size()
        self.embedding = nn.Embedding(V, WIDE)
        self.rnn_in, self.act = nn.Linear(WIDE, WIDE), nn.SiLU()
        self.final_norm = nn.LayerNorm(WIDE)
        self.output_layer = nn.Linear(WIDE, V // n, bias=False)
        self.defect = defect

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        h = self.embedding(ids)
        h = h + self.act(self.rnn_in(h))
        h = self.final_norm(h)
        if dist.get_world_size() == 1:
            logits = self.output_layer(h)
            return F.cross_entropy(logits.transpose(1, 2).float(), labels, reduction="none")
        logits = self.output_layer(h if self.defect == "no_backward_sum" else Copy.apply(h))
        return VocabParallelCE.apply(logits.float(), labels, self.defect)


def train(watch: Any, defect: str) -> None:
    torch.manual_seed(31)
    n, r = dist.get_world_size(), dist.get_rank()
    model = LM(defect)
    whole = torch.randn(V, WIDE, generator=torch.Generator().manual_seed(1)) * 0.4
    with torch.no_grad():
        for name, p in model.named_parameters():
            generator = torch.Generator().manual_seed(len(name))
            p.copy_(whole.chunk(n)[r] if "output" in name else torch.randn(p.shape, generator=generator) * 0.4)
    ids = torch.randint(0, V, (B, L + 1), generator=torch.Generator().manual_seed(2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    with watch(model) as collector:
        losses = model(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
        losses.mean().backward()
        optimizer.step()
        collector.step()


DEFECTS = {
    "not_summed": "cross_entropy", "label_not_summed": "cross_entropy", "no_backward_sum": r"final_norm|LM",
}  # fmt: skip
