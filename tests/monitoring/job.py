"""One rank of a data parallel job that is monitored: python job.py RANK PORT LAKE RANKS.

Its gradients become NaN on rank 2 in the step that begins when the file LAKE.plant is there. Goes on until
it is killed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path


def main(rank: int, port: str, lake: str, ranks: int) -> None:
    """Train."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    import lakeprobe
    from tests.collect.jobs import join

    join(str(rank), port, ranks)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 2))
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    points = ["gradient_unreduced", "gradient", "parameter", "received", "sent"]
    plant = Path(f"{lake}.plant")
    with lakeprobe.monitor(model, optimizer, run="job", lake=lake, points=points, seconds=0.5) as monitor:
        torch.manual_seed(rank)
        while True:
            optimizer.zero_grad()
            loss = parallel(torch.randn(8, 4)).square().mean()
            if rank == 2 and plant.exists():
                loss = loss * float("nan")
            loss.backward()
            monitor.log("loss", loss)
            total = loss.detach().clone()
            torch.distributed.all_reduce(total)
            optimizer.step()
            time.sleep(0.05)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
