"""lakeprobe note: write a note on a run or comparison."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeprobe.commands.complete import run_or_comparison_names
from lakeprobe.commands.options import LakeOption


def note(
    name: Annotated[str, typer.Argument(help="The run or comparison.", autocompletion=run_or_comparison_names)],
    text: Annotated[
        str | None, typer.Argument(help="The note; an empty one removes it.", show_default="shows the note")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Replace a note without asking.")] = False,
    lake: LakeOption = None,
) -> None:
    """Write a note on a run or comparison, or show it. `ls` lists the notes.

    Example: lakeprobe note npu "after the driver update"
    """
    import shlex

    from lakeprobe import diagnostics, output
    from lakeprobe.lake import store, upkeep

    path = store.check(store.choose(lake))
    known = upkeep.note(path, name)
    if text is None and not known:
        diagnostics.note(f'{name} has no note; write one: lakeprobe note {shlex.quote(name)} "TEXT"')
    elif text is None:
        output.text(known)
    elif yes or not known or diagnostics.agreed(f"replace the note {known!r}?"):
        upkeep.write_note(path, name, text)
        diagnostics.note(f"the note on {name} is " + ("written; lakeprobe ls shows it" if text else "removed"))
