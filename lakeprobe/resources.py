"""Finds the files that lakeprobe ships with its code, SQL and schemas, and quotes names and values for statements."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent

_WILDCARD = re.compile(r"[*?[]")


@cache
def folder(name: str) -> Path:
    """Return the folder `sql` or `schemas`: inside the installed package, or next to it in a checkout."""
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


@cache
def sql(name: str) -> str:
    """Return the text of the bundled SQL file `name`, for example `match/exact`."""
    return (folder("sql") / f"{name}.sql").read_text(encoding="utf-8")


def data(name: str) -> Path:
    """Return the path of the bundled CSV file `name`."""
    return folder("schemas") / "data" / f"{name}.csv"


def examples() -> dict[str, Path]:
    """Return the dumps to try lakeprobe on, by name: those in the package, or in a checkout those of the tests."""
    installed = _PACKAGE / "examples"
    if installed.is_dir():
        return {path.name: path for path in sorted(installed.iterdir())}
    data = _PACKAGE.parent / "tests" / "data"
    return {"demo": data / "dumps/demo", "ptdbg.tar.xz": data / "ptdbg/pair.tar.xz", "ranks": data / "dumps/ranks"}


def read_yaml(path: Path) -> Any:
    """Return what the YAML file `path` holds. For files of lakeprobe; `strict_yaml` reads users' and those of lakes.

    Raises OSError, UnicodeDecodeError and yaml.YAMLError.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C is ten times as fast
    return yaml.load(path.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 both are safe


def quote_identifier(name: str) -> str:
    """Return `name` as a quoted SQL identifier. Only this function puts names into statements."""
    return '"' + name.replace('"', '""') + '"'


def file_pattern(path: Path) -> str:
    """Return a pattern that matches `path` only: DuckDB reads every file name as a pattern."""
    return _WILDCARD.sub(r"[\g<0>]", str(path))


def quote_text(text: str) -> str:
    """Return `text` as a SQL string literal, for the few statements that take no parameters (COPY, SET)."""
    return "'" + text.replace("'", "''") + "'"
