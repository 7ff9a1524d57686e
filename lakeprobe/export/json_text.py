"""Writes JSON as msprobe does (`json.dump(…, indent=1)`, bare NaN and Infinity), with holes for text that comes later.

A dump repeats few forms. The text between the holes of a form is computed once. Then an entry is a join.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from lakeprobe.errors import UsageError

_MOST_GAPS = 10_000
"""The maximum number of gaps in a list. Tools other than msprobe omit what they do not dump."""


class Hole(Struct, frozen=True):
    """A place in a value whose text follows later; `what` identifies it."""

    what: Any


def pieces(value: Any, depth: int) -> list[Any]:
    """Return the JSON text of `value`, which is `depth` levels deep, as texts with holes (what, depth) between them.

    An object with integer keys stands for a list with its values at these indexes, and null elsewhere. Raises
    UsageError if such a list would be almost empty.
    """
    joined: list[Any] = []
    text = ""
    for piece in _walk(value, depth):
        if isinstance(piece, str):
            text += piece
        else:
            joined += [text, piece]
            text = ""
    return [*joined, text]


def text(value: Any, depth: int = 0) -> str:
    """Return the JSON text of `value`, which has no holes and is `depth` levels deep."""
    return "".join(_walk(value, depth))


def _walk(value: Any, depth: int) -> Iterator[Any]:
    """Yield the pieces one by one, with one frame per level. A dump may be nested 400 levels deep."""
    brackets = "[]"
    if isinstance(value, Hole):
        yield value.what, depth
        return
    if isinstance(value, dict) and value and isinstance(next(iter(value)), int):
        items = [("", item) for item in _listed(value)]
    elif isinstance(value, dict) and value:
        brackets, items = "{}", [(f"{json.dumps(key)}: ", item) for key, item in value.items()]
    elif isinstance(value, list) and value:
        items = [("", item) for item in value]
    else:
        yield json.dumps(value)
        return
    inner = "\n" + " " * (depth + 1)
    before = brackets[0] + inner
    for key, item in items:
        yield before + key
        yield from _walk(item, depth + 1)
        before = "," + inner
    yield "\n" + " " * depth + brackets[1]


def _listed(values: dict[int, Any]) -> list[Any]:
    length = max(values) + 1
    if length > len(values) + _MOST_GAPS:
        raise UsageError(f"a list has {len(values)} values and {length - len(values)} gaps; it is not exported")
    return [values.get(index) for index in range(length)]
