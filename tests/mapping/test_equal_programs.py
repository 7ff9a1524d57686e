"""Two programs of PyTorch that compute the same in other ops: equal runs raise no alarm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakeprobe

torch = pytest.importorskip("torch")


class Net(torch.nn.Module):
    """Three numbers of each of some points, as a small matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 16), torch.nn.Linear(16, 9)

    def forward(self, points: Any) -> Any:
        """Return a matrix of [3, 3] for each of the points [batch, many, 3]."""
        return self.second(torch.relu(self.first(points)).amax(1)).reshape(-1, 3, 3) + torch.eye(3)


def joined(net: Net, parts: list[Any]) -> Any:
    turned = net(torch.cat(parts))
    first, second, third = turned.flatten(1).split(4)
    return (
        torch.nn.functional.triplet_margin_loss(first, second, third)
        + 0.3 * (torch.eye(3) - turned @ turned.transpose(1, 2)).square().mean()
    )


def apart(net: Net, parts: list[Any]) -> Any:
    each = [net(part) for part in parts]
    lost = torch.nn.functional.triplet_margin_loss(*(one.flatten(1) for one in each))
    return lost + 0.1 * sum((torch.eye(3) - torch.bmm(one, one.transpose(1, 2))).pow(2).mean() for one in each)


def test_a_net_called_for_each_part_against_one_call_for_all(tmp_path: Path) -> None:
    """Means over parts are no mean over all, nor are their gradients."""
    torch.manual_seed(0)
    net, parts = Net(), [torch.randn(4, 20, 3) for _ in range(3)]
    for run, loss in (("joined", joined), ("apart", apart)):
        net.zero_grad()
        with lakeprobe.collect(net, run=run, lake=tmp_path / "lake", level="mix", task="statistics") as collector:
            loss(net, parts).backward()
            collector.step()
    with lakeprobe.open(tmp_path / "lake") as lake:
        for target, golden in (("joined", "apart"), ("apart", "joined")):
            assert lake.compare(target, golden).summary().beyond_noise == (), target
