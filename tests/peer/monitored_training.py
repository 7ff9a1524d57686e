"""A small seeded training, monitored by msprobe or by us as the same monitor_config.json asks.

python monitored_training.py (msprobe | lakeprobe) FOLDER; the config is in the folder. Prints torch's version and
the sum of the parameters.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

CONFIG = {
    "targets": {},
    "xy_distribution": True,
    "wg_distribution": True,
    "mv_distribution": True,
    "param_distribution": True,
    "mg_direction": True,
    "monitor_mbs_grad": True,
    "ops": ["norm", "mean", "min", "max", "zeros", "nans"],
    "ndigits": 20,
    "step_count_per_record": 100,
    "recording_l2_features": True,
    "l2_targets": {
        "attention_hook": ["0:mixed"],
        "linear_hook": [],
        "moe_router_weight_hook": ["0:gate"],
        "moe_router_logit_hook": ["0:gate"],
    },
}


class Mixed(nn.Module):
    """Takes queries and keys."""

    def forward(self, query: Any, key: Any) -> Any:
        """Their product."""
        return query * key


class Net(nn.Module):
    """A module of each kind that the monitor knows."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.wide, self.norm = nn.Embedding(10, 8), nn.Linear(8, 16), nn.LayerNorm(16)
        self.mixed, self.gru, self.gate, self.head = Mixed(), nn.GRU(16, 8), nn.Linear(8, 4), nn.Linear(8, 3)

    def forward(self, tokens: Any) -> Any:
        """Tokens (5, 6) to (5, 6, 3)."""
        x = self.norm(self.wide(self.embed(tokens)).relu())
        x = x + self.mixed(x.view(5, 6, 2, 8), x.view(5, 6, 2, 8)).view(5, 6, 16)
        out, _ = self.gru(x)
        return self.head(out) + self.gate(out).sum(-1, keepdim=True)


def main(who: str, folder: Path) -> None:
    """Train four steps of two micro batches."""
    torch.manual_seed(3)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    monitor: Any
    if who == "msprobe":
        from msprobe.pytorch import TrainerMon

        monitor = TrainerMon("monitor_config.json", params_have_main_grad=False)
        monitor.set_monitor(net, optimizer, grad_acc_steps=2)
    else:
        from lakeprobe.monitoring.trainer import TrainerMon

        monitor = TrainerMon("monitor_config.json", params_have_main_grad=False)
        monitor.set_monitor(net, optimizer, grad_acc_steps=2)
    generator = torch.Generator().manual_seed(5)
    for _ in range(4):
        optimizer.zero_grad()
        for _ in range(2):
            net(torch.randint(10, (5, 6), generator=generator)).square().mean().backward()
        optimizer.step()
    print(torch.__version__, repr(sum(parameter.double().sum().item() for parameter in net.parameters())))


if __name__ == "__main__":
    os.chdir(sys.argv[2])
    torch.set_num_threads(1)
    main(sys.argv[1], Path(sys.argv[2]))
