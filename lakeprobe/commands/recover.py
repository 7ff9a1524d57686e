"""lakeprobe recover: make units again of what was set aside."""

from __future__ import annotations

import typer

from lakeprobe.commands.options import LakeOption


def recover(lake: LakeOption = None) -> None:
    """Make units of what processes left that ended while they collected, of what was set aside too.

    Every command does that by itself, once. What no unit could be made of is set aside with the reason: it keeps no
    other run from being read, and is tried again by this command alone.

    Example: lakeprobe recover
    """
    from lakeprobe.journals import settle
    from lakeprobe.lake import store

    code = settle.recover(store.check(store.choose(lake)), again=True)
    if code:
        raise typer.Exit(code)
