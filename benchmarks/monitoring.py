"""What monitoring adds to a training step: CPU seconds of a process that monitors, and of one that does not.

    python benchmarks/monitoring.py [ROUNDS]

Trains the transformer of benchmarks/transformer.py on one thread. A round is a process of each, in turns. Counted are
the CPU seconds of the process with all of its threads, from the sixth step until the monitor is closed. Prints a
Markdown table.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

STEPS, WARM_UP = 40, 5
CASES = {
    "bare": None,
    "gradients and parameters, norm": {},
    "gradients and parameters, all metrics but digest": {
        "metrics": ("norm", "mean", "min", "max", "zeros", "nans", "shape", "dtype"),
    },
    "every point, norm": {
        "points": (
            "gradient_unreduced", "gradient", "parameter", "parameter_updated", "moment1", "moment2", "update",
            "activation", "activation_gradient",
        ),
    },
}  # fmt: skip


def main() -> int:
    if len(sys.argv) == 4:
        print(train(sys.argv[2], Path(sys.argv[3])))
        return 0
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    seconds: dict[str, list[float]] = {case: [] for case in CASES}
    for _ in range(rounds):
        for case in CASES:
            with tempfile.TemporaryDirectory() as folder:
                command = [sys.executable, __file__, "train", case, folder]
                seconds[case].append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    bare = median(seconds["bare"])
    print("| monitored | CPU seconds a step | added |\n|---|---|---|")
    for case, found in seconds.items():
        print(f"| {case} | {median(found):.4f} | {median(found) / bare - 1:.1%} |")
    return 0


def train(case: str, folder: Path) -> float:
    """CPU seconds of a step."""
    import time

    import torch
    from transformer import LENGTH, VOCABULARY, Transformer

    import lakeprobe

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters())
    options = CASES[case]
    monitor = (
        None if options is None else lakeprobe.monitor(model, optimizer, run="run", lake=folder / "lake", **options)
    )
    began = 0.0
    for step in range(STEPS + WARM_UP):
        if step == WARM_UP:
            began = time.process_time()
        tokens = torch.randint(VOCABULARY, (4, LENGTH + 1))
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
    if monitor:
        monitor.close()
    return (time.process_time() - began) / STEPS


if __name__ == "__main__":
    sys.exit(main())
