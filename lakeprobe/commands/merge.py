"""lakeprobe merge: a metric of all ranks side by side, from comparisons and from msprobe's result files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeprobe import forms
from lakeprobe.commands.complete import comparison_names
from lakeprobe.commands.options import LakeOption, RanksOption, StepsOption, numbers
from lakeprobe.errors import UsageError

if TYPE_CHECKING:
    import duckdb

    from lakeprobe.analysis.merge import Merge, Sheet

    Format = StrEnum
else:
    Format = forms.choices(forms.MERGE, "table")


_MOST_RANKS = 16
"""The most columns that the terminal shows."""


def merge(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Comparisons of the lake, result files of msprobe, or folders of them.",
            autocompletion=comparison_names,
        ),
    ],
    api: Annotated[
        list[str] | None,
        typer.Option("--api", help="Only rows of this API; may be repeated.", show_default="all"),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", help="Only this header of the result table; may be repeated.", show_default="all"),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-config", help="msprobe's config.yaml: api and compare_index.")
    ] = None,
    step: StepsOption = None,
    rank: RanksOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for the merged files.")] = None,
    format: Annotated[
        Format | None, typer.Option("--format", help="Format.", show_default="table; xlsx with -o")
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Rows of each metric in the terminal.")] = 20,
    lake: LakeOption = None,
) -> None:
    """Show all ranks of a comparison side by side: a row per op and tensor, a column per rank, a table per metric.

    If a metric cannot be computed, the cell has the values of both sides. Result files of msprobe (csv and xlsx) can be
    merged too.

    Example: lakeprobe merge npu_vs_gpu --api Distributed.all_reduce --metric "Max diff" -o out
    """
    from lakeprobe import diagnostics
    from lakeprobe.analysis import merge as merging
    from lakeprobe.lake import outputs, store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.readers import merge_config

    form = format.value if format else "xlsx" if output else "table"
    if output is None and form not in forms.writers(forms.ROWS):
        raise UsageError(f"--format {form} writes files; name their folder with -o")
    if output is not None and form == "table":
        raise UsageError("--format table is for the terminal; use xlsx, csv or parquet with -o, or leave out -o")
    outputs.check_folder(output)
    apis, metrics = merge_config.read_config(config) if config else ((), ())
    path = store.choose(lake)
    comparisons, files = merging.sources(path, sources)
    planned = merging.plan(
        comparisons, files, (*apis, *(api or ())), (*metrics, *(metric or ())), numbers(step), numbers(rank)
    )
    with query_errors(), _connection(path if comparisons else None) as connection:
        sheets = _noted(merging.found(merging.sheets(connection, planned, most if form == "table" else None), planned))
        if output is None:
            _show(planned, sheets, form)
            return
        from lakeprobe.reports import merge_files

        with diagnostics.working("putting ranks side by side"):
            written = list(merge_files.write(connection, planned, sheets, output, form))
        for path in written:
            diagnostics.note(f"written: {path}")


@contextmanager
def _connection(lake: Path | None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection with the views of `lake`. Result files alone need no lake."""
    from lakeprobe.lake import staging, store, views
    from lakeprobe.lake.connection import connect

    with ExitStack() as opened:
        connection = opened.enter_context(connect())
        if lake:
            views.define(connection, opened.enter_context(staging.reading(store.check(lake))))
        yield connection


def _noted(sheets: Iterable[Sheet]) -> Iterator[Sheet]:
    """Yield the same sheets, and report once what a step lacks."""
    from lakeprobe import diagnostics

    said = set()
    for sheet in sheets:
        if sheet.absent and sheet.step not in said:
            said.add(sheet.step)
            where = "" if sheet.step is None else f" in step {sheet.step}"
            diagnostics.note(f"no rank has a row of {', '.join(sheet.absent)}{where}")
        yield sheet


def _show(planned: Merge, sheets: Iterable[Sheet], form: str) -> None:
    from lakeprobe import output

    if form == "csv":
        columns = ["step", "metric", "NPU Name", *(f"rank{rank}" for rank in planned.ranks)]
        output.rows(columns, (row for sheet in sheets for row in _rows(sheet)), "csv")
        return
    for sheet in sheets:
        output.text(_table(sheet))


def _rows(sheet: Sheet) -> Iterator[tuple[Any, ...]]:
    return ((sheet.step, sheet.metric, *row) for row in sheet.rows.fetchall())


def _as_number(cell: str | None) -> float | str | None:
    """Return the number in a cell, which the terminal rounds as it does elsewhere; or the cell, if it holds none."""
    try:
        return None if cell is None else float(cell)
    except ValueError:
        return cell


def _table(sheet: Sheet) -> str:
    """Return the first rows and ranks of a sheet, and how many more there are."""
    from lakeprobe import output

    columns = sheet.rows.columns
    shown = columns[: 1 + _MOST_RANKS]
    rows = [(name, *map(_as_number, cells)) for name, *cells in sheet.rows.fetchall()]
    title = sheet.metric if sheet.step is None else f"{sheet.metric}, step {sheet.step}"
    text = f"{title}\n{output.aligned(shown, (row[: len(shown)] for row in rows))}"
    if sheet.count > len(rows):
        text += f"… and {sheet.count - len(rows)} more rows: --most {sheet.count}, or files with -o\n"
    if len(columns) > len(shown):
        text += f"… and {len(columns) - len(shown)} more ranks: files with -o, or --format csv\n"
    return text + "\n"
