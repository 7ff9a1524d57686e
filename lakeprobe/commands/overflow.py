"""lakeprobe overflow: where NaN and inf are born in a run, and how they spread."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from lakeprobe.commands.complete import run_or_comparison_names
from lakeprobe.commands.options import Format, LakeOption, StepsOption, numbers


class Level(StrEnum):
    """How severe an op is, from the worst."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"


def overflow(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN_OR_COMPARISON",
            help="A run, or a comparison if no run has that name.",
            autocompletion=run_or_comparison_names,
        ),
    ],
    golden: Annotated[
        str | None, typer.Option("--golden", help="A run in which the same NaN and inf are expected.")
    ] = None,
    step: StepsOption = None,
    level: Annotated[Level, typer.Option("--level", help="The mildest level that csv and json list.")] = Level.MEDIUM,
    most: Annotated[
        int | None, typer.Option("--most", min=1, help="Ops to list.", show_default="20; all in csv and json")
    ] = None,
    format: Annotated[Format, typer.Option("--format", help="Text, or one row per op.")] = Format.TABLE,
    fail_on: Annotated[
        Level | None, typer.Option("--fail-on", help="Exit with 1 if an op has this level or a worse one.")
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Name the op where NaN or inf is born, the ranks that received it, and what to check.

    critical: the inputs are finite, the outputs are not. high: neither is finite; or, in a step with NaN or inf, the
    norm of an output is more than 100 times that of the inputs. medium: the inputs are not finite, the outputs are.
    Values that the program asked for (a mask's -inf), and values that golden has too (in a comparison or with
    --golden), are expected and have no level.

    Example: lakeprobe overflow npu --golden gpu
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.lake import store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.reports.overflow_text import overflow_text
    from lakeprobe.session import Lake

    is_text = format is Format.TABLE
    bound = _MOST_BIRTHS if is_text and most is None else most
    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        with diagnostics.working("looking for NaN and inf"):
            found = opened.overflow(name, golden=golden, steps=numbers(step), level=level.value, most=bound)
        if is_text:
            output.text(overflow_text(found))
        else:
            output.rows(found.ops.columns, found.ops.fetchall(), format.value)
            left_out = found.count(level.value) - len(found.ops)
            if left_out > 0:
                diagnostics.note(f"{left_out} more ops of level {level.value} or worse; raise --most to list them")
        if fail_on is not None and found.count(fail_on.value):
            raise typer.Exit(diagnostics.ExitCode.FINDINGS)


_MOST_BIRTHS = 20
"""The most ops where NaN or inf is born that the text lists."""
