"""What collecting costs a training step, beside msprobe: the same training and config.json, in turns.

    python benchmarks/overhead.py [SCENARIO ...]     all scenarios by default; they are listed in SCENARIOS
    python benchmarks/overhead.py --cpu [LEVEL ...]  CPU seconds a step, with every process that a tool starts

Runs with a Python that has torch and lakeprobe; msprobe 26.2.0 has its own ($MSPROBE, as in run.py). A round is a
process of each tool, one after the other. In a process, steps are collected and bare in turns, after some of each that
do not count. What is timed of a collected step is what a user adds to it too: start(), stop() and step(), for both
tools. Prints a Markdown table; benchmarks/README.md says what its columns are.

--cpu trains the GPT-2 of transformers, which both Pythons need then. A round is a process of each tool, in which steps
are collected and bare in turns, because processes of others change what a step takes. What a tool costs is the median
CPU seconds of a collected step less that of a bare one, and its share of what the tool uses when it closes, with all
processes that it has started.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import run

ROUNDS = 3
WARM_UP = 2
"""Pairs of a collected and a bare step that do not count."""
CPU_STEPS = 20
CPU_LEVELS = ("L0", "L1", "mix")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
SCENARIOS = {
    "L0": ("L0", "statistics", 12),
    "L1": ("L1", "statistics", 12),
    "mix": ("mix", "statistics", 12),
    "L1-md5": ("L1", "md5", 8),
    "L1-tensors": ("L1", "tensor", 5),
}
"""Level, what is collected, and pairs of steps that count in a round."""


@dataclass(frozen=True)
class Measured:
    """One tool's rounds."""

    ratio: float
    """A collected step's time as a multiple of a bare one's beside it: the median of the rounds."""
    lowest: float
    highest: float
    after_effect: float
    """A bare step's time between collected ones, as a multiple of one's before any was collected."""
    step_bytes: float
    """What a collected step adds on the disk."""


def compare(name: str) -> str:
    """A table row: both tools in turns."""
    rounds: dict[str, list[dict[str, float]]] = {"lakeprobe": [], "msprobe": []}
    for _ in range(ROUNDS):
        for tool, results in rounds.items():
            results.append(_process(tool, name))
    own, peer = (_summary(results) for results in rounds.values())
    return (
        f"| {name} | {_range(own)} | {_range(peer)} | **{(peer.ratio - 1) / (own.ratio - 1):.1f}×** "
        f"| {own.after_effect:.2f} | {peer.after_effect:.2f} "
        f"| {own.step_bytes / 1e3:.1f} | {peer.step_bytes / 1e3:.1f} | {peer.step_bytes / own.step_bytes:.1f}× |"
    )


def _process(tool: str, name: str) -> dict[str, float]:
    folder = run.WORK / "overhead" / tool
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    python = sys.executable if tool == "lakeprobe" else str(run.msprobe().parent / "python")
    command = [python, __file__, "--train", tool, name, str(folder)]
    trained = subprocess.run(command, env=run.ENVIRONMENT | ONE_THREAD, capture_output=True, text=True)
    if trained.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{trained.stderr[-2000:]}")
    return json.loads(trained.stdout.splitlines()[-1])


def _summary(results: list[dict[str, float]]) -> Measured:
    ratios = [result["collected"] / result["bare"] for result in results]
    return Measured(
        median(ratios),
        min(ratios),
        max(ratios),
        median(result["bare"] / result["before"] for result in results),
        median(result["bytes"] for result in results),
    )


def _range(measured: Measured) -> str:
    return f"{measured.ratio:.2f} ({measured.lowest:.2f} to {measured.highest:.2f})"


def compare_cpu(level: str) -> str:
    """A table row: the CPU seconds that each tool adds to a step."""
    found: dict[str, list[dict[str, float]]] = {"lakeprobe": [], "msprobe": []}
    for _ in range(ROUNDS):
        for tool, rounds in found.items():
            rounds.append(_cpu_seconds(tool, level))
    own, peer = (median(one["added"] for one in rounds) for rounds in found.values())
    bare, beside = (median(one[part] for one in found["lakeprobe"]) for part in ("bare", "beside"))
    return f"| {level} | {bare:.3f} | {own:.3f} | {beside:.3f} | {peer:.3f} | **{own / peer:.2f}** |"


def _cpu_seconds(tool: str, level: str) -> dict[str, float]:
    folder = run.WORK / "overhead" / tool
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    python = sys.executable if tool != "msprobe" else str(run.msprobe().parent / "python")
    command = [python, __file__, "--cpu-of", tool, level, str(folder)]
    trained = subprocess.run(command, env=run.ENVIRONMENT | ONE_THREAD, capture_output=True, text=True)
    if trained.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{trained.stderr[-2000:]}")
    return json.loads(trained.stdout.splitlines()[-1])


# ---- the process that trains ------------------------------------------------------------------------------


def train(tool: str, name: str, folder: Path) -> None:
    """Train, and print the median seconds of a step before anything is collected, bare and collected, and bytes."""
    level, collected, pairs = SCENARIOS[name]
    training = _Training()
    before = median(_seconds(training.step) for _ in range(WARM_UP + pairs))
    debugger = _debugger(tool, level, collected, folder)

    def collect() -> None:
        debugger.start(training.model)
        training.step()
        debugger.stop()
        debugger.step()

    taken, bare, sizes = [], [], []
    for number in range(WARM_UP + pairs):
        taken.append(_seconds(collect))
        bare.append(_seconds(training.step))
        sizes.append(_take_away(tool, folder, number))
    print(json.dumps({
        "before": before,
        "bare": median(bare[WARM_UP:]),
        "collected": median(taken[WARM_UP:]),
        "bytes": median(sizes[WARM_UP:]),
    }))  # fmt: skip


class _Training:
    """A transformer, its optimizer and a batch of tokens."""

    def __init__(self) -> None:
        import torch
        from transformer import LENGTH, VOCABULARY, Transformer

        torch.set_num_threads(1)
        torch.manual_seed(1234)
        self.model = Transformer()
        self._loss = torch.nn.functional.cross_entropy
        self._clip = torch.nn.utils.clip_grad_norm_
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self._tokens = torch.randint(0, VOCABULARY, (4, LENGTH + 1))

    def step(self) -> None:
        """Forward, backward, clipping and optimizer."""
        logits = self.model(self._tokens[:, :-1])
        self._loss(logits.flatten(0, 1), self._tokens[:, 1:].flatten()).backward()
        self._clip(self.model.parameters(), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()


def train_gpt2(tool: str, level: str, folder: Path) -> None:
    """Train, and print the CPU seconds of a bare step, those that the tool adds, and of them those beside the steps."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(1)
    torch.manual_seed(1234)
    drop = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=512, n_positions=128, n_embd=256, n_layer=4, n_head=8, **drop))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, 512, (4, 128))
    debugger = _debugger(tool, level, "statistics", folder)

    def step() -> None:
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    def collect() -> None:
        debugger.start(model)
        step()
        debugger.stop()
        debugger.step()

    collected, bare = [], []
    for number in range(WARM_UP + CPU_STEPS):
        for work, taken in ((collect, collected), (step, bare)):
            before = _cpu()
            work()
            if number >= WARM_UP:
                taken.append(_cpu() - before)
    before = _cpu()
    if tool == "lakeprobe":
        debugger.close()  # until all units are there
    beside = (_cpu() - before) / (WARM_UP + CPU_STEPS)
    print(json.dumps({"bare": median(bare), "added": median(collected) - median(bare) + beside, "beside": beside}))


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _debugger(tool: str, level: str, collected: str, folder: Path) -> Any:
    """The tool's PrecisionDebugger, both with the same config.json."""
    task = "tensor" if collected == "tensor" else "statistics"
    options = {"summary_mode": collected} if task == "statistics" else {}
    config = folder / "config.json"
    config.write_text(json.dumps({"task": task, "level": level, "dump_path": str(folder / "dump"), task: options}))
    if tool == "msprobe":
        from msprobe.pytorch import PrecisionDebugger
    else:
        from lakeprobe.collect.debugger import PrecisionDebugger
    return PrecisionDebugger(config_path=str(config))


def _seconds(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _take_away(tool: str, folder: Path, number: int) -> int:
    """The size of a step's files, once they are all there. They are removed, so that no disk runs full."""
    made = folder / "dump" / f"step{number}" if tool == "msprobe" else folder / f"lake/run=dump/step={number}"
    if tool == "lakeprobe":
        from lakeprobe.journals import recovery

        recovery.recover(folder / "lake")  # as a command that opens the lake does
    while not made.exists():  # unless the builder process is at it
        time.sleep(0.01)
    size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file())
    shutil.rmtree(made)
    return size


def main() -> None:
    """Both roles: the one who asks for rounds, and the process that trains."""
    if sys.argv[1:2] == ["--train"]:
        tool, name, folder = sys.argv[2:]
        train(tool, name, Path(folder))
        return
    if sys.argv[1:2] == ["--cpu-of"]:
        tool, level, folder = sys.argv[2:]
        train_gpt2(tool, level, Path(folder))
        return
    if sys.argv[1:2] == ["--cpu"]:
        print(
            "| level | bare | ours adds | of it beside | msprobe adds | ours / msprobe's |\n|---|---|---|---|---|---|"
        )
        for level in sys.argv[2:] or CPU_LEVELS:
            print(compare_cpu(level), flush=True)
        return
    print("| collected | ours | msprobe | extra cost, times less | bare after ours | after msprobe | ours, kB a step | "
          "msprobe, kB a step | times less |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    for name in sys.argv[1:] or SCENARIOS:
        print(compare(name), flush=True)


if __name__ == "__main__":
    main()
