"""Makes lakes as this release writes them, which tests/lake/test_golden_lake.py reads.

    python tests/data/golden_lake.py 0.2

makes tests/data/golden_lake/0.2 (two pairs of runs, compared) and tests/data/whole_lake/0.2 (every table; needs
PyTorch).

What was made before stays as it is: it shows that lakes of earlier releases are still read. A new format of lakes
(docs/architecture.md) ends an old folder's life, and nothing else does.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "compare"))
from pair_dumps import call, tensor, write_dump  # noqa: E402

import lakeprobe  # noqa: E402
from lakeprobe.compare.run import compare  # noqa: E402
from lakeprobe.ingest import ingest  # noqa: E402


def make(release: str) -> Path:
    """Two runs of statistics and two of tensors, each pair compared. Returns the lake."""
    lake = HERE / "golden_lake" / release
    shutil.rmtree(lake, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        for run, scale in (("target", 1.5), ("golden", 1.0)):
            arrays = {f"{name}.npy": np.arange(6, dtype=np.float32) * scale for name in ("in", "out")}
            leaves = [tensor(shape=[6], data_name=name) for name in arrays]
            data = {"Torch.f.0.forward": call([leaves[0], 3, "a text"], [leaves[1]]), "Torch.g.0.forward": call([None])}
            ingest(write_dump(Path(folder) / f"{run}_saved", data, task="tensor", arrays=arrays), lake=lake)
            ingest(HERE / "dumps" / "demo" / run, lake=lake, run=run)
        compare("target", "golden", lake=lake, name="statistics")
        compare("target_saved", "golden_saved", lake=lake, name="saved")
    shutil.rmtree(lake / ".staging", ignore_errors=True)
    return lake


def make_whole(release: str) -> Path:
    """Everything that a lake can hold, of a model of two layers. Returns the lake."""
    import torch

    lake = HERE / "whole_lake" / release
    shutil.rmtree(lake, ignore_errors=True)

    def model() -> torch.nn.Module:
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.GELU())

    for run, scale in {"golden": 1.0, "again": 1.000001, "target": 1.5}.items():
        trained = model()
        torch.manual_seed(1)
        with lakeprobe.collect(trained, run=run, lake=lake, level="mix", task="tensor") as collector:
            (trained(torch.randn(2, 4)) * scale).sum().backward()
            collector.step()
    trained = model()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    with lakeprobe.monitor(trained, optimizer, run="watched", lake=lake):
        for _ in range(2):
            trained(torch.randn(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    with lakeprobe.open(lake) as opened, tempfile.TemporaryDirectory() as folder:
        [table] = opened.compare("target", "golden", name="apart").write(folder, layout="msprobe")
        opened.ingest(table.rename(table.with_name("compare_result_20261123000000.csv")))
        opened.compare("target", "golden", name="searched", rule="cross_framework")
        opened.measure_noise("golden", "again")
        opened.merge_layout("golden", "whole")
        opened.verify("target")
        opened.perturb("target")
    shutil.rmtree(lake / ".staging", ignore_errors=True)
    shutil.rmtree(lake / ".collecting", ignore_errors=True)
    return lake


if __name__ == "__main__":
    print(make(sys.argv[1]))
    print(make_whole(sys.argv[1]))
