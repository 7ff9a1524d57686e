"""Says which process a thing in a lake belongs to, in a word that is a part of the thing's name, and whether it lives.

Locks end with their process, but not every file system has them. So what a process works on carries the machine, the
number of the process and when that began. A process of this machine (and of this container) can be looked up. Of
another one nothing is known but when it last touched what is its own: it counts as gone when that is a day ago.
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
    """The word for this process."""
    return f"{_machine()}-{os.getpid()}-{_began(os.getpid()) or 0}"


def is_alive(owner: str, thing: Path) -> bool:
    """Whether the process with the word `owner` may still be at work on `thing`."""
    found = _OWNER.fullmatch(owner)
    if found is None or found["machine"] != _machine():
        return _seconds_untouched(thing) < _LONGEST_SILENCE
    process = int(found["process"])
    began = _began(process)
    if began is not None:
        return began == int(found["began"])
    return not Path("/proc/self/stat").exists() and _answers(process)


@cache
def _machine() -> str:
    """Eight digits for this boot of this machine and this container: where a number means one process."""
    parts = [platform.node()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            parts.append(os.readlink(path) if "/ns/" in path else Path(path).read_text(encoding="ascii"))
        except OSError:
            continue
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _began(process: int) -> int | None:
    """When a process began, in ticks since boot. None if there is none, or the system does not say."""
    try:
        text = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return None
    fields = text.rpartition(b")")[2].split()  # behind the name, which may have blanks
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
