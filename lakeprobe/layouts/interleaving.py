"""Finds weights whose shards are interleaved in another order than the one in which ops split their results.

A fused weight of query, key and value has each rank's part of all three, so its shards lie in three blocks. A rank that
was given the n-th part of the rows instead has a valid weight in another order. What shows it is the op that splits the
result, where it is recorded, and the same weight of other layers. The order of each tensor is known where golden's
contents show it (`contents.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate

from lakeprobe.layouts.contents import Order
from lakeprobe.layouts.mesh import Axis
from lakeprobe.layouts.placements import SHARD, Key, Leaf, Placement

_SPLITS = re.compile(r"\.(chunk|split|tensor_split|split_with_sizes|unsafe_chunk|unsafe_split)\.\d+\.forward$")
_NUMBER = re.compile(r"\.\d+\.")


def contradictions(
    leaves: Mapping[Key, Leaf],
    decided: Mapping[Key, Placement],
    orders: Mapping[Key, Mapping[int, Order]],
    axes: Sequence[Axis],
) -> dict[Key, str]:
    """What is wrong with the shards of weights, and of what was computed with them.

    `orders`: of each tensor whose order is known, by axis.
    """
    found = _unlike_layers(leaves, decided, orders, axes)
    for key, known in orders.items():
        outputs = _outputs(leaves, key) if _SPLITS.search(key.op) and key.slot == "input.0" else []
        shape = leaves[key].shape or ()
        dimension = next((n for n in range(len(shape)) if any(out[n] != shape[n] for out in outputs)), None)
        for number, (way, cut) in enumerate(zip(decided[key].ways, decided[key].dimensions, strict=True)):
            if way != SHARD or cut != dimension or dimension is None:
                continue
            parts = [out[dimension] for out in outputs]
            if _ends(parts) <= _ends(_sections(known.get(number, 1), shape[dimension])):
                continue
            text = (
                f"shards along {axes[number].name} are interleaved differently: they lie "
                f"{_words(known.get(number, 1))}, and {key.op} splits each rank's into {', '.join(map(str, parts))}"
            )
            found[key] = text
            found |= dict.fromkeys(_weights(leaves, decided, key, number, shape[dimension]), f"weight {text}")
    return found


def _unlike_layers(
    leaves: Mapping[Key, Leaf],
    decided: Mapping[Key, Placement],
    orders: Mapping[Key, Mapping[int, Order]],
    axes: Sequence[Axis],
) -> dict[Key, str]:
    """The weights that are ordered otherwise than those of most layers; of two, the one without an order of its own."""
    alike: dict[tuple[str, str, int], dict[Key, Order]] = {}
    for key, known in orders.items():
        if leaves[key].role == "parameters":
            for number, way in enumerate(decided[key].ways):
                if way == SHARD:
                    kind = (_NUMBER.sub(".*.", key.op), key.slot, number)
                    alike.setdefault(kind, {})[key] = known.get(number, 1)
    found = {}
    for (_, _, number), weights in alike.items():
        counts = Counter(weights.values())
        usual = max(counts, key=lambda order: (counts[order], order != 1, str(order)))
        for key, order in weights.items():
            if order != usual:
                found[key] = (
                    f"weight shards along {axes[number].name} are interleaved differently from those of other layers: "
                    f"they lie {_words(order)}, and those {_words(usual)}"
                )
    return found


def _outputs(leaves: Mapping[Key, Leaf], key: Key) -> list[tuple[int, ...]]:
    """The shapes of an op's results, if they have as many axes as its input."""
    shape = leaves[key].shape or ()
    found: list[tuple[int, ...]] = []
    while (leaf := leaves.get(Key(key.op, f"output.{len(found)}", key.repeat))) is not None:
        if leaf.shape is None or len(leaf.shape) != len(shape):
            return []
        found.append(leaf.shape)
    return found


def _ends(parts: Sequence[int]) -> set[int]:
    return set(accumulate(parts))


def _sections(order: Order, extent: int) -> Sequence[int]:
    """The sections of a rank's part that lie apart in the whole."""
    return order if isinstance(order, tuple) else [extent // abs(order)] * abs(order)


def _words(order: Order) -> str:
    if isinstance(order, tuple):
        return f"in sections of {', '.join(map(str, order))}"
    return "one after the other" if order == 1 else f"in {abs(order)} blocks"


def _weights(
    leaves: Mapping[Key, Leaf], decided: Mapping[Key, Placement], key: Key, number: int, extent: int
) -> list[Key]:
    """The weights of the module that gave a tensor: those that are cut along the same axis into as large parts."""
    value = leaves[key].value
    modules = {other.op for other, leaf in leaves.items() if leaf.value == value and leaf.role == "output"}
    return [
        other
        for other, leaf in leaves.items()
        if leaf.role == "parameters"
        and other.op in modules
        and decided[other].ways[number] == SHARD
        and leaf.shape is not None
        and extent in leaf.shape
    ]
