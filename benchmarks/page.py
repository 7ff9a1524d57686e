"""What a view costs: time to write, size, and time in the browser.

    python benchmarks/page.py [OPS ...]                    760 and 22000 ops a side by default
    python benchmarks/page.py --wide RANKS OPS             a job of many ranks: overview, and the worst in full

Prints a Markdown table: seconds to write the page and the database of tb-graph-ascend of a kept comparison, their
sizes in MB, and, with Playwright and a chromium on PATH, the browser's first paint, the time until the page is
ready, and the time to open a module (the median of 20). With MSPROBE, the same dumps through its graph_visualize.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import inputs
import numpy as np

import lakeprobe
from lakeprobe.session import Lake

DEFAULT = (760, 22_000)
OPENINGS = 20
HEADINGS = (
    "ranks × ops", "page, s", "page, MB", "first paint, s", "ready, s", "open a module, ms", "vis.db, s", "vis.db, MB",
    "msprobe, s", "msprobe, MB", "--all, s", "--all, MB",
)  # fmt: skip
CHROMIUM = shutil.which("chromium")


def main(arguments: list[str]) -> None:
    is_wide = arguments[:1] == ["--wide"]
    jobs = [tuple(map(int, arguments[1:]))] if is_wide else [(1, int(ops)) for ops in arguments or DEFAULT]
    print(f"| {' | '.join(HEADINGS)} |")
    print(f"|{'---|' * len(HEADINGS)}")
    for ranks, ops in jobs:
        with tempfile.TemporaryDirectory() as folder:
            print(row(Path(folder), ranks, ops), flush=True)


def row(folder: Path, ranks: int, ops: int) -> str:
    inputs.statistics(folder, ranks, ops)
    for dump in folder.rglob("dump.json"):
        roughen(dump)
    with lakeprobe.open(folder / "lake", create=True) as lake:
        lake.compare(folder / "target", folder / "golden", name="c")
        cells = [f"{ranks} × {ops}", *written(lake, folder / "c.html", "html")]
        cells += browsed(folder / "c.html")
        cells += written(lake, folder / "c.vis.db", "vis.db")
        pages = every(lake, folder) if ranks > 1 else ["", ""]
    return f"| {' | '.join([*cells, *msprobe(folder), *pages])} |"


def roughen(dump: Path) -> None:
    """Make every norm of a dump another number: copies of one template would compress too well."""
    random = np.random.default_rng(len(dump.read_bytes()))
    lines = dump.read_text().splitlines(keepends=True)
    for number, line in enumerate(lines):
        name, _, value = line.partition(": ")
        if name.strip() in ('"Mean"', '"Norm"') and value[:1].isdigit():
            digits = value.rstrip().rstrip(",")
            lines[number] = f"{name}: {float(digits) * random.uniform(1, 1 + 1e-6)!r}{value.rstrip()[len(digits) :]}\n"
    dump.write_text("".join(lines))


def written(lake: Lake, path: Path, format: str) -> list[str]:
    seconds = timed(lambda: lake.view("c", path, format=format))
    return [f"{seconds:.2f}", f"{path.stat().st_size / 1e6:.2f}"]


def every(lake: Lake, folder: Path) -> list[str]:
    """A page for every rank."""
    seconds = timed(lambda: lake.view("c", folder / "all.html", all_units=True))
    files = [folder / "all.html", *(folder / "all_pages").iterdir()]
    return [f"{seconds:.2f}", f"{sum(path.stat().st_size for path in files) / 1e6:.2f}"]


def timed(act: Callable[[], Any]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def browsed(path: Path) -> list[str]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return ["", "", ""]
    if CHROMIUM is None:
        return ["", "", ""]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        ready = page.evaluate("performance.now()") / 1000
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
        openings = [
            page.evaluate("() => { const began = performance.now(); toggle(0); return performance.now() - began }")
            for _ in range(OPENINGS)
        ]
        browser.close()
    return [f"{paint:.2f}", f"{ready:.2f}", f"{statistics.median(openings):.0f}"]


def msprobe(folder: Path) -> list[str]:
    program = os.environ.get("MSPROBE")
    if not program:
        return ["", ""]
    out = folder / "theirs"
    sides = [folder / side / "step0" for side in ("target", "golden")]
    command = [program, "graph_visualize", "-tp", sides[0], "-gp", sides[1], "-o", out]
    seconds = timed(lambda: subprocess.run(command, check=True, capture_output=True))
    return [f"{seconds:.2f}", f"{sum(path.stat().st_size for path in out.glob('*.vis.db')) / 1e6:.2f}"]


if __name__ == "__main__":
    main(sys.argv[1:])
