"""What a shell completes behind a command: the names of runs, comparisons, ops and rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from lakeprobe.lake.log import Snapshot

_MOST = 200
"""The most names of ops that are offered."""


def run_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the runs that begin with `incomplete`."""
    from lakeprobe.lake import layout

    return _beginning(incomplete, layout.runs(lake) if (lake := _lake(context)) else ())


def comparison_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the comparisons that begin with `incomplete`."""
    from lakeprobe.lake import layout

    return _beginning(incomplete, layout.comparisons(lake) if (lake := _lake(context)) else ())


def run_or_comparison_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the runs and comparisons that begin with `incomplete`."""
    return [*run_names(context, incomplete), *comparison_names(context, incomplete)]


def noise_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the measured noises that begin with `incomplete`."""
    from lakeprobe.lake import layout

    return _beginning(incomplete, layout.noises(lake) if (lake := _lake(context)) else ())


def op_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the ops that begin with `incomplete`."""
    from lakeprobe import resources
    from lakeprobe.lake import views
    from lakeprobe.lake.connection import connect

    lake = _lake(context)
    if lake is None:
        return []
    with connect() as connection:
        views.define(connection, lake)
        asked = {"incomplete": incomplete, "most": _MOST}
        return [op for (op,) in connection.execute(resources.sql("reports/op_names"), asked).fetchall()]


def rule_names(incomplete: str) -> list[str]:
    """Return the bundled rules that begin with `incomplete`."""
    from lakeprobe.compare import rule

    return _beginning(incomplete, rule.bundled())


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _lake(context: typer.Context) -> Snapshot | None:
    """Return the lake of the command line that is completed, or None if there is none that can be read."""
    from lakeprobe.errors import LakeError
    from lakeprobe.lake import log, store

    try:
        path = store.choose(context.params.get("lake"))
        return log.read(store.check(path)) if store.exists(path) else None
    except LakeError:  # a shell cannot show it
        return None
