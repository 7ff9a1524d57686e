"""lakeprobe recover: make units of data that was set aside."""

from __future__ import annotations

import typer

from lakeprobe.commands.options import EngineOption, LakeOption


def recover(engine: EngineOption = None, lake: LakeOption = None) -> None:
    """Make units of what interrupted processes collected, including data that was set aside.

    Every command does this once by itself. Data that cannot become a unit is set aside with the reason, so that it does
    not keep other runs from being read. Only this command tries it again.

    Example: lakeprobe recover
    """
    from lakeprobe.journals import settle
    from lakeprobe.lake import store
    from lakeprobe.work import use_engine

    if engine:
        use_engine(engine)
    code = settle.recover(store.check(store.choose(lake)), again=True)
    if code:
        raise typer.Exit(code)
