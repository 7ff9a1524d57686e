"""Builds Arrow columns from values that repeat: each distinct value is kept once, and rows hold its number."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


class Codes(dict[Any, int]):
    """Numbers values in the order in which they are first asked for."""

    def __missing__(self, value: Hashable) -> int:
        """Give a new value the next number."""
        code = self[value] = len(self)
        return code


def decode(values: Iterable[Any], codes: Sequence[int], type: pa.DataType) -> pa.Array:
    """The column that has, row by row, the value of that number: `values[code]` for each code."""
    import pyarrow as pa

    return pa.array(list(values), type=type).take(pa.array(codes, type=pa.int32()))


def sparse(values: dict[int, Any], length: int, type: pa.DataType) -> pa.Array:
    """The column of `length` rows that holds `values` at their rows and null elsewhere."""
    import pyarrow as pa

    if not values:
        return pa.nulls(length, type=type)
    column: list[Any] = [None] * length
    for row, value in values.items():
        column[row] = value
    return pa.array(column, type=type)
