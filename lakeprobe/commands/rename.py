"""lakeprobe rename: rename a run or comparison."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeprobe.commands.complete import run_or_comparison_names
from lakeprobe.commands.options import LakeOption


def rename(
    name: Annotated[str, typer.Argument(help="The run or comparison.", autocompletion=run_or_comparison_names)],
    new: Annotated[str, typer.Argument(help="Its new name.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    lake: LakeOption = None,
) -> None:
    """Rename a run, comparison, noise, verification or perturbation.

    What belongs to a run follows it. It asks first if comparisons use the run: they follow it too.

    Example: lakeprobe rename npu_dump npu
    """
    from lakeprobe import diagnostics
    from lakeprobe.lake import store, upkeep

    path = store.check(store.choose(lake))
    kept = upkeep.find(path, name)
    users = upkeep.users_of(path, kept)
    if yes or not users or diagnostics.agreed(f"rename {name} to {new}, in {', '.join(users)} too?"):
        with diagnostics.working(f"renaming {name}"):
            upkeep.rename(path, name, new)
        diagnostics.note(f"renamed: the {kept.what} {name} is {new}")
