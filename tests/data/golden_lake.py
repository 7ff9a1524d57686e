"""Makes tests/data/golden_lake/RELEASE, a lake as this release writes it, which tests/lake/test_golden_lake.py reads.

    python tests/data/golden_lake.py 0.2

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


if __name__ == "__main__":
    print(make(sys.argv[1]))
