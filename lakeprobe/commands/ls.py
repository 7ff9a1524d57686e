"""lakeprobe ls: what is in the lake."""

from __future__ import annotations

from lakeprobe.commands.options import LakeOption


def ls(lake: LakeOption = None) -> None:
    """List the runs, comparisons, result tables, noises, verifications and perturbations of the lake.

    Example: lakeprobe ls --lake ./lake
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.journals.settle import report_set_aside
    from lakeprobe.lake import store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.session import Lake

    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        with diagnostics.working("listing the lake"):
            listed = opened.ls()
        output.text(listed)
        report_set_aside(opened.path)
