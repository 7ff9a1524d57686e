"""Writes the command that a message tells its reader to type next, for the lake that the running command was given."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from shlex import quote

_GIVEN: ContextVar[str | None] = ContextVar("given", default=None)
"""The lake that the line of the running command names; none if it does not, or from Python."""


def name_lake(lake: str) -> Callable[[], None]:
    """Let every command that is written name `lake`, until the function that this returns is called."""
    token = _GIVEN.set(lake)
    return lambda: _GIVEN.reset(token)


def command(*words: str) -> str:
    """Return the line of a shell for a command of lakeprobe. `words` go in as they are: quote names."""
    lake = _GIVEN.get()
    return " ".join(["lakeprobe", *words, *(() if lake is None else ("--lake", quote(lake)))])
