"""Times `lakeprobe verify` on a statistics dump of many calls: python benchmarks/verifying.py [STEPS [JOBS]].

A small transformer is collected for STEPS steps (70 have about 20 000 calls), then all its ops are verified in JOBS
processes, by the command. Prints calls, distinct calls, wall-clock and processor seconds, and their memory.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import torch
from run import LAKEPROBE, cost, memory
from torch import nn
from torch.nn import functional

import lakeprobe


def collect(lake: Path, steps: int) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
    model = nn.Sequential(nn.Embedding(50, 32), nn.TransformerEncoder(layer, 2), nn.Linear(32, 50))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with lakeprobe.collect(model, run="run", lake=lake) as collector:
        for _ in range(steps):
            tokens, labels = torch.randint(0, 50, (2, 4, 10))
            functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()
            collector.step()


def main(steps: int = 70, jobs: int = 2) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lakes = Path(folder, "lake"), Path(folder, "again")
        collect(lakes[0], steps)
        shutil.copytree(*lakes)  # what a lake has verified is not run again
        commands = [[*LAKEPROBE, "verify", "run", "--lake", str(lake), "--jobs", str(jobs)] for lake in lakes]
        spent, most = cost(commands[0]), memory(commands[1])
        with lakeprobe.open(lakes[0]) as lake:
            report = lake.verify("run").report
    print(f"{report.calls} calls, {report.distinct} distinct, {report.statuses}")
    print(f"{spent.wall:.0f} s, {spent.cpu:.0f} s of processor, {most / 2**20:.0f} MiB in all processes")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
