"""What a checkpoint file holds: tensors by name, each by reference, and the numbers and texts beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from lakeprobe.bounds import DEEPEST_PARAMETER, LONGEST_NAMES, LONGEST_OP, MOST_PARAMETERS
from lakeprobe.errors import TensorError
from lakeprobe.tensors.reference import TensorReference


class Piece(Struct, frozen=True):
    """A part of a tensor: its place, and at which index of each axis of the whole it begins."""

    reference: TensorReference
    starts: tuple[int, ...]


class Whole(Struct, frozen=True):
    """A tensor that is saved in pieces, which together fill its `shape`."""

    dtype: str
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]


class Unread(Struct, frozen=True):
    """A tensor that is quantized, or of an element type that is not read: only its type and shape are known."""

    dtype: str
    shape: tuple[int, ...]


class Saved(Struct):
    """The contents of a checkpoint file, by names joined with dots, in their order.

    `values` are numbers, texts, and None. `shared` says of a tensor in the memory of an earlier one
    which that is; it is None where the format does not record that. `unread` are tensors without values, and `left_out`
    things that are nothing of this, with their classes. `apart` are names of further copies of a parameter: of ranks
    that should hold the same, and do not.
    """

    tensors: dict[str, TensorReference | Whole] = field(default_factory=dict)
    values: dict[str, bool | int | float | str | None] = field(default_factory=dict)
    shared: dict[str, str] | None = None
    unread: dict[str, Unread] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    apart: list[str] = field(default_factory=list)


def flattened(tree: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of nested dicts, lists and tuples, each with the keys on the way to it joined by dots.

    A key that is neither a text nor a number, nor a tuple of these, stands for itself by its class. A name that another
    leaf has gets a number: the second a.b of {"a.b": …, "a": {"b": …}} is a.b#2. Raises TensorError where there are too
    many, or too deep: a few bytes of a pickle can name one container again and again.
    """
    taken: dict[str, int] = {}
    waiting: list[tuple[str, Any, int]] = [("", tree, 0)]
    visited = characters = 0
    while waiting:
        name, value, depth = waiting.pop()
        visited, characters = visited + 1, characters + len(name)
        if visited > MOST_PARAMETERS or characters > LONGEST_NAMES or len(name) > LONGEST_OP:
            raise TensorError(f"more than {MOST_PARAMETERS} parameters, or names of more than {LONGEST_OP} characters")
        if depth > DEEPEST_PARAMETER:
            raise TensorError(f"containers nested deeper than {DEEPEST_PARAMETER} levels")
        if isinstance(value, dict):
            inner: list[tuple[Any, Any]] = list(value.items())
        elif type(value) in (list, tuple):
            inner = list(enumerate(value))
        else:
            yield _unused(name, taken), value
            continue
        if visited + len(waiting) + len(inner) > MOST_PARAMETERS:
            raise TensorError(f"more than {MOST_PARAMETERS} parameters")
        prefix = f"{name}." if name else ""
        waiting += [(f"{prefix}{_key(key)}", item, depth + 1) for key, item in reversed(inner)]


def _unused(name: str, taken: dict[str, int]) -> str:
    """Return the name, with the next number if a leaf has it. `taken` has the last number of each name."""
    unused = name
    while unused in taken:
        taken[name] += 1
        unused = f"{name}#{taken[name]}"
    taken[unused] = 1
    return unused


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    is_plain = isinstance(key, (int, float)) or (
        type(key) is tuple and all(isinstance(part, (str, int, float)) for part in key)
    )
    return str(key) if is_plain else type(key).__name__
