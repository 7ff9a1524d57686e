"""The runs of a model, each a process of its own that is forked, so that imports are paid once."""

from __future__ import annotations

import json
import os
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


def noise_seed(run: str) -> int:
    """What the noise of a run starts from."""
    return SEEDS.get(run, TARGET_SEED)


def make(folder: Path, model: Model, wanted: Sequence[str], train: Train) -> bool:
    """Make the runs of `model` that `folder` has not; whether all went well.

    The runs are `golden`, which has no noise and is always made; `equal` and `repeat`, which are golden again under
    noise of other seeds; and one for every defect. `wanted` has the names of those to make, all if it is empty.
    FOLDER/RUN.json has a run's losses, and says that it is done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    asked = [run for run in (*SEEDS, *(defect.name for defect in model.defects)) if not wanted or run in wanted]
    missing = [run for run in ("golden", *asked) if not (folder / f"{run}.json").exists()]
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
