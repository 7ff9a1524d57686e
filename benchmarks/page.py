"""What a view costs: time to write, size, and time in the browser.

    python benchmarks/page.py [OPS ...]                    760 and 22000 ops a side by default
    python benchmarks/page.py --wide RANKS OPS             a job of many ranks: overview, and the worst in full

Prints a Markdown table: CPU seconds of the commands that write the page and the database of tb-graph-ascend of a kept
comparison, their sizes in MB, and, with Playwright and a chromium on PATH, the browser's first paint, the time until
the page is ready, and the time to open a module (the median of 20). With MSPROBE, the same dumps through its
graph_visualize, in turns, medians of three; a job of many ranks once. It compares and writes that database; it searches
for no cause, which the page does and our database does not.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import inputs
import numpy as np
from run import LAKEPROBE, cost

import lakeprobe

DEFAULT = (760, 22_000)
OPENINGS = 20
ROUNDS = 3
HEADINGS = (
    "ranks × ops", "page, CPU s", "page, MB", "vis.db, CPU s", "vis.db, MB", "msprobe, CPU s", "msprobe, MB",
    "first paint, s", "ready, s", "open a module, ms", "--all, CPU s", "--all, MB",
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
    page, database = folder / "c.html", folder / "c.vis.db"
    commands = {page: view(folder, page), database: view(folder, database, "--format", "vis.db")}
    if "MSPROBE" in os.environ:
        commands[folder / "theirs"] = graph_visualize(folder)
    seconds: dict[Path, list[float]] = {path: [] for path in commands}
    megabytes: dict[Path, float] = {}
    for _ in range(ROUNDS if ranks == 1 else 1):
        for path, command in commands.items():
            shutil.rmtree(folder / "theirs", ignore_errors=True)
            seconds[path].append(cost(command).cpu)
            megabytes[path] = size(path)
    cells = [f"{ranks} × {ops}"]
    for path in (page, database, folder / "theirs"):
        cells += [f"{statistics.median(seconds[path]):.2f}", f"{megabytes[path]:.2f}"] if path in seconds else ["", ""]
    return f"| {' | '.join([*cells, *browsed(page), *(every(folder) if ranks > 1 else ['', ''])])} |"


def view(folder: Path, path: Path, *options: str) -> list[str]:
    """The command that writes a view of the comparison to `path`."""
    return [*LAKEPROBE, "view", "c", "-o", str(path), "--lake", str(folder / "lake"), *options]


def graph_visualize(folder: Path) -> list[str]:
    target, golden = (str(folder / side / "step0") for side in ("target", "golden"))
    return [os.environ["MSPROBE"], "graph_visualize", "-tp", target, "-gp", golden, "-o", str(folder / "theirs")]


def every(folder: Path) -> list[str]:
    """A page for every rank."""
    seconds = cost(view(folder, folder / "all.html", "--all")).cpu
    return [f"{seconds:.2f}", f"{size(folder / 'all.html') + size(folder / 'all_pages'):.2f}"]


def size(path: Path) -> float:
    """Megabytes of a file, or of those in a folder."""
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file()) / 1e6


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


if __name__ == "__main__":
    main(sys.argv[1:])
