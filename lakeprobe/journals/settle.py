"""Brings into a lake what processes left in it that were killed while they collected."""

from __future__ import annotations

from pathlib import Path

from lakeprobe import diagnostics
from lakeprobe.lake import layout


def settle(lake: Path) -> None:
    """What every command does first with a lake: recover what is left, and say on stderr what came in, or could not.

    What could not come in is set aside: it is said once, then by `ls` and `check` alone, and tried no more.
    """
    if any(layout.collecting_folder(lake).glob("*/")):
        recover(lake)


def recover(lake: Path, *, again: bool = False) -> int:
    """Make units of what is left in `lake`, and of what was set aside `again`. Returns the exit code of a command."""
    from lakeprobe.journals import recovery

    made, errors = recovery.recover(lake, again=again)
    for unit in made:
        state = "all of its step" if unit.complete else f"incomplete, its first {unit.ops} ops"
        diagnostics.note(f"{unit.key} was left by a process that has ended; it is in the lake now: {state}")
    return max((diagnostics.fail(error) for error in errors), default=0)


def tell_set_aside(lake: Path) -> int:
    """Say on stderr what could not come into `lake`, and why. Returns how many units that are."""
    if not any(layout.collecting_folder(lake).glob("*/")):
        return 0
    from lakeprobe.journals import journal

    reasons = [(folder, journal.set_aside(folder)) for folder in journal.folders(lake)]
    told = [(folder, reason) for folder, reason in reasons if reason is not None]
    for folder, reason in told:
        diagnostics.note(f"{folder.name} is set aside: {reason}; try again with: lakeprobe recover, or remove {folder}")
    return len(told)
