"""What the records of DTensors say of their layout, and what of it does not hold."""

import json

import pytest
from msgspec.structs import replace

from lakeprobe.layouts import dtensor
from lakeprobe.layouts.mesh import given, spans
from lakeprobe.layouts.placements import Key, Leaf, Way, decide

RANKS = range(4)
MESH = given(RANKS, {"dp": 2, "tp": 2})
SPANS = spans(MESH, MESH.cutting, RANKS)


def leaf(shape, whole, equal, mesh, *placements, op="Functional.linear.0.forward", totals=None):
    record = json.dumps({"device_mesh": mesh, "placements": placements})
    return Leaf(Key(op, "input.1", 0), "input", "tensor", "forward", shape, 4, totals, 4, whole, equal, (2, 2),
                frozenset(), 1, record=record)  # fmt: skip


def shard(dim, **more):
    return {"StridedShard" if more else "Shard": {"dim": dim, **more}}


def placed(one):
    return decide([[one]], MESH.cutting, (), lambda leaf: dtensor.said(leaf, SPANS))[one.key]


def test_groups_are_the_lines_of_the_mesh():
    assert dtensor.groups("[[0, 1], [2, 3]]") == [(0, 2), (1, 3), (0, 1), (2, 3)]
    assert dtensor.groups("[0, 2]") == [(0, 2)]


@pytest.mark.parametrize(
    "mesh", ['"x"', "[]", "[[0, 1], [2]]", "[[0], 1]", "{}", "null", "[true]", "[" * 40 + "]" * 40]
)
def test_what_is_no_mesh_has_no_groups(mesh):
    assert dtensor.groups(mesh) == []


def test_a_mesh_of_one_axis_says_how_the_tensor_lies_along_it_and_shapes_say_the_rest():
    said = placed(leaf((2, 8), (4, 16), (False, False), [0, 1], shard(1)))
    assert (said.text(MESH.cutting), said.source, said.problem) == ("dp: shard 0, tp: shard 1", "DTensor", None)


def test_a_square_that_shapes_leave_open_is_cut_as_the_record_says():
    said = placed(leaf((4, 4), (8, 8), (False, False), [[0, 1], [2, 3]], shard(1), shard(0)))
    assert said.text(MESH.cutting) == "dp: shard 1, tp: shard 0"


def test_an_axis_of_ranks_of_two_axes_of_the_job_cuts_along_both():
    said = placed(leaf((2, 4), (8, 4), (False, False), [0, 1, 2, 3], shard(0)))
    assert said.text(MESH.cutting) == "dp: shard 0, tp: shard 0"


def test_fully_sharded_tensor_parallel_weights_lie_in_blocks():
    said = placed(leaf((2, 4), (8, 4), (False, False), [[0, 1], [2, 3]], shard(0, split_factor=2), shard(0)))
    assert said.blocks == [2, 1]


def test_copies_that_differ_contradict_the_record():
    said = placed(leaf((8, 8), (8, 8), (True, False), [0, 1], {"Replicate": {}}))
    assert said.problem == "DTensor says that there are copies along tp: copies along tp differ"


def test_shards_that_are_not_golden_contradict_the_record():
    said = placed(leaf((8, 8), (8, 12), (True, False), [0, 1], shard(1)))
    assert said.problem == "DTensor says that axis 1 is cut in 2: 2 × 8 is not golden's 12"
    assert placed(leaf((8,), (8,), (True, False), [0, 1], shard(1))).problem.endswith("which it does not have")


def test_shards_of_other_extents_are_no_contradiction():
    assert placed(leaf((3, 4), (5, 4), (True, False), [0, 1], shard(0), totals=(10, 16))).problem is None


def test_a_masked_sum_is_not_told_by_the_ranks_parts():
    said = placed(leaf((4, 8), (4, 8), (True, False), [0, 1], {"MaskPartial": {"reduce_op": "sum"}}))
    assert said.unknown is not None
    assert placed(leaf((4, 8), (4, 8), (True, False), [0, 1], {"Partial": {"reduce_op": "sum"}})).unknown is None


@pytest.mark.parametrize(
    "record",
    [
        "{}",
        '{"placements": 3, "device_mesh": [0, 1]}',
        '{"placements": [{"Shard": {"dim": "0"}}]}',
        '{"placements": [{"Shard": {"dim": 0}}], "device_mesh": [7, 8]}',
        '{"placements": [["Shard"], 4, {"Elsewhere": {"dim": 0}}], "device_mesh": [0, 1]}',
    ],
)
def test_a_record_that_says_nothing_of_the_job_is_passed_over(record):
    one = replace(leaf((4, 8), (4, 8), (True, True), [0, 1]), record=record)
    assert dtensor.said(one, SPANS) is None


def test_ways_of_a_recorded_placement():
    said = dtensor.said(
        leaf((4,), None, (True, True), [[0, 1], [2, 3]], {"Partial": {"reduce_op": "avg"}}, shard(0)), SPANS
    )
    assert said.ways == {0: Way("mean"), 1: Way("shard", 0)}
