"""What our tables (schemas/data) know of ops: what kind one is in two frameworks, and how its arguments are called.

They propose; what was recorded decides (mapping/row_pairs.py).
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from functools import lru_cache

from lakeprobe import resources

_OPERATORS = {"truediv": "div", "batchmatmul": "matmul"}
"""Kinds of op under another name that no table has, since PyTorch knows both names."""

_BY_PLACE = {"mean": "running_mean", "variance": "running_var", "scale": "weight"}
"""Arguments of MindSpore's primitives that our table of slots has by their places only."""


def family(name: str, framework: str = "") -> str:
    """The kind of an op, spelled in one way and in PyTorch's words: __add__ → add, Dense → linear."""
    word = _word(name)
    return _OPERATORS.get(word) or (_families().get(word, word) if framework == "mindspore" else word)


def argument(framework: str, op: str, slot: str) -> str | None:
    """How the argument in `slot` of `op` is called, in PyTorch's words; None where no signature tells.

    `op` is its name in a dump (Functional.layer_norm.0.forward), `slot` a place or name there (input.1, input.weight).
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
    """The name of an argument or parameter in PyTorch's words: gamma → weight, axis → dim."""
    return _slot_names().get(name, name)


def _word(name: str) -> str:
    text = name.rpartition(".")[2].lower()
    plain = text[2:-2] if text.startswith("__") and text.endswith("__") and len(text) > 4 else text
    return plain.rstrip("_").replace("_", "") + ("_" if plain.endswith("_") else "")


def _api(op: str) -> str:
    """Functional.softmax of Functional.softmax.0.forward, Primitive.Add of Primitive.add.Add.0.forward."""
    parts = op.split(".")
    return f"{parts[0]}.{parts[2]}" if parts[0] == "Primitive" and len(parts) > 3 else ".".join(parts[:2])


@lru_cache
def _families() -> dict[str, str]:
    """Per kind of op of MindSpore the one that it is in PyTorch, where that is only one."""
    found: dict[str, set[str]] = defaultdict(set)
    for table in ("apis", "classes"):
        for theirs, ours in _rows(table):
            found[_word(theirs)].add(_word(ours))
    return {word: others.pop() for word, others in found.items() if len(others) == 1}


@lru_cache
def _slot_names() -> dict[str, str]:
    """Per name of an argument of MindSpore the one that it mostly has in PyTorch."""
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for *_, theirs, ours in _rows("slots"):
        name, other = theirs.rpartition(".")[2], ours.rpartition(".")[2]
        if name and other and not name.isdigit() and not other.isdigit():
            votes[name][other] += 1
    return {**_BY_PLACE, **{name: others.most_common(1)[0][0] for name, others in votes.items()}}


@lru_cache
def _arguments(framework: str) -> dict[str, tuple[str, ...]]:
    """Per op its arguments that can be given by place, in their order (benchmarks/signatures.py)."""
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
