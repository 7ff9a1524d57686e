"""Times `lakeprobe verify` on a statistics dump of many calls: python benchmarks/verifying.py [STEPS [JOBS]].

A small transformer is collected for STEPS steps (70 have about 20 000 calls), then all its ops are verified in JOBS
processes. Prints calls, distinct calls, wall-clock and processor seconds, and the memory of the process with the lake.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import torch
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
        collect(Path(folder) / "lake", steps)
        with lakeprobe.open(Path(folder) / "lake", create=True) as lake:
            start = time.perf_counter()
            report = lake.verify("run", jobs=jobs).report
            seconds = time.perf_counter() - start
    own, workers = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    used = workers.ru_utime + workers.ru_stime
    print(f"{report.calls} calls, {report.distinct} distinct: {seconds:.0f} s, workers {used:.0f} s of processor")
    print(f"memory: {own.ru_maxrss >> 10} MiB, of the largest worker {workers.ru_maxrss >> 10} MiB; {report.statuses}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
