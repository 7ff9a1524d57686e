"""The axes of a job, from what its ranks have in common and from the groups of its collectives."""

import pytest

from lakeprobe.errors import LakeError
from lakeprobe.layouts.mesh import Seen, across_stages, given, inferred, refined, spans


def seen(ranks, groups=(), data=None, parameters=None, before=None, **more):
    every = dict.fromkeys(range(ranks), "same")
    return Seen(
        tuple(range(ranks)),
        before or {},
        dict(groups),
        every | (data or {}),
        every | (parameters or {}),
        **more,
    )


def found(mesh):
    return [(axis.name, axis.size) for axis in mesh.axes]


def test_ranks_with_the_same_data_and_other_parameters_are_tensor_parallel():
    mesh = inferred(seen(2, {(0, 1): True}, parameters={1: "other"}))
    assert found(mesh) == [("tp", 2)]
    assert [mesh.at(rank, "tp") for rank in (0, 1)] == [0, 1]


def test_ranks_with_the_same_parameters_and_other_data_are_copies():
    assert found(inferred(seen(2, {(0, 1): False}, data={1: "other"}))) == [("dp", 2)]


def test_copies_that_were_given_one_batch_are_still_copies():
    assert found(inferred(seen(2, {(0, 1): False}))) == [("dp", 2)]


def test_collectives_within_the_model_say_that_the_sequence_is_cut():
    assert found(inferred(seen(2, {(0, 1): True}, data={1: "other"}))) == [("cp", 2)]
    assert found(inferred(seen(2, {(0, 1): True}, data={1: "other"}, cuts_sequence=False))) == [("dp", 2)]


def test_two_families_of_groups_are_two_axes():
    groups = {(0, 1): True, (2, 3): True, (0, 2): False, (1, 3): False, (0, 1, 2, 3): False}
    mesh = inferred(seen(4, groups, data={2: "b", 3: "b"}, parameters={1: "odd", 3: "odd"}))
    assert found(mesh) == [("dp", 2), ("tp", 2)]
    assert {rank: (mesh.at(rank, "dp"), mesh.at(rank, "tp")) for rank in range(4)} == {
        0: (0, 0), 1: (0, 1), 2: (1, 0), 3: (1, 1),
    }  # fmt: skip


def test_an_axis_without_collectives_is_what_the_others_leave():
    mesh = inferred(seen(4, {(0, 1): True, (2, 3): True}, data={2: "b", 3: "b"}, parameters={1: "odd", 3: "odd"}))
    assert [(axis.name, axis.source) for axis in mesh.axes] == [
        ("dp", "what no collective joins"),
        ("tp", "groups of collectives"),
    ]


def test_stages_follow_one_another_and_keep_the_place_of_the_rank_before():
    groups = {(0, 1): True, (2, 3): True}
    mesh = inferred(seen(4, groups, parameters={1: "odd", 3: "odd"}, before={2: 0, 3: 1}))
    assert found(mesh) == [("pp", 2), ("tp", 2)]
    assert [(mesh.at(rank, "pp"), mesh.at(rank, "tp")) for rank in range(4)] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_ring_of_chunks_is_no_endless_chain():
    assert found(inferred(seen(2, before={1: 0}))) == [("pp", 2)]


def test_stages_of_different_sizes_need_a_layout_file():
    with pytest.raises(LakeError, match="give the mesh in a layout file"):
        inferred(seen(3, before={2: 0}))


def test_a_layout_file_counts_the_last_axis_fastest():
    mesh = given((4, 5, 6, 7), {"pp": 2, "tp": 2})
    assert [(mesh.at(rank, "pp"), mesh.at(rank, "tp")) for rank in (4, 5, 6, 7)] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_layout_file_has_all_ranks():
    with pytest.raises(LakeError, match="dp 2 × tp 2 = 4 ranks, the run has 2"):
        given((0, 1), {"dp": 2, "tp": 2})


def test_groups_within_groups_make_an_axis_of_what_is_across_them():
    pairs, all_ranks = {(0, 1): True, (2, 3): True}, {(0, 1, 2, 3): True}
    parameters = {rank: str(rank) for rank in range(4)}
    found = inferred(seen(4, pairs | all_ranks, parameters=parameters))
    assert str(found) == "tp 2 × tp2 2"
    assert [(found.at(rank, "tp"), found.at(rank, "tp2")) for rank in range(4)] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_an_axis_is_refined_into_neighbours():
    found = refined(given(range(4), {"tp": 4}), {"tp": 2})
    assert str(found) == "tp 2 × tp2 2"
    assert [(found.at(rank, "tp"), found.at(rank, "tp2")) for rank in range(4)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert spans(found, found.cutting, range(4))[frozenset({0, 2})] == (0,)


def test_ranks_of_the_first_and_the_last_stage_may_have_copies_of_one_embedding():
    mesh = given(range(8), {"pp": 4, "tp": 2})
    assert sorted(across_stages(mesh, range(8))) == [(0, 2, 4, 6), (0, 6), (1, 3, 5, 7), (1, 7)]
    assert across_stages(given(range(2), {"tp": 2}), range(2)) == []
