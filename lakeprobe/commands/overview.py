"""Shows the steps from two trainings to the cause, with the user's own runs, if `lakeprobe` is called alone."""

from __future__ import annotations

from pathlib import Path
from shlex import quote


def show() -> None:
    """Write the steps to stdout."""
    from lakeprobe import output
    from lakeprobe.lake import comparison, layout, log, store

    path = store.choose(None)
    snapshot = log.read(store.check(path)) if store.exists(path) else None
    last = comparison.latest(snapshot) if snapshot else None
    sides = None
    if snapshot and last:
        stored = comparison.load(snapshot, last)
        sides = (stored.target, stored.golden)
    output.text("\n".join(lines(path, layout.runs(snapshot) if snapshot else [], last, sides)))


def lines(lake: Path, runs: list[str], comparison: str | None, sides: tuple[str, str] | None = None) -> list[str]:
    """Return the steps, with a tick at those done. `sides` are the runs of `comparison`, the last one made."""
    target, golden = sides or ((runs[1], runs[0]) if len(runs) > 1 else ("TARGET", "GOLDEN"))
    name = comparison or f"{target}_vs_{golden}"
    steps = (
        (len(runs) > 0, "Collect a training,", "lakeprobe run --config config.json -- python train.py"),
        (len(runs) > 1, "or read its dump:", "lakeprobe ingest PATH"),
        (comparison is not None, "Compare two runs:", f"lakeprobe compare {quote(target)} {quote(golden)}"),
        (False, "Where it begins:", f"lakeprobe first-diff {quote(name)}"),
        (False, "What causes it:", f"lakeprobe blame {quote(name)}"),
        (False, "Look at an op:", "lakeprobe show OP"),
    )
    contents = f"The lake {lake} has {len(runs)} run{'s' if len(runs) > 1 else ''}: lakeprobe ls"
    return [
        "lakeprobe finds the op at which two trainings begin to differ.",
        "",
        *(f"{'✓' if done else ' '} {what:<20} {command}" for done, what, command in steps),
        "",
        contents if runs else f"There is no lake at {lake} yet; the first command makes it.",
        "All commands: lakeprobe --help",
    ]
