"""Writes the command that a message tells its reader to type next, for the lake that the running command was given."""

from __future__ import annotations

from contextvars import ContextVar
from shlex import quote

_GIVEN: ContextVar[str | None] = ContextVar("given", default=None)
"""The lake that the line of the running command names; none if it does not, or from Python."""


def name_lake(lake: str) -> None:
    """Let every command that is written in this context name `lake`. The command line runs in one of its own."""
    _GIVEN.set(lake)


def command(*words: str) -> str:
    """Return the line of a shell for a command of lakeprobe. `words` go in as they are: quote names."""
    lake = _GIVEN.get()
    return " ".join(["lakeprobe", *words, *(() if lake is None else ("--lake", quote(lake)))])
