"""lakeprobe ls: what is in the lake."""

from __future__ import annotations

from lakeprobe.commands.options import LakeOption


def ls(lake: LakeOption = None) -> None:
    """List the runs and comparisons of the lake.

    Example: lakeprobe ls --lake ./lake
    """
    from lakeprobe import output, resources
    from lakeprobe.lake import store
    from lakeprobe.session import Lake, query_errors

    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        for query in ("reports/runs", "reports/comparisons"):
            relation = opened.sql(resources.sql(query))
            rows = relation.fetchall()
            if rows:
                output.text(output.aligned(relation.columns, rows))
