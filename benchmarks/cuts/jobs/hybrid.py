"""Two copies of a model that is sharded over two processes each (HSDP), with gradients of two batches added up."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

FEATURES, WIDTH, OUT, ROWS, TIMES = 8, 12, 5, 16, 2


class Unit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.expand, self.shrink = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.shrink(F.silu(self.expand(self.norm(x))))


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(FEATURES, WIDTH)
        self.units = nn.ModuleList(Unit() for _ in range(2))
        self.head = nn.Linear(WIDTH, OUT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for unit in self.units:
            x = unit(x)
        return self.head(x)


def train(watch: Any, defect: str) -> None:
    torch.manual_seed(31)
    model = Tower()
    xs, ys = torch.randn(ROWS, FEATURES), torch.randn(ROWS, OUT)
    n, r = dist.get_world_size(), dist.get_rank()
    if n > 1:
        mesh = init_device_mesh("cpu", (n // 2, 2), mesh_dim_names=("replicate", "shard"))
        for unit in model.units:
            fully_shard(unit, mesh=mesh)
        fully_shard(model, mesh=mesh)
        xs, ys = xs.chunk(n)[r], ys.chunk(n)[r]
        if defect == "other_columns" and r == 3:
            xs = torch.flip(xs, (1,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    times = 1 if n == 1 else TIMES
    with watch(model) as collector:
        for nth, (x, y) in enumerate(zip(xs.chunk(times), ys.chunk(times), strict=True)):
            if n > 1:
                model.set_requires_gradient_sync(nth == times - 1)
            loss = F.mse_loss(model(x), y)
            (loss if defect == "not_divided" else loss / times).backward()
        optimizer.step()
        collector.step()


DEFECTS = {"other_columns": "stem", "not_divided": r"mse_loss|__truediv__"}
