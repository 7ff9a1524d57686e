"""Wall time, processor time and memory beside msprobe: the same input, in one run, alternating.

On a quiet machine the ratios of wall times are what counts, on a shared one the CPU seconds.

    python benchmarks/run.py [SCENARIO ...]      all scenarios by default; they are listed in SCENARIOS

Inputs are made by inputs.py from a dump in tests/data and kept in benchmarks/work. msprobe 26.2.0 is installed there
too, into an environment of its own ($MSPROBE names another). Prints a Markdown table; benchmarks/README.md says what
the columns are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[1]
WORK = CHECKOUT / "benchmarks" / "work"
LAKEPROBE = [sys.executable, "-m", "lakeprobe"]
ROUNDS = 5
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""What the programs run in: as where they are installed, Python keeps their bytecode."""
QUESTIONS = ("first-diff", "blame", "comm", "merge")
"""Commands that answer a question about a comparison of many ranks."""


class Cost(NamedTuple):
    """Seconds that a command takes: on the clock, and of processors (user and system, with all that it starts)."""

    wall: float
    cpu: float


def cost(command: list[str]) -> Cost:
    """Run `command` once, quietly, and not watched: adding up memory slows a process down."""
    with tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        _check(command, process.returncode, errors.read())
    return Cost(wall, usage.ru_utime + usage.ru_stime)


def middle(costs: Sequence[Cost]) -> Cost:
    """The medians of both."""
    return Cost(median(one.wall for one in costs), median(one.cpu for one in costs))


def memory(command: list[str]) -> int:
    """The largest sum of proportional memory (PSS) over all processes of `command`, twenty times a second, in bytes."""
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = [0]
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(process.pid, peak, done))
    watcher.start()
    _, errors = process.communicate()
    done.set()
    watcher.join()
    _check(command, process.returncode, errors)
    return peak[0]


def _check(command: list[str], code: int, errors: bytes) -> None:
    if code:
        raise SystemExit(f"{' '.join(command)} failed:\n{errors.decode()[-2000:]}")


def _watch(root: int, peak: list[int], done: threading.Event) -> None:
    while not done.wait(0.05):
        peak[0] = max(peak[0], sum(_memory(process) for process in _tree(root)))


def _tree(root: int) -> Iterator[int]:
    yield root
    try:
        children = Path(f"/proc/{root}/task/{root}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _tree(int(child))


def _memory(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


# ---- inputs -----------------------------------------------------------------------------------------------


def statistics_dumps() -> tuple[Path, Path]:
    """22 000 ops a side."""
    return _made("statistics", "statistics", 1, 22_000)


def rounded_dumps() -> tuple[Path, Path]:
    """The same, as between two chips: what the target's ops made is off by up to 1e-6."""
    return _made("rounded", "statistics", 1, 22_000, 1e-6)


def tensor_dumps() -> tuple[Path, Path]:
    """17 ops with 34 .pt files a side, 1.5 GB each; half of the ops differ."""
    return _made("tensors", "tensors", 17, 44)


def large_dump() -> tuple[Path, Path]:
    """550 000 ops."""
    return _made("large", "statistics", 1, 550_000)


def small_dumps() -> tuple[Path, Path]:
    """760 ops a side, as a small model has."""
    return _made("small", "statistics", 1, 760)


def ranks_dumps(ranks: int) -> tuple[Path, Path]:
    """20 000 ops on each of `ranks` ranks, as folders of the ranks."""
    target, golden = _made(f"ranks{ranks}", "statistics", ranks, 20_000)
    return target.parents[1], golden.parents[1]


def _made(name: str, kind: str, *numbers: float) -> tuple[Path, Path]:
    folder = WORK / name
    done = folder / "done"
    if not done.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        python = str(msprobe().parent / "python") if kind == "tensors" else sys.executable  # msprobe comes with torch
        script = str(CHECKOUT / "benchmarks" / "inputs.py")
        subprocess.run([python, script, kind, str(folder), *map(str, numbers)], check=True)
        done.touch()
    for path in folder.rglob("*"):  # a warm page cache for everybody
        if path.is_file():
            with path.open("rb") as file:
                while file.read(1 << 24):
                    pass
    return folder / "target" / "step0" / "rank0" / "dump.json", folder / "golden" / "step0" / "rank0" / "dump.json"


def msprobe() -> Path:
    """The program msprobe, installed if need be."""
    if "MSPROBE" in os.environ:
        return Path(os.environ["MSPROBE"])
    folder = WORK / "msprobe"
    program = folder / "bin" / "msprobe"
    if not program.is_file():
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "torch==2.13.0", "mindstudio-probe==26.2.0"], check=True)
    return program


# ---- scenarios --------------------------------------------------------------------------------------------


def peers_compare(target: Path, golden: Path, *options: str) -> list[str]:
    return [str(msprobe()), "compare", "-tp", str(target), "-gp", str(golden), "-o", str(_fresh("peer")), *options]


def our_compare(target: str | Path, golden: str | Path, *options: str) -> list[str]:
    return [
        *LAKEPROBE,
        "compare",
        str(target),
        str(golden),
        "--lake",
        str(WORK / "lake"),
        "-o",
        str(_fresh("ours")),
        *options,
    ]


def _fresh(name: str) -> Path:
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def statistics_from_dumps() -> str:
    """Statistics, 22 000 ops a side, from dumps to CSV."""
    return _from_dumps("statistics, dumps to CSV", *statistics_dumps())


def small_from_dumps() -> str:
    """Statistics, 760 ops a side, from dumps to CSV."""
    return _from_dumps("760 ops, dumps to CSV", *small_dumps())


def statistics_from_lake() -> str:
    """Statistics, 22 000 ops a side, both runs already in the lake."""
    return _from_lake("statistics, in the lake", *statistics_dumps())


def chips_from_dumps() -> str:
    """Statistics of 22 000 ops a side from two chips, from dumps to CSV."""
    return _from_dumps("two chips, dumps to CSV", *rounded_dumps())


def chips_from_lake() -> str:
    """The same, both runs already in the lake."""
    return _from_lake("two chips, in the lake", *rounded_dumps())


def _from_dumps(name: str, target: Path, golden: Path) -> str:
    return _beside(name, target, golden, lambda: (_fresh("lake"), our_compare(target, golden))[1])


def _from_lake(name: str, target: Path, golden: Path) -> str:
    _ingest(target, golden)
    return _beside(name, target, golden, lambda: our_compare("target", "golden"))


def layers_matched() -> str:
    """The same, ops paired by layer, beside msprobe's -lm; and against our own exact matching."""
    target, golden = statistics_dumps()
    _ingest(target, golden)
    mapping = WORK / "layer_mapping.yaml"
    mapping.write_text("TopLayer:\n  parts: parts\n")
    layers = ["-lm", str(mapping)]
    row = _beside("layer match, in the lake", target, golden, lambda: our_compare("target", "golden", *layers), layers)
    return f"{row}\n{_against_exact('layer match', layers)}"


def calls_matched_fuzzily() -> str:
    """The same, ops paired in order, against our own exact matching; msprobe's -fm fails on statistics."""
    _ingest(*statistics_dumps())
    return _against_exact("fuzzy match", ["-fm"])


def _against_exact(name: str, options: list[str]) -> str:
    """A table row: the cost against that of exact matching, in the place of msprobe's."""
    exact, other = [], []
    for _ in range(ROUNDS):
        exact.append(cost(our_compare("target", "golden")))
        other.append(cost(our_compare("target", "golden", *options)))
    own, plain = middle(other), middle(exact)
    times = f"{own.wall:.2f} | exact: {plain.wall:.2f} | **{own.wall / plain.wall:.1f}**"
    return f"| {name} against exact match | {times} | {own.cpu:.2f} | exact: {plain.cpu:.2f} | | | |"


def tensors_linked() -> str:
    """Tensors, 1.5 GB a side, linked, from dumps to CSV."""
    target, golden = tensor_dumps()
    return _beside(
        "tensors, link", target, golden, lambda: (_fresh("lake"), our_compare(target, golden, "--tensors", "link"))[1]
    )


def tensors_copied() -> str:
    """Tensors, 1.5 GB a side, copied into the lake, from dumps to CSV."""
    target, golden = tensor_dumps()
    return _beside("tensors, copy", target, golden, lambda: (_fresh("lake"), our_compare(target, golden))[1])


def large_ingest() -> str:
    """A dump.json of 500 MB into the lake; msprobe has no such step."""
    target, _ = large_dump()
    size = target.stat().st_size
    _fresh("lake")
    command = [*LAKEPROBE, "ingest", str(target), "--lake", str(WORK / "lake"), "--run", "large", "--replace"]
    return _row(f"ingest of {size / 1e6:.0f} MB", cost(command), memory(command))


def start_up() -> str:
    """`lakeprobe --help`."""
    return _row("lakeprobe --help", middle([cost([*LAKEPROBE, "--help"]) for _ in range(ROUNDS)]))


def many_ranks() -> str:
    """20 000 ops on each of 8, 16, 32 and 64 ranks, from dumps to results, and questions then; msprobe on 8 of them."""
    target, golden = ranks_dumps(8)
    rows = [_beside("8 ranks, dumps to results", target, golden, lambda: (_fresh("lake"), _ranks(8))[1], rounds=1)]
    for ranks in (8, 16, 32, 64):
        _fresh("lake")
        rows.append(_row(f"{ranks} ranks, dumps to results", cost(_ranks(ranks))))
        for question in QUESTIONS:
            asked = [*LAKEPROBE, question, "ranks", "--lake", str(WORK / "lake")]
            rows.append(_row(f"{ranks} ranks, {question}", cost(asked), memory(asked)))
    _fresh("lake")
    rows.append(_row("64 ranks, dumps to results, memory", None, memory(_ranks(64))))
    return "\n".join(rows)


def _ranks(ranks: int) -> list[str]:
    target, golden = ranks_dumps(ranks)
    return [*LAKEPROBE, "compare", str(target), str(golden), "--lake", str(WORK / "lake"), "--name", "ranks"]


def _ingest(target: Path, golden: Path) -> None:
    _fresh("lake")
    for run, path in (("target", target), ("golden", golden)):
        cost([*LAKEPROBE, "ingest", str(path), "--lake", str(WORK / "lake"), "--run", run])


def _beside(
    name: str,
    target: Path,
    golden: Path,
    ours: Callable[[], list[str]],
    peers_options: Sequence[str] = (),
    rounds: int = ROUNDS,
) -> str:
    """A table row: medians of alternating rounds, and how many times less time and memory we take."""
    peer, own = [], []
    for _ in range(rounds):
        own.append(cost(ours()))
        peer.append(cost(peers_compare(target, golden, *peers_options)))
    mine, other = middle(own), middle(peer)
    own_memory, peer_memory = memory(ours()), memory(peers_compare(target, golden, *peers_options))
    return (
        f"| {name} | {mine.wall:.2f} | {other.wall:.2f} | **{other.wall / mine.wall:.1f}×** "
        f"| {mine.cpu:.2f} | {other.cpu:.2f} "
        f"| {own_memory / 1e6:.0f} | {peer_memory / 1e6:.0f} | {own_memory / peer_memory:.2f} |"
    )


def _row(name: str, own: Cost | None, own_memory: int | None = None) -> str:
    """A table row for which there is nothing of msprobe's; what was not measured is blank."""
    wall, cpu = ("", "") if own is None else (f"{own.wall:.2f}", f"{own.cpu:.2f}")
    memory_cell = "" if own_memory is None else f"{own_memory / 1e6:.0f}"
    return f"| {name} | {wall} | | | {cpu} | | {memory_cell} | | |"


SCENARIOS: dict[str, Callable[[], str]] = {
    scenario.__name__: scenario
    for scenario in (
        statistics_from_dumps,
        small_from_dumps,
        statistics_from_lake,
        chips_from_dumps,
        chips_from_lake,
        layers_matched,
        calls_matched_fuzzily,
        tensors_linked,
        tensors_copied,
        large_ingest,
        many_ranks,
        start_up,
    )
}


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    columns = ("ours, s", "msprobe, s", "ratio", "ours, CPU s", "msprobe, CPU s", "ours, MB", "msprobe, MB", "ratio")
    print(f"| scenario | {' | '.join(columns)} |")
    print(f"|---{'|---' * len(columns)}|")
    for name in names or SCENARIOS:
        print(SCENARIOS[name](), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
