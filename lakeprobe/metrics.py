"""The parts of statements that follow from the metrics' declarations (schemas/data/metrics.yaml).

A rule may add metrics of its own: columns of its view `metrics` that are declared nowhere. They are kept in results and
shown behind the declared ones, in every form.
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
"""The columns that the place of a file adds to results."""

_TAKEN = frozenset({
    "result", "err_message", "npu_stack_info", "data_name", "md5", "place", "line of code",
    *(f"{side}_{statistic}" for side in "nb" for statistic in ("max", "min", "mean", "norm")),
})  # fmt: skip
"""What else reports call a column (sql/reports/cells.sql, in lower case)."""

_SAME = ("measured", "scalar", "empty", "text")
"""How two equal contents are measured: by what they are made of."""


def holds(type: str, content: str) -> bool:
    """Return whether a column of the DuckDB type `type` can hold `content`. The type of a bare NULL holds anything."""
    return type == '"NULL"' or _TYPES[content].fullmatch(type) is not None


def struct_type() -> str:
    """The type of what tensor_metrics returns."""
    fields = (f"{_field(metric)} {metric.type}" for metric in _of_tensors())
    return f"STRUCT({', '.join(fields)})"


def struct_columns() -> dict[str, str]:
    """The fields of what tensor_metrics returns, each with its SQL type."""
    return {_field(metric): metric.type for metric in _of_tensors()}


def same_contents() -> str:
    """A query for the metrics of a pair of equal contents, which nobody has to read: one row per measurement."""
    return " UNION ALL ".join(f"SELECT {_same(measurement)}" for measurement in _SAME)


def _same(measurement: str) -> str:
    values = {metric.name: metric.same.get(measurement) for metric in _of_tensors()}
    literals = {name: "NULL" if value is None else str(value) for name, value in values.items()}
    literals["measurement"] = quote_text(measurement)
    return ", ".join(f"{literals[metric.name]}::{metric.type} AS {metric.name}" for metric in _of_tensors())


def own(columns: Mapping[str, str], taken: Iterable[str] = ()) -> dict[str, str]:
    """The metrics among `columns` (each with its SQL type) that only the rule knows, each with the type it is kept as.

    `taken` are columns that a rule may pass on but that are no metrics. Raises ValueError for a column
    that has neither numbers, texts nor truth values, and for one whose name is taken.
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
            raise ValueError(f"the name of the column {name} is taken by results or a report; give it another")
        found[name] = kept
    return found


def own_of_results(columns: Mapping[str, str]) -> dict[str, str]:
    """The metrics of a rule's own among the `columns` of results."""
    known = {column.name for column in table("results").columns}
    return {name: type for name, type in columns.items() if name not in known and name not in PARTITIONS}


def kept(own_metrics: Mapping[str, str]) -> str:
    """Select what results keeps of the view metrics, with the types of the declarations."""
    types = {metric.name: metric.type for metric in metrics() if metric.kept} | dict(own_metrics)
    chosen = (f"{quote_identifier(name)}::{type} AS {quote_identifier(name)}" for name, type in types.items())
    return f"SELECT row, {', '.join(chosen)} FROM metrics"


def cells(layout: str, own_metrics: Mapping[str, str]) -> str:
    """Select what cell_texts has, and as "shown HEADER" the text of each metric that the msprobe table `layout` has."""
    shown = [(metric.header, metric.cell) for metric in metrics() if metric.table == layout]
    shown += [(name, _own_cell(name, type)) for name, type in own_metrics.items()]
    texts = "".join(f", {cell} AS {quote_identifier(f'shown {header}')}" for header, cell in shown)
    return f"SELECT *{texts} FROM cell_texts"


def _own_cell(name: str, type: str) -> str:
    column = quote_identifier(name)
    made = {"DOUBLE": f"cell_number({column})", "BOOLEAN": f"cell_flag({column})"}.get(type, column)
    return f"coalesce({made}, 'N/A')"


def own_text(own_metrics: Mapping[str, str]) -> str:
    """An expression for the metrics of a rule's own in a row, as a person reads them; NULL where there are none."""
    if not own_metrics:
        return "NULL::VARCHAR"
    texts = ", ".join(f"{quote_text(f'{name} ')} || {_shown(name, type)}" for name, type in own_metrics.items())
    return f"nullif(concat_ws(', ', {texts}), '')"


def _shown(name: str, type: str) -> str:
    column = quote_identifier(name)
    return f"printf('%.4g', {column})" if type == "DOUBLE" else f"{column}::VARCHAR"


def headers(layout: str) -> tuple[str, ...]:
    """The headers of the metrics in the msprobe table `layout`, in their order."""
    return tuple(metric.header for metric in metrics() if metric.table == layout)


def finding_headers(layout: str) -> tuple[str, ...]:
    """Those of them that say most of a finding."""
    return tuple(metric.header for metric in metrics() if metric.table == layout and metric.finding)


@cache
def _of_tensors() -> tuple[Metric, ...]:
    return tuple(metric for metric in metrics() if metric.of == "tensor")


def _field(metric: Metric) -> str:
    return metric.struct or metric.name
