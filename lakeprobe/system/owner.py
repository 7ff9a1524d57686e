"""Names the owner process of a thing in a lake as part of the thing's name, and tells whether that process is alive.

Locks end with their process, but not every file system has locks. So the name of what a process works on carries the
machine, the process id and the start time of the process. A process on this machine, in this container, can be looked
up. Of any other process only the last write to its thing is known. It counts as gone after a day without one.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import time
from functools import cache
from pathlib import Path

_OWNER = re.compile(r"(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-(?P<began>\d+)")
_LONGEST_SILENCE = 86_400.0
"""Seconds after which a process of another machine counts as gone."""


def me() -> str:
    """Return the owner name of this process."""
    return f"{_machine()}-{os.getpid()}-{_began(os.getpid()) or 0}"


def is_alive(owner: str, thing: Path) -> bool:
    """Return whether the process with the owner name `owner` may still be working on `thing`."""
    found = _OWNER.fullmatch(owner)
    if found is None or found["machine"] != _machine():
        return abs(_seconds_untouched(thing)) < _LONGEST_SILENCE  # no process is at work in the future
    process = int(found["process"])
    began = _began(process)
    if began is not None:
        return began == int(found["began"])
    return not Path("/proc/self/stat").exists() and _answers(process)


@cache
def _machine() -> str:
    """Return eight hex digits for this boot of this machine and container.

    Within them a process id means one process.
    """
    parts = [platform.node()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            parts.append(os.readlink(path) if "/ns/" in path else Path(path).read_text(encoding="ascii"))
        except OSError:
            continue
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _began(process: int) -> int | None:
    """Return when a process started, in ticks since boot. None if it does not exist or the system does not say."""
    try:
        text = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return None
    fields = text.rpartition(b")")[2].split()  # after the name, which may contain blanks
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _answers(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _seconds_untouched(thing: Path) -> float:
    try:
        return time.time() - thing.lstat().st_mtime
    except OSError:
        return _LONGEST_SILENCE
