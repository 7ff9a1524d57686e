"""lakeprobe check: the audits of the lake."""

from __future__ import annotations

import typer

from lakeprobe.commands.options import LakeOption


def check(lake: LakeOption = None) -> None:
    """Run the audits: queries that find violations of what a lake guarantees.

    Exits with 1 if there are violations, or if collected data is set aside because it could not become a unit.

    Example: lakeprobe check
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.journals.settle import tell_set_aside
    from lakeprobe.lake import audits, store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.session import Lake

    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        violations = audits.run(opened.sql)
        for audit, columns, rows in violations:
            output.text(f"{audit.name}: {audit.promise}")
            output.text(output.aligned(columns, rows))
        set_aside = tell_set_aside(opened.path)
    diagnostics.note(f"{len(audits.names())} audits, {len(violations)} with violations")
    if violations or set_aside:
        raise typer.Exit(diagnostics.ExitCode.FINDINGS)
