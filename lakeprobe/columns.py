"""Builds Arrow columns from Python values, and from values that repeat: each distinct one is kept once.

pa.array would import pandas first, where it is installed, to see that a list is not one of its own: 0.15 s and 40 MB,
which a training that builds its units would pay, too.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Numbers = NDArray[np.int32]
    Rows = NDArray[np.int64]


_LARGEST_OFFSET = 2**31 - 1
_INTEGERS = {"int32": "i", "int64": "q"}
"""Types of Arrow and of Python's arrays."""


class Codes(dict[Any, int]):
    """Numbers values in the order in which they are first asked for."""

    def __missing__(self, value: Hashable) -> int:
        """Give a new value the next number."""
        code = self[value] = len(self)
        return code


def column_of(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    """The column of `type` that holds `values`: texts, numbers, bools, or lists of these, and None for null.

    Raises TypeError and ValueError for values that the type cannot hold.
    """
    import pyarrow as pa

    present = _present(values) if None in values else None
    if pa.types.is_list(type):
        elements = column_of([element for value in values for element in value or ()], type.value_type)
        buffers = [_validity(present), pa.py_buffer(_offsets([len(value or ()) for value in values]))]
        return pa.Array.from_buffers(type, len(values), buffers, children=[elements])
    if pa.types.is_string(type):
        encoded, sizes = _encoded(_filled(values, present, ""))
        buffers = [_validity(present), pa.py_buffer(_offsets(sizes)), pa.py_buffer(encoded)]
        return pa.Array.from_buffers(type, len(values), buffers)
    if pa.types.is_boolean(type):
        return fixed(_bools(_filled(values, present, False)), type, present)
    return fixed(_numbers(_filled(values, present, 0), type), type, present)


def _filled(values: Sequence[Any], present: NDArray[np.bool_] | None, filling: Any) -> Sequence[Any]:
    return values if present is None else [filling if value is None else value for value in values]


def _encoded(values: Sequence[str]) -> tuple[bytes, Sequence[int]]:
    joined = "".join(values)
    if joined.isascii():
        return joined.encode(), [*map(len, values)]
    return joined.encode(), [len(value.encode()) for value in values]


def _bools(values: Sequence[Any]) -> NDArray[np.bool_]:
    import numpy as np

    if not {value.__class__ for value in values} <= {bool}:
        raise TypeError("a column of bools holds nothing else")
    return np.array(values, dtype=bool)


def _numbers(values: Sequence[Any], type: pa.DataType) -> NDArray[Any]:
    """The values as numbers. numpy alone would take a text, or half of 3, for an integer, too."""
    import numpy as np
    import pyarrow as pa

    try:
        return np.array(array("d" if pa.types.is_float64(type) else _INTEGERS[str(type)], values))
    except OverflowError as error:
        raise ValueError(f"a number is too large for {type}") from error


def _offsets(sizes: Sequence[int] | Numbers) -> Numbers:
    """Where each of values of these sizes begins in a buffer, and where the last one ends."""
    import numpy as np

    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] > _LARGEST_OFFSET:
        raise ValueError("a column has more than 2 GiB")
    return offsets.astype(np.int32)


def texts(values: Iterable[str | None], codes: Numbers) -> pa.Array:
    """The column of texts that has, row by row, the value of that number: `values[code]` for each code.

    It is an Arrow dictionary of the values that are in use, which Parquet takes over as it is. Each stands in it once:
    of one with a text twice, pyarrow makes a plain column, behind a dictionary page with stray bytes of memory.
    """
    import numpy as np
    import pyarrow as pa

    distinct = Codes()
    codes = np.array([distinct[value] for value in values], dtype=np.int32)[codes]
    values = list(distinct)
    used = np.zeros(len(values), dtype=bool)
    used[codes] = True
    used &= _present(values)
    places = np.cumsum(used, dtype=np.int32) - np.int32(1)
    dictionary = column_of([values[code] for code in used.nonzero()[0].tolist()], pa.string())
    return pa.DictionaryArray.from_arrays(fixed(places[codes], pa.int32(), used[codes]), dictionary)


def numbers(values: Iterable[int | None], codes: Numbers, type: pa.DataType) -> pa.Array:
    """The column of `type`, integers or bools, that has the value of that number in each row."""
    import numpy as np

    values = list(values)
    filled = np.array([value or 0 for value in values], dtype=str(type))  # numpy and Arrow call these types the same
    return fixed(filled[codes], type, _present(values)[codes])


def lists(values: Iterable[tuple[int, ...] | None], codes: Numbers, type: pa.DataType) -> pa.Array:
    """The column of lists of int64, which `type` says, that has the value of that number in each row."""
    import numpy as np
    import pyarrow as pa

    values = list(values)
    sizes = np.array([len(value or ()) for value in values], dtype=np.int32)
    elements = np.array([element for value in values for element in value or ()], dtype=np.int64)
    begins, lengths = np.cumsum(sizes) - sizes, sizes[codes]
    offsets = _offsets(lengths)
    from_elements = np.arange(offsets[-1]) + np.repeat(begins[codes] - offsets[:-1], lengths)
    children = [fixed(elements[from_elements], type.value_type)]
    buffers = [_validity(_present(values)[codes]), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(type, len(codes), buffers, children=children)


def fixed(column: NDArray[Any], type: pa.DataType, present: NDArray[np.bool_] | None = None) -> pa.Array:
    """The numbers or bools of `column` as a column of `type`, null where they are not `present`.

    pa.array does the same, and imports numpy.ma, too.
    """
    import numpy as np
    import pyarrow as pa

    values = np.packbits(column, bitorder="little") if column.dtype == bool else np.ascontiguousarray(column)
    return pa.Array.from_buffers(type, len(column), [_validity(present), pa.py_buffer(values)])


def _present(values: Iterable[object]) -> NDArray[np.bool_]:
    import numpy as np

    return np.array([value is not None for value in values], dtype=bool)


def _validity(present: NDArray[np.bool_] | None) -> pa.Buffer | None:
    import numpy as np
    import pyarrow as pa

    return None if present is None or present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def placed(values: Sequence[Any], rows: Sequence[int] | Rows, length: int, type: pa.DataType) -> pa.Array:
    """The column of `type`, numbers, of `length` rows that holds `values` at these rows and null elsewhere.

    pa.Array.take does the same, and imports pyarrow.compute first, which takes longer than a small unit.
    """
    import numpy as np
    import pyarrow as pa

    missing = values.count(None)
    if missing == len(values):
        return pa.nulls(length, type=type)
    column = np.zeros(length, dtype=str(type))
    present = np.zeros(length, dtype=bool)
    column[rows] = [0 if value is None else value for value in values] if missing else values
    present[rows] = _present(values) if missing else True
    return fixed(column, type, present)


def refilled(column: pa.Array, rows: Rows, values: Sequence[float | None]) -> pa.Array:
    """The float64 `column` with other values at these rows, which are null where they were."""
    import numpy as np
    import pyarrow as pa

    validity, old = column.buffers()
    new = np.frombuffer(old, np.float64, len(column), column.offset * 8).copy()
    new[rows] = [0.0 if value is None else value for value in values] if None in values else values
    return pa.Array.from_buffers(column.type, len(column), [validity, pa.py_buffer(new)])


def sparse(values: dict[int, Any], length: int, type: pa.DataType) -> pa.Array:
    """The column of `length` rows that holds `values` at their rows and null elsewhere."""
    import pyarrow as pa

    if not values:
        return pa.nulls(length, type=type)
    return column_of(list(map(values.get, range(length))), type)
