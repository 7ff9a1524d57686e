"""Weights whose shards are interleaved in another order than ops split their results, and the orders of blocks."""

import numpy as np
import pytest

from lakeprobe.layouts import contents
from lakeprobe.layouts.interleaving import contradictions
from lakeprobe.layouts.mesh import Axis
from lakeprobe.layouts.placements import SHARD, Key, Leaf, Placement

TP = (Axis("tp", 2, ""),)
LINEAR, CHUNK = "Module.layers.{}.qkv.Linear.forward.0", "Tensor.chunk.0.forward"


def leaf(op, slot, shape, value=0):
    role = slot.partition(".")[0]
    return Leaf(
        Key(op, slot, 0), role, "tensor", "forward", shape, 2, None, 2, None, (False,), (2,), frozenset(), value
    )


def found(orders, parts=(8, 8, 8)):
    """What is wrong with two fused weights of these orders, the first of which gives what a chunk takes apart."""
    leaves = [leaf(LINEAR.format(n), "parameters.weight", (24, 16)) for n in range(2)]
    leaves += [leaf(LINEAR.format(0), "output.0", (2, 24), value=7), leaf(CHUNK, "input.0", (2, 24), value=7)]
    leaves += [leaf(CHUNK, f"output.{n}", (2, part)) for n, part in enumerate(parts)]
    by_key = {one.key: one for one in leaves}
    decided = {key: Placement([SHARD], [0 if key.slot.startswith("par") else 1]) for key in by_key}
    known = {leaves[0].key: orders[0], leaves[1].key: orders[1], leaves[3].key: orders[0]}
    told = contradictions(by_key, decided, {key: {0: order} for key, order in known.items()}, TP)
    return {(key.op, key.slot): text for key, text in told.items()}


@pytest.mark.parametrize(("order", "parts"), [(3, (8, 8, 8)), (6, (8, 8, 8)), ((12, 6, 6), (12, 6, 6)), (1, (24,))])
def test_blocks_that_fit_what_is_taken_apart_are_no_contradiction(order, parts):
    assert found((order, order), parts) == {}


def test_one_part_after_the_other_contradicts_a_split_in_three():
    problems = found((1, 1))
    assert problems[CHUNK, "input.0"] == (
        "shards along tp are interleaved differently: they lie one after the other, "
        "and Tensor.chunk.0.forward splits each rank's into 8, 8, 8"
    )
    assert problems[LINEAR.format(0), "parameters.weight"].startswith(
        "weight shards along tp are interleaved differently"
    )
    assert (LINEAR.format(1), "parameters.weight") not in problems


def test_a_layer_that_lies_otherwise_than_the_others_is_named():
    problems = found((3, 1))
    assert problems == {
        (
            LINEAR.format(1),
            "parameters.weight",
        ): "weight shards along tp are interleaved differently from those of other "
        "layers: they lie one after the other, and those in 3 blocks"
    }


def together(parts, order):
    arrays = {(nth,): part for nth, part in enumerate(parts)}
    return contents._together(arrays, (SHARD,), (0,), {0: order})


@pytest.mark.parametrize(
    ("order", "first", "second"),
    [
        (1, [0, 1, 2, 3], [4, 5, 6, 7]),
        (2, [0, 1, 4, 5], [2, 3, 6, 7]),
        (-1, [0, 1, 6, 7], [2, 3, 4, 5]),
        (-2, [0, 3, 4, 7], [1, 2, 5, 6]),
        ((2, 1, 1), [0, 1, 4, 6], [2, 3, 5, 7]),
    ],
)
def test_parts_in_each_order_are_the_whole(order, first, second):
    whole = np.arange(16.0).reshape(8, 2)
    assert (together((whole[first], whole[second]), order) == whole).all()
    assert contents._distance(together((whole[first], whole[second]), order), whole, 1.0) == 0


def test_sections_are_read_from_where_golden_has_the_rows():
    whole = np.arange(16.0).reshape(8, 2)
    rows = contents._rows({(0,): whole[[0, 1, 4, 6]], (1,): whole[[2, 3, 5, 7]]}, whole, 0)
    assert rows == [[0, 1, 4, 6], [2, 3, 5, 7]]
    assert contents._sections(rows[0]) == (2, 1, 1)
    assert contents._rows({(0,): whole[:4] + 1}, whole, 0) is None


def test_infinite_elements_must_stand_in_the_same_places():
    whole = np.array([1.0, -np.inf, 2.0])
    assert contents._distance(whole, whole, 1.0) == 0
    assert contents._distance(whole[::-1], whole, 1.0) > 0.1
    assert contents._distance(np.roll(whole, 1), whole, 1.0) == np.inf
