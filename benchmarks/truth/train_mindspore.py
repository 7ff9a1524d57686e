"""Train a MindSpore model of the benchmark, once for every run, and collect each run into a lake.

    python -m benchmarks.truth.train_mindspore WORK METHOD MODEL NOISE ...

As `train.py`, with its options. MindSpore gives no hold below its functions, so the only noise is `weights`:
parameters off by 1e-7, after which every op rounds otherwise.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import mindspore
import numpy as np

import lakeprobe
import lakeprobe.collect.mindspore.watcher
from benchmarks.truth import planted, runs
from benchmarks.truth.cells import Training

WEIGHTS = 1e-7
"""By how much the noise moves each element of a parameter, relatively."""


def main(arguments: list[str]) -> int:
    """Make the runs that are not there; 1 if one failed."""
    asked = runs.parser(__doc__).parse_args(arguments)
    model = planted.load(asked.model)
    made = [
        runs.make(
            runs.folder_of(asked.work, asked.method, asked.model, noise),
            runs.wanted(asked, model, noise),
            partial(_train, model, asked.method, noise),
        )
        for noise in asked.noises
    ]
    return 0 if all(made) else 1


def _train(model: planted.Model, method: str, noise: str, run: str, folder: Path) -> list[float]:
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    mindspore.set_seed(runs.INITIAL_SEED)
    trained: Training = model.build()
    defect = model.defect(run)
    if defect is not None:
        defect.plant(trained)
    if noise == "weights" and run != "golden":
        _shake_parameters(trained.network, runs.noise_seed(run))
    collecting = lakeprobe.collect(trained.network, run=run, lake=folder / "lake", level="mix", task=method)
    with collecting as collector:
        return trained.run(runs.STEPS, collector.step)


def _shake_parameters(network: mindspore.nn.Cell, seed: int) -> None:
    generator = np.random.default_rng(seed)
    for parameter in network.get_parameters():
        values = parameter.asnumpy().astype(np.float64)
        shaken = values * (1 + WEIGHTS * generator.standard_normal(values.shape))
        parameter.set_data(mindspore.Tensor(shaken.astype(np.float32)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
