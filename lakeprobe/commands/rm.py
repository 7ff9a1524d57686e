"""lakeprobe rm: remove runs and comparisons from the lake."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeprobe.commands.complete import run_or_comparison_names
from lakeprobe.commands.options import LakeOption


def rm(
    names: Annotated[list[str], typer.Argument(help="Runs and comparisons.", autocompletion=run_or_comparison_names)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    lake: LakeOption = None,
) -> None:
    """Remove runs and comparisons, after asking. A comparison keeps its rows when its run is removed.

    Example: lakeprobe rm npu_vs_gpu old_npu --yes
    """
    from lakeprobe import diagnostics
    from lakeprobe.lake import store, upkeep

    path = store.check(store.choose(lake))
    for kept in [upkeep.find(path, name) for name in names]:
        users = upkeep.users_of(path, kept.name) if kept.what == "run" else []
        consequence = f" (a side of {', '.join(users)}, whose rows stay)" if users else ""
        if yes or diagnostics.agreed(f"remove the {kept.what} {kept.name}{consequence}?"):
            upkeep.remove(path, kept.name)
            diagnostics.note(f"removed: the {kept.what} {kept.name}")
