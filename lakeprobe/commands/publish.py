"""lakeprobe publish: what several processes made together, put in the lake."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeprobe.commands.options import LakeOption


def publish(
    name: Annotated[
        str | None,
        typer.Argument(help="The run or comparison.", show_default="list what waits"),
    ] = None,
    discard: Annotated[
        bool, typer.Option("--discard", help="Forget what its shards have finished, and publish nothing.")
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Put a run or comparison that was made in shards into the lake, or list how far shards are.

    The last shard to finish publishes by itself. This command does it if that one was killed, or could not see the
    others yet. Nothing is published before all shards have finished.

    Example: lakeprobe publish npu_vs_gpu
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.lake import shards, store

    path = store.check(store.choose(lake))
    if name is None:
        waiting = shards.pending(path)
        output.text("\n".join(map(str, waiting)) or "no shards wait to be published")
        return
    if discard:
        many = shards.discard(path, name)
        diagnostics.note(f"{name}: the work of {output.counted(many, 'shard')} was discarded")
        return
    from lakeprobe.session import Lake

    with Lake(path) as opened, diagnostics.working(f"publishing {name}"):
        units = opened.publish(name)
    diagnostics.note(f"{name} is in the lake: {output.counted(units, 'unit')}")
