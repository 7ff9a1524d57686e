"""What syncing costs, from dumps to CSV: python benchmarks/durability.py [ROUNDS].

`compare` reads the two dumps of the scenario *statistics* into a new lake and writes the CSV, in turn as usual and with
--no-sync. On a shared machine both vary more than they differ. So the time that threads spent in fsync is measured too,
in the process itself: all of it is what --no-sync saves, at the most. Lakes are made in benchmarks/work, on its disk.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from run import ENVIRONMENT, LAKEPROBE, WORK, cost, statistics_dumps

PROBE = """
import os, time
usual = os.fsync
def fsync(file):
    began = time.perf_counter()
    usual(file)
    with open(os.environ["SPENT"], "a") as spent:
        print(time.perf_counter() - began, file=spent)
os.fsync = fsync
from lakeprobe.__main__ import main
main()
"""
"""lakeprobe, which writes into $SPENT how long each sync took."""


def main(rounds: int) -> None:
    """Print a row for each way, and what the difference is."""
    target, golden = statistics_dumps()
    walls: dict[bool, list[float]] = {False: [], True: []}
    counts, seconds = [], []
    with tempfile.TemporaryDirectory(dir=WORK) as home:
        spent = Path(home, "spent")
        ENVIRONMENT["SPENT"] = str(spent)

        def compared(program: list[str], *more: str) -> float:
            lake = Path(home, "lake")
            asked = ["compare", str(target), str(golden), "--lake", str(lake), "-o", str(Path(home, "out")), *more]
            wall = cost([*program, *asked, "--format", "csv"]).wall
            shutil.rmtree(lake)
            return wall

        for number in range(rounds):
            for synced in (True, False) if number % 2 else (False, True):
                walls[synced].append(compared(LAKEPROBE, *(() if synced else ("--no-sync",))))
            compared([sys.executable, "-c", PROBE])
            syncs = [float(line) for line in spent.read_text().splitlines()]
            spent.unlink()
            counts.append(len(syncs))
            seconds.append(sum(syncs))
    for synced, name in ((True, "synced"), (False, "--no-sync")):
        print(f"{name:10} median {median(walls[synced]):.2f} s of {sorted(round(wall, 2) for wall in walls[synced])}")
    print(f"synced / not: {median(walls[True]) / median(walls[False]):.3f}")
    share = median(seconds) / median(walls[False])
    print(f"{median(counts):.0f} syncs, {median(seconds):.2f} s in them: {share:.1%}")


if __name__ == "__main__":
    started = time.monotonic()
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
    print(f"{time.monotonic() - started:.0f} s in all", file=sys.stderr)
