"""Gradients of several small batches added up, on one or two processes, against one bigger batch."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

IN, CLASSES, BATCH, TIMES = 10, 6, 16, 4


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 3, padding=1)
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(4 * IN, 24), nn.LayerNorm(24), nn.ReLU())
        self.fc = nn.Linear(24, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.body(F.leaky_relu(self.conv(x.unsqueeze(1)))))


def train(watch: Any, defect: str, times: int = TIMES, ddp: bool = False) -> None:
    torch.manual_seed(41)
    net = Net()
    xs, ys = torch.randn(BATCH, IN), torch.randint(0, CLASSES, (BATCH,))
    n, r = dist.get_world_size(), dist.get_rank()
    xs, ys = xs.chunk(n)[r], ys.chunk(n)[r]
    model: nn.Module = DDP(net) if ddp else net
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-2, foreach=False)
    with watch(model) as collector:
        optimizer.zero_grad()
        for nth, (x, y) in enumerate(zip(xs.chunk(times), ys.chunk(times), strict=True)):
            last = nth == times - 1
            is_alone = ddp and (not last or defect == "never_synced")
            with model.no_sync() if is_alone else nullcontext():  # type: ignore[operator]
                loss = F.cross_entropy(model(x), y)
                (loss if defect == "not_divided" else loss / times).backward()
            if defect == "zeroed" and nth == 1:
                optimizer.zero_grad(set_to_none=False)
        if n > 1 and not ddp and defect != "not_reduced":
            handles = [dist.all_reduce(p.grad, async_op=True) for p in net.parameters()]
            for handle, p in zip(handles, net.parameters(), strict=True):
                handle.wait()
                p.grad.div_(1 if defect == "sum_for_mean" else n)
        optimizer.step()
        collector.step()


DEFECTS = {
    "not_divided": r"cross_entropy\.0\.backward|__truediv__", "zeroed": "optimizer|parameters_grad",
    "not_reduced": "optimizer", "sum_for_mean": "optimizer", "never_synced": "optimizer",
}  # fmt: skip
