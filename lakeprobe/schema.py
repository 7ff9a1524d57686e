"""Describes the tables of the lake as `schemas/*.yaml` declare them. Only those files name columns and types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from lakeprobe import resources

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT_VERSION = 3
"""Version of the layout of a lake and its units. A lake with a higher number was written by a newer lakeprobe."""

READABLE_VERSIONS = (2, FORMAT_VERSION)
"""The versions that are read. 2 has no log (`lakeprobe.lake.log`), and gets one when it is written to."""

COMPARISON_VERSION = 2
"""Version of a stored comparison. A new column does not change it: the column is NULL where older results lack it.
1 has no files of batches (`lakeprobe.lake.comparison`)."""

UNIT_TABLES = ("dumps", "ops", "undumped", "tensors", "stacks", "contents", "values")
"""The tables of a unit, each in a Parquet file of its name (values: in any number of files)."""

MERGED_TABLES = ("layouts",)
"""The tables that only a unit merged from the ranks of another run has."""


class Column(Struct, frozen=True):
    """One column of a table: its name, DuckDB type, unit and meaning."""

    name: str
    type: str
    meaning: str
    unit: str | None = None


class Table(Struct, frozen=True):
    """One table of the lake: its name, what a row is (grain), and its columns."""

    name: str
    grain: str
    columns: tuple[Column, ...]


class Metric(Struct, frozen=True):
    """A metric of a pair of leaves. schemas/data/metrics.yaml declares it and explains the fields."""

    name: str
    type: str
    of: str
    meaning: str
    unit: str | None = None
    formula: str | None = None
    struct: str = ""
    same: Mapping[str, bool | float] = field(default_factory=dict)
    kept: bool = True
    table: str | None = None
    header: str = ""
    cell: str = ""
    finding: bool = False

    @property
    def column(self) -> Column:
        """The column of results that holds the metric."""
        formula = f" ({self.formula})" if self.formula else ""
        return Column(self.name, self.type, f"{self.meaning}{formula}", self.unit)


@cache
def metrics() -> tuple[Metric, ...]:
    """Return all metrics, in the order of results and reports."""
    return tuple(Metric(**metric) for metric in _described("data/metrics")["metrics"])


@cache
def table(name: str) -> Table:
    """Return the table `name` as its YAML file declares it."""
    described = _described(name)
    return Table(described["table"], described["grain"], tuple(_columns(described["columns"])))


def _columns(described: list[dict[str, Any]]) -> Iterator[Column]:
    """Yield the columns of a table. The entry `metrics` stands for the metrics that results keep."""
    for column in described:
        if "metrics" in column:
            yield from (metric.column for metric in metrics() if metric.kept)
        else:
            yield Column(**column)


def _described(name: str) -> dict[str, Any]:
    described: dict[str, Any] = resources.read_yaml(resources.folder("schemas") / f"{name}.yaml")
    return described


@cache
def arrow_schema(name: str) -> pa.Schema:
    """Return the Arrow schema of the table `name`."""
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
