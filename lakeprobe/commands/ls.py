"""lakeprobe ls: what is in the lake."""

from __future__ import annotations

from lakeprobe.commands.options import LakeOption


def ls(lake: LakeOption = None) -> None:
    """List the runs, comparisons and result tables of the lake.

    Example: lakeprobe ls --lake ./lake
    """
    from lakeprobe import output, resources
    from lakeprobe.lake import store, tables
    from lakeprobe.session import Lake, query_errors

    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        for query in ("reports/runs", "reports/comparisons"):
            relation = opened.sql(resources.sql(query))
            rows = relation.fetchall()
            if rows:
                output.text(output.aligned(relation.columns, rows))
        stored = tables.stored(opened.path)
        if stored:
            columns = ("table", "kind", "rows", "source")
            rows = [(table.name, table.origin.kind, table.rows, table.origin.sources[0]) for table in stored]
            output.text(output.aligned(columns, rows))
