"""Writes the entries of dump.json and debug.json from rows of ops and tensors, the inverse of lakeprobe.readers.leaves.

The text around the leaves of an entry (its frame) and the fixed text of a leaf (its form) take few distinct values in a
dump. Each is computed once, so that a leaf costs a look-up and a join.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from lakeprobe.export import json_text
from lakeprobe.export.json_text import Hole
from lakeprobe.readers.leaves import BARE

_STATISTICS = ("Max", "Min", "Mean", "Norm")
_CACHED = 1 << 14
_DEPTH = 2
"""How deep the value of an entry is in dump.json."""


class Op(NamedTuple):
    """The columns of ops that an entry needs."""

    seq: int
    part: str
    op: str
    kind: str
    is_recompute: bool | None
    sections: str | None
    empties: str | None
    extra: str | None


class Leaf(NamedTuple):
    """The columns of tensors that a leaf needs, and its content."""

    seq: int
    section: str | None
    path: str
    kind: str
    type: str | None
    dtype: str | None
    shape: list[int] | None
    max: float | None
    min: float | None
    mean: float | None
    norm: float | None
    max_int: int | None
    min_int: int | None
    stat_types: str | None
    value: str | None
    requires_grad: bool | None
    digest: str | None
    data_name: str | None
    content: str | None
    fields: str | None
    extra: str | None


def entry_text(op: Op, leaves: Sequence[Leaf]) -> str:
    """Return the value of the entry `op` of dump.json with the leaves `leaves` as JSON text."""
    places = tuple([(leaf.section, leaf.path) for leaf in leaves])
    frame = _frame(op.kind, op.sections, op.empties, op.extra, op.is_recompute, places)
    return "".join([
        piece if piece.__class__ is str else _leaf_text(leaves[piece[0]], piece[1]) for piece in frame
    ])  # fmt: skip


# ---- the frame of an entry --------------------------------------------------------------------------------


@lru_cache(_CACHED)
def _frame(
    kind: str, sections: str | None, empties: str | None, extra: str | None, is_recompute: bool | None,
    places: tuple[tuple[str | None, str], ...],
) -> list[Any]:  # fmt: skip
    """Return an entry's text with a hole for each leaf: (its number among the entry's leaves, its depth)."""
    is_bare = kind == "parameters_grad" or kind in BARE  # the value itself, without sections
    found: list[tuple[tuple[Any, ...], Any]]
    found = [((section, *json.loads(path)), Hole(number)) for number, (section, path) in enumerate(places)]
    found += [(tuple(path), {"[]": [], "{}": {}}[sign]) for *path, sign in json.loads(empties or "[]")]
    body = _nested([(path[is_bare:], value) for path, value in found])
    if not is_bare:
        body |= json.loads(extra or "{}")
        if is_recompute is not None:
            body["is_recompute"] = is_recompute
        body = _in_order(body, (sections or "").split(" "))
    return json_text.pieces(body, _DEPTH)


def _nested(found: Iterable[tuple[tuple[Any, ...], Any]]) -> Any:
    """Return nested objects with each of the given values at its path. Lists are objects whose keys are integers."""
    top: dict[Any, Any] = {"": {}}
    for path, value in found:
        holder = top
        *way, last = ("", *path)
        for key in way:
            holder = holder.setdefault(key, {})
        holder[last] = value
    return top[""]


def _in_order(values: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return `values` in the order of `keys`, which may contain absent keys. Values not named there come last."""
    return {key: values[key] for key in keys if key in values} | values


# ---- leaves -----------------------------------------------------------------------------------------------


def _leaf_text(leaf: Leaf, depth: int) -> str:
    form = _form(
        leaf.kind, leaf.type, leaf.dtype, None if leaf.shape is None else tuple(leaf.shape), leaf.requires_grad,
        leaf.stat_types, leaf.fields, leaf.extra, depth,
    )  # fmt: skip
    return "".join([piece if piece.__class__ is str else piece[0](leaf, piece[1]) for piece in form])


@lru_cache(_CACHED)
def _form(
    kind: str, type: str | None, dtype: str | None, shape: tuple[int, ...] | None, requires_grad: bool | None,
    stat_types: str | None, fields: str | None, extra: str | None, depth: int,
) -> list[Any]:  # fmt: skip
    """Return a leaf's text with holes for what differs between leaves of this form: (function, depth)."""
    others = json.loads(extra or "{}")
    if fields is None:  # not an object but null, or a bare number or text
        return json_text.pieces(None if kind == "null" else Hole(_value_text), depth)
    keys = fields.split(" ")
    values: dict[str, Any]
    if kind == "tensor" and "class_type" in keys:
        values = {"class_type": type, "tensor": _point_to_point(others, dtype, shape, requires_grad, stat_types)}
        values |= others
    elif kind == "tensor":
        values = {"type": type, **_tensor(keys, dtype, shape, requires_grad, stat_types), **others}
    else:
        values = {"type": type} | ({"value": Hole(_value_text)} if "value" in keys else {}) | others
    return json_text.pieces(_in_order(values, keys), depth)


def _point_to_point(
    others: dict[str, Any], dtype: str | None, shape: tuple[int, ...] | None, requires_grad: bool | None,
    stat_types: str | None,
) -> dict[str, Any]:  # fmt: skip
    """Return the tensor of a P2POp. Moves the tensor's fields out of `others`. What remains belongs to the P2POp."""
    own = others.pop("tensor")
    keys = own.pop("fields").split(" ")
    kind = {"type": own.pop("type")} if "type" in keys else {}
    exact = {key: others.pop(key) for key in (*_STATISTICS, "md5") if key in others}
    return _in_order(kind | _tensor(keys, dtype, shape, requires_grad, stat_types) | own | exact, keys)


def _tensor(
    keys: Sequence[str], dtype: str | None, shape: tuple[int, ...] | None, requires_grad: bool | None,
    stat_types: str | None,
) -> dict[str, Any]:  # fmt: skip
    values: dict[str, Any] = {"dtype": dtype, "shape": None if shape is None else list(shape)}
    values |= {
        key: _STATISTIC_HOLES[key, letter] for key, letter in zip(_STATISTICS, stat_types or "----", strict=True)
    }
    is_value = "Max" not in keys and stat_types is not None and stat_types[0] != "-"  # the xor mode, of a 0-d tensor
    digest = values["Max"] if is_value else Hole(_digest_text)
    values |= {"requires_grad": requires_grad, "md5": digest, "data_name": Hole(_data_name_text)}
    return {key: value for key, value in values.items() if key in keys}


def _value_text(leaf: Leaf, depth: int) -> str:
    return _recorded(leaf.type, leaf.value, depth)


@lru_cache(_CACHED)
def _recorded(type: str | None, value: str | None, depth: int) -> str:
    """Return the column tensors.value as JSON text. The column has texts verbatim, and everything else as JSON."""
    if type == "str" or value is None:
        return json.dumps(value)
    try:
        return json_text.text(json.loads(value), depth)
    except ValueError:
        return json.dumps(value)


def _digest_text(leaf: Leaf, depth: int) -> str:
    return json.dumps(leaf.digest)


def _data_name_text(leaf: Leaf, depth: int) -> str:
    return json.dumps(leaf.data_name)


# ---- statistics -------------------------------------------------------------------------------------------


def _float_of(column: str) -> Callable[[Any, int], str]:
    place = Leaf._fields.index(column)

    def number(leaf: Any, depth: int) -> str:
        text = repr(leaf[place])
        return _NOT_FINITE.get(text, text)

    return number


def _integer_of(column: str) -> Callable[[Any, int], str]:
    place = Leaf._fields.index(column)
    exact = Leaf._fields.index(f"{column}_int") if f"{column}_int" in Leaf._fields else place
    return lambda leaf, depth: str(int(leaf[place] if leaf[exact] is None else leaf[exact]))


def _bool_of(column: str) -> Callable[[Any, int], str]:
    place = Leaf._fields.index(column)
    return lambda leaf, depth: "true" if leaf[place] else "false"


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

_STATISTIC_HOLES: dict[tuple[str, str], Any] = {
    (key, letter): Hole(maker(key.lower()))
    for key in _STATISTICS
    for letter, maker in (("f", _float_of), ("i", _integer_of), ("b", _bool_of))
} | {(key, letter): None for key in _STATISTICS for letter in "ns-"}
"""The text of a statistic by its letter (tensors.stat_types). Statistics that are texts (s) are in tensors.extra."""
