"""What monitoring adds to a training step, beside msprobe's monitor: CPU seconds of steps measured and not measured.

    MSPROBE=/path/to/msprobe python benchmarks/monitoring.py [ROUNDS]

Trains the transformer of benchmarks/transformer.py on one thread. A round is a process of each case. In it every other
step is measured, because two processes differ by more than monitoring adds. What is added is the median CPU seconds of
a measured step less that of another, with all threads of the process, over all rounds. What closing the monitor takes
is spent once. With MSPROBE, its monitor measures the same in the same rounds. Prints a Markdown table.
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

STEPS, WARM_UP = 80, 6
ALL_POINTS = (
    "gradient_unreduced", "gradient", "parameter", "parameter_updated", "moment1", "moment2", "update",
    "input", "output", "input_gradient", "output_gradient",
)  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "gradients and parameters, norm": {},
    "gradients and parameters, exact norm": {"exact": True},
    "gradients and parameters, all metrics but digest": {
        "metrics": ("norm", "mean", "min", "max", "zeros", "nans", "shape", "dtype"),
    },
    "gradients before and after reduction, parameters before and after the update, norm": {
        "points": ("gradient_unreduced", "gradient", "parameter", "parameter_updated"),
        "metrics": ("norm", "shape", "dtype"),
        "exact": True,
    },
    "every point, norm": {"points": ALL_POINTS},
}
PEER = "msprobe: gradients before and after reduction, parameters before and after the update, norm"
PEER_CONFIG = {"targets": {}, "wg_distribution": True, "param_distribution": True, "ops": ["norm"], "step_interval": 2}


def main() -> int:
    if len(sys.argv) == 4:
        print(json.dumps(train(sys.argv[2], Path(sys.argv[3]))))
        return 0
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    msprobe = os.environ.get("MSPROBE")
    cases = [*CASES, *([PEER] if msprobe else [])]
    found: dict[str, list[dict[str, Any]]] = {case: [] for case in cases}
    for _ in range(rounds):
        for case in cases:
            python = Path(msprobe).with_name("python") if msprobe and case == PEER else sys.executable
            with tempfile.TemporaryDirectory() as folder:
                command = [python, __file__, "train", case, folder]
                said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                found[case].append(json.loads(said.splitlines()[-1]))
    print("| monitored | other step, CPU s | measured step adds | part | once |\n|---|---|---|---|---|")
    for case, results in found.items():
        measured, bare = (median(second for one in results for second in one[kind]) for kind in ("measured", "bare"))
        once = median(one["once"] for one in results)
        print(f"| {case} | {bare:.4f} | {measured - bare:.4f} | {measured / bare - 1:.1%} | {once:.2f} s |")
    return 0


def train(case: str, folder: Path) -> dict[str, Any]:
    """CPU seconds of measured and of other steps after the warm-up, and those of closing the monitor."""
    import time

    import torch
    from transformer import LENGTH, VOCABULARY, Transformer

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters())
    if case == PEER:
        monitor = peer(model, optimizer, folder)
    else:
        import lakeprobe

        monitor = lakeprobe.monitor(model, optimizer, run="run", lake=folder / "lake", every=2, **CASES[case])
    seconds = []
    for _ in range(STEPS + WARM_UP):
        began = time.process_time()
        tokens = torch.randint(VOCABULARY, (4, LENGTH + 1))
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        seconds.append(time.process_time() - began)
    began = time.process_time()
    if hasattr(monitor, "close"):
        monitor.close()
    return {
        "measured": seconds[WARM_UP::2],
        "bare": seconds[WARM_UP + 1 :: 2],
        "once": time.process_time() - began,
    }


def peer(model: Any, optimizer: Any, folder: Path) -> Any:
    """msprobe's monitor of the same points."""
    from msprobe.pytorch import TrainerMon  # type: ignore[import-not-found]

    os.environ["MONITOR_OUTPUT_DIR"] = str(folder / "out")
    config = folder / "monitor_config.json"
    config.write_text(json.dumps(PEER_CONFIG))
    monitor = TrainerMon(str(config), params_have_main_grad=False)
    monitor.set_monitor(model, optimizer)
    return monitor


if __name__ == "__main__":
    sys.exit(main())
