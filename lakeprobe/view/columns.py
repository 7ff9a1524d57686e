"""Packs columns for the browser: one compressed text per table, which assets/page.js unpacks.

A packed table is the base64 of a gzip stream: the length of a JSON head (uint32), the head, and the columns as
little-endian arrays, each at a multiple of 8 bytes. The head says where each column lies, and holds the texts that
columns of texts are numbers of.
"""

from __future__ import annotations

import base64
import gzip
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from lakeprobe.shown import shown

_SMALLEST = (np.int8, np.int16, np.int32)
_ALIGNMENT = 8
Column: TypeAlias = "np.ndarray[Any, Any]"


class Texts:
    """The distinct texts of a table. `number` gives the number of a text, -1 for None."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def texts(self) -> list[str]:
        """The texts as they are shown, in the order of their numbers."""
        return list(map(shown, self._numbers))

    def number(self, text: str | None) -> int:
        """Return the number of `text`; a new text gets the next one."""
        return -1 if text is None else self._numbers.setdefault(text, len(self._numbers))

    def numbers(self, texts: Sequence[str | None]) -> Column:
        """Return the numbers of `texts`."""
        numbers = self._numbers
        return integers([-1 if text is None else numbers.setdefault(text, len(numbers)) for text in texts])


def integers(values: Sequence[int] | Column) -> Column:
    """Return `values` as the smallest signed integers that hold them."""
    wide = np.asarray(values, np.int64)
    least, most = (int(wide.min()), int(wide.max())) if len(wide) else (0, 0)
    kind = next(kind for kind in _SMALLEST if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)
    return wide.astype(kind)


def floats(values: Sequence[float | None] | Column, exact: bool = False) -> Column:
    """Return `values` as float32, in which frameworks record statistics; NaN for None.

    They are float64 where a finite value is too large for float32, with `exact` where float32 does not hold them all.
    """
    wide = np.array(values, np.float64)  # None becomes NaN
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    lost = (narrow != wide) & ~np.isnan(wide)
    return wide if (lost if exact else lost & np.isinf(narrow)).any() else narrow


def packed(head: Mapping[str, Any], columns: Mapping[str, Column]) -> str:
    """Return `head` and `columns` as one text."""
    places, arrays, offset = {}, [], 0
    for name, column in columns.items():
        plain = np.ascontiguousarray(column, column.dtype.newbyteorder("<")).tobytes()
        places[name] = [column.dtype.name, offset, len(column)]
        arrays.append(plain + bytes(-len(plain) % _ALIGNMENT))
        offset += len(arrays[-1])
    text = json.dumps({**head, "columns": places}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    described = text.encode("utf-8", "replace")
    described += b" " * (-(len(described) + 4) % _ALIGNMENT)
    whole = struct.pack("<I", len(described)) + described + b"".join(arrays)
    return base64.b64encode(gzip.compress(whole, 4, mtime=0)).decode("ascii")
