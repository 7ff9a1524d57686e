"""Finds what lakeprobe ships beside its code: the SQL files and the table schemas."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


@cache
def folder(name: str) -> Path:
    """The folder `sql` or `schemas`: inside the installed package, or beside it in a checkout."""
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


@cache
def sql(name: str) -> str:
    """The text of the bundled SQL file `name`, for example `match/exact`."""
    return (folder("sql") / f"{name}.sql").read_text(encoding="utf-8")


def data(name: str) -> Path:
    """The bundled table `name` of MindSpore's names and PyTorch's, a CSV file."""
    return folder("schemas") / "data" / f"{name}.csv"


def quote_identifier(name: str) -> str:
    """`name` as a quoted SQL identifier. The one place where a name becomes part of a statement."""
    return '"' + name.replace('"', '""') + '"'


def file_pattern(path: Path) -> str:
    """The pattern that means `path` and no other: DuckDB takes every name of a file for a pattern."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(path))


def quote_text(text: str) -> str:
    """`text` as a SQL string literal, for the few statements that take no parameters (COPY, SET)."""
    return "'" + text.replace("'", "''") + "'"
