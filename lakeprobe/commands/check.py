"""lakeprobe check: the audits of the lake, and its repair."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakeprobe import hints
from lakeprobe.commands.options import LakeOption


def check(
    repair: Annotated[
        bool, typer.Option("--repair", help="Make the log fit the folders, and remove what is damaged or left over.")
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Run the audits: queries that find violations of what a lake guarantees.

    Exits with 1 if there are violations, if collected data is set aside because it could not become a unit, if files
    are missing or damaged, or if killed writers left files behind.

    Example: lakeprobe check
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.journals.settle import report_set_aside
    from lakeprobe.lake import audits, shards, staging, store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.session import Lake

    path = store.check(store.choose(lake))
    if repair:
        _repair(path)
    with staging.unchanged(path), diagnostics.working("looking at the files"):
        unfit = staging.unfit(path)
    if unfit:
        output.text("\n".join(unfit))
        many = output.counted(len(unfit), "thing")
        diagnostics.note(f"{many} at odds with the log; mend it: {hints.command('check', '--repair')}")
        raise typer.Exit(diagnostics.ExitCode.FINDINGS)
    with query_errors(), Lake(path) as opened:
        with diagnostics.working("running the audits"):
            violations = audits.run(opened.sql)
        for audit, columns, rows in violations:
            output.text(f"{audit.name}: {audit.promise}")
            output.text(output.aligned(columns, rows))
        set_aside = report_set_aside(opened.path)
    for waiting in shards.pending(path):
        diagnostics.note(str(waiting))
    diagnostics.note(f"{len(audits.names())} audits, {len(violations)} with violations")
    if violations or set_aside:
        raise typer.Exit(diagnostics.ExitCode.FINDINGS)


def _repair(lake: Path) -> None:
    from lakeprobe import diagnostics
    from lakeprobe.lake import staging

    with staging.unchanged(lake), diagnostics.working("repairing the lake"):
        done = list(staging.repair(lake))
    for line in done:
        diagnostics.note(line)
