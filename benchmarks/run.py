"""Speed and memory beside msprobe: the same input, in one run, alternating; ratios are what counts.

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
import threading
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

CHECKOUT = Path(__file__).resolve().parents[1]
WORK = CHECKOUT / "benchmarks" / "work"
LAKEPROBE = [sys.executable, "-m", "lakeprobe"]
ROUNDS = 3
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""What the programs run in: as where they are installed, Python keeps their bytecode."""
QUESTIONS = ("first-diff", "blame", "comm", "merge")
"""Commands that answer a question about a comparison of many ranks."""


def seconds(command: list[str]) -> float:
    """Wall time of `command`, run once, quietly, and not watched: adding up memory slows a process down."""
    started = time.perf_counter()
    run = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    taken = time.perf_counter() - started
    _check(command, run.returncode, run.stderr)
    return taken


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


def tensor_dumps() -> tuple[Path, Path]:
    """17 ops with 34 .pt files a side, 1.5 GB each; half of the ops differ."""
    return _made("tensors", "tensors", 17, 44)


def large_dump() -> tuple[Path, Path]:
    """550 000 ops."""
    return _made("large", "statistics", 1, 550_000)


def ranks_dumps(ranks: int) -> tuple[Path, Path]:
    """20 000 ops on each of `ranks` ranks, as folders of the ranks."""
    target, golden = _made(f"ranks{ranks}", "statistics", ranks, 20_000)
    return target.parents[1], golden.parents[1]


def _made(name: str, kind: str, *numbers: int) -> tuple[Path, Path]:
    folder = WORK / name
    done = folder / "done"
    if not done.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        python = str(msprobe().parent / "python")  # it has torch and numpy
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
    target, golden = statistics_dumps()
    return _beside("statistics, dumps to CSV", target, golden, lambda: (_fresh("lake"), our_compare(target, golden))[1])


def statistics_from_lake() -> str:
    """The same, both runs already in the lake."""
    target, golden = statistics_dumps()
    _ingest(target, golden)
    return _beside("statistics, in the lake", target, golden, lambda: our_compare("target", "golden"))


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
    """A table row: the time against that of exact matching, in the place of msprobe's."""
    exact, other = [], []
    for _ in range(ROUNDS):
        exact.append(seconds(our_compare("target", "golden")))
        other.append(seconds(our_compare("target", "golden", *options)))
    ratio = median(other) / median(exact)
    return f"| {name} against exact match | {median(other):.2f} | exact: {median(exact):.2f} | **{ratio:.1f}** | | | |"


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
    return _row(f"ingest of {size / 1e6:.0f} MB", seconds(command), memory(command))


def start_up() -> str:
    """`lakeprobe --help`."""
    ours = median(seconds([*LAKEPROBE, "--help"]) for _ in range(5))
    return _row("lakeprobe --help", ours)


def many_ranks() -> str:
    """20 000 ops on each of 8, 16, 32 and 64 ranks, from dumps to results, and questions then; msprobe on 8 of them."""
    target, golden = ranks_dumps(8)
    rows = [_beside("8 ranks, dumps to results", target, golden, lambda: (_fresh("lake"), _ranks(8))[1], rounds=1)]
    for ranks in (8, 16, 32, 64):
        _fresh("lake")
        rows.append(_row(f"{ranks} ranks, dumps to results", seconds(_ranks(ranks))))
        for question in QUESTIONS:
            asked = [*LAKEPROBE, question, "ranks", "--lake", str(WORK / "lake")]
            rows.append(_row(f"{ranks} ranks, {question}", seconds(asked), memory(asked)))
    _fresh("lake")
    rows.append(_row("64 ranks, dumps to results, memory", None, memory(_ranks(64))))
    return "\n".join(rows)


def _ranks(ranks: int) -> list[str]:
    target, golden = ranks_dumps(ranks)
    return [*LAKEPROBE, "compare", str(target), str(golden), "--lake", str(WORK / "lake"), "--name", "ranks"]


def _ingest(target: Path, golden: Path) -> None:
    _fresh("lake")
    for run, path in (("target", target), ("golden", golden)):
        seconds([*LAKEPROBE, "ingest", str(path), "--lake", str(WORK / "lake"), "--run", run])


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
        own.append(seconds(ours()))
        peer.append(seconds(peers_compare(target, golden, *peers_options)))
    own_memory, peer_memory = memory(ours()), memory(peers_compare(target, golden, *peers_options))
    return (
        f"| {name} | {median(own):.2f} | {median(peer):.2f} | **{median(peer) / median(own):.1f}×** "
        f"| {own_memory / 1e6:.0f} | {peer_memory / 1e6:.0f} | {own_memory / peer_memory:.2f} |"
    )


def _row(name: str, own: float | None, own_memory: int | None = None) -> str:
    """A table row for which there is nothing of msprobe's; what was not measured is blank."""
    time_cell = "" if own is None else f"{own:.2f}"
    memory_cell = "" if own_memory is None else f"{own_memory / 1e6:.0f}"
    return f"| {name} | {time_cell} | | | {memory_cell} | | |"


SCENARIOS: dict[str, Callable[[], str]] = {
    scenario.__name__: scenario
    for scenario in (
        statistics_from_dumps,
        statistics_from_lake,
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
    print("| scenario | ours, s | msprobe, s | time ratio | ours, MB | msprobe, MB | memory ratio |")
    print("|---|---|---|---|---|---|---|")
    for name in names or SCENARIOS:
        print(SCENARIOS[name](), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
