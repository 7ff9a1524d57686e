"""One rank of a training whose parameters are sharded: python sharded_job.py RANK FILE LAKE (fsdp | tensor).

fsdp: fully_shard, with data of its own on each rank. tensor: a hand-made split of the hidden units, with the same data.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import distributed, nn

import lakeprobe

RANKS, STEPS = 2, 2


def network() -> Any:
    """A network that is the same in every process."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4, bias=False))


def data(step: int, rank: int) -> Any:
    """The batch of a rank."""
    return torch.randn(5, 6, generator=torch.Generator().manual_seed(10 * step + rank))


def optimizer_of(model: Any) -> Any:
    """SGD, whose updates are linear in the gradients."""
    return torch.optim.SGD(model.parameters(), lr=0.1)


class Sum(torch.autograd.Function):
    """The sum over all ranks of what each computes of it."""

    @staticmethod
    def forward(_context: Any, part: Any) -> Any:
        """Add the parts."""
        whole = part.clone()
        distributed.all_reduce(whole)
        return whole

    @staticmethod
    def backward(_context: Any, gradient: Any) -> Any:
        """Each part has the gradient of the sum."""
        return gradient


class Split(nn.Module):
    """The hidden units of a rank."""

    def __init__(self, whole: Any, rank: int) -> None:
        super().__init__()
        part = slice(4 * rank, 4 * rank + 4)
        self.up, self.down = nn.Linear(6, 4), nn.Linear(4, 4, bias=False)
        with torch.no_grad():
            self.up.weight.copy_(whole[0].weight[part])
            self.up.bias.copy_(whole[0].bias[part])
            self.down.weight.copy_(whole[2].weight[:, part])

    def forward(self, x: Any) -> Any:
        """Shape (N, 6) to (N, 4)."""
        return Sum.apply(self.down(self.up(x).tanh()))


def main(rank: int, file: str, lake: str, kind: str) -> None:
    """Train this rank."""
    distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=RANKS)
    model = network()
    if kind == "fsdp":
        from torch.distributed.fsdp import fully_shard

        fully_shard(model)
    else:
        model = Split(model, rank)
    optimizer = optimizer_of(model)
    points = ["gradient_unreduced", "gradient", "parameter", "sent"]
    with lakeprobe.monitor(model, optimizer, run=kind, lake=lake, points=points):
        for step in range(STEPS):
            optimizer.zero_grad()
            model(data(step, rank if kind == "fsdp" else 0)).square().mean().backward()
            optimizer.step()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
