"""What monitoring adds to a training step: CPU seconds of a process that monitors, and of one that does not.

    MSPROBE=/path/to/msprobe python benchmarks/monitoring.py [ROUNDS]

Trains the transformer of benchmarks/transformer.py on one thread. A round is a process of each case, in turns. Counted are
the CPU seconds of the process with all of its threads, from the sixth step until the monitor is closed, in two lengths: their
difference is what a step costs, and the rest is spent once. With MSPROBE, its monitor measures the same in the same rounds.
Prints a Markdown table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

SHORT, LONG, WARM_UP = 20, 60, 5
ALL_POINTS = (
    "gradient_unreduced", "gradient", "parameter", "parameter_updated", "moment1", "moment2", "update", "input", "output",
    "input_gradient", "output_gradient",
)  # fmt: skip
CASES: dict[str, dict[str, Any] | None] = {
    "nothing": None,
    "gradients and parameters, norm": {},
    "gradients and parameters, all metrics but digest": {
        "metrics": ("norm", "mean", "min", "max", "zeros", "nans", "shape", "dtype"),
    },
    "gradients before and after reduction, parameters before and after the update, norm": {
        "points": ("gradient_unreduced", "gradient", "parameter", "parameter_updated"),
        "metrics": ("norm", "shape", "dtype"),
    },
    "every point, norm": {"points": ALL_POINTS},
}
PEER = "msprobe: gradients before and after reduction, parameters before and after the update, norm"
PEER_CONFIG = {"targets": {}, "wg_distribution": True, "param_distribution": True, "ops": ["norm"]}


def main() -> int:
    if len(sys.argv) == 5:
        print(train(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])))
        return 0
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    msprobe = os.environ.get("MSPROBE")
    cases = [*CASES, *([PEER] if msprobe else [])]
    seconds: dict[tuple[str, int], list[float]] = {(case, steps): [] for case in cases for steps in (SHORT, LONG)}
    for _ in range(rounds):
        for case, steps in seconds:
            python = Path(msprobe).with_name("python") if msprobe and case == PEER else sys.executable
            with tempfile.TemporaryDirectory() as folder:
                command = [python, __file__, "train", case, str(steps), folder]
                said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                seconds[case, steps].append(float(said.splitlines()[-1]))
    found = {key: median(values) for key, values in seconds.items()}
    a_step = {case: (found[case, LONG] - found[case, SHORT]) / (LONG - SHORT) for case in cases}
    bare = a_step["nothing"]
    print("| monitored | CPU seconds a step | added | once |\n|---|---|---|---|")
    for case in cases:
        once = found[case, SHORT] - a_step[case] * SHORT
        print(f"| {case} | {a_step[case]:.4f} | {a_step[case] / bare - 1:.1%} | {once:.2f} s |")
    return 0


def train(case: str, steps: int, folder: Path) -> float:
    """CPU seconds of the steps after the warm-up."""
    import time

    import torch
    from transformer import LENGTH, VOCABULARY, Transformer

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters())
    monitor = None
    if case == PEER:
        monitor = peer(model, optimizer, folder)
    elif (options := CASES[case]) is not None:
        import lakeprobe

        monitor = lakeprobe.monitor(model, optimizer, run="run", lake=folder / "lake", **options)
    began = 0.0
    for step in range(steps + WARM_UP):
        if step == WARM_UP:
            began = time.process_time()
        tokens = torch.randint(VOCABULARY, (4, LENGTH + 1))
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
    if hasattr(monitor, "close"):
        monitor.close()
    return time.process_time() - began


def peer(model: Any, optimizer: Any, folder: Path) -> Any:
    """msprobe's monitor of the same points."""
    from msprobe.pytorch import TrainerMon

    os.environ["MONITOR_OUTPUT_DIR"] = str(folder / "out")
    config = folder / "monitor_config.json"
    config.write_text(json.dumps(PEER_CONFIG))
    monitor = TrainerMon(str(config), params_have_main_grad=False)
    monitor.set_monitor(model, optimizer)
    return monitor


if __name__ == "__main__":
    sys.exit(main())
