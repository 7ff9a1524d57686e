"""The runs of a model, each a process of its own that is forked, so that imports are paid once."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.truth.planted import Model

Train = Callable[[str, Path], list[float]]
"""Trains the run of this name, collects it into `lake` in this folder, and gives its losses."""

SEEDS = {"equal": 6, "repeat": 7}
"""What the noise of these runs starts from; that of a run with a defect starts from TARGET_SEED."""
TARGET_SEED = 5
INITIAL_SEED = 1234
"""What a network's parameters start from."""
STEPS = 2


def parser(description: str | None) -> argparse.ArgumentParser:
    """What a training takes: which runs of which model to make, under which noises."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("method")
    parser.add_argument("model")
    parser.add_argument("noises", nargs="+")
    parser.add_argument("--runs", default="", help="only these, separated by commas, and golden")
    add_sampling(parser)
    return parser


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """The options that make a count smaller."""
    parser.add_argument("--sample", type=int, help="only so many defects of each model and noise, drawn by chance")
    parser.add_argument("--seed", default="0", help="what they are drawn with; a larger sample has the smaller in it")
    parser.add_argument("--no-repeat", action="store_true", help="ask without a repeat of golden only")


def wanted(asked: argparse.Namespace, model: Model, noise: str) -> list[str]:
    """The names of the runs to make beside golden."""
    names = [defect.name for defect in model.defects]
    if asked.sample is not None:
        names = drawn(names, f"{asked.seed} {asked.model} {noise}")[: asked.sample]
    seeded = [run for run in SEEDS if not (asked.no_repeat and run == "repeat")]
    return [run for run in (*seeded, *names) if not asked.runs or run in asked.runs.split(",")]


def drawn(names: Sequence[str], seed: str) -> list[str]:
    """The names in an order of chance, always the same for a seed."""
    return random.Random(seed).sample(names, len(names))


def folder_of(work: Path, method: str, model: str, noise: str) -> Path:
    """Where the runs of a case are, their lake and what was counted."""
    return work / method / f"{model}_{noise}"


def noise_seed(run: str) -> int:
    """What the noise of a run starts from."""
    return SEEDS.get(run, TARGET_SEED)


def make(folder: Path, names: Sequence[str], train: Train) -> bool:
    """Make golden and the runs of these names, where `folder` has them not; whether all went well.

    The runs are `golden`, which has no noise and is always made; `equal` and `repeat`, which are golden again under
    noise of other seeds; and one for every defect.
    FOLDER/RUN.json has a run's losses, and says that it is done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [run for run in ("golden", *names) if not (folder / f"{run}.json").exists()]
    made = [_make(folder, run, train) for run in missing]
    return all(made)


def _make(folder: Path, run: str, train: Train) -> bool:
    started = time.perf_counter()

    def work() -> None:
        losses = train(run, folder)
        (folder / f"{run}.json").write_text(json.dumps({"losses": losses}))

    _, status = os.waitpid(fork(folder / f"{run}.log", work), 0)
    is_made = (folder / f"{run}.json").exists()
    seconds = time.perf_counter() - started
    print(f"{folder.name} {run}: {'trained' if is_made else f'FAILED ({status})'}, {seconds:.1f} s", flush=True)
    return is_made


def fork(log: Path, work: Callable[[], None]) -> int:
    """Do `work` in a process of its own, with all that it prints in `log`, and give the process's number."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        work()
        code = 0
    except BaseException:  # noqa: BLE001 a forked process must not return into its parent's code
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
