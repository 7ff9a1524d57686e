"""Brings into a lake what killed processes left in it while they collected."""

from __future__ import annotations

from pathlib import Path

from lakeprobe import diagnostics, hints
from lakeprobe.lake import layout


def settle(lake: Path) -> None:
    """Recover what is left in a lake, before a command uses it. Reports on stderr what came in and what could not.

    What could not come in is set aside. It is reported once here, then only by `ls` and `check`, and not retried.
    """
    if any(layout.collecting_folder(lake).glob("*/")):
        recover(lake)


def recover(lake: Path, *, again: bool = False) -> int:
    """Make units of what is left in `lake`. `again` also retries what was set aside. Returns a command's exit code."""
    from lakeprobe.journals import recovery

    with diagnostics.working("reading what interrupted processes collected"):
        made, errors = recovery.recover(lake, again=again)
    for unit in made:
        if unit.is_going_on and unit.complete:
            continue  # it, or its builder, would have made it later
        state = "all of its step" if unit.complete else f"incomplete, its first {unit.ops} ops"
        diagnostics.note(f"{unit.key} was left by a process that has ended; it is in the lake now: {state}")
    if again and not made and not errors:
        diagnostics.note("nothing was left by interrupted processes")
    return max((diagnostics.fail(error) for error in errors), default=0)


def report_set_aside(lake: Path) -> int:
    """Report on stderr what could not come into `lake`, and why. Returns the number of such units."""
    if not any(layout.collecting_folder(lake).glob("*/")):
        return 0
    from lakeprobe.journals import journal

    reasons = [(folder, journal.set_aside(folder)) for folder in journal.folders(lake)]
    known = [(folder, reason) for folder, reason in reasons if reason is not None]
    for folder, reason in known:
        again = hints.command("recover")
        diagnostics.note(f"{folder.name} is set aside: {reason}; try again with: {again}, or remove {folder}")
    return len(known)
