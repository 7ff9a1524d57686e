"""Times reading and comparing two safetensors checkpoints: python benchmarks/checkpoints.py [GB] [share]

GB is the size of both together, share the part of the parameters that differ in one element. The files lie in TMPDIR
and are in the page cache. Each command is a process of its own, of which CPU time and greatest memory are told.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

PARAMETER = 32 << 20
"""Bytes of a parameter."""


def write(path: Path, parameters: int, changed: int) -> None:
    shape = [PARAMETER // 4096, 1024]
    header = {
        f"layers.{number}.weight": {
            "dtype": "F32", "shape": shape, "data_offsets": [number * PARAMETER, (number + 1) * PARAMETER]
        }
        for number in range(parameters)
    }  # fmt: skip
    text = json.dumps(header).encode()
    values = np.random.default_rng(0).standard_normal(PARAMETER // 4, np.float32)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for number in range(parameters):
            values[0] = number
            values[5] = 1.0 if number < changed else 0.0
            file.write(values.tobytes())


def measured(*words: str) -> tuple[float, float, int]:
    """Wall and CPU seconds of a command, and the greatest memory of any so far in MiB."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "lakeprobe", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - started, cpu, after.ru_maxrss >> 10


def main() -> None:
    size = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    share = float(sys.argv[2]) if len(sys.argv) > 2 else 0.1
    parameters = round(size * 1e9 / 2 / PARAMETER)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{name}.safetensors") for name in ("target", "golden")]
        for file, changed in zip(files, (round(share * parameters), 0), strict=True):
            write(file, parameters, changed)
            os.sync()
        total = sum(file.stat().st_size for file in files) / 1e9
        lake = ("--lake", f"{folder}/lake")
        steps = {
            "ingest": [("ingest", str(file), "--tensors", "link", "--jobs", "1", *lake) for file in files],
            "compare": [("compare", "target.safetensors", "golden.safetensors", "--jobs", "1", *lake)],
        }
        for step, commands in steps.items():
            walls, cpus, memory = zip(*(measured(*command) for command in commands), strict=True)
            print(
                f"{step}: {total:.2f} GB in {sum(walls):.1f} s, {sum(cpus):.1f} s of CPU: "
                f"{total / sum(cpus):.2f} GB/s a core, {max(memory)} MiB"
            )


if __name__ == "__main__":
    main()
