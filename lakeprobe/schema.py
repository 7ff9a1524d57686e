"""The tables of the lake as `schemas/*.yaml` describes them: the one place that names columns and types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import yaml

from lakeprobe import resources

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT_VERSION = 2
"""Version of the lake's layout. A lake with a higher number was written by a newer lakeprobe."""

UNIT_TABLES = ("dumps", "ops", "undumped", "tensors", "stacks", "contents", "values")
"""The tables of a unit, each a Parquet file of its name (values: any number of files)."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: its name, DuckDB type, unit and meaning."""

    name: str
    type: str
    meaning: str
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the lake: its name, what a row is (grain), and its columns."""

    name: str
    grain: str
    columns: tuple[Column, ...]


@cache
def table(name: str) -> Table:
    """The table `name` as its YAML file describes it."""
    text = (resources.folder("schemas") / f"{name}.yaml").read_text(encoding="utf-8")
    described = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 both are safe
    columns = tuple(Column(**column) for column in described["columns"])
    return Table(described["table"], described["grain"], columns)


@cache
def arrow_schema(name: str) -> pa.Schema:
    """The Arrow schema that the table `name` is written with."""
    import pyarrow as pa

    makers: dict[str, Callable[[], pa.DataType]] = {
        "VARCHAR": pa.string,
        "INTEGER": pa.int32,
        "BIGINT": pa.int64,
        "DOUBLE": pa.float64,
        "BOOLEAN": pa.bool_,
        "BLOB": pa.large_binary,
        "VARCHAR[]": lambda: pa.list_(pa.string()),
        "BIGINT[]": lambda: pa.list_(pa.int64()),
    }
    return pa.schema([(column.name, makers[column.type]()) for column in table(name).columns])
