"""Builds the parts of SQL statements that follow from the declarations of metrics (schemas/data/metrics.yaml).

A rule may add metrics of its own: columns of its view `metrics` that are not declared. Results keep them, and every
form of output shows them after the declared ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from lakeprobe.resources import quote_identifier, quote_text
from lakeprobe.schema import Metric, metrics, table

NUMBER, TEXT, TRUTH, TEXTS = "a number", "a text", "true or false", "a list of texts"
_TYPES = {
    NUMBER: re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)"),
    TEXT: re.compile(r"VARCHAR|ENUM\(.*\)"),
    TRUTH: re.compile(r"BOOLEAN"),
    TEXTS: re.compile(r"(VARCHAR|\"NULL\"|INTEGER)\[\]"),  # DuckDB types a lone empty list INTEGER[]
}
"""The contents that a column of a rule may have, and the DuckDB types that hold each."""

_KEPT = {NUMBER: "DOUBLE", TEXT: "VARCHAR", TRUTH: "BOOLEAN"}
"""The type in which results keep a metric that only the rule knows."""

PARTITIONS = ("comparison", "step", "rank")
"""The columns of results that come from the path of a file."""

_TAKEN = frozenset({
    "result", "err_message", "npu_stack_info", "data_name", "md5", "place", "line of code",
    *(f"{side}_{statistic}" for side in "nb" for statistic in ("max", "min", "mean", "norm")),
})  # fmt: skip
"""The other names of columns in reports (sql/reports/cells.sql), in lower case."""

_SAME = ("measured", "scalar", "empty", "text")
"""The measurements of two equal contents, by what they contain."""


def holds(type: str, content: str) -> bool:
    """Return whether a column of the DuckDB type `type` can hold `content`. The type of a bare NULL holds anything."""
    return type == '"NULL"' or _TYPES[content].fullmatch(type) is not None


def struct_type() -> str:
    """Return the SQL type of the result of tensor_metrics."""
    fields = (f"{_field(metric)} {metric.type}" for metric in _of_tensors())
    return f"STRUCT({', '.join(fields)})"


def struct_columns() -> dict[str, str]:
    """Return the fields of the result of tensor_metrics, each with its SQL type."""
    return {_field(metric): metric.type for metric in _of_tensors()}


def standard_type() -> str:
    """Return the SQL type of the result of standard_measures."""
    return f"STRUCT({', '.join(f'{name} {type}' for name, type in standard_columns().items())})"


def standard_columns() -> dict[str, str]:
    """Return the fields of the result of standard_measures: those that standards need, as in verifications."""
    columns = {column.name: column.type for column in table("verifications").columns}
    names = list(columns)
    measures = names[names.index("cosine") : names.index("signed_zeros") + 1]
    return {"dtype": "VARCHAR", "balance_limit": "DOUBLE"} | {name: columns[name] for name in measures}


def same_contents() -> str:
    """Return a query for the metrics of two equal contents, which need not be read: one row per measurement."""
    return " UNION ALL ".join(f"SELECT {_same(measurement)}" for measurement in _SAME)


def _same(measurement: str) -> str:
    values = {metric.name: metric.same.get(measurement) for metric in _of_tensors()}
    literals = {name: "NULL" if value is None else str(value) for name, value in values.items()}
    literals["measurement"] = quote_text(measurement)
    return ", ".join(f"{literals[metric.name]}::{metric.type} AS {metric.name}" for metric in _of_tensors())


def own(columns: Mapping[str, str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return the metrics among `columns` (names with SQL types) that only the rule defines, with the types to keep.

    `taken` are columns that a rule may pass on although they are not metrics. Raises ValueError for a column that holds
    neither numbers, texts nor truth values, and for one whose name is taken.
    """
    known = {metric.name for metric in metrics()} | set(taken)
    results = {column.name.lower() for column in table("results").columns} | _TAKEN
    results |= {metric.header.lower() for metric in metrics()} | set(PARTITIONS)
    found = {}
    for name, type in columns.items():
        if name in known:
            continue
        kept = next((kept for content, kept in _KEPT.items() if holds(type, content)), None)
        if kept is None:
            raise ValueError(f"the column {name} is {type}; it must be a number, a text, or true or false")
        if name.lower() in results:
            raise ValueError(f"the name of the column {name} is taken by results or a report; choose another")
        found[name] = kept
    return found


def own_of_results(columns: Mapping[str, str]) -> dict[str, str]:
    """Return the metrics among the `columns` of results that only the rule defines."""
    known = {column.name for column in table("results").columns}
    return {name: type for name, type in columns.items() if name not in known and name not in PARTITIONS}


def kept(own_metrics: Mapping[str, str]) -> str:
    """Return a query for the metrics that results keep, with the declared types."""
    types = {metric.name: metric.type for metric in metrics() if metric.kept} | dict(own_metrics)
    chosen = (f"{quote_identifier(name)}::{type} AS {quote_identifier(name)}" for name, type in types.items())
    return f"SELECT row, {', '.join(chosen)} FROM metrics"


def cells(layout: str, own_metrics: Mapping[str, str]) -> str:
    """Return a query for cell_texts and, as "shown HEADER", the text of each metric in the msprobe table `layout`."""
    shown = [(metric.header, metric.cell) for metric in metrics() if metric.table == layout]
    shown += [(name, _own_cell(name, type)) for name, type in own_metrics.items()]
    texts = "".join(f", {cell} AS {quote_identifier(f'shown {header}')}" for header, cell in shown)
    return f"SELECT *{texts} FROM cell_texts"


def _own_cell(name: str, type: str) -> str:
    column = quote_identifier(name)
    made = {"DOUBLE": f"cell_number({column})", "BOOLEAN": f"cell_flag({column})"}.get(type, column)
    return f"coalesce({made}, 'N/A')"


def own_text(own_metrics: Mapping[str, str]) -> str:
    """Return an expression for a row's metrics of the rule, as a person reads them; NULL if there are none."""
    if not own_metrics:
        return "NULL::VARCHAR"
    texts = ", ".join(f"{quote_text(f'{name} ')} || {_shown(name, type)}" for name, type in own_metrics.items())
    return f"nullif(concat_ws(', ', {texts}), '')"


def _shown(name: str, type: str) -> str:
    column = quote_identifier(name)
    return f"printf('%.4g', {column})" if type == "DOUBLE" else f"{column}::VARCHAR"


def headers(layout: str) -> tuple[str, ...]:
    """Return the headers of the metrics in the msprobe table `layout`, in order."""
    return tuple(metric.header for metric in metrics() if metric.table == layout)


def finding_headers(layout: str) -> tuple[str, ...]:
    """Return those headers that say most about a finding."""
    return tuple(metric.header for metric in metrics() if metric.table == layout and metric.finding)


@cache
def _of_tensors() -> tuple[Metric, ...]:
    return tuple(metric for metric in metrics() if metric.of == "tensor")


def _field(metric: Metric) -> str:
    return metric.struct or metric.name
