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
    output.text("\n".join(lines(path, layout.runs(snapshot) if snapshot else None, last, sides)))


def lines(
    lake: Path, runs: list[str] | None, comparison: str | None, sides: tuple[str, str] | None = None
) -> list[str]:
    """Return the steps, with a tick at those done. `sides` are the runs of `comparison`, the last one made.

    `runs` is None if there is no lake.
    """
    many = len(runs or ())
    target, golden = sides or ((runs[1], runs[0]) if runs and many > 1 else ("TARGET", "GOLDEN"))
    name = comparison or f"{target}_vs_{golden}"
    steps = (
        (many > 1, "Collect two runs,", "lakeprobe run --config config.json -- python train.py"),
        (many > 1, "or read two dumps:", "lakeprobe ingest PATH"),
        (comparison is not None, "Compare them:", f"lakeprobe compare {quote(target)} {quote(golden)}"),
        (False, "Where it begins:", f"lakeprobe first-diff {quote(name)}"),
        (False, "What causes it:", f"lakeprobe blame {quote(name)}"),
        (False, "Is the op wrong:", f"lakeprobe verify {quote(target)} --of {quote(name)}"),
    )
    return [
        "lakeprobe finds the op at which two trainings begin to differ.",
        "",
        *(f"{'✓' if done else ' '} {what:<20} {command}" for done, what, command in steps),
        "",
        f"There is no lake at {lake} yet; the first command makes it." if runs is None else _contents(lake, many),
        "All commands: lakeprobe --help" + ("; dumps to try it on: lakeprobe examples" if runs is None else ""),
    ]


def _contents(lake: Path, runs: int) -> str:
    if not runs:
        return f"The lake {lake} is empty; collect a run, or read a dump."
    one_more = "; compare it with a second" if runs == 1 else ""
    return f"The lake {lake} has {runs} run{'s' if runs > 1 else ''}{one_more}: lakeprobe ls"
