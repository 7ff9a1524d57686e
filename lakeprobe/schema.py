"""The tables of the lake as `schemas/*.yaml` describes them: the one place that names columns and types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import yaml

from lakeprobe import resources

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT_VERSION = 3
"""Version of the lake's layout and of its units. A lake with a higher number was written by a newer lakeprobe."""

READABLE_VERSIONS = (2, FORMAT_VERSION)
"""The versions that are read. 2 has no log (`lakeprobe.lake.log`), and gets one when it is written to."""

COMPARISON_VERSION = 1
"""Version of what a comparison keeps. A new column needs no new one: where older results lack it, it is NULL."""

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


@dataclass(frozen=True, slots=True)
class Metric:
    """What is measured of a pair of leaves; schemas/data/metrics.yaml declares it and says what the fields mean."""

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
        """The column that the metric is in results."""
        formula = f" ({self.formula})" if self.formula else ""
        return Column(self.name, self.type, f"{self.meaning}{formula}", self.unit)


@cache
def metrics() -> tuple[Metric, ...]:
    """All metrics, in the order in which results and reports have them."""
    return tuple(Metric(**metric) for metric in _described("data/metrics")["metrics"])


@cache
def table(name: str) -> Table:
    """The table `name` as its YAML file describes it."""
    described = _described(name)
    return Table(described["table"], described["grain"], tuple(_columns(described["columns"])))


def _columns(described: list[dict[str, Any]]) -> Iterator[Column]:
    """The columns of a table; the entry `metrics` stands for those metrics that are kept."""
    for column in described:
        if "metrics" in column:
            yield from (metric.column for metric in metrics() if metric.kept)
        else:
            yield Column(**column)


def _described(name: str) -> dict[str, Any]:
    text = (resources.folder("schemas") / f"{name}.yaml").read_text(encoding="utf-8")
    described: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 both are safe
    return described


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
