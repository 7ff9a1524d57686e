"""Brings into a lake what processes left in it that were killed while they collected."""

from __future__ import annotations

from pathlib import Path

from lakeprobe import diagnostics
from lakeprobe.lake import layout


def settle(lake: Path) -> None:
    """What every command does first with a lake: recover what is left, and say on stderr what came in, or could not."""
    if not any(layout.collecting_folder(lake).glob("*/")):
        return
    from lakeprobe.collect.writing import recovery

    made, errors = recovery.recover(lake)
    for unit in made:
        state = "all of its step" if unit.complete else f"incomplete, its first {unit.ops} ops"
        diagnostics.note(f"{unit.key} was left by a process that has ended; it is in the lake now: {state}")
    for error in errors:
        diagnostics.fail(error)
