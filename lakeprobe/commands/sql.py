"""lakeprobe sql: ad-hoc queries."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lakeprobe.commands.options import Format, LakeOption


def sql(
    query: Annotated[str | None, typer.Argument(help="The query; if left out, it is read from stdin.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="A file with the query.")] = None,
    format: Annotated[
        Format | None, typer.Option("--format", help="Format of the rows.", show_default="table; csv into a pipe")
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option("--write", metavar="FILE", help="Write the rows into this file: .csv, .json or .parquet."),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Run a query on the tables dumps, ops, tensors, stacks, contents, values and results, and result tables by name.

    The query itself cannot write a file, least of all one of the lake; --write does, anywhere but in the lake.

    Example: lakeprobe sql "select op, norm from tensors where run = 'npu' order by norm desc limit 5"
    """
    from lakeprobe import diagnostics, output
    from lakeprobe.errors import UsageError
    from lakeprobe.lake import store
    from lakeprobe.lake.connection import query_errors
    from lakeprobe.session import Lake
    from lakeprobe.system.files import check_text

    if query is not None and file is not None:
        raise UsageError("give a query or --file, not both")
    if file is not None:
        try:
            query = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file} cannot be read as a query: {error}") from error
    query = sys.stdin.read() if query is None else query
    check_text(query)
    if not query.strip():
        raise UsageError("the query is empty; give one as an argument, with --file, or on stdin")
    chosen = format.value if format else "table" if sys.stdout.isatty() else "csv"
    with query_errors(), Lake(store.check(store.choose(lake))) as opened:
        with diagnostics.working("running the query", opened.share_done()):
            relation = opened.read(query, write)
            rows = relation.fetchall() if relation is not None else []
        if relation is not None:
            output.rows(relation.columns, rows, chosen)
