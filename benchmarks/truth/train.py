"""Train a PyTorch model of the benchmark under a noise, once for every run, and collect each run into a lake.

    python -m benchmarks.truth.train WORK METHOD MODEL NOISE ... [--runs a,b] [--sample N --seed S] [--no-repeat]

METHOD is `statistics` or `tensor`, NOISE one of `noise.NOISES`. `runs.py` says which runs there are. They land in
WORK/METHOD/MODEL_NOISE/lake.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch
import torch._dynamo  # optimizers import it; here it is imported before processes are forked
import torch.distributed as dist

import lakeprobe
import lakeprobe.collect.pytorch.watcher
from benchmarks.truth import planted, runs, training
from benchmarks.truth.noise import Noise, shake_parameters


def main(arguments: list[str]) -> int:
    """Make the runs that are not there; 1 if one failed."""
    asked = runs.parser(__doc__).parse_args(arguments)
    model = planted.load(asked.model)
    train = _train if model.ranks == 1 else _train_ranks
    made = [
        runs.make(
            runs.folder_of(asked.work, asked.method, asked.model, noise),
            runs.wanted(asked, model, noise),
            partial(train, model, asked.method, noise),
        )
        for noise in asked.noises
    ]
    return 0 if all(made) else 1


def _train_ranks(model: planted.Model, method: str, noise: str, run: str, folder: Path) -> list[float]:
    """Train in a process per rank, which meet over gloo; the losses stay with them."""
    meeting = folder / f"{run}.meeting"
    meeting.unlink(missing_ok=True)

    def work(rank: int) -> None:
        store = dist.FileStore(str(meeting), model.ranks)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=model.ranks)
        _train(model, method, noise, run, folder, rank)
        dist.destroy_process_group()

    processes = [runs.fork(folder / f"{run}.{rank}.log", partial(work, rank)) for rank in range(model.ranks)]
    statuses = [os.waitpid(process, 0)[1] for process in processes]
    meeting.unlink(missing_ok=True)
    if any(statuses):
        raise SystemExit(f"ranks ended with {statuses}; their logs are {folder}/{run}.RANK.log")
    return []


def _train(model: planted.Model, method: str, noise: str, run: str, folder: Path, rank: int = 0) -> list[float]:
    torch.set_num_threads(1)
    torch.manual_seed(runs.INITIAL_SEED)
    trained: training.Training = model.build()
    defect = model.defect(run)
    if defect is not None:
        defect.plant(trained)
    if noise == "bf16":
        _to_bfloat16(trained)
    seed = runs.noise_seed(run) + 100 * rank
    is_noisy = noise != "clean" and run != "golden"
    if is_noisy and noise == "weights":
        shake_parameters(trained.network, seed)
    kernels = Noise(noise, seed) if is_noisy else nullcontext()
    collecting = lakeprobe.collect(trained.network, run=run, lake=folder / "lake", level="mix", task=method)
    with kernels, collecting as collector:
        return training.run(trained, runs.STEPS, collector.step)


def _to_bfloat16(trained: training.Training) -> None:
    trained.network.to(torch.bfloat16)
    for batch in trained.batches:
        for key, value in batch.items():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                batch[key] = value.bfloat16()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
