"""What our tables (schemas/data) know of ops: their kind in two frameworks, and the names of their arguments.

The tables only propose. The recorded values decide (mapping/row_pairs.py).
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from functools import lru_cache

from lakeprobe import resources

_OPERATORS = {"truediv": "div", "batchmatmul": "matmul"}
"""Kinds of op under other names. The tables lack these, because PyTorch has both names."""

_BY_PLACE = {"mean": "running_mean", "variance": "running_var", "scale": "weight"}
"""Arguments of MindSpore's primitives that our table of slots has only by position."""


def family(name: str, framework: str = "") -> str:
    """Return the kind of an op, in one spelling and in PyTorch's words: __add__ → add, Dense → linear."""
    word = _word(name)
    return _OPERATORS.get(word) or (_families().get(word, word) if framework == "mindspore" else word)


def argument(framework: str, op: str, slot: str) -> str | None:
    """Return the name of the argument in `slot` of `op`, in PyTorch's words. None if no signature has it.

    `op` is its name in a dump (Functional.layer_norm.0.forward). `slot` is an index or name there (input.1,
    input.weight).
    """
    section, _, place = slot.partition(".")
    if section != "input" or "." in place:
        return None
    if place.isdigit():
        names = _arguments(framework).get(_api(op), ())
        name = names[int(place)] if int(place) < len(names) else None
    else:
        name = place
    return None if name is None else slot_name(name)


def slot_name(name: str) -> str:
    """Return the name of an argument or parameter in PyTorch's words: gamma → weight, axis → dim."""
    return _slot_names().get(name, name)


def _word(name: str) -> str:
    text = name.rpartition(".")[2].lower()
    plain = text[2:-2] if text.startswith("__") and text.endswith("__") and len(text) > 4 else text
    return plain.rstrip("_").replace("_", "") + ("_" if plain.endswith("_") else "")


def _api(op: str) -> str:
    """Return Functional.softmax for Functional.softmax.0.forward, Primitive.Add for Primitive.add.Add.0.forward."""
    parts = op.split(".")
    return f"{parts[0]}.{parts[2]}" if parts[0] == "Primitive" and len(parts) > 3 else ".".join(parts[:2])


@lru_cache
def _families() -> dict[str, str]:
    """Return PyTorch's kind for each of MindSpore's kinds of op that has exactly one."""
    found: dict[str, set[str]] = defaultdict(set)
    for table in ("apis", "classes"):
        for theirs, ours in _rows(table):
            found[_word(theirs)].add(_word(ours))
    return {word: others.pop() for word, others in found.items() if len(others) == 1}


@lru_cache
def _slot_names() -> dict[str, str]:
    """Return PyTorch's most frequent name for each of MindSpore's argument names."""
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for *_, theirs, ours in _rows("slots"):
        name, other = theirs.rpartition(".")[2], ours.rpartition(".")[2]
        if name and other and not name.isdigit() and not other.isdigit():
            votes[name][other] += 1
    return {**_BY_PLACE, **{name: others.most_common(1)[0][0] for name, others in votes.items()}}


@lru_cache
def _arguments(framework: str) -> dict[str, tuple[str, ...]]:
    """Return for each op its positional arguments in order (benchmarks/signatures.py)."""
    if not resources.data(f"signatures/{framework}").exists():
        return {}
    found = {}
    for api, text in _rows(f"signatures/{framework}"):
        names = [each.partition("=")[0].strip() for each in text.split(", ")]
        found[api] = tuple(name for name in names[: names.index("*") if "*" in names else None] if name.isidentifier())
    return found


def _rows(name: str) -> list[list[str]]:
    with resources.data(name).open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]
