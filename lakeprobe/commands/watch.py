"""lakeprobe watch: what rules find in the series of a monitored training, also while it runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from lakeprobe.commands.options import Format, LakeOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakeprobe.analysis.watch import Anomaly, Ranks
    from lakeprobe.session import Lake


def watch(
    run: Annotated[str, typer.Argument(help="Name of the monitored run.")],
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", metavar="NAME|FILE", help="Only this rule; may be repeated.", show_default="all"),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until a rule finds something, or the training ends.")
    ] = False,
    every: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between two looks with --follow.")] = 5.0,
    show_rule: Annotated[
        str | None, typer.Option("--show-rule", metavar="NAME", help="Print a bundled rule, to copy and edit.")
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Findings to list.")] = 20,
    format: Annotated[Format, typer.Option("--format", help="Format of the findings.")] = Format.TABLE,
    lake: LakeOption = None,
) -> None:
    """Find NaN, jumps, dead and vanishing gradients, and ranks that leave the others, in a monitored training.

    Reads what `lakeprobe.monitor` writes, on any machine that sees the lake. A rule is an SQL query over the table
    watched. Exits with 1 if a rule finds something, or if a process of the training has died.

    Example: lakeprobe watch npu --follow && echo the training has ended well
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.analysis import watch as watching
    from lakeprobe.lake import store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.session import Lake

    if show_rule is not None:
        output.text(watching.load(show_rule).sql)
        return
    rules = rule or watching.RULES
    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        found, ranks = _look(opened, run, rules, every if follow else None)
        columns = ("rule", *watching.COLUMNS)
        listed = found if format is not Format.TABLE else found[:most]
        rows = [tuple(getattr(anomaly, column) for column in columns) for anomaly in listed]
        if rows or format is not Format.TABLE:
            output.rows(columns, rows, format)
    if len(listed) < len(found):
        diagnostics.note(f"{len(found) - len(listed)} more; raise --most to list them")
    for dead in ranks.dead:
        diagnostics.note(f"the process of rank {dead} died before its series had ended")
    if found or ranks.dead:
        raise typer.Exit(diagnostics.ExitCode.FINDINGS)
    diagnostics.note(f"{run}: nothing found; " + ("the training runs" if ranks.running else "its monitoring has ended"))


def _look(lake: Lake, run: str, rules: Sequence[str], every: float | None) -> tuple[list[Anomaly], Ranks]:
    """Return what the rules find: now, or, with `every` seconds between two looks, when something is found or ended."""
    from lakeprobe import diagnostics
    from lakeprobe.analysis import watch as watching

    while True:
        ranks = watching.ranks(lake.path, run)
        has_begun = bool(ranks.running or ranks.ended or ranks.dead)
        with diagnostics.working("looking at the series"):
            found = lake.watch(run, rules) if has_begun or every is None else []
        if every is None or found or ranks.dead or (has_begun and not ranks.running):
            return found, ranks
        time.sleep(every)
