"""The places of tensors in the arguments or results of a module: none for a tensor alone, [0] or ['key'] in others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def of_call(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    """Return the arguments as one value whose parts have the names of places."""
    return arguments if not keywords else {**dict(enumerate(arguments)), **keywords}


def named(value: Any, wanted: Callable[[Any], bool], slot: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the tensors in a value that are `wanted`, each with its place."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from named(item, wanted, f"{slot}[{key!r}]")
    elif isinstance(value, (tuple, list)):
        for number, item in enumerate(value):
            yield from named(item, wanted, slot if len(value) == 1 else f"{slot}[{number}]")
    elif wanted(value):
        yield slot, value
