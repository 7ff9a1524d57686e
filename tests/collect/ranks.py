"""One rank of a training job of which a rank is killed: python ranks.py LAKE RANK RANKS PORT KILLED."""

from __future__ import annotations

import os
import signal
import sys

import torch
import torch.distributed

from lakeprobe.collect.session import collect


def main() -> None:
    lake, rank, ranks, port, killed = sys.argv[1], *map(int, sys.argv[2:])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()) for _ in range(20)])
    torch.manual_seed(rank)
    with collect(model, run="npu", lake=lake, level="mix") as collector:
        loss = model(torch.randn(2, 8)).sum()
        torch.distributed.all_reduce(loss)
        loss.backward()
        collector.step()
        for _ in range(20):
            model(torch.randn(2, 8))
        if rank == killed:
            os.kill(os.getpid(), signal.SIGKILL)
        model(torch.randn(2, 8))
        collector.step()
    os._exit(0)  # leaving the group needs all of its ranks


if __name__ == "__main__":
    main()
