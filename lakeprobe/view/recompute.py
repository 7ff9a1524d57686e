"""Finds where recomputed modules belong: a recomputation calls them from nowhere, in the middle of a backward."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping

FORWARD = re.compile(r"\.forward\.(\d+)$")
BACKWARD = re.compile(r"\.backward\.(\d+)$")


def homes(parents: Mapping[str, str | None], recomputed: Container[str]) -> dict[str, str]:
    """Return the backward module that each recomputed module without parent belongs below, by name.

    `parents` are the modules in the order of construct.json, `recomputed` the ops that were called by a recomputation.
    The n-th recomputation of a module, forward and backward each, belongs to the n-th call inside another module, and
    below the backward of that one.
    """
    around: dict[str, list[str]] = {}
    for name, parent in parents.items():
        if parent is not None and FORWARD.search(name):
            around.setdefault(_module(name), []).append(parent)
    used: Counter[tuple[str, bool]] = Counter()
    found = {}
    for name, parent in parents.items():
        forward, backward = BACKWARD.sub(r".forward.\1", name), FORWARD.sub(r".backward.\1", name)
        if parent is not None or forward not in recomputed or _is_whole_model(name):
            continue
        if not all(other in parents and parents[other] is None for other in (forward, backward)):
            continue
        call = _module(name), name == backward
        outer = around.get(call[0], [])[used[call] : used[call] + 1]
        used[call] += 1
        home = FORWARD.sub(r".backward.\1", outer[0]) if outer else None
        if home is not None and home in parents:
            found[name] = home
    return found


def _module(name: str) -> str:
    """Return the path and class of a module, without direction and call."""
    return name.rsplit(".", 2)[0]


def _is_whole_model(name: str) -> bool:
    """Return whether the name is that of a model or of one of its chunks, which are never recomputed.

    Before direction and call it is Module.NAME.CLASS, Module.CHUNK.NAME.CLASS or Module.CHUNK.NAME.NUMBER.CLASS.
    """
    parts = name.split(".")
    if len(parts) == 7:
        return parts[1].isdecimal() and parts[3].isdecimal()
    return len(parts) < 6 or (len(parts) == 6 and parts[1].isdecimal())
