"""Measures lakes of very many units: CPU seconds and memory of what people do with them.

    python benchmarks/scale.py units [RANKS STEPS]      a long dump of a large job, before and after compact
    python benchmarks/scale.py pairs [RANKS]            a comparison of so many small pairs
    python benchmarks/scale.py analyses [RANKS[xOPS] ...]  the questions about runs and a comparison of so many ranks

Inputs are made by inputs.py and kept in benchmarks/work. A lake of many steps is that of one step, whose files are
linked into each. Prints Markdown tables.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import inputs

from lakeprobe.lake import log, store

WORK = Path(__file__).resolve().parent / "work"
LAKEPROBE = [sys.executable, "-m", "lakeprobe"]
OPS = 200
COMPARE = ("compare", "target", "golden", "--name", "c", "--jobs", "1", "--quiet")
QUESTIONS = (
    ("comm", "golden"), ("drift", "golden", "target"), ("drift", "golden", "target", "--rank", "5"),
    ("first-diff", "c"), ("blame", "c"),
    ("merge", "c", "--api", "Distributed", "--metric", "Max diff"), ("merge", "c", "--metric", "Max diff"),
    ("merge", "c", "--metric", "Max diff", "--rank", "0-7"),
)  # fmt: skip
"""What is asked of the runs, and then of their comparison."""
OP = "Distributed.all_reduce.0.forward"


def cost(arguments: Sequence[str | Path]) -> tuple[float, float]:
    """CPU seconds (user and system, with all that it starts) and the largest resident memory in MB of a command."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([*LAKEPROBE, *map(str, arguments)], stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):  # 1: it found something
            output.seek(0)
            raise SystemExit(f"{arguments} failed:\n{output.read().decode()[-2000:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def own_cost(act: Callable[[], object]) -> float:
    """CPU seconds of a call in this process."""
    before = time.process_time()
    act()
    return time.process_time() - before


def dumps(ranks: int, ops: int) -> Path:
    """The dumps of both sides, one step of `ranks` ranks with at least `ops` ops each."""
    folder = WORK / f"ranks{ranks}x{ops}"
    if not folder.exists():
        inputs.statistics(folder, ranks, ops)
    return folder


def ingested(ranks: int, sides: Sequence[str], ops: int = OPS) -> Path:
    """A lake with the dumps of `sides`."""
    lake = WORK / f"lake{ranks}x{ops}"
    for side in sides:
        if not (lake / f"run={side}").exists():
            cost(["ingest", dumps(ranks, ops) / side, "--run", side, "--lake", lake])
    return lake


def many_steps(ranks: int, steps: int) -> Path:
    """A lake with the run golden in `steps` steps: the files of one step, linked into each."""
    lake = WORK / f"lake{ranks}-steps{steps}"
    if lake.exists():
        return lake
    one = log.read(ingested(ranks, ["golden"]))
    store.create(lake)
    put = {}
    for step in range(steps):
        for name, place in one.places.items():
            if not name.startswith("run=golden/"):  # what `pairs` and `analyses` have left there
                continue
            new = name.replace("/step=0/", f"/step={step}/")
            path = place.path.replace("/step=0/", f"/step={step}/")
            (lake / path).mkdir(parents=True)
            for file in place.files:
                os.link(one.lake / place.path / file, lake / path / file)
            put[new] = log.Place(path, place.files)
    log.append(lake, "many steps", put)
    return lake


def queries(ranks: int, steps: int) -> dict[str, list[str]]:
    """The commands that are measured on a lake of many units."""
    where = f"run = 'golden' AND step = {steps // 2}"
    return {
        "open": ["sql", "SELECT 1"],
        "ls": ["ls"],
        "one rank": ["sql", f"SELECT count(*), sum(norm) FROM tensors WHERE {where} AND rank = {ranks // 2}"],
        "one op in one step": ["sql", f"SELECT count(*), sum(norm) FROM tensors WHERE {where} AND op = '{OP}'"],
        "one op everywhere": ["sql", f"SELECT count(*), sum(norm) FROM tensors WHERE op = '{OP}'"],
        "check": ["check"],
    }


def units(ranks: int = 512, steps: int = 20) -> None:
    """Measure a lake of ranks × steps units, before and after `compact`."""
    lake = many_steps(ranks, steps)
    asked = queries(ranks, steps)
    print(f"| {ranks * steps} units | {' | '.join(asked)} | files |\n|---{'|---' * (len(asked) + 1)}|", flush=True)
    for state in ("as ingested", "compacted"):
        if state == "compacted":
            seconds, megabytes = cost(["compact", "golden", "--lake", lake])
        costs = [cost([*arguments, "--lake", lake]) for arguments in asked.values()]
        files = sum(len(names) for _, _, names in os.walk(lake))
        cells = " | ".join(f"{used:.1f} s, {peak:.0f} MB" for used, peak in costs)
        print(f"| {state} | {cells} | {files} |", flush=True)
    print(f"\ncompact: {seconds:.0f} s, {megabytes:.0f} MB")


def compared(ranks: int, ops: int) -> Path:
    """A lake with the comparison c of so many pairs."""
    lake = ingested(ranks, ["target", "golden"], ops)
    if not (lake / "comparisons" / "comparison=c").exists():
        cost([*COMPARE, "--lake", lake])
    return lake


def pairs(ranks: int = 512) -> None:
    """Measure a comparison of so many small pairs."""
    lake = ingested(ranks, ["target", "golden"])
    if (lake / "comparisons" / "comparison=c").exists():  # --replace would read the dumps again, too
        cost(["rm", "c", "--yes", "--lake", lake])
    seconds, megabytes = cost([*COMPARE, "--lake", lake])
    print(f"{ranks} pairs: {seconds:.1f} s, {seconds / ranks:.2f} s a pair, {megabytes:.0f} MB")


def analyses(*jobs: str) -> None:
    """Measure the questions about jobs of so many ranks, each RANKS or RANKSxOPS."""
    print(f"| ranks × ops | {' | '.join(' '.join(asked) for asked in QUESTIONS)} |\n|---{'|---' * len(QUESTIONS)}|")
    for job in jobs or ("64", "256", "1024", "256x2000"):
        ranks, _, ops = job.partition("x")
        lake = compared(int(ranks), int(ops or OPS))
        costs = [cost([*asked, "--lake", lake]) for asked in QUESTIONS]
        cells = " | ".join(f"{used:.1f} s, {peak:.0f} MB" for used, peak in costs)
        print(f"| {ranks} × {ops or OPS} | {cells} |", flush=True)


def main(arguments: list[str]) -> None:
    """Run the measurement that is named first, with the numbers after it."""
    named = {function.__name__: function for function in (units, pairs)}
    if arguments[:1] == ["analyses"]:
        analyses(*arguments[1:])
    elif arguments and arguments[0] in named:
        named[arguments[0]](*map(int, arguments[1:]))
    else:
        raise SystemExit(f"name one of {', '.join((*named, 'analyses'))}")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    main(sys.argv[1:])
