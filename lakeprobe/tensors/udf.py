"""Gives DuckDB the functions `tensor_metrics`, `tensor_order` and `standard_measures`, to measure tensors by reference.

Contents never pass through SQL. A row has two references, and the result is a `TensorMetrics` as a struct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from lakeprobe import metrics
from lakeprobe.errors import TensorError
from lakeprobe.tensors.measures import measure, precision_of
from lakeprobe.tensors.metrics import measure_pairs
from lakeprobe.tensors.reference import TensorReference, open_tensor

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

REFERENCE_TYPE = 'STRUCT(file VARCHAR, "offset" BIGINT, length BIGINT, dtype VARCHAR, shape BIGINT[], strides BIGINT[])'
METRICS_TYPE = metrics.struct_type()


def register(connection: duckdb.DuckDBPyConnection, threads: int, files: frozenset[str] | None = None) -> None:
    """Register `tensor_metrics(target, golden)`, which takes two references and returns a struct of metrics.

    NULL gives NULL. Also `tensor_order(target, golden)`, which says in words how the elements of the two are the same
    in another order, and gives NULL if they are not.

    And `standard_measures(target, golden)`, which returns what the precision standards of single ops are made of, as a
    struct (`lakeprobe/tensors/measures.py`); it holds both tensors in memory. NULL if they have different shapes, or
    cannot be read.

    If `files` is given, they open only these files, because a user's rule could name any file.

    DuckDB passes one batch of rows at a time, on one thread, and `threads` threads measure it. A file that cannot be
    read gives the status 'unreadable' in its row instead of an error of the query.
    """
    from duckdb.func import ARROW, SPECIAL

    def tensor_metrics(targets: pa.ChunkedArray, goldens: pa.ChunkedArray) -> pa.Array:
        return _measure_batch(targets.to_pylist(), goldens.to_pylist(), threads, files)

    tensor_metrics.__annotations__ = {}  # DuckDB evaluates them, which would need pyarrow imported
    connection.create_function(
        "tensor_metrics",
        tensor_metrics,
        [REFERENCE_TYPE, REFERENCE_TYPE],
        METRICS_TYPE,
        type=ARROW,
        null_handling=SPECIAL,
    )

    def tensor_order(targets: pa.ChunkedArray, goldens: pa.ChunkedArray) -> pa.Array:
        return _order_batch(targets.to_pylist(), goldens.to_pylist(), files)

    tensor_order.__annotations__ = {}
    connection.create_function(
        "tensor_order", tensor_order, [REFERENCE_TYPE, REFERENCE_TYPE], "VARCHAR", type=ARROW, null_handling=SPECIAL
    )

    def standard_measures(targets: pa.ChunkedArray, goldens: pa.ChunkedArray) -> pa.Array:
        return _standard_batch(targets.to_pylist(), goldens.to_pylist(), files)

    standard_measures.__annotations__ = {}
    connection.create_function(
        "standard_measures", standard_measures, [REFERENCE_TYPE, REFERENCE_TYPE], metrics.standard_type(), type=ARROW,
        null_handling=SPECIAL,
    )  # fmt: skip


def _standard_batch(
    targets: list[dict[str, Any] | None], goldens: list[dict[str, Any] | None], files: frozenset[str] | None
) -> pa.Array:
    import pyarrow as pa

    _check_files(targets, goldens, files)
    types = {"VARCHAR": pa.string(), "DOUBLE": pa.float64(), "BIGINT": pa.int64()}
    rows = [_standard_measures(target, golden) for target, golden in zip(targets, goldens, strict=True)]
    return pa.array(rows, pa.struct([(name, types[type]) for name, type in metrics.standard_columns().items()]))


def _standard_measures(target: dict[str, Any] | None, golden: dict[str, Any] | None) -> dict[str, Any] | None:
    if target is None or golden is None:
        return None
    try:
        own, reference = open_tensor(TensorReference.of(target)), open_tensor(TensorReference.of(golden))
    except TensorError:
        return None
    if own.shape != reference.shape or {own.dtype.kind, reference.dtype.kind} & set("USmM"):
        return None
    limits = precision_of(own.dtype.name)
    return asdict(measure(reference, own)) | {"dtype": own.dtype.name, "balance_limit": limits.balance_limit}


def _order_batch(
    targets: list[dict[str, Any] | None], goldens: list[dict[str, Any] | None], files: frozenset[str] | None
) -> pa.Array:
    import pyarrow as pa

    from lakeprobe.tensors.order import order_or_none

    _check_files(targets, goldens, files)
    return pa.array(
        [
            None
            if target is None or golden is None
            else order_or_none(TensorReference.of(target), TensorReference.of(golden))
            for target, golden in zip(targets, goldens, strict=True)
        ],
        pa.string(),
    )


def _check_files(
    targets: list[dict[str, Any] | None], goldens: list[dict[str, Any] | None], files: frozenset[str] | None
) -> None:
    """Raise TensorError for a file that is not one of `files`."""
    named = {row["file"] for row in (*targets, *goldens) if row is not None}
    forbidden = set() if files is None else named - files
    if forbidden:
        raise TensorError(f"tensor_metrics may not read {min(forbidden)}: it holds no tensor of the two units")


def _measure_batch(
    targets: list[dict[str, Any] | None],
    goldens: list[dict[str, Any] | None],
    threads: int,
    files: frozenset[str] | None,
) -> pa.Array:
    _check_files(targets, goldens, files)
    pairs = [
        (TensorReference.of(target), TensorReference.of(golden))
        for target, golden in zip(targets, goldens, strict=True)
        if target is not None and golden is not None
    ]
    measured = iter(measure_pairs([pair[0] for pair in pairs], [pair[1] for pair in pairs], threads))
    rows = [
        None if target is None or golden is None else asdict(next(measured))
        for target, golden in zip(targets, goldens, strict=True)
    ]
    return _to_arrow(rows)


def _to_arrow(rows: list[dict[str, Any] | None]) -> pa.Array:
    import pyarrow as pa

    types = {"VARCHAR": pa.string(), "BOOLEAN": pa.bool_(), "DOUBLE": pa.float64()}
    return pa.array(rows, pa.struct([(name, types[sql_type]) for name, sql_type in metrics.struct_columns().items()]))
