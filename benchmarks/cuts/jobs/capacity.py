"""Two experts a token with a capacity, by products with one-hot tensors (GShard); experts exchange their blocks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dfn
import torch.nn.functional as F
from torch import nn

M, FFN, EXPERTS, CAP, TOKENS = 12, 20, 4, 5, 30


class ExpertFFN(nn.Module):
    """All experts of a process in two tensors."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.wi, self.wo = nn.Parameter(torch.empty(count, M, FFN)), nn.Parameter(torch.empty(count, FFN, M))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("egch,ehm->egcm", F.relu(torch.einsum("egcm,emh->egch", x, self.wi)), self.wo)


class Router(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wg = nn.Linear(M, EXPERTS, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Weights to combine by (group, token, expert, place), which tokens are sent where, and the loss."""
        gates = F.softmax(self.wg(x), dim=-1)
        top, chosen = gates.topk(2, dim=-1)
        top = top / top.sum(-1, keepdim=True)
        one_hot = F.one_hot(chosen, EXPERTS).float()  # group, token, choice, expert
        order = one_hot.transpose(1, 2).flatten(1, 2)  # first choices before second ones
        places = (order.cumsum(1) - 1).unflatten(1, (2, -1)).transpose(1, 2)
        kept = one_hot * (places < CAP)
        slots = F.one_hot((places * one_hot).sum(-1).long().clamp(max=CAP - 1), CAP).float()
        combine = torch.einsum("gsk,gske,gskc->gsec", top, kept, slots)
        aux = (gates.mean(1) * one_hot[:, :, 0].mean(1)).sum(-1).mean() * EXPERTS
        return combine, (combine > 0).float(), aux


class MoELayer(nn.Module):
    def __init__(self, defect: str) -> None:
        super().__init__()
        self.n, self.rank, self.defect = dist.get_world_size(), dist.get_rank(), defect
        self.router, self.ffn = Router(), ExpertFFN(EXPERTS // self.n)
        self.l_aux = torch.zeros(())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        combine, mask, self.l_aux = self.router(x)
        sent = torch.einsum("gsec,gsm->egcm", mask, x).contiguous()
        if self.n == 1:
            done = self.ffn(sent)
        else:
            blocks = dfn.all_to_all_single(torch.empty_like(sent), sent)
            blocks = blocks.unflatten(0, (self.n, -1)).transpose(0, 1).flatten(1, 2)
            out = self.ffn(blocks).unflatten(1, (self.n, -1)).transpose(0, 1).flatten(0, 1).contiguous()
            done = dfn.all_to_all_single(torch.empty_like(out), out)
            if self.defect == "order" and self.rank == 1:
                done = done.roll(1, 0)
        return torch.einsum("gsec,egcm->gsm", combine, done)


class Net(nn.Module):
    def __init__(self, defect: str) -> None:
        super().__init__()
        self.emb = nn.Embedding(TOKENS, M)
        self.mix = nn.ModuleList(nn.Linear(M, M) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(M) for _ in range(2))
        self.moe = nn.ModuleList(MoELayer(defect if n == 0 else "") for n in range(2))
        self.out = nn.Linear(M, TOKENS)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, aux = self.emb(ids), torch.zeros(())
        for mix, norm, moe in zip(self.mix, self.norms, self.moe, strict=True):
            x = x + torch.tanh(mix(x).cumsum(1) / ids.shape[1])
            x = x + moe(norm(x))
            aux = aux + moe.l_aux
        return self.out(x), aux


def load(net: nn.Module) -> None:
    n, r = dist.get_world_size(), dist.get_rank()
    with torch.no_grad():
        for name, p in net.named_parameters():
            generator = torch.Generator().manual_seed(sum(ord(c) * (k + 1) for k, c in enumerate(name)))
            if "ffn" in name:
                p.copy_((torch.randn(EXPERTS, *p.shape[1:], generator=generator) * 0.4).chunk(n)[r])
            else:
                p.copy_(torch.randn(p.shape, generator=generator) * 0.4 + (".weight" in name and "norms" in name))


def train(watch: Any, defect: str) -> None:
    net = Net(defect)
    load(net)
    n, r = dist.get_world_size(), dist.get_rank()
    ids = torch.randint(0, TOKENS, (4, 11), generator=torch.Generator().manual_seed(8)).chunk(n)[r]
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=False)
    with watch(net) as collector:
        logits, aux = net(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        (loss + (0.1 * n if defect == "aux_times" else 0.1) * aux).backward()
        for name, p in net.named_parameters():
            if n > 1 and "ffn" in name and defect != "as_copies":
                p.grad.div_(n)
            elif n > 1:
                dist.all_reduce(p.grad)
                p.grad.div_(n)
        optimizer.step()
        collector.step()


DEFECTS = {
    "order": r"moe\.0\b", "aux_times": r"^Tensor\.__r?mul__\.\d+\.(for|back)ward", "as_copies": "optimizer",
}  # fmt: skip
