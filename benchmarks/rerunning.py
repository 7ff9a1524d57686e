"""Counts which ops of small models run again, and whether scripts agree: python benchmarks/rerunning.py FRAMEWORK.

FRAMEWORK is pytorch (a transformer, a CNN, an LSTM) or mindspore (the same). Each is trained for a step with contents,
and all its ops are verified. Prints how many ran, forward and backward, and why the others did not. Then scripts are
written for 100 of all the ops, and run by a Python that cannot import lakeprobe: how many exit as `verify` judged.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import lakeprobe
from benchmarks.truth import planted, runs

MODELS = {"pytorch": ("encoder", "unet", "lstm"), "mindspore": ("ms_encoder", "ms_cnn", "ms_lstm")}
SCRIPTS = 100
RUNNER = """
import contextlib, io, json, runpy, sys
codes = {}
for script in sys.argv[1:]:
    sys.argv = [script]
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            codes[script] = end.code
        except Exception as error:
            codes[script] = repr(error)
assert "lakeprobe" not in sys.modules
print(json.dumps(codes))
"""
"""Runs scripts in one process, which is started with -I, so that it sees installed packages only."""


def main(framework: str) -> None:
    """Collect, verify, count, and try scripts."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "lake"
        for name in MODELS[framework]:
            collect(framework, name, place)
        with lakeprobe.open(place) as lake:
            for name in MODELS[framework]:
                count(lake, name)
            scripts(lake, Path(folder))


def collect(framework: str, name: str, place: Path) -> None:
    """Train a model for a step, with its contents in the lake."""
    model = planted.load(name)
    if framework == "pytorch":
        import torch

        from benchmarks.truth import training

        torch.manual_seed(runs.INITIAL_SEED)
        trained: Any = model.build()
        train = partial(training.run, trained)
    else:
        import mindspore

        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
        mindspore.set_seed(runs.INITIAL_SEED)
        trained = model.build()
        train = trained.run
    with lakeprobe.collect(trained.network, run=name, lake=place, level="mix", task="tensor") as collector:
        train(1, collector.step)


def count(lake: Any, name: str) -> None:
    """Verify a run, and print what ran and what did not."""
    report = lake.verify(name).report
    rows = "FROM verifications WHERE verification = $name"
    ops = "op NOT LIKE 'Jit.%'"  # a program of MindSpore that jit compiled, such as an optimizer, is no op
    counts = "count(DISTINCT op) FILTER (status <> 'skip'), count(DISTINCT op)"
    ran = f"SELECT {counts} {rows} AND direction = $direction AND {ops}"
    for direction in ("forward", "backward"):
        [(done, known)] = lake.sql(ran, {"name": name, "direction": direction}).fetchall()
        print(f"{name}: {done} of {known} {direction} ops ran again ({done / known:.1%})")
    print(f"  {dict(report.statuses)}")
    reasons = f"SELECT api, slot, problem, count(*) {rows} AND status = 'skip' GROUP BY ALL ORDER BY ALL"
    for api, slot, problem, number in lake.sql(reasons, {"name": name}).fetchall():
        print(f"  not run: {number} {api}{f' {slot}' if slot else ''}: {problem}")


def scripts(lake: Any, folder: Path) -> None:
    """Write scripts for some ops, run them without lakeprobe, and count which exit as `verify` judged."""
    query = """
        SELECT run, ran, bool_or(status = 'error') FROM verifications
        WHERE origin = 'device' AND direction = 'forward' OR status = 'error'
        GROUP BY ALL HAVING bool_or(status <> 'skip') ORDER BY ALL
    """
    ops = lake.sql(query).fetchall()
    chosen = random.Random(0).sample(ops, min(SCRIPTS, len(ops)))
    wanted = {}
    for number, (run, op, is_wrong) in enumerate(chosen):
        script = folder / f"op{number}.py"
        lake.reproduce(run, op, script)
        wanted[str(script)] = (op, int(is_wrong))
    done = subprocess.run([sys.executable, "-I", "-c", RUNNER, *wanted], capture_output=True, text=True, cwd="/")
    codes = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else sys.exit(done.stderr)
    agree = [script for script, (_, code) in wanted.items() if codes[script] == code]
    print(f"{len(agree)} of {len(wanted)} scripts give the verdict of verify ({len(ops)} ops)")
    for script in wanted.keys() - agree:
        print(f"  {wanted[script][0]}: exits with {codes[script]}, not {wanted[script][1]}")


if __name__ == "__main__":
    main(sys.argv[1])
