"""lakeprobe drift: where runs leave a golden run over steps and ranks, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeprobe import hints
from lakeprobe.commands.complete import run_names
from lakeprobe.commands.options import Format, LakeOption, NoiseOption, RanksOption, StepsOption, numbers

if TYPE_CHECKING:
    from lakeprobe.reports.picture import DriftReport
    from lakeprobe.session import Lake


class Metric(StrEnum):
    """What to follow over steps."""

    NORM = "norm"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"
    ERROR = "error"
    """The largest distance of the four from golden's."""


class Table(StrEnum):
    """The tables of a drift."""

    RUNS = "runs"
    ROWS = "rows"
    MODULES = "modules"
    STEPS = "steps"
    MISSING = "missing"


def drift(
    golden: Annotated[str, typer.Argument(help="Name of the trusted run.", autocompletion=run_names)],
    runs: Annotated[list[str], typer.Argument(help="Names of the runs to compare with it.", autocompletion=run_names)],
    op: Annotated[
        list[str] | None,
        typer.Option(
            "--op",
            help="An op, a row, a module's path, or the beginning of one; may be repeated.",
            show_default="gradients and loss",
        ),
    ] = None,
    metric: Annotated[
        Metric, typer.Option("--metric", help="What to follow; error is the largest distance of all four statistics.")
    ] = Metric.NORM,
    step: StepsOption = None,
    rank: RanksOption = None,
    threshold: Annotated[
        float,
        typer.Option("--threshold", help="A row leaves golden beyond this share of golden's tensor."),
    ] = 0.001,
    noise: NoiseOption = None,
    picture: Annotated[
        Path | None, typer.Option("--output", "-o", help="A picture to write, .png or .svg.", show_default="none")
    ] = None,
    table: Annotated[
        Table | None,
        typer.Option("--table", help="Only this table, in full.", show_default="an overview; steps into csv and json"),
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Rows of each run in the overview.")] = 20,
    format: Annotated[Format, typer.Option("--format", help="Format of the rows.")] = Format.TABLE,
    series: Annotated[
        bool, typer.Option("--series", help="Follow what lakeprobe.monitor measured, instead of dumps.")
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Follow ops, modules or gradients over steps, and show where each run leaves golden.

    Without --op it follows the parameter gradients, their norm over all parameters, and the loss: the last 0-d float
    that a forward op returns before the first backward op. Runs that were monitored and not dumped, or --series, show
    the step and the name where their series leave golden.

    Example: lakeprobe drift golden npu npu_fp16 --op layers.1.mlp -o drift.png
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.errors import UsageError
    from lakeprobe.lake import store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.reports import picture as pictures
    from lakeprobe.session import Lake

    if picture is not None:
        pictures.checked(picture)
    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        if series or ({golden, *runs} & set(opened.monitored) and not {golden, *runs} & set(opened.runs)):
            if picture is not None and len(runs) > 1:
                raise UsageError("a picture of series shows one run; give one")
            for run in runs:
                _write_series(opened, golden, run, threshold, most, format, picture)
            return
        with diagnostics.working("following the steps"):
            found = opened.drift(
                golden, *runs, names=op or (), metric=metric, steps=numbers(step), ranks=numbers(rank),
                threshold=threshold, noise=noise,
            )  # fmt: skip
        for line in _missing(found):
            diagnostics.note(line)
        if picture is not None:
            diagnostics.note(f"written: {found.write(picture)}")
        if table is None and format is Format.TABLE:
            output.text(_overview(found, most, bool(op)) + _next(found))
        else:
            relation = _tables(found)[table or Table.STEPS]
            output.rows(relation.columns, relation.fetchall(), format)


def _write_series(
    lake: Lake, golden: str, run: str, threshold: float, most: int, format: Format, picture: Path | None
) -> None:
    """Write where the series of a run leave golden: the first as a sentence, then `most` of them as a table.

    With `picture` draw them too, if any leaves.
    """
    from lakeprobe import diagnostics, output

    with diagnostics.working("following the series"):
        found = lake.series_drift(golden, run, threshold)
        rows = found.fetchall()
    if picture is not None and rows:
        diagnostics.note(f"written: {lake.draw_series(golden, run, picture, threshold)}")
    if format is not Format.TABLE:
        output.rows(found.columns, rows, format)
    elif not rows:
        output.text(f"{run} does not leave {golden} in any step that both have")
    else:
        rank, step, name, point, metric, value, other, difference, *_ = rows[0]
        where = f"{name}, {metric} of its {point}" if point != "logged" else name
        output.text(
            f"{run} leaves {golden} in step {step} on rank {rank}: {where}\n"
            f"  {other} against {value}, off by {difference:.2g}\n\n"
            + output.aligned(found.columns, _short(rows[:most]))
            + (f"{most} of {len(rows)} series; all with --most\n" if len(rows) > most else "")
        )


def _tables(found: DriftReport) -> dict[Table, Any]:
    return {
        Table.RUNS: found.by_run,
        Table.ROWS: found.rows,
        Table.MODULES: found.modules,
        Table.STEPS: found.steps,
        Table.MISSING: found.missing,
    }


def _overview(found: DriftReport, most: int, is_asked: bool) -> str:
    """Return where each run leaves, then the rows that do so first and farthest; and the modules if no op was named."""
    from lakeprobe.lake.connection import records

    parts = ["".join(_leaving(run, found.golden) for run in records(found.by_run))]
    for relation, what in ((found.rows, "rows"), *(() if is_asked else ((found.modules, "modules"),))):
        rows = relation.fetchall()
        if not rows:
            continue
        shown = [row for run in found.runs for row in [row for row in rows if row[0] == run][:most]]
        parts.append(_table(relation.columns, shown))
        if len(shown) < len(rows):
            parts[-1] += f"{len(shown)} of {len(rows)} {what}; all with --table {what}\n"
    return "\n".join(parts)


def _leaving(run: dict[str, Any], golden: str) -> str:
    """Return where a run leaves golden, and how much of it does."""
    from lakeprobe import output

    rows, worst = output.counted(run["rows"], "row"), ""
    if run["worst"] is not None:
        worst = f", at worst {_distance(run['worst'])}"
    if run["leaves_at"] is None:
        return f"{run['run']} does not leave {golden}: {rows}{worst}\n"
    return output.folded(
        f"{run['run']} leaves {golden} in step {run['leaves_at']} on rank {run['rank']}: {run['name']}\n"
        f"  off by {_distance(run['distance'])}{worst}; {run['rows_away']} of {rows} leave\n"
    )


def _distance(share: float) -> str:
    return f"{share:.4g}"


def _next(found: DriftReport) -> str:
    """Return what to ask about the first run that leaves golden, and its step."""
    away = [row[:2] for row in found.by_run.project("leaves_at, run").fetchall() if row[0] is not None]
    if not away:
        return ""
    step, run = min(away)
    asked = hints.command("compare", quote(run), quote(found.golden), "--step", str(step))
    return f"\nWhat differs in that step: {asked}\n"


def _table(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
    """Return rows without the columns that say nothing, as when no run leaves golden, or that the name says too.

    What is the same in all rows, such as the only run, stands in a line above them.
    """
    from lakeprobe import output

    redundant = {"role", "module"} if "name" in columns else set()
    used = [
        place
        for place, name in enumerate(columns)
        if name not in redundant and any(row[place] is not None and (name not in _RARE or row[place]) for row in rows)
    ]
    short = _short([row[place] for place in used] for row in rows)
    return output.aligned_below([columns[place] for place in used], list(short), _WHERE)


_WHERE = frozenset(("run", "rank", "steps", "units", "worst_at"))
"""Columns that a single run, rank or step makes the same in all rows."""

_RARE = frozenset(("units_missing", "steps_missing"))
"""Counts that are mostly 0."""


def _short(rows: Iterable[Sequence[Any]]) -> Iterator[list[Any]]:
    """Yield numbers with four digits, which are enough to read a distance."""
    for row in rows:
        yield [float(f"{cell:.4g}") if isinstance(cell, float) else cell for cell in row]


def _missing(found: DriftReport) -> Iterator[str]:
    """Yield what has no counterpart; steps with the same ranks share a line."""
    steps: dict[tuple[str, str, tuple[int, ...]], list[int]] = {}
    for run, missing_in, step, ranks in found.missing.fetchall():
        sides = (run, found.golden) if missing_in == "run" else (found.golden, run)
        steps.setdefault((*sides, tuple(ranks)), []).append(step)
    for (lacking, other, ranks), those in steps.items():
        yield f"{lacking} has no step {_listed(those)} of rank {_listed(ranks)}, which {other} has (--table missing)"


def _listed(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - 12} more" if len(numbers) > 12 else ""
    return ", ".join(map(str, numbers[:12])) + more
