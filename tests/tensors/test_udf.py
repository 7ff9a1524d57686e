"""The SQL function: the same numbers as in Python, and NULL in, NULL out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from tensor_oracle import store

from lakeprobe.tensors import TensorMetrics, TensorReference, measure_pairs
from lakeprobe.tensors.udf import METRICS_TYPE, REFERENCE_TYPE, register


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    files = frozenset({"/gone", *(str(tmp_path / name) for name in ("x", "0", "1", "2", "3"))})
    with duckdb.connect() as opened:
        register(opened, threads=2, files=files)
        yield opened


def row(reference: TensorReference) -> dict[str, Any]:
    columns = asdict(reference)
    del columns["content"]
    return {name: list(value) if isinstance(value, tuple) else value for name, value in columns.items()}


def test_gives_what_python_gives(tmp_path: Path, connection: duckdb.DuckDBPyConnection) -> None:
    arrays = [
        np.arange(6.0).reshape(2, 3),
        np.arange(6.0).reshape(3, 2).T + 1,
        np.array(["a"]),
        np.float32(1),
    ]
    references = [store(tmp_path / f"{number}", array) for number, array in enumerate(arrays)]
    references.append(TensorReference("/gone", 0, 4, "float32", (1,), None))
    connection.execute(f"CREATE TABLE sides (number INTEGER, side {REFERENCE_TYPE})")
    for number, reference in enumerate(references):
        connection.execute("INSERT INTO sides VALUES (?, ?)", [number, row(reference)])
    found = connection.execute(
        "SELECT t.number, g.number, tensor_metrics(t.side, g.side) FROM sides t, sides g ORDER BY ALL"
    ).fetchall()
    expected = measure_pairs([references[t] for t, _, _ in found], [references[g] for _, g, _ in found], 1)
    assert [TensorMetrics(**metrics) for _, _, metrics in found] == expected
    assert {metrics["status"] for _, _, metrics in found} >= {
        "measured",
        "shape",
        "text",
        "scalar",
        "unreadable",
    }


def test_null_gives_null(tmp_path: Path, connection: duckdb.DuckDBPyConnection) -> None:
    reference = row(store(tmp_path / "x", np.arange(4.0)))
    query = """
        SELECT tensor_metrics(side, other).equal
        FROM (VALUES ($x, $x), ($x, NULL), (NULL, NULL)) sides(side, other)
    """
    assert connection.execute(query, {"x": reference}).fetchall() == [(True,), (None,), (None,)]


def test_many_batches(tmp_path: Path, connection: duckdb.DuckDBPyConnection) -> None:
    reference = row(store(tmp_path / "x", np.arange(4.0)))
    query = """
        SELECT count(*) FILTER (m.equal), count(*) FILTER (m IS NULL)
        FROM (SELECT tensor_metrics($x, if(i < 4999, $x, NULL)) AS m FROM range(5000) numbers(i))
    """
    assert connection.execute(query, {"x": reference}).fetchall() == [(4999, 1)]


def test_a_file_that_holds_no_tensor_is_not_opened(tmp_path: Path, connection: duckdb.DuckDBPyConnection) -> None:
    stranger = row(store(tmp_path / "stranger", np.arange(4.0)))
    with pytest.raises(duckdb.Error, match="stranger"):
        connection.execute("SELECT tensor_metrics($x, $x)", {"x": stranger}).fetchall()


def test_type_names_every_field() -> None:
    assert all(f"{name} " in METRICS_TYPE for name in TensorMetrics.__struct_fields__)
