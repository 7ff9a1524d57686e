"""Columns made of values and their numbers: row by row what pyarrow itself makes of the values."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeprobe import columns

SOME_TEXTS = st.none() | st.sampled_from(["", "input", "output", "ü"])
SOME_NUMBERS = st.none() | st.integers(-(2**31), 2**31 - 1)
SOME_LISTS = st.none() | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3).map(tuple)


def numbered(values: st.SearchStrategy) -> st.SearchStrategy:
    """Values, and for each row the number of one."""
    return st.lists(values, min_size=1, max_size=6).flatmap(
        lambda found: st.tuples(st.just(found), st.lists(st.integers(0, len(found) - 1), min_size=1, max_size=20))
    )


@given(numbered(SOME_TEXTS))
def test_texts(case: tuple[list[str | None], list[int]]) -> None:
    values, codes = case
    column = columns.texts(values, np.array(codes))
    column.validate(full=True)
    rows = [values[code] for code in codes]
    assert column.to_pylist() == rows
    assert sorted(column.dictionary.to_pylist()) == sorted({row for row in rows if row is not None})


def test_texts_that_repeat_among_the_values_go_to_parquet_as_a_dictionary(tmp_path: Path) -> None:
    column = columns.texts(["input", "input", "output"], np.array([0, 1, 2] * 100))
    pq.write_table(pa.table({"role": column}), tmp_path / "roles.parquet")
    written = pq.ParquetFile(tmp_path / "roles.parquet").metadata.row_group(0).column(0)
    assert "RLE_DICTIONARY" in written.encodings
    assert pq.read_table(tmp_path / "roles.parquet")["role"].to_pylist() == ["input", "input", "output"] * 100


@given(numbered(SOME_NUMBERS))
def test_numbers(case: tuple[list[int | None], list[int]]) -> None:
    values, codes = case
    column = columns.numbers(values, np.array(codes), pa.int32())
    column.validate(full=True)
    assert column.equals(pa.array([values[code] for code in codes], type=pa.int32()))


@given(numbered(st.none() | st.booleans()))
def test_bools(case: tuple[list[bool | None], list[int]]) -> None:
    values, codes = case
    column = columns.numbers(values, np.array(codes), pa.bool_())
    column.validate(full=True)
    assert column.equals(pa.array([values[code] for code in codes], type=pa.bool_()))


@given(numbered(SOME_LISTS))
def test_lists(case: tuple[list[tuple[int, ...] | None], list[int]]) -> None:
    values, codes = case
    column = columns.lists(values, np.array(codes), pa.list_(pa.int64()))
    column.validate(full=True)
    assert column.equals(pa.array([values[code] for code in codes], type=pa.list_(pa.int64())))


@given(st.dictionaries(st.integers(0, 9), st.integers(-9, 9)))
def test_sparse(values: dict[int, int]) -> None:
    column = columns.sparse(values, 10, pa.int64())
    assert column.equals(pa.array([values.get(row) for row in range(10)], type=pa.int64()))


ANY_TEXTS = st.lists(st.none() | st.text(st.characters(codec="utf-8")) | st.sampled_from(["a", "ü", ""]))
ANY_INTEGERS = st.lists(st.none() | st.integers(-(2**31), 2**31 - 1))
ANY_FLOATS = st.lists(st.none() | st.floats(allow_nan=False) | st.integers(-9, 9))


@pytest.mark.parametrize(
    ("values", "type"),
    [
        (ANY_TEXTS, pa.string()),
        (ANY_INTEGERS, pa.int32()),
        (ANY_INTEGERS, pa.int64()),
        (ANY_FLOATS, pa.float64()),
        (st.lists(st.none() | st.booleans()), pa.bool_()),
        (st.lists(st.none() | ANY_TEXTS), pa.list_(pa.string())),
        (st.lists(st.none() | ANY_INTEGERS), pa.list_(pa.int64())),
    ],
    ids=str,
)
@given(data=st.data())
def test_values(data: st.DataObject, values: st.SearchStrategy, type: pa.DataType) -> None:
    drawn = data.draw(values)
    column = columns.column_of(drawn, type)
    column.validate(full=True)
    assert column.equals(pa.array(drawn, type=type))


@pytest.mark.parametrize(
    ("value", "type"),
    [
        (5, pa.string()),
        ("5", pa.int32()),
        (0.5, pa.int64()),
        ("0.5", pa.float64()),
        (1, pa.bool_()),
        (2**31, pa.int32()),
        (-(2**63) - 1, pa.int64()),
        ("\ud800", pa.string()),
        ([5], pa.list_(pa.string())),
        (5, pa.list_(pa.int64())),
    ],
)
def test_a_value_that_the_type_cannot_hold_is_refused(value: object, type: pa.DataType) -> None:
    for values in ([value], [None, value]):
        with pytest.raises((TypeError, ValueError)):
            columns.column_of(values, type)


def test_columns_are_made_without_pandas() -> None:
    """Importing it would take a training that builds its units 0.15 s and 40 MB."""
    program = """
import sys
import pyarrow as pa
from lakeprobe.columns import column_of
from lakeprobe.lake.unit import as_rows
column_of(["a"], pa.string())
as_rows("dumps", [{"format": "lakeprobe", "notes": ["a"], "ops": 3}])
print("pandas" in sys.modules)
"""
    pytest.importorskip("pandas")
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
